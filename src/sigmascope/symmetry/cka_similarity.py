"""Centered kernel alignment (CKA): compare which samples two layers represent alike."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from sigmascope import choices
from sigmascope.checks import check_choice, options_from
from sigmascope.errors import InputError
from sigmascope.maths.hsic import Products, hsic_products
from sigmascope.maths.kernels import REDUCTIONS, accumulate_kernel, empty_kernel, scaling_of
from sigmascope.maths.samples import Array
from sigmascope.symmetry.feature_maps import Axes, as_features, check_paired, two_axes
from sigmascope.symmetry.similarity_options import KernelKeywords, KernelOptions
from sigmascope.symmetry.similarity_results import CkaSimilarity, channel_note

FEWEST = 4  # samples that the unbiased estimator needs


class Kernel:
    """The kernel of features added by groups of channels; features are not kept.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        kernel: "max" or "median" over the channels, or "sum", the linear kernel. A median needs all
            channels at once.
        **options: normalize, centered and dtype, see `cka`.

    >>> x = torch.randn(50, 8, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    >>> whole, parts = Kernel(), Kernel()
    >>> whole.add(x)
    >>> for group in x.split(3, dim=1):
    ...     parts.add(group)
    >>> torch.equal(whole.matrix, parts.matrix), whole.similarity(parts).similarity
    (True, 1.0)
    """

    def __init__(self, kernel: str = "max", **options: Unpack[KernelKeywords]) -> None:
        self.kernel = check_choice("kernel", kernel, REDUCTIONS)
        self.options = options_from(KernelOptions, options)
        self.channels = self.live = 0
        self._matrix: Tensor | None = None

    def add(self, features: Array, *, channel_axis: int | None = None) -> None:
        """Add some channels of all samples, (n, c, ...); see `cka`.

        Raises:
            InputError: fewer than four samples, another number than before, NaN, products that
                overflow, or a second group for a median.
        """
        new = as_features(features, "features", channel_axis)
        self._check_samples(len(new))
        own = self.options
        scaling = scaling_of(new, centered=own.centered, normalize=own.normalize)
        matrix = self._matrix
        if matrix is None:
            matrix = empty_kernel(len(new), self.kernel, getattr(torch, own.dtype), new.device)
        accumulate_kernel(matrix, new, scaling, reduction=self.kernel)
        # NaN is an end too; nothing (n, n) is made for it
        if not all(math.isfinite(end) for end in torch.aminmax(matrix)):
            raise InputError(
                f"products of the features overflow in {own.dtype}. Start a new kernel with "
                "normalize='channels'."
            )
        self._matrix = matrix
        self.channels += new.shape[1]
        self.live += int(scaling.live.sum())

    def _check_samples(self, count: int) -> None:
        if count < FEWEST:
            raise InputError(f"{count} samples; the unbiased estimator needs at least {FEWEST}.")
        if self._matrix is None:
            return
        if self.kernel == "median":
            raise InputError(
                "the median over channels needs all channels at once. Add them in one call, or "
                "use 'max'."
            )
        if len(self._matrix) != count:
            raise InputError(
                f"{count} samples after {len(self._matrix)}. Each group must have the same samples."
            )

    @property
    def matrix(self) -> Tensor:
        """(n, n), symmetric, with a diagonal of zeros."""
        if self._matrix is None:
            raise InputError("no features yet. Call add(features) first.")
        return self._matrix

    def similarity(self, other: Kernel) -> CkaSimilarity:
        """Return the CKA of two kernels of the same samples.

        Raises:
            InputError: different numbers of samples, or kernels of different kinds.
        """
        for name, one, two in (
            ("kernel", self.kernel, other.kernel),
            ("normalize", self.options.normalize, other.options.normalize),
            ("centered", self.options.centered, other.options.centered),
        ):
            if one != two:
                raise InputError(
                    f"the kernels have {name}={one!r} and {two!r}. Compare kernels of one kind."
                )
        check_paired(self.matrix, other.matrix)
        return _result(self, other, hsic_products([self.matrix], [other.matrix]))


def cosine(hsic: tuple[float, float, float], *, identical: bool) -> float:
    """Return CKA from HSIC of (x, y), (x, x) and (y, y); NaN if a kernel is constant."""
    across, x, y = hsic
    if not (x > 0 and y > 0):
        return math.nan
    return 1.0 if identical else min(max(across / math.sqrt(x) / math.sqrt(y), -1.0), 1.0)


def constant_kernels(hsic: tuple[float, float, float]) -> str:
    """Return which of two kernels is constant, so that CKA is undefined; empty if none is."""
    sides = " and ".join(name for name, own in zip("xy", hsic[1:], strict=True) if not own > 0)
    return f"the kernel of {sides} is the same for all pairs of samples" if sides else ""


def _result(x: Kernel, y: Kernel, products: Products) -> CkaSimilarity:
    divided, channels, live = products.divided(0, 0), (x.channels, y.channels), (x.live, y.live)
    dead = channel_note(live, channels, "constant" if x.options.centered else "zero everywhere")
    similarity = cosine(divided, identical=bool(products.same))
    return CkaSimilarity(
        similarity=similarity,
        distance=1 - similarity,
        group="orthogonal" if x.kernel == "sum" else "relu",
        kernel=x.kernel,
        normalize=x.options.normalize,
        centered=x.options.centered,
        hsic=products.hsic(0, 0),
        channels=channels,
        live=live,
        samples=len(x.matrix),
        reason="; ".join(filter(None, [dead, constant_kernels(divided)])),
    )


def cka(
    x: Array,
    y: Array,
    *,
    group: choices.SimilarityGroup = "relu",
    kernel: choices.Kernel = "max",
    channel_axis: Axes = None,
    **options: Unpack[KernelKeywords],
) -> CkaSimilarity:
    r"""Return the CKA of two layers: the cosine of their centered kernels, by unbiased HSIC.

    - "relu": $K_{mn} = \max_c \sum_p x_{mcp} x_{ncp}$, products over positions first, then the
      maximum over channels.
    - "orthogonal": $K_{mn} = \sum_{cp} x_{mcp} x_{ncp}$. As published, each channel is divided by
      its norm here too, which is not invariant to rotations; normalize="none" gives the standard
      linear CKA, which is.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        x: features of one network, (n, c), (n, c, h, w), or tokens (n, l, d); NumPy or torch.
        y: features of another for the same n >= 4 inputs; channels and positions may differ.
        group: "relu" or "orthogonal".
        kernel: for the relu group, "max" or "median" (the lower one) over the channels.
        channel_axis: the axis of the channels, one for both or a pair; by default the last of three
            axes, otherwise axis 1.
        **options: normalize: "channels" divides each channel by its norm over samples and
            positions; "none" does not.
            centered: whether the mean of each channel is subtracted first; default True.
            dtype: of the products, "float64" or "float32" (twice as fast, accurate to about 1e-6).

    Returns:
        `CkaSimilarity`, from -1 to 1; identical features give exactly 1. NaN, with the reason,
        where a kernel is constant.

    Raises:
        InputError, InputTypeError: shapes that cannot be compared, fewer than four samples, NaN.
        OptionError: an invalid option.

    >>> import numpy as np
    >>> x = np.maximum(np.random.default_rng(0).standard_normal((60, 6, 3, 3)), 0)
    >>> round(cka(x, 2 * x[:, ::-1]).similarity, 12), round(cka(x, x**2).similarity, 3)
    (1.0, 0.839)
    """
    check_choice("group", group, choices.SimilarityGroup)
    check_choice("kernel", kernel, choices.Kernel)
    axes = two_axes(channel_axis)
    check_paired(as_features(x, "x", axes[0]), as_features(y, "y", axes[1]))
    kernels = []
    for name, values, axis in zip("xy", (x, y), axes, strict=True):
        one = Kernel("sum" if group == "orthogonal" else kernel, **options)
        try:
            one.add(values, channel_axis=axis)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        kernels.append(one)
    return kernels[0].similarity(kernels[1])
