"""Which axis of a tensor counts the samples: followed from the network's inputs through what is
computed from them.

Rows can be joined (windows, tokens), repeated (views, beams) or put in another order (experts). So
what is followed is a place: an axis, and how the samples lie on it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.capture.moves import (
    MOVES,
    RESHAPING,
    Shape,
    letters_of,
    looked_up,
    multiplied,
    span,
)
from sigmascope.capture.nested import tensors_in

__all__ = ["Descent", "Lineage"]


@dataclass(frozen=True)
class Descent:
    """What is known of the samples in a tensor.

    Attributes:
        state: "known"; "lost" where the tensor depends on the samples but their order is not known;
            "merged" where one was taken or all were summed; "constant" where it depends on the
            weights alone; "unknown" where nothing was seen of its making.
        axis: that counts the samples; its entries are (outer, samples, inner), the last running
            fastest.
        outer: how often the samples are repeated as a whole.
        inner: how many consecutive entries each has.
    """

    state: str
    axis: int = 0
    outer: int = 1
    inner: int = 1


LOST, MERGED, CONSTANT, UNKNOWN = (
    Descent(state) for state in ("lost", "merged", "constant", "unknown")
)
# Along their axis these mix samples or put them in another order; the number is that of the
# argument that names the axis.
MIXING = {
    **dict.fromkeys(
        ("argsort", "cumprod", "cumsum", "flip", "gather", "index_select", "scatter", "sort"), 1
    ),
    **dict.fromkeys(("roll", "rot90", "take_along_dim", "topk"), 2),
}
# Along their axis these add rows to those of the first argument, in an order of their own.
ADDING = ("index_add", "index_copy", "index_reduce", "scatter_add", "scatter_reduce")
# What they return has no order that is known, even where it is as long.
PICKING = (
    "argwhere",
    "bincount",
    "masked_select",
    "msort",
    "nonzero",
    "unique",
    "unique_consecutive",
)
# They add axes behind those they are given; these others in front.
APPENDING = ("embedding", "embedding_bag", "one_hot")
PREPENDING = ("broadcast_to", "expand", "expand_as")
# Function -> the axis of the samples in what it returns beside its first result.
BESIDE = {
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), 1),
    "multi_head_attention_forward": 0,
}


class Lineage:
    """What is known of the samples in the tensors of one forward pass."""

    def __init__(
        self,
        inputs: Iterable[Tensor] = (),
        *,
        batch_axis: int = 0,
        size: int = 0,
        buffers: Iterable[Tensor] = (),
    ) -> None:
        self._known: Any = WeakIdKeyDictionary()
        self.size = size
        for tensor in buffers:
            self._known[tensor] = CONSTANT, tuple(tensor.shape)
        self.begin(inputs, batch_axis)

    def begin(self, inputs: Iterable[Tensor], batch_axis: int) -> None:
        """Take the inputs of the network for the samples, where nothing else was said to hold them."""
        for tensor in inputs:
            if not self.size and tensor.ndim > batch_axis:
                self.size = tensor.shape[batch_axis]
            if (
                tensor.ndim > batch_axis
                and tensor.shape[batch_axis] == self.size
                and self.of(tensor) == UNKNOWN
            ):
                self._known[tensor] = Descent("known", batch_axis), tuple(tensor.shape)

    def of(self, tensor: Tensor) -> Descent:
        """Say what is known of the samples in a tensor."""
        if isinstance(tensor, nn.Parameter):
            return CONSTANT
        descent, shape = self._known.get(tensor, (UNKNOWN, tuple(tensor.shape)))
        return descent if shape == tuple(tensor.shape) else LOST

    def note(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Tensor]
    ) -> None:
        """Note what a function made of the tensors it was given."""
        sources = list(tensors_in((args, list(kwargs.values()))))
        if not sources:
            return
        found = [(source, self.of(source)) for source in sources]
        for number, output in enumerate(outputs):
            shape = tuple(output.shape)
            descent = self._descent(name, args, kwargs, found, shape)
            place = next((one for _, one in found if one.state == "known"), None)
            if number and name in BESIDE and place is not None:
                rows = self.size * place.outer * place.inner
                descent = (
                    replace(place, axis=BESIDE[name])
                    if len(shape) == 3 and shape[BESIDE[name]] == rows
                    else LOST
                )
            self._known[output] = descent, shape

    def _descent(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[tuple[Tensor, Descent]],
        shape: Shape,
    ) -> Descent:
        states = {descent.state for _, descent in found}
        places = {
            self._follow(name, args, kwargs, source, descent, shape)
            for source, descent in found
            if descent.state == "known"
        }
        gone = places & {LOST, MERGED}
        places -= gone
        if places:
            # Where sources disagree, as in attention between two sequences, the one with the fewest
            # rows per sample.
            return min(places, key=lambda place: (place.outer * place.inner, place.axis))
        if gone == {MERGED} or (not gone and "merged" in states and "lost" not in states):
            return MERGED
        if states & {"known", "lost", "merged"}:
            return LOST
        return CONSTANT if states == {"constant"} else UNKNOWN

    def _follow(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        source: Tensor,
        place: Descent,
        shape: Shape,
    ) -> Descent:
        before = tuple(source.shape)
        if name == "__setitem__":
            return _written(args, place, source, shape)
        if name in ("cat", "concat", "concatenate"):
            return self._joined(args, kwargs, place, shape)
        if name in RESHAPING:
            return _reshaped(place, before, shape, self.size)
        if name in ("repeat", "tile", "repeat_interleave"):
            return self._repeated(name, args, kwargs, place, before, shape)
        if name in ("chunk", "split") and shape[place.axis] != before[place.axis]:
            return self._cut(args, kwargs, place, before, shape)
        if _is_reordered(name, args, kwargs, source, place.axis):
            return LOST
        if name in ("__getitem__", "index_select") and source is not args[0]:
            axis = looked_up(name, args, source, place.axis)
            return (
                LOST
                if axis is None or shape[axis] != before[place.axis]
                else replace(place, axis=axis)
            )
        if name in MOVES and place.axis not in (order := MOVES[name](len(before), args, kwargs)):
            return MERGED if order or not shape else LOST
        axis = _moved(name, place.axis, args, kwargs, source, shape)
        if axis is None or not 0 <= axis < len(shape) or shape[axis] != before[place.axis]:
            return LOST
        return replace(place, axis=axis)

    def _joined(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], place: Descent, shape: Shape
    ) -> Descent:
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))) % len(shape)
        if dim != place.axis:
            return place
        parts = [self.of(one) for one in tensors_in(args[:1])]
        alike = all(
            one.state == "known" and (one.axis, one.inner) == (place.axis, place.inner)
            for one in parts
        )
        return (
            Descent("known", dim, sum(one.outer for one in parts), place.inner) if alike else LOST
        )

    def _cut(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Descent,
        before: Shape,
        shape: Shape,
    ) -> Descent:
        """Follow equal pieces that hold all samples again, as two views do that were computed together."""
        length, count = shape[place.axis], self.size * place.inner
        equal = (
            isinstance(next(iter([*args[1:], *kwargs.values()]), None), int)
            and before[place.axis] % length == 0
        )
        return replace(place, outer=length // count) if equal and length % count == 0 else LOST

    def _repeated(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Descent,
        before: Shape,
        shape: Shape,
    ) -> Descent:
        if name == "repeat_interleave":
            dim, count = (
                kwargs.get("dim", args[2] if len(args) > 2 else None),
                args[1] if len(args) > 1 else kwargs.get("repeats"),
            )
            if dim is not None and dim % len(before) != place.axis:
                return place
            return (
                LOST
                if dim is None or not isinstance(count, int)
                else replace(place, inner=place.inner * count)
            )
        axis = place.axis + len(shape) - len(before)
        return Descent(
            "known", axis, place.outer * (shape[axis] // max(before[place.axis], 1)), place.inner
        )


def _written(args: tuple[Any, ...], place: Descent, source: Tensor, shape: Shape) -> Descent:
    """Follow what is written into a part of a tensor: its samples stay in order where all rows are
    written to.
    """
    if source is args[0]:
        return place
    index = args[1][0] if isinstance(args[1], tuple) else args[1]
    in_order = place.axis == 0 and index == slice(None) and shape[0] == source.shape[0]
    return place if in_order else LOST


def _reshaped(place: Descent, before: Shape, shape: Shape, size: int) -> Descent:
    """Find the samples again by the strides they cover."""
    if not math.prod(before):
        return LOST
    low = span(before, place.axis)[0] * place.inner
    high = low * size
    # From the front, so that axes of length 1 do not take the place of a longer one behind them.
    for axis in range(len(shape)):
        start, end = span(shape, axis)
        if (
            start <= low
            and high <= end
            and low % start == 0
            and end % high == 0
            and (shape[axis] > 1 or size == 1)
        ):
            return Descent("known", axis, end // high, low // start)
    return LOST


def _is_reordered(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], source: Tensor, axis: int
) -> bool:
    """Tell whether a function mixes the entries of an axis, or puts them in an order of its own."""
    if name in PICKING or (name == "where" and len(args) == 1):
        return True
    first = bool(args) and source is args[0]
    if name == "__getitem__":
        return first and _is_listed(args[1], axis, source.ndim)
    if name in ADDING:
        return not first and axis in _dimensions(1, args, kwargs, source.ndim)
    if name in MIXING and (first or name != "index_select"):
        found = _dimensions(MIXING[name], args, kwargs, source.ndim)
        return axis in (
            found
            or ({source.ndim - 1} if name in ("argsort", "sort", "topk") else range(source.ndim))
        )
    return False


def _dimensions(
    position: int, args: tuple[Any, ...], kwargs: dict[str, Any], ndim: int
) -> set[int]:
    """Return the axes that the arguments name."""
    named = [kwargs[key] for key in ("dim", "dims") if key in kwargs] or list(args[position:])
    if not named or named[0] is None:
        return set()
    listed = (
        named[0]
        if isinstance(named[0], (tuple, list))
        else itertools.takewhile(lambda one: type(one) is int, named)
    )
    return {dim % ndim for dim in listed}


def _is_listed(index: object, axis: int, ndim: int) -> bool:
    """Tell whether an index picks entries of an axis one by one, in an order of its own."""
    parts = index if isinstance(index, tuple) else (index,)
    widths = [
        part.ndim
        if isinstance(part, Tensor) and part.dtype == torch.bool
        else int(part is not None)
        for part in parts
    ]
    position = 0
    for part, width in zip(parts, widths, strict=True):
        if part is Ellipsis:
            width = ndim - sum(widths) + 1
        if isinstance(part, (Tensor, list)) and position <= axis < position + width:
            return True
        position += width
    return False


def _moved(
    name: str,
    axis: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    source: Tensor,
    shape: Shape,
) -> int | None:
    """Return where an axis is after a function that neither reshapes nor joins."""
    before = tuple(source.shape)
    if name in MOVES:
        order = MOVES[name](len(before), args, kwargs)
        return order.index(axis) if axis in order else None
    if name == "einsum":
        letters, output = letters_of(args, source)
        return output.index(letters[axis]) if letters and letters[axis] in output else None
    if name in ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "addmm", "baddbmm"):
        return multiplied(name, axis, args, source, len(shape))
    if name in APPENDING or len(shape) == len(before):
        return axis
    if len(shape) < len(before):
        return axis if axis == 0 else None  # most functions leave the first axis alone
    # Tensors of unequal rank are aligned at the last axis.
    aligned = name in PREPENDING or any(
        one.ndim == len(shape) for one in tensors_in((args, list(kwargs.values())))
    )
    return axis + len(shape) - len(before) if aligned else axis
