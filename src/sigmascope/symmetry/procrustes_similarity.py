"""Procrustes similarity: align the channels of two layers and measure the remaining distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor

from sigmascope import choices
from sigmascope.checks import check_choice, options_from
from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix, Vector, align_by_permutation, align_by_rotation
from sigmascope.maths.samples import Array
from sigmascope.symmetry.feature_maps import (
    Axes,
    Positions,
    as_features,
    cells_summed,
    check_paired,
    ratios,
    squared_norms,
    two_axes,
)
from sigmascope.symmetry.similarity_options import AlignmentKeywords, AlignmentOptions
from sigmascope.symmetry.similarity_results import ProcrustesSimilarity, channel_note

NOT_FINITE = "the features hold NaN or infinite values, or squares of them overflow"

# Elements of features processed at a time: on a CPU few enough to stay in the cache while they are
# multiplied, on a GPU enough that launches do not count.
CHUNK, LARGE_CHUNK = 2**20, 2**26


class Sums(NamedTuple):
    """What Procrustes needs to know of two sets of features: a finished `CrossGram`, in NumPy."""

    gram: Matrix
    x_squares: Vector
    y_squares: Vector
    samples: int
    identical: bool

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return all(math.isfinite(float(array.sum())) for array in self[:3])


class CrossGram:
    r"""The sums over samples and positions that Procrustes needs, of any number of batches.

    Where maps differ by whole ratios the coarser one stands for a finer one by repetition. Its
    products with the other are those with sums over cells, so nothing is enlarged; its squares
    count as often as it is repeated.

    Attributes:
        gram: (c1, c2), float64, $G_{cc'} = \sum_{nhw} x_{nchw} y_{nc'hw}$.
        x_squares, y_squares: (c1,) and (c2,), float64, the squared norms of the channels.
        samples: number of samples so far.
        identical: whether x and y have been equal, number by number, so far.

    >>> import torch
    >>> gram = CrossGram()
    >>> for x in torch.ones(3, 10, 2, 1, 1):
    ...     gram.add(x, 2 * x)
    >>> gram.samples, gram.gram.tolist(), gram.x_squares.tolist()
    (30, [[60.0, 60.0], [60.0, 60.0]], [30.0, 30.0])
    """

    def __init__(self, *, dtype: choices.Precision = "float64") -> None:
        self.gram: Tensor | None = None
        self.x_squares: Tensor | None = None
        self.y_squares: Tensor | None = None
        self.samples = 0
        self.identical = True
        self._dtype: torch.dtype = getattr(torch, check_choice("dtype", dtype, choices.Precision))

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add a batch of features (n, c1, ...) and (n, c2, ...).

        Raises:
            InputError: maps whose sizes are not whole multiples, different numbers of samples, or
                other numbers of channels than before.
        """
        check_paired(x, y)
        finer_x, finer_y = ratios(tuple(x.shape[2:]), tuple(y.shape[2:]))
        if self.gram is not None and self.gram.shape != (x.shape[1], y.shape[1]):
            raise InputError(
                f"batches with {x.shape[1]} and {y.shape[1]} channels after "
                f"{self.gram.shape[0]} and {self.gram.shape[1]}. Start a new object."
            )
        self.identical = self.identical and x.shape == y.shape and torch.equal(x, y)
        chunks = [
            _products(one.to(self._dtype), other.to(self._dtype), finer_x, finer_y)
            for one, other in _chunks(x, y)
        ]
        sums = (torch.stack(parts).sum(dim=0) for parts in zip(*chunks, strict=True))
        for name, found in zip(("gram", "x_squares", "y_squares"), sums, strict=True):
            known = getattr(self, name)
            setattr(self, name, found if known is None else known + found)
        self.samples += len(x)

    def sums(self) -> Sums | None:
        """Return the sums as NumPy arrays; None before the first batch."""
        if self.gram is None or self.x_squares is None or self.y_squares is None:
            return None
        sums = self.gram, self.x_squares, self.y_squares
        gram, x, y = (one.cpu().numpy() for one in sums)
        return Sums(gram, x, y, self.samples, self.identical)


def _chunks(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    elements = CHUNK if x.device.type == "cpu" else LARGE_CHUNK
    step = max(1, elements // max(x[0].numel(), y[0].numel()))
    return zip(torch.split(x, step), torch.split(y, step), strict=True)


def _products(
    x: Tensor, y: Tensor, finer_x: Positions, finer_y: Positions
) -> tuple[Tensor, Tensor, Tensor]:
    squares = squared_norms(x) * math.prod(finer_y), squared_norms(y) * math.prod(finer_x)
    return _gram(cells_summed(x, finer_x), cells_summed(y, finer_y)), *squares


def _gram(x: Tensor, y: Tensor) -> Tensor:
    """Return the products (c1, c2) of channels over samples and positions, in float64."""
    # sample by sample: as little memory, and no copies
    if math.prod(x.shape[2:]) >= max(x.shape[1], y.shape[1]):
        return torch.bmm(x.flatten(2), y.flatten(2).mT).sum(dim=0, dtype=torch.float64)
    one, other = (side.transpose(0, 1).reshape(side.shape[1], -1) for side in (x, y))
    return (one @ other.T).double()


class Procrustes:
    """The Procrustes similarity of features added batch by batch; see `procrustes`.

    No features are kept: memory is O(c1 · c2), whatever the number of samples. Godfrey et al.,
    NeurIPS 2022, arXiv:2205.14258.

    >>> streamed = Procrustes()
    >>> x = torch.randn(100, 8, 4, 4, generator=torch.Generator().manual_seed(0)).relu()
    >>> for batch in x.split(30):
    ...     streamed.add(batch, batch.flip(1))
    >>> streamed.result().similarity > 1 - 1e-7
    True
    """

    def __init__(
        self,
        group: choices.SimilarityGroup = "relu",
        *,
        channel_axis: Axes = None,
        **options: Unpack[AlignmentKeywords],
    ) -> None:
        self._group = check_choice("group", group, choices.SimilarityGroup)
        self._options = options_from(AlignmentOptions, options)
        self._axes = two_axes(channel_axis)
        self._sums = CrossGram(dtype=self._options.dtype)

    def add(self, x: Array, y: Array) -> None:
        """Add a batch of features of the same samples; see `procrustes`."""
        self._sums.add(as_features(x, "x", self._axes[0]), as_features(y, "y", self._axes[1]))

    def result(self) -> ProcrustesSimilarity:
        """Return the similarity of everything added so far.

        Raises:
            InputError: nothing was added, or NaN or infinite values.
        """
        sums = self._sums.sums()
        if sums is None:
            raise InputError("no features yet. Call add(x, y) with at least one batch first.")
        if not all(np.isfinite(array).all() for array in sums[:3]):
            raise InputError(f"{NOT_FINITE}. Repair them first.")
        return aligned_similarity(sums, group=self._group, normalizer=self._options.normalizer)


def aligned_similarity(sums: Sums, *, group: str, normalizer: str) -> ProcrustesSimilarity:
    """Return the similarity that follows from the sums; see `procrustes`."""
    channels = (len(sums.x_squares), len(sums.y_squares))
    live = (int(np.count_nonzero(sums.x_squares)), int(np.count_nonzero(sums.y_squares)))
    distance, alignment = math.nan, None
    if all(live):
        align = align_by_permutation if group == "relu" else align_by_rotation
        found = align(sums.gram, sums.x_squares, sums.y_squares)
        by_channel = 4 * max(channels) if normalizer == "authors" else 2 * sum(live)
        largest = by_channel if group == "relu" else 4
        distance = 0.0 if sums.identical else math.sqrt(found.squared / largest)
        alignment = found.matrix
    return ProcrustesSimilarity(
        similarity=1 - distance,
        distance=distance,
        group=group,
        normalizer=normalizer,
        alignment=alignment,
        channels=channels,
        live=live,
        samples=sums.samples,
        reason=channel_note(live, channels, "zero everywhere"),
    )


def procrustes(
    x: Array,
    y: Array,
    *,
    group: choices.SimilarityGroup = "relu",
    channel_axis: Axes = None,
    **options: Unpack[AlignmentKeywords],
) -> ProcrustesSimilarity:
    r"""Return the similarity of two layers after the best alignment of their channels.

    - "relu": each channel is divided by its norm over samples and positions, and channels are
      matched one to one: distance $\sqrt{d^2 / 4c}$ with $d^2 = \min_P \|\tilde X - P \tilde
      Y\|^2$ and c the larger number of channels. It lies in [0, 1]; for non-negative features it
      is at most $1/\sqrt 2$.
    - "orthogonal": all channels are divided by one norm and rotated: distance $\sqrt{2 - 2
      \|\tilde X^T \tilde Y\|_*} / 2$, in $[0, 1/\sqrt 2]$.

    The two have different scales and cannot be compared with each other. Features are not centered.
    A map that is coarser by whole ratios stands for a finer one by repetition, and the side with
    fewer channels is padded with zero channels. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        x: features of one network, (n, c), (n, c, h, w), or tokens (n, l, d); NumPy or torch.
        y: features of another for the same n inputs, of any width; the numbers of positions are
            equal or differ by whole ratios.
        group: "relu" or "orthogonal".
        channel_axis: the axis of the channels, one for both or a pair; by default the last of three
            axes, otherwise axis 1.
        **options: normalizer: for the relu group; "authors" divides by 4c as published, so that
            channels that are zero everywhere count as perfectly matched; "live" divides by twice
            the number of channels that are not, and gives the same where all are.
            dtype: of the products, "float64" or "float32" (faster, accurate to about 1e-6 except
            for nearly equal features).

    Returns:
        `ProcrustesSimilarity`; identical features give exactly 1. NaN, with the reason, where x or
        y is zero everywhere.

    Raises:
        InputError, InputTypeError: shapes that cannot be compared, NaN, or empty features.
        OptionError: an invalid option.

    >>> x = np.maximum(np.random.default_rng(0).standard_normal((200, 6)), 0)
    >>> moved = x[:, [3, 1, 0, 2, 5, 4]] * [1, 2, 3, 4, 5, 6]
    >>> procrustes(x, moved)
    Procrustes similarity 1.0000, distance 0.0000 (group=relu, normalizer=authors; 200 samples, live channels 6/6 and 6/6)
    >>> procrustes(x, moved).permutation.tolist()
    [2, 1, 3, 0, 5, 4]
    >>> round(procrustes(x, moved, group="orthogonal").similarity, 3)
    0.801
    """  # noqa: E501
    streamed = Procrustes(group, channel_axis=channel_axis, **options)
    streamed.add(x, y)
    return streamed.result()
