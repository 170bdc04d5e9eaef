"""Similarity of features that come in parts: batches of samples for Procrustes, groups of channels
for kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.maths.kernels import (
    REDUCTIONS,
    Products,
    accumulate_kernel,
    empty_kernel,
    hsic_products,
    scaling_of,
)
from sigmascope.maths.procrustes import Matrix, Vector, align_by_permutation, align_by_rotation
from sigmascope.maths.samples import Array
from sigmascope.symmetry.features import (
    Channels,
    Positions,
    as_features,
    cells_summed,
    check_paired,
    kernel_dtype,
    ratios,
    two_axes,
)
from sigmascope.symmetry.results import CkaSimilarity, ProcrustesSimilarity, channel_note

__all__ = [
    "GROUPS",
    "NORMALISERS",
    "CrossGram",
    "Kernel",
    "Procrustes",
    "constant_kernels",
    "cosine",
    "procrustes_result",
    "squared_norms",
]

GROUPS = ("relu", "orthogonal")
NORMALISERS = ("authors", "live")
NORMALISE = ("channels", "none")

# Elements of features that are taken in at a time: on a CPU few enough to stay in the cache while
# they are multiplied, on a GPU enough that launches do not count.
CHUNK, LARGE_CHUNK = 2**20, 2**26


class CrossGram:
    r"""The sums over samples and positions that Procrustes needs, of any number of batches.

    Where maps differ by whole ratios the coarser stands for a finer one by repetition. Its products
    with the other are those with sums over cells, so nothing is enlarged; its squares count as
    often as it is repeated.

    Attributes:
        gram: (c1, c2), float64, $G_{cc'} = \sum_{nhw} x_{nchw} y_{nc'hw}$.
        x_squares, y_squares: (c1,) and (c2,), float64, the squared norms of the channels.
        samples: how many have been added.
        identical: whether x and y have been equal, number by number, so far.
    """

    def __init__(self, *, dtype: str = "float64") -> None:
        self.gram: Tensor | None = None
        self.x_squares: Tensor | None = None
        self.y_squares: Tensor | None = None
        self.samples = 0
        self.identical = True
        self._dtype = kernel_dtype(dtype)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Take in a batch of features (n, c1, ...) and (n, c2, ...).

        Raises:
            InputError: sizes of maps that are no whole multiples, or other numbers of samples or
                channels than before.
        """
        check_paired(x, y)
        finer_x, finer_y = ratios(tuple(x.shape[2:]), tuple(y.shape[2:]))
        if self.gram is not None and self.gram.shape != (x.shape[1], y.shape[1]):
            raise InputError(
                f"batches with {x.shape[1]} and {y.shape[1]} channels after "
                f"{self.gram.shape}. Start anew."
            )
        self.identical = self.identical and x.shape == y.shape and torch.equal(x, y)
        sums = [
            _products(one, other, finer_x, finer_y, self._dtype) for one, other in _chunks(x, y)
        ]
        gram, x_squares, y_squares = (
            torch.stack(parts).sum(dim=0) for parts in zip(*sums, strict=True)
        )
        self.gram = gram if self.gram is None else self.gram + gram
        self.x_squares = x_squares if self.x_squares is None else self.x_squares + x_squares
        self.y_squares = y_squares if self.y_squares is None else self.y_squares + y_squares
        self.samples += len(x)

    def arrays(self) -> tuple[Matrix, Vector, Vector] | None:
        """Return the cross-Gram and both squared norms as NumPy arrays; None before the first batch."""
        if self.gram is None or self.x_squares is None or self.y_squares is None:
            return None
        return self.gram.cpu().numpy(), self.x_squares.cpu().numpy(), self.y_squares.cpu().numpy()


def _chunks(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    elements = CHUNK if x.device.type == "cpu" else LARGE_CHUNK
    step = max(1, elements // max(x[0].numel(), y[0].numel()))
    return zip(torch.split(x, step), torch.split(y, step), strict=True)


def _products(
    x: Tensor, y: Tensor, finer_x: Positions, finer_y: Positions, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    x, y = x.to(dtype), y.to(dtype)
    squares = squared_norms(x) * math.prod(finer_y), squared_norms(y) * math.prod(finer_x)
    return _gram(cells_summed(x, finer_x), cells_summed(y, finer_y)), *squares


def _gram(x: Tensor, y: Tensor) -> Tensor:
    """Return the products (c1, c2) of channels over samples and positions, in float64."""
    # sample by sample: as little memory, and no copies
    if math.prod(x.shape[2:]) >= max(x.shape[1], y.shape[1]):
        return torch.bmm(x.flatten(2), y.flatten(2).mT).sum(dim=0, dtype=torch.float64)
    one, other = (side.transpose(0, 1).reshape(side.shape[1], -1) for side in (x, y))
    return (one @ other.T).double()


def squared_norms(features: Tensor) -> Tensor:
    """Return the squared norms (c,) of the channels of features (n, c, ...), in float64."""
    norms: Tensor = torch.linalg.vector_norm(features.flatten(2), dim=2)
    return norms.double().square().sum(dim=0)


class Procrustes:
    """The Procrustes similarity of features that come in batches and are not kept; see `procrustes`.

    Memory is O(c1 · c2), whatever the number of samples.

    >>> streamed = Procrustes()
    >>> x = torch.randn(100, 8, 4, 4, generator=torch.Generator().manual_seed(0)).relu()
    >>> for batch in x.split(30):
    ...     streamed.add(batch, batch.flip(1))
    >>> streamed.result().similarity > 1 - 1e-7
    True
    """

    def __init__(
        self,
        group: str = "relu",
        *,
        normaliser: str = "authors",
        channel_axis: Channels = None,
        dtype: str = "float64",
    ) -> None:
        check_choice("group", group, GROUPS)
        check_choice("normaliser", normaliser, NORMALISERS)
        self._group, self._normaliser = group, normaliser
        self._axes = two_axes(channel_axis)
        self._sums = CrossGram(dtype=dtype)

    def add(self, x: Array, y: Array) -> None:
        """Take in a batch of features of the same samples; see `procrustes`."""
        self._sums.add(as_features(x, "x", self._axes[0]), as_features(y, "y", self._axes[1]))

    def result(self) -> ProcrustesSimilarity:
        """Return the similarity of all that was added so far.

        Raises:
            InputError: nothing was added, or NaN or infinite values.
        """
        sums, arrays = self._sums, self._sums.arrays()
        if arrays is None:
            raise InputError("no features yet. Call add(x, y) with at least one batch first.")
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(
                "the features hold NaN or infinite values, or squares of them overflow. "
                "Repair them first."
            )
        return procrustes_result(
            *arrays,
            group=self._group,
            normaliser=self._normaliser,
            samples=sums.samples,
            identical=sums.identical,
        )


def procrustes_result(
    gram: Matrix,
    x_squares: Vector,
    y_squares: Vector,
    *,
    group: str,
    normaliser: str,
    samples: int,
    identical: bool,
) -> ProcrustesSimilarity:
    """Return the similarity that follows from the sums of a `CrossGram`."""
    channels = (len(x_squares), len(y_squares))
    live = (int(np.count_nonzero(x_squares)), int(np.count_nonzero(y_squares)))
    reason = channel_note(live, channels, "zero everywhere")
    if not all(live):
        return ProcrustesSimilarity(
            math.nan, math.nan, group, normaliser, None, channels, live, samples, reason
        )
    align = align_by_permutation if group == "relu" else align_by_rotation
    found = align(gram, x_squares, y_squares)
    largest = (
        {"authors": 4 * max(channels), "live": 2 * sum(live)}[normaliser] if group == "relu" else 4
    )
    distance = 0.0 if identical else math.sqrt(found.squared / largest)
    return ProcrustesSimilarity(
        1 - distance, distance, group, normaliser, found.matrix, channels, live, samples, reason
    )


class Kernel:
    """The kernel of features whose channels come in groups; features are not kept.

    Args:
        kernel: "max" or "median" over the channels, or "sum", the linear kernel. A median needs all
            channels at once.
        normalise: "channels" or "none", see `cka`.
        centered: whether the mean of each channel is taken off.
        dtype: "float64" or "float32", of the products and of the kernel.
        tile: rows of a tile, chosen for the machine by default.

    >>> x = torch.randn(50, 8, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> whole, parts = Kernel(), Kernel()
    >>> whole.add(x)
    >>> for group in x.split(3, dim=1):
    ...     parts.add(group)
    >>> torch.equal(whole.matrix, parts.matrix), whole.similarity(parts).similarity
    (True, 1.0)
    """

    def __init__(
        self,
        kernel: str = "max",
        *,
        normalise: str = "channels",
        centered: bool = True,
        dtype: str = "float64",
        tile: int | None = None,
    ) -> None:
        check_choice("kernel", kernel, REDUCTIONS)
        check_choice("normalise", normalise, NORMALISE)
        self.channels = self.live = 0
        self.kernel, self.normalise, self.centered = kernel, normalise, bool(centered)
        self._dtype, self._tile = kernel_dtype(dtype), tile
        self._matrix: Tensor | None = None

    def add(self, features: Array, *, channel_axis: int | None = None) -> None:
        """Take in some channels of all samples, (n, c, ...); see `cka`.

        Raises:
            InputError: fewer than four samples, another number than before, NaN, products that
                overflow, or a second group for a median.
        """
        found = as_features(features, "features", channel_axis)
        if len(found) < 4:
            raise InputError(f"{len(found)} samples; the unbiased estimator needs at least 4.")
        if self._matrix is not None and self.kernel == "median":
            raise InputError(
                "the median over channels needs all of them at once. Add them in one call, "
                "or use 'max'."
            )
        if self._matrix is not None and len(self._matrix) != len(found):
            raise InputError(
                f"{len(found)} samples after {len(self._matrix)}. Each group must have the "
                "same samples."
            )
        scaling = scaling_of(found, centered=self.centered, normalise=self.normalise)
        matrix = (
            empty_kernel(len(found), self.kernel, self._dtype, found.device)
            if self._matrix is None
            else self._matrix
        )
        accumulate_kernel(matrix, found, scaling, reduction=self.kernel, tile=self._tile)
        # NaN is an end too; nothing (n, n) is made for it
        if not all(math.isfinite(end) for end in torch.aminmax(matrix)):
            kind = str(self._dtype).removeprefix("torch.")
            raise InputError(
                f"products of the features overflow in {kind}. Start anew with "
                "normalise='channels'."
            )
        self._matrix = matrix
        self.channels += found.shape[1]
        self.live += int(scaling.live.sum())

    @property
    def matrix(self) -> Tensor:
        """(n, n), symmetric, with a diagonal of zeros."""
        if self._matrix is None:
            raise InputError("no features yet. Call add(features) first.")
        return self._matrix

    def similarity(self, other: Kernel) -> CkaSimilarity:
        """Return the CKA of two kernels of the same samples.

        Raises:
            InputError: other numbers of samples, or kernels that were made in different ways.
        """
        for name in ("kernel", "normalise", "centered"):
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                raise InputError(
                    f"the kernels have {name}={one!r} and {name}={two!r}. Compare kernels of "
                    "one kind."
                )
        check_paired(self.matrix, other.matrix)
        return _cka_result(self, other, hsic_products([self.matrix], [other.matrix]))


def cosine(hsic: tuple[float, float, float], *, identical: bool) -> float:
    """Return CKA from the unbiased HSIC of (x, y), (x, x) and (y, y); NaN where a kernel is constant."""
    across, x, y = hsic
    if not (x > 0 and y > 0):
        return math.nan
    return 1.0 if identical else min(max(across / math.sqrt(x) / math.sqrt(y), -1.0), 1.0)


def constant_kernels(hsic: tuple[float, float, float]) -> str:
    """Say which of two kernels is constant, so that they have no cosine; empty where they have one."""
    sides = " and ".join(name for name, own in zip("xy", hsic[1:], strict=True) if not own > 0)
    return f"the kernel of {sides} is the same for all pairs of samples" if sides else ""


def _cka_result(x: Kernel, y: Kernel, products: Products) -> CkaSimilarity:
    divided, channels = products.divided(0, 0), (x.channels, y.channels)
    live = (x.live, y.live)
    notes = [
        channel_note(live, channels, "constant" if x.centered else "zero everywhere"),
        constant_kernels(divided),
    ]
    similarity = cosine(divided, identical=bool(products.same))
    return CkaSimilarity(
        similarity,
        1 - similarity,
        "orthogonal" if x.kernel == "sum" else "relu",
        x.kernel,
        x.normalise,
        x.centered,
        products.hsic(0, 0),
        channels,
        live,
        len(x.matrix),
        "; ".join(filter(None, notes)),
    )
