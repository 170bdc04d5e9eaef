"""How a tensor with known axes of samples and channels becomes a matrix (n, d)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from sigmascope.capture.selected_rows import Rows


@dataclass(frozen=True)
class Axes:
    """How the axes of a tensor are read.

    Attributes:
        samples: the axis of the samples; its entries are (outer, samples, inner), the last running
            fastest. None where every row is a sample of its own.
        channels: the axis of the channels; None for a tensor that has no other axis.
        outer: how often the samples are repeated as a whole, as views of them are.
        inner: how many consecutive entries each sample has, as windows of an image or tokens.
        reason: how the axes are known.
        part: the part of the network whose mask applies, "" or "decoder".
        first, count: where the tensor holds some consecutive samples of the batch only, the number
            of the first one and how many; a count of 0 stands for all.
        rows: which rows of the batch the rows are, where they were selected.
    """

    samples: int | None
    channels: int | None
    outer: int
    inner: int
    reason: str
    part: str = ""
    first: int = 0
    count: int = 0
    rows: Rows | None = None

    def ordered(self, tensor: Tensor) -> Tensor:
        """Return a view (n, outer, inner, ..., d) of the tensor, the other axes in the middle."""
        axis = self.channels
        channels_last = tensor[..., None] if axis is None else tensor.movedim(axis, -1)
        if self.samples is None:
            return channels_last[:, None, None]
        moved = axis is not None and axis < self.samples
        first = channels_last.movedim(self.samples - moved, 0)
        parted: Tensor = torch.unflatten(first, 0, (self.outer, -1, self.inner))
        return parted.movedim(1, 0)

    @property
    def pair(self) -> tuple[int, int] | None:
        """The axes of samples and channels, where all others are positions; None elsewhere."""
        if self.samples is None or self.channels is None or self.outer * self.inner != 1:
            return None
        return self.samples, self.channels


class UnreadableError(Exception):
    """A tensor that cannot be read as samples × channels; the message says why."""


class NotSamplesError(UnreadableError):
    """A tensor that does not hold the samples of the batch at all."""


PoolFunction: TypeAlias = Callable[[Tensor, Axes, Tensor | None], Tensor]


def precise(tensor: Tensor) -> torch.dtype:
    """Return the type to sum in: at least float32."""
    return torch.float32 if tensor.dtype.itemsize < 4 else tensor.dtype


def _mean(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    pair = axes.pair
    if mask is None and pair is not None and tensor.ndim > 2:
        # Without views, which take longer than a small average.
        mean = tensor.mean(dim=_others(pair, tensor.ndim), dtype=precise(tensor))
        return mean if pair[0] < pair[1] else mean.mT
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask)
    return ordered.mean(dim=tuple(range(1, ordered.ndim - 1)), dtype=precise(tensor))


@functools.cache
def _others(pair: tuple[int, int], ndim: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(ndim) if axis not in pair)


def _sum(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask) * mask.sum(dim=1, keepdim=True)
    return ordered.sum(dim=tuple(range(1, ordered.ndim - 1)), dtype=precise(tensor))


def _masked_mean(ordered: Tensor, mask: Tensor) -> Tensor:
    """Average over the positions that the mask (n, t) keeps, by a product that makes no copy."""
    weights = mask.to(precise(ordered))
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(1)
    return torch.bmm(weights[:, None, :], ordered.flatten(1, -2).to(weights.dtype))[:, 0]


def _flatten(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    in_place = replace(axes, channels=None)  # all values in their order in memory
    return in_place.ordered(tensor).flatten(1).to(precise(tensor), copy=True)


def _published(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    """Average the axes that the published code averages, whatever they mean."""
    if tensor.ndim not in (2, 3, 4):
        raise UnreadableError(f"the published code has no rule for {tensor.ndim} axes")
    if tensor.ndim == 2:
        return tensor.to(precise(tensor), copy=True)
    return tensor.mean(dim=tuple(range(2, tensor.ndim)), dtype=precise(tensor))


POOLS: dict[str, PoolFunction] = {
    "channels": _mean,
    "published": _published,
    "sum": _sum,
    "flatten": _flatten,
}
"""Name -> function of a tensor, its axes and the mask (n, t) of its tokens; returns (n, d)."""
