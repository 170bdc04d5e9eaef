"""From a tensor to a matrix (n, d): which axes are samples and channels, and what becomes of the others."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, nn

from sigmascope.capture.record import Call
from sigmascope.errors import InputError, InputTypeError, check_option

__all__ = ["POOLS", "SAMPLES", "Axes", "NotSamplesError", "Pooling", "UnreadableError", "check_pooling"]


@dataclass(frozen=True)
class Axes:
    """How the axes of a tensor are read.

    Attributes:
        samples: the axis of the samples.
        channels: the axis of the channels; None for a tensor that has no other axis.
        parts: how many consecutive entries of the axis of the samples belong to one sample, as windows of an image do.
        reason: how the axes are known.
    """

    samples: int
    channels: int | None
    parts: int
    reason: str

    def others(self, ndim: int) -> list[int]:
        """Return the axes that are neither samples nor channels."""
        return [axis for axis in range(ndim) if axis not in (self.samples, self.channels)]


class UnreadableError(Exception):
    """A tensor that cannot be read as samples by channels; the message says why."""


class NotSamplesError(UnreadableError):
    """A tensor that does not hold the samples of the batch at all."""


Pool: TypeAlias = Callable[[Tensor, Axes, Tensor | None], Tensor]
SAMPLES = ("batch", "tokens")


def _precise(tensor: Tensor) -> torch.dtype:
    """Return the type to sum in: half types are raised."""
    return torch.float32 if tensor.dtype.itemsize < 4 else tensor.dtype


def _mean(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    others = axes.others(tensor.ndim)
    if mask is not None and len(others) == 1:
        return _parted(_masked_mean(tensor, axes, mask), axes).mean(dim=1)
    pooled = tensor.mean(dim=others, dtype=_precise(tensor)) if others else tensor.to(_precise(tensor), copy=True)
    return _samples_first(pooled, axes).mean(dim=1)


def _sum(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    others = axes.others(tensor.ndim)
    if mask is not None and len(others) == 1:
        summed = _masked_mean(tensor, axes, mask) * mask.sum(dim=1, keepdim=True)
        return _parted(summed, axes).sum(dim=1)
    pooled = tensor.sum(dim=others, dtype=_precise(tensor)) if others else tensor.to(_precise(tensor), copy=True)
    return _samples_first(pooled, axes).sum(dim=1)


def _samples_first(pooled: Tensor, axes: Axes) -> Tensor:
    """Return (n, parts, d) from what is left when only samples and channels are left."""
    if axes.channels is None:
        pooled = pooled[:, None]
    elif axes.channels < axes.samples:
        pooled = pooled.mT
    return _parted(pooled, axes)


def _parted(pooled: Tensor, axes: Axes) -> Tensor:
    return pooled.reshape(-1, axes.parts, pooled.shape[1])


def _masked_mean(tensor: Tensor, axes: Axes, mask: Tensor) -> Tensor:
    """Average over the entries that the mask (n, t) leaves, as a product, so that no masked copy is made."""
    weights = mask.to(_precise(tensor))
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(1)
    tokens = axes.others(tensor.ndim)[0]
    ordered = tensor.permute(axes.samples, tokens, 3 - axes.samples - tokens).to(weights.dtype)
    return torch.bmm(weights[:, None, :], ordered)[:, 0]


def _flatten(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    moved = tensor.movedim(axes.samples, 0).to(_precise(tensor))
    return moved.reshape(len(moved) // axes.parts, -1).clone()


def _released(tensor: Tensor, axes: Axes, mask: Tensor | None) -> Tensor:
    """Average the axes that the published code averages, whatever they mean."""
    if tensor.ndim not in (2, 3, 4):
        raise UnreadableError(f"the published code has no rule for {tensor.ndim} axes")
    dims = {4: [2, 3], 3: [2]}.get(tensor.ndim)
    return tensor.mean(dim=dims, dtype=_precise(tensor)) if dims else tensor.to(_precise(tensor), copy=True)


POOLS: dict[str, Pool] = {"channels": _mean, "released": _released, "sum": _sum, "flatten": _flatten}
"""Name -> function of a tensor, its axes and the mask (n, t) of its tokens, if any, that returns (n, d)."""


@dataclass
class Pooling:
    """The way from the tensors of one batch to matrices.

    Attributes:
        pool: a name of `POOLS`, or a function from a tensor to a matrix (n, d).
        samples: "batch", or "tokens" for rows that are single positions instead of averages over them.
        channel_axis: pattern of a path -> axis, where the evidence is overruled.
        batch_axis: the axis of the samples in the network's inputs.
        size: how many samples the batch has.
        mask: (n, t), which tokens are real, if the batch says so.
        limit: how many tokens of a batch to use at most.
        generator: draws them.
    """

    pool: str | Callable[[Tensor], Tensor]
    samples: str
    channel_axis: Mapping[str, int]
    batch_axis: int
    size: int
    mask: Tensor | None
    limit: int
    generator: torch.Generator
    _drawn: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def axes(self, call: Call, tensor: Tensor) -> Axes:
        """Decide how to read a tensor.

        Raises:
            UnreadableError: nothing tells, or the tensor does not belong to the samples.
        """
        if tensor.ndim == 0:
            raise NotSamplesError("a single number, not samples")
        if isinstance(tensor, nn.Parameter):
            raise NotSamplesError("a parameter of the network, which does not depend on the samples")
        samples, parts = self._sample_axis(call, tensor)
        if tensor.ndim == 1:
            return Axes(0, None, parts, "one number per sample")
        for pattern, axis in self.channel_axis.items():
            if fnmatch.fnmatchcase(call.path, pattern):
                return self._overruled(pattern, axis, tensor, samples, parts)
        if tensor.ndim == 2:
            return Axes(samples, 1 - samples, parts, call.layout.reason)
        channels = call.layout.axis
        if channels is None:
            raise UnreadableError(call.layout.reason)
        if channels == samples:
            raise UnreadableError(f"axis {channels} would be both samples and channels; pass channel_axis={{pattern: axis}}")
        return Axes(samples, channels, parts, call.layout.reason)

    def _sample_axis(self, call: Call, tensor: Tensor) -> tuple[int, int]:
        shape = tuple(tensor.shape)
        if call.sequence_first and tensor.ndim == 3:
            return 1, 1
        if self.batch_axis < tensor.ndim and shape[self.batch_axis] == self.size:
            return self.batch_axis, 1
        if shape[0] == self.size:
            return 0, 1
        found = shape.index(self.size) if shape.count(self.size) == 1 and self.size > 1 else None
        if found is not None and found != call.layout.axis:
            return found, 1
        if 0 < self.size < shape[0] and shape[0] % self.size == 0:
            return 0, shape[0] // self.size
        if found is not None:
            return found, 1
        raise NotSamplesError(
            f"no axis of {list(shape)} counts the {self.size} samples of the batch: it does not depend on them"
        )

    def _overruled(self, pattern: str, axis: int, tensor: Tensor, samples: int, parts: int) -> Axes:
        if not -tensor.ndim <= axis < tensor.ndim or axis % tensor.ndim == samples:
            raise UnreadableError(f"channel_axis={{{pattern!r}: {axis}}} does not fit a tensor of shape {list(tensor.shape)}")
        return Axes(samples, axis % tensor.ndim, parts, f"channel_axis={{{pattern!r}: {axis}}}")

    def matrix(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return a new matrix (n, d) of float32 or float64.

        Raises:
            UnreadableError: the pooling has no answer for this tensor.
        """
        if self.samples == "tokens" and self.pool == "channels" and axes.others(tensor.ndim):
            return self._tokens(tensor, axes)
        if isinstance(self.pool, str):
            return POOLS[self.pool](tensor, axes, self._mask(tensor, axes))
        pooled = self.pool(tensor)
        if not isinstance(pooled, Tensor) or pooled.ndim != 2:
            shape = f"a tensor of shape {tuple(pooled.shape)}" if isinstance(pooled, Tensor) else f"a {type(pooled).__name__}"
            raise UnreadableError(f"the function given as pool returned {shape}, not a matrix (n, d)")
        return pooled.to(_precise(pooled), copy=True)

    def _mask(self, tensor: Tensor, axes: Axes) -> Tensor | None:
        rest = tuple(tensor.shape[axis] for axis in axes.others(tensor.ndim))
        if self.mask is None or rest != tuple(self.mask.shape[1:]):
            return None
        return self.mask.to(tensor.device).repeat_interleave(axes.parts, dim=0)

    def _tokens(self, tensor: Tensor, axes: Axes) -> Tensor:
        others = axes.others(tensor.ndim)
        order = [axes.samples, *others] + ([] if axes.channels is None else [axes.channels])
        shape = tuple(tensor.shape[axis] for axis in [axes.samples, *others])
        if shape not in self._drawn:
            self._drawn[shape] = self._draw(shape, self._mask(tensor, axes))
        rows = torch.unravel_index(self._drawn[shape].to(tensor.device), shape)
        return tensor.permute(order)[rows].to(_precise(tensor))

    def _draw(self, shape: tuple[int, ...], mask: Tensor | None) -> Tensor:
        """Choose positions among all, or among those that the mask leaves, in order."""
        count = torch.Size(shape).numel()
        allowed = torch.arange(count) if mask is None else torch.nonzero(mask.reshape(-1).cpu())[:, 0]
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
        check_option("pool", pool, POOLS)
    check_option("samples", samples, SAMPLES)
    if samples == "tokens" and pool != "channels":
        raise InputError(f"samples='tokens' keeps every token as it is, so pool={pool!r} has nothing to do. Leave pool out.")
    if not isinstance(channel_axis, Mapping) or not all(
        isinstance(pattern, str) and type(axis) is int for pattern, axis in channel_axis.items()
    ):
        raise InputTypeError(
            f"channel_axis={channel_axis!r:.80} is not a mapping from patterns of paths to axes, e.g. {{'blocks.*': -1}}."
        )
    if type(limit) is not int or limit < 2:
        raise InputError(f"max_tokens={limit!r} is not a number of rows. Pass an integer of at least 2.")
