"""From a tensor to a matrix (n, d): which axes are samples and channels; the others are pooled."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import torch
from torch import Tensor

from sigmascope.capture.gpu.means import means
from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call
from sigmascope.capture.positions import Drawn, Draws, divided


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
    """

    samples: int | None
    channels: int | None
    outer: int
    inner: int
    reason: str
    part: str = ""

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
DECODER = "decoder"


def _precise(tensor: Tensor) -> torch.dtype:
    """Return the type to sum in: at least float32."""
    return torch.float32 if tensor.dtype.itemsize < 4 else tensor.dtype


def _mean(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    pair = axes.pair
    if mask is None and pair is not None and tensor.ndim > 2:
        # Without views, which take longer than a small average.
        mean = tensor.mean(dim=_others(pair, tensor.ndim), dtype=_precise(tensor))
        return mean if pair[0] < pair[1] else mean.mT
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask)
    return ordered.mean(dim=tuple(range(1, ordered.ndim - 1)), dtype=_precise(tensor))


@functools.cache
def _others(pair: tuple[int, int], ndim: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(ndim) if axis not in pair)


def _sum(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask) * mask.sum(dim=1, keepdim=True)
    return ordered.sum(dim=tuple(range(1, ordered.ndim - 1)), dtype=_precise(tensor))


def _masked_mean(ordered: Tensor, mask: Tensor) -> Tensor:
    """Average over the positions that the mask (n, t) keeps, by a product that makes no copy."""
    weights = mask.to(_precise(ordered))
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(1)
    return torch.bmm(weights[:, None, :], ordered.flatten(1, -2).to(weights.dtype))[:, 0]


def _flatten(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    in_place = replace(axes, channels=None)  # all values in their order in memory
    return in_place.ordered(tensor).flatten(1).to(_precise(tensor), copy=True)


def _published(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    """Average the axes that the published code averages, whatever they mean."""
    if tensor.ndim not in (2, 3, 4):
        raise UnreadableError(f"the published code has no rule for {tensor.ndim} axes")
    if tensor.ndim == 2:
        return tensor.to(_precise(tensor), copy=True)
    return tensor.mean(dim=tuple(range(2, tensor.ndim)), dtype=_precise(tensor))


POOLS: dict[str, PoolFunction] = {
    "channels": _mean,
    "published": _published,
    "sum": _sum,
    "flatten": _flatten,
}
"""Name -> function of a tensor, its axes and the mask (n, t) of its tokens; returns (n, d)."""


@dataclass
class Pooling:
    """How the tensors of one batch become matrices.

    Attributes:
        pool: a name in `POOLS`, or a function from a tensor to a matrix (n, d).
        samples: "batch", or "tokens" or "positions" for rows that are single positions instead of
            averages.
        channel_axis: pattern of a path -> axis, which overrides the axis that was followed.
        batch_axis: the axis of the samples in the network's inputs.
        size: the number of samples in the batch.
        masks: part of the network, "" or "decoder" -> (n, t), which of its tokens are not padding.
        draws: the positions to use where they are samples; None for "batch".
    """

    pool: str | Callable[[Tensor], Tensor]
    samples: str
    channel_axis: Mapping[str, int]
    batch_axis: int
    size: int
    masks: Mapping[str, Tensor]
    draws: Draws | None = None

    @property
    def reading(self) -> tuple[object, ...]:
        """All that `axes` depends on beside the call and the shape of the tensor."""
        axes = tuple(self.channel_axis.items())
        return self.samples, axes, self.batch_axis, self.size, tuple(self.masks)

    def axes(self, call: Call, tensor: Tensor) -> Axes:
        """Return how to read a tensor.

        Raises:
            UnreadableError: the axes are not known, or the tensor does not hold the samples.
        """
        if tensor.ndim == 0:
            raise NotSamplesError("a single number, not samples")
        place = self._place(call, tensor)
        channels, reason = self._channels(call, tensor, place)
        if channels is not None and channels == place.axis and place.state == "known":
            raise UnreadableError(
                f"axis {channels} would be both samples and channels; pass channel_axis="
                "{pattern: axis}"
            )
        if place.state == "lost":
            return Axes(None, channels, 1, 1, f"{reason}; every row a sample, in no known order")
        decoding = any(name.startswith(DECODER) for name in call.path.split("."))
        part = DECODER if DECODER in self.masks and decoding else ""
        return Axes(place.axis, channels, place.outer, place.inner, reason, part)

    def _place(self, call: Call, tensor: Tensor) -> Descent:
        """Return where the samples are: as followed from the inputs, otherwise by their number."""
        if call.sequence_first and tensor.ndim == 3:
            return Descent("known", 1)
        place = call.descent
        if place.state == "puzzling":
            raise UnreadableError(call.layout.reason)
        if place.state == "constant":
            raise NotSamplesError(
                "computed from the weights alone, it does not depend on the samples"
            )
        if place.state == "merged":
            raise NotSamplesError(
                f"a tensor of shape {list(tensor.shape)} that no longer has an axis of samples"
            )
        if place.state == "lost" and self.samples == "batch":
            raise UnreadableError(
                f"the rows of {list(tensor.shape)} are no longer in the order of the samples and "
                "cannot be averaged by sample; samples='tokens' scores them row by row"
            )
        return self._place_by_size(tensor) if place.state == "unknown" else place

    def _place_by_size(self, tensor: Tensor) -> Descent:
        shape = tuple(tensor.shape)
        if self.batch_axis < tensor.ndim and shape[self.batch_axis] == self.size:
            return Descent("known", self.batch_axis)
        if shape.count(self.size) == 1 and self.size > 1:
            return Descent("known", shape.index(self.size))
        raise NotSamplesError(
            f"no axis of {list(shape)} counts the {self.size} samples of the batch"
        )

    def _channels(self, call: Call, tensor: Tensor, place: Descent) -> tuple[int | None, str]:
        if tensor.ndim == 1:
            return None, "one number per sample"
        for pattern, axis in self.channel_axis.items():
            if fnmatch.fnmatchcase(call.path, pattern):
                given = f"channel_axis={{{pattern!r}: {axis}}}"
                inside = -tensor.ndim <= axis < tensor.ndim
                if not inside or (place.state == "known" and axis % tensor.ndim == place.axis):
                    raise UnreadableError(
                        f"{given} does not fit a tensor of shape {list(tensor.shape)}"
                    )
                return axis % tensor.ndim, given
        if tensor.ndim == 2:
            return (1 - place.axis if place.state == "known" else 1), call.layout.reason
        if call.layout.axis is None:
            raise UnreadableError(call.layout.reason)
        return call.layout.axis, call.layout.reason

    def matrix(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return a new matrix (n, d) of float32 or float64.

        Raises:
            UnreadableError: this tensor cannot be pooled.
        """
        if self.samples != "batch":
            return self._rows(tensor, axes)
        if isinstance(self.pool, str):
            mask = self._mask(axes.ordered(tensor), axes) if self.masks else None
            return POOLS[self.pool](tensor, axes, mask)
        try:
            pooled = self.pool(tensor)
        except Exception as error:
            raise UnreadableError(
                f"the function given as pool raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(pooled, Tensor) or pooled.ndim != 2:
            shape = f" of shape {tuple(pooled.shape)}" if isinstance(pooled, Tensor) else ""
            found = f"a {'tensor' if shape else type(pooled).__name__}{shape}"
            raise UnreadableError(
                f"the function given as pool returned {found}, not a matrix (n, d)"
            )
        return pooled.to(_precise(pooled), copy=True)

    def both(self, tensor: Tensor, axes: Axes, formula: str) -> tuple[Tensor, Tensor] | None:
        """Return the matrices of a tensor and of a function of it, from one reading.

        None where it takes two.
        """
        pair = axes.pair if self.pool == "channels" and self.samples == "batch" else None
        if pair is None or self.masks or not tensor.is_cuda or type(tensor) is not Tensor:
            return None
        return means(tensor, samples=pair[0], channels=pair[1], formula=formula)

    def _mask(self, ordered: Tensor, axes: Axes) -> Tensor | None:
        """Return the mask of all positions of a tensor, if one of its axes has the same length."""
        mask = self.masks.get(axes.part)
        if mask is None or axes.samples is None or len(ordered) != len(mask):
            return None
        positions = tuple(ordered.shape[1:-1])
        if positions.count(mask.shape[1]) != 1:
            return None
        tokens = positions.index(mask.shape[1])
        sizes = [mask.shape[1] if axis == tokens else 1 for axis in range(len(positions))]
        along = mask.reshape(len(mask), *sizes)
        return along.expand(len(mask), *positions).flatten(1).to(ordered.device)

    def index(self, tensor: Tensor, axes: Axes, rows: int) -> Tensor | None:
        """Return (rows,), the sample of the batch that each row of `matrix` is of, on the host.

        None where row i is of sample i. Rows in no known order are divided evenly.
        """
        if self.samples != "batch":
            return self._draw(axes.ordered(tensor), axes).index
        if rows == self.size or self.pool in ("channels", "sum", "flatten"):
            return None
        if self.pool == "published" and axes.samples == 0:
            return torch.arange(rows) // axes.inner % max(1, rows // (axes.inner * axes.outer))
        return divided(rows, self.size)

    def _rows(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return the positions drawn from a tensor, one a row."""
        ordered = axes.ordered(tensor)
        place = self._draw(ordered, axes).place
        if place is None:
            return ordered.flatten(0, -2).to(_precise(tensor), copy=True)
        inner = []
        for length in reversed(ordered.shape[1:-1]):
            inner.append(place % length)
            place = place // length
        return ordered[(place, *reversed(inner))].to(_precise(tensor))

    def _draw(self, ordered: Tensor, axes: Axes) -> Drawn:
        return cast(Draws, self.draws).of(
            tuple(ordered.shape[:-1]),
            self._mask(ordered, axes),
            part=axes.part,
            lost=axes.samples is None,
            device=ordered.device,
        )
