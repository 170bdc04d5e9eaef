"""How alike two layers are, up to what their activation cannot tell apart.

Two networks may compute the same features in another order or at another scale, and for ReLU that
is all that its symmetries allow. Both measures here come in two versions: blind to the symmetries
of ReLU (permutations and positive scales of channels), or blind to rotations. All of them say
*similarity* (larger is more alike) and *distance* (1 - similarity).
"""

from __future__ import annotations

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.maths.samples import Array
from sigmascope.symmetry.features import Channels, as_features, check_paired, two_axes
from sigmascope.symmetry.results import CkaSimilarity, ProcrustesSimilarity
from sigmascope.symmetry.streaming import GROUPS, Kernel, Procrustes

__all__ = ["KERNELS", "cka", "procrustes"]

KERNELS = ("max", "median")


def procrustes(
    x: Array,
    y: Array,
    *,
    group: str = "relu",
    normaliser: str = "authors",
    channel_axis: Channels = None,
    dtype: str = "float64",
) -> ProcrustesSimilarity:
    r"""Align the channels of two layers and measure the distance that is left.

    - "relu": each channel is divided by its norm over samples and positions, and channels are
      matched one to one: $\sqrt{d^2 / 4c}$, where $d^2 = \min_P \|\tilde X - P \tilde Y\|^2$ and c
      is the larger number of channels. From 0 to 1; for features that are not negative at most
      $1/\sqrt 2$.
    - "orthogonal": all are divided by one norm, and channels are rotated: $\sqrt{2 - 2 \|\tilde X^T
      \tilde Y\|_*} / 2$, from 0 to $1/\sqrt 2$.

    The two have different scales and cannot be compared with each other. Features are not centered.
    A map that is coarser by whole ratios stands for a finer one by repetition, and the side with
    fewer channels gets zero channels.

    Args:
        x: features of the one network, (n, c), (n, c, h, w), or tokens (n, l, d); NumPy or torch.
            Never changed.
        y: of the other for the same n inputs, of any width; its positions equal, or differ by whole
            ratios.
        group: "relu" or "orthogonal".
        normaliser: of the relu group. "authors" divides by 4c as published, so that channels that
            are zero everywhere count as matched perfectly; "live" divides by twice the number of
            channels that are not, and gives the same where all are.
        channel_axis: the axis of the channels, one for both or a pair; by default last with three
            axes, otherwise 1.
        dtype: of the products, "float64" or "float32" (faster, right to about 1e-6 but for nearly
            equal features).

    Returns:
        `ProcrustesSimilarity`; identical features give exactly 1. NaN, with the reason, where x or
        y is zero everywhere.

    Raises:
        InputError, InputTypeError: shapes that cannot be compared, NaN, or no features at all.
        OptionError: an unknown option.

    >>> import numpy as np
    >>> x = np.maximum(np.random.default_rng(0).standard_normal((200, 6)), 0)
    >>> moved = x[:, [3, 1, 0, 2, 5, 4]] * [1, 2, 3, 4, 5, 6]
    >>> procrustes(x, moved)
    Procrustes similarity 1.0000, distance 0.0000 (group=relu, normaliser=authors; 200 samples, live channels 6/6 and 6/6)
    >>> procrustes(x, moved).permutation.tolist()
    [2, 1, 3, 0, 5, 4]
    >>> round(procrustes(x, moved, group="orthogonal").similarity, 3)
    0.801
    """
    streamed = Procrustes(group, normaliser=normaliser, channel_axis=channel_axis, dtype=dtype)
    streamed.add(x, y)
    return streamed.result()


def cka(
    x: Array,
    y: Array,
    *,
    group: str = "relu",
    kernel: str = "max",
    normalise: str = "channels",
    centered: bool = True,
    channel_axis: Channels = None,
    dtype: str = "float64",
) -> CkaSimilarity:
    r"""Compare which samples two layers find alike: the cosine of two centered kernels (unbiased HSIC).

    - "relu": $K_{mn} = \max_c \sum_p x_{mcp} x_{ncp}$, the products over positions first, then the
        maximum over channels.
    - "orthogonal": $K_{mn} = \sum_{cp} x_{mcp} x_{ncp}$. As published each channel is divided by
      its norm here too, which rotations do not leave alone; normalise="none" gives the standard
      linear CKA, which they do.

    Args:
        x: features of the one network, (n, c), (n, c, h, w), or tokens (n, l, d); NumPy or torch.
            Never changed.
        y: of the other for the same n inputs, at least 4. Channels and positions may differ.
        group: "relu" or "orthogonal".
        kernel: of the relu group, "max" or "median", the lower one, over the channels.
        normalise: "channels" divides each channel by its norm over samples and positions; "none".
        centered: whether the mean of each channel is taken off first.
        channel_axis: the axis of the channels, one for both or a pair; by default last with three
            axes, otherwise 1.
        dtype: of the products, "float64" or "float32" (twice as fast, right to about 1e-6).

    Returns:
        `CkaSimilarity`, from -1 to 1; identical features give exactly 1. NaN, with the reason,
        where a kernel is constant.

    Raises:
        InputError, InputTypeError: shapes that cannot be compared, fewer than four samples, NaN.
        OptionError: an unknown option.

    >>> import numpy as np
    >>> x = np.maximum(np.random.default_rng(0).standard_normal((60, 6, 3, 3)), 0)
    >>> round(cka(x, 2 * x[:, ::-1]).similarity, 12), round(cka(x, x**2).similarity, 3)
    (1.0, 0.839)
    """
    check_choice("group", group, GROUPS)
    check_choice("kernel", kernel, KERNELS)
    axes = two_axes(channel_axis)
    check_paired(as_features(x, "x", axes[0]), as_features(y, "y", axes[1]))
    kernels = []
    for name, values, axis in zip("xy", (x, y), axes, strict=True):
        one = Kernel(
            "sum" if group == "orthogonal" else kernel,
            normalise=normalise,
            centered=centered,
            dtype=dtype,
        )
        try:
            one.add(values, channel_axis=axis)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        kernels.append(one)
    return kernels[0].similarity(kernels[1])
