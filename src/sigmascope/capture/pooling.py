"""From a tensor to a matrix (n, d): which axes are samples and channels, and what becomes of the
others.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from sigmascope.capture.lineage import Descent
from sigmascope.capture.record import Call
from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError

__all__ = [
    "POOLS",
    "SAMPLES",
    "Axes",
    "NotSamplesError",
    "Pooling",
    "UnreadableError",
    "check_pooling",
]


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
        part: of the network, "" or "decoder", whose mask counts.
    """

    samples: int | None
    channels: int | None
    outer: int
    inner: int
    reason: str
    part: str = ""

    def ordered(self, tensor: Tensor) -> Tensor:
        """Return a view (n, outer, inner, ..., d) of the tensor, with everything else in the middle."""
        channels_last = (
            tensor[..., None] if self.channels is None else tensor.movedim(self.channels, -1)
        )
        if self.samples is None:
            return channels_last[:, None, None]
        moved = self.channels is not None and self.channels < self.samples
        first = channels_last.movedim(self.samples - moved, 0)
        parted: Tensor = torch.unflatten(first, 0, (self.outer, -1, self.inner))
        return parted.movedim(1, 0)


class UnreadableError(Exception):
    """A tensor that cannot be read as samples by channels; the message says why."""


class NotSamplesError(UnreadableError):
    """A tensor that does not hold the samples of the batch at all."""


Pool: TypeAlias = Callable[[Tensor, Axes, Tensor | None], Tensor]
SAMPLES = ("batch", "tokens")
DECODER = "decoder"


def _precise(tensor: Tensor) -> torch.dtype:
    """Return the type to sum in: half types are raised."""
    return torch.float32 if tensor.dtype.itemsize < 4 else tensor.dtype


def _mean(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask)
    return ordered.mean(dim=tuple(range(1, ordered.ndim - 1)), dtype=_precise(tensor))


def _sum(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    ordered = axes.ordered(tensor)
    if mask is not None:
        return _masked_mean(ordered, mask) * mask.sum(dim=1, keepdim=True)
    return ordered.sum(dim=tuple(range(1, ordered.ndim - 1)), dtype=_precise(tensor))


def _masked_mean(ordered: Tensor, mask: Tensor) -> Tensor:
    """Average over the positions that the mask (n, t) leaves, as a product, so that no masked copy
    is made.
    """
    weights = mask.to(_precise(ordered))
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(1)
    return torch.bmm(weights[:, None, :], ordered.flatten(1, -2).to(weights.dtype))[:, 0]


def _flatten(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    in_place = replace(axes, channels=None)  # all values in the order in which they are
    return in_place.ordered(tensor).flatten(1).to(_precise(tensor), copy=True)


def _released(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    """Average the axes that the published code averages, whatever they mean."""
    if tensor.ndim not in (2, 3, 4):
        raise UnreadableError(f"the published code has no rule for {tensor.ndim} axes")
    dims = {4: [2, 3], 3: [2]}.get(tensor.ndim)
    return (
        tensor.mean(dim=dims, dtype=_precise(tensor))
        if dims
        else tensor.to(_precise(tensor), copy=True)
    )


POOLS: dict[str, Pool] = {
    "channels": _mean,
    "released": _released,
    "sum": _sum,
    "flatten": _flatten,
}
"""Name -> function of a tensor, its axes and the mask (n, t) of its tokens, if any, that returns
(n, d).
"""


@dataclass
class Pooling:
    """The way from the tensors of one batch to matrices.

    Attributes:
        pool: a name of `POOLS`, or a function from a tensor to a matrix (n, d).
        samples: "batch", or "tokens" for rows that are single positions instead of averages over
            them.
        channel_axis: pattern of a path -> axis, where the evidence is overruled.
        batch_axis: the axis of the samples in the network's inputs.
        size: how many samples the batch has.
        masks: part of the network, "" or "decoder" -> (n, t), which of its tokens are real, where
            the batch says so.
        limit: how many tokens of a batch to use at most.
        generator: draws them.
    """

    pool: str | Callable[[Tensor], Tensor]
    samples: str
    channel_axis: Mapping[str, int]
    batch_axis: int
    size: int
    masks: Mapping[str, Tensor]
    limit: int
    generator: torch.Generator
    _drawn: dict[tuple[object, ...], Tensor] = field(default_factory=dict)

    def axes(self, call: Call, tensor: Tensor) -> Axes:
        """Decide how to read a tensor.

        Raises:
            UnreadableError: nothing tells, or the tensor does not belong to the samples.
        """
        if tensor.ndim == 0:
            raise NotSamplesError("a single number, not samples")
        place = self._place(call, tensor)
        channels, reason = self._channels(call, tensor, place)
        if channels is not None and channels == place.axis and place.state == "known":
            raise UnreadableError(
                f"axis {channels} would be both samples and channels; pass "
                f"channel_axis={{pattern: axis}}"
            )
        if place.state == "lost":
            return Axes(None, channels, 1, 1, f"{reason}; every row a sample, in no known order")
        decoding = DECODER in self.masks and any(
            name.startswith(DECODER) for name in call.path.split(".")
        )
        return Axes(
            place.axis, channels, place.outer, place.inner, reason, DECODER if decoding else ""
        )

    def _place(self, call: Call, tensor: Tensor) -> Descent:
        """Say where the samples are: from what the tensor was computed from, and only where nothing
        is known by sizes.
        """
        if call.sequence_first and tensor.ndim == 3:
            return Descent("known", 1)
        place = call.descent
        if place.state == "constant":
            raise NotSamplesError(
                "computed from the weights alone, it does not depend on the samples"
            )
        if place.state == "merged":
            raise NotSamplesError(
                f"a tensor of shape {list(tensor.shape)} that has no axis of samples any more"
            )
        if place.state == "lost" and self.samples != "tokens":
            raise UnreadableError(
                f"the rows of {list(tensor.shape)} are no longer in the order of the samples "
                "and cannot be averaged by sample; "
                "samples='tokens' scores them row by row"
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
                if not -tensor.ndim <= axis < tensor.ndim or (
                    place.state == "known" and axis % tensor.ndim == place.axis
                ):
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
            UnreadableError: the pooling has no answer for this tensor.
        """
        if self.samples == "tokens":
            return self._tokens(tensor, axes)
        if isinstance(self.pool, str):
            return POOLS[self.pool](tensor, axes, self._mask(axes.ordered(tensor), axes))
        try:
            pooled = self.pool(tensor)
        except Exception as error:
            raise UnreadableError(
                f"the function given as pool raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(pooled, Tensor) or pooled.ndim != 2:
            shape = (
                f"a tensor of shape {tuple(pooled.shape)}"
                if isinstance(pooled, Tensor)
                else f"a {type(pooled).__name__}"
            )
            raise UnreadableError(
                f"the function given as pool returned {shape}, not a matrix (n, d)"
            )
        return pooled.to(_precise(pooled), copy=True)

    def _mask(self, ordered: Tensor, axes: Axes) -> Tensor | None:
        """Return the mask for all positions of a tensor, where one of its axes is as long as the mask."""
        mask = self.masks.get(axes.part)
        if mask is None or axes.samples is None or len(ordered) != len(mask):
            return None
        positions = tuple(ordered.shape[1:-1])
        if positions.count(mask.shape[1]) != 1:
            return None
        tokens = positions.index(mask.shape[1])
        along = mask.reshape(
            len(mask), *(mask.shape[1] if axis == tokens else 1 for axis in range(len(positions)))
        )
        return along.expand(len(mask), *positions).flatten(1).to(ordered.device)

    def _tokens(self, tensor: Tensor, axes: Axes) -> Tensor:
        ordered = axes.ordered(tensor)
        shape = tuple(ordered.shape[:-1])
        mask = self._mask(ordered, axes)
        key = (*shape, mask is not None, axes.part)
        if key not in self._drawn:
            self._drawn[key] = self._draw(shape, mask)
        rows = torch.unravel_index(self._drawn[key].to(tensor.device), shape)
        return ordered[rows].to(_precise(tensor))

    def _draw(self, shape: tuple[int, ...], mask: Tensor | None) -> Tensor:
        """Choose positions among all, or among those that the mask leaves, in order."""
        count = torch.Size(shape).numel()
        allowed = (
            torch.arange(count) if mask is None else torch.nonzero(mask.reshape(-1).cpu())[:, 0]
        )
        if len(allowed) <= self.limit:
            return allowed
        chosen = torch.randperm(len(allowed), generator=self.generator)[: self.limit]
        return allowed[chosen.sort().values]


def check_pooling(pool: object, samples: object, channel_axis: object, limit: object) -> None:
    """Check the options of a `Pooling`.

    Raises:
        OptionError, InputTypeError, InputError: an unknown name, a wrong type, a bad number.
    """
    if not callable(pool):
        check_choice("pool", pool, POOLS)
    check_choice("samples", samples, SAMPLES)
    if samples == "tokens" and pool != "channels":
        raise InputError(
            f"samples='tokens' keeps every token as it is, so pool={pool!r} has nothing to "
            "do. Leave pool out."
        )
    if not isinstance(channel_axis, Mapping) or not all(
        isinstance(pattern, str) and type(axis) is int for pattern, axis in channel_axis.items()
    ):
        raise InputTypeError(
            f"channel_axis={channel_axis!r:.80} is not a mapping from patterns of paths to "
            f"axes, e.g. {{'blocks.*': -1}}."
        )
    if type(limit) is not int or limit < 2:
        raise InputError(
            f"max_tokens={limit!r} is not a number of rows. Pass an integer of at least 2."
        )
