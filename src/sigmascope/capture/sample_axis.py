"""Which axis of a tensor counts the samples, followed from the inputs of the network.

Rows can be joined (windows, tokens), repeated (views, beams) or reordered (experts). So what is
followed is a place: an axis, and how the samples lie on it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sigmascope.capture import axis_moves
from sigmascope.capture.axis_moves import MOVES, RESHAPING, Applied, Shape
from sigmascope.capture.marks import Descent, Mark, Marks
from sigmascope.capture.nested import is_parameter, tensors_in
from sigmascope.capture.words import words

LOST, MERGED, CONSTANT, UNKNOWN = (
    Descent(state) for state in ("lost", "merged", "constant", "unknown")
)
# Functions that mix or reorder the samples along their axis -> the position of that argument.
MIXING = {
    **dict.fromkeys(words("argsort cumprod cumsum flip gather index_select scatter sort"), 1),
    **dict.fromkeys(words("roll rot90 take_along_dim topk"), 2),
}
# Along their axis these add rows to those of the first argument, in an order of their own.
ADDING = frozenset(words("index_add index_copy index_reduce scatter_add scatter_reduce"))
# Their results have no known order, even where they are as long.
PICKING = frozenset(
    words("argwhere bincount masked_select msort nonzero unique unique_consecutive")
)
# They add axes behind those of their input; the others in front.
APPENDING = ("embedding", "embedding_bag", "one_hot")
PREPENDING = ("broadcast_to", "expand", "expand_as")
PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "addmm", "baddbmm")
# Function -> the axis of the samples in its results after the first.
BESIDE = {
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), 1),
    "multi_head_attention_forward": 0,
}


class Lineage:
    """The samples, `size` of them, in the tensors of one forward pass, as far as they are known."""

    def __init__(self, marks: Marks[Mark], *, size: int = 0) -> None:
        self._marks = marks
        self.size = size

    def first(self, tensor: Tensor, batch_axis: int) -> Descent | None:
        """Return where the samples are in an input of the network; None where it holds none.

        The first input tells how many they are, where the size is not known.
        """
        if not self.size and tensor.ndim > batch_axis:
            self.size = tensor.shape[batch_axis]
        counts = tensor.ndim > batch_axis and tensor.shape[batch_axis] == self.size
        return Descent("known", batch_axis) if counts and self.of(tensor) == UNKNOWN else None

    def of(self, tensor: Tensor) -> Descent:
        """Return what is known of the samples in a tensor."""
        if is_parameter(tensor):
            return CONSTANT
        mark = self._marks.get(tensor)
        if mark is None:
            return UNKNOWN
        return mark.descent if mark.shape == tensor.shape else LOST

    def descents(
        self, call: Applied, tensors: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> list[Descent]:
        """Return where the samples are in the outputs of a function of tensors."""
        sources = [(source, self.of(source)) for source in tensors]
        place = next((descent for _, descent in sources if descent.state == "known"), None)
        found = []
        for number, output in enumerate(outputs):
            shape = tuple(output.shape)
            descent = self._descent(call, sources, shape)
            if number and call.name in BESIDE and place is not None:
                axis, rows = BESIDE[call.name], self.size * place.outer * place.inner
                kept = len(shape) == 3 and shape[axis] == rows
                descent = replace(place, axis=axis) if kept else LOST
            found.append(descent)
        return found

    def _descent(
        self, call: Applied, sources: list[tuple[Tensor, Descent]], shape: Shape
    ) -> Descent:
        states = {descent.state for _, descent in sources}
        places = {
            self._follow(call, source, descent, shape)
            for source, descent in sources
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

    def _follow(self, call: Applied, source: Tensor, place: Descent, shape: Shape) -> Descent:
        name, before = call.name, tuple(source.shape)
        if name == "__setitem__":
            return _written(call.args, place, source, shape)
        if name in ("cat", "concat", "concatenate"):
            return self._joined(call, place, shape)
        if name in RESHAPING:
            return _reshaped(place, before, shape, self.size)
        if name in ("repeat", "tile", "repeat_interleave"):
            return _repeated(call, place, before, shape)
        if name in ("chunk", "split") and shape[place.axis] != before[place.axis]:
            return self._cut(call, place, before, shape)
        if _is_reordered(call, source, place.axis):
            return LOST
        if name in ("__getitem__", "index_select") and source is not call.args[0]:
            axis = axis_moves.looked_up(call, source, place.axis)
        elif name in MOVES and place.axis not in (order := call.order(len(before))):
            return MERGED if order or not shape else LOST
        else:
            axis = _moved(call, place.axis, source, shape)
        if axis is None or not 0 <= axis < len(shape) or shape[axis] != before[place.axis]:
            return LOST
        return place if axis == place.axis else replace(place, axis=axis)

    def _joined(self, call: Applied, place: Descent, shape: Shape) -> Descent:
        dim = call.value(1, "dim", "axis", default=0) % len(shape)
        if dim != place.axis:
            return place
        parts = [self.of(part) for part in tensors_in(call.args[:1])]
        if any(
            part.state != "known" or (part.axis, part.inner) != (place.axis, place.inner)
            for part in parts
        ):
            return LOST
        return Descent("known", dim, sum(part.outer for part in parts), place.inner)

    def _cut(self, call: Applied, place: Descent, before: Shape, shape: Shape) -> Descent:
        """Follow equal pieces that each hold all samples, such as two views computed together."""
        length, count = shape[place.axis], self.size * place.inner
        number = next(iter([*call.args[1:], *call.kwargs.values()]), None)
        equal = isinstance(number, int) and before[place.axis] % length == 0
        return replace(place, outer=length // count) if equal and length % count == 0 else LOST


def _repeated(call: Applied, place: Descent, before: Shape, shape: Shape) -> Descent:
    if call.name == "repeat_interleave":
        dim, count = call.value(2, "dim"), call.value(1, "repeats")
        if dim is not None and dim % len(before) != place.axis:
            return place
        known = dim is not None and isinstance(count, int)
        return replace(place, inner=place.inner * count) if known else LOST
    axis = place.axis + len(shape) - len(before)
    times = shape[axis] // max(before[place.axis], 1)
    return Descent("known", axis, place.outer * times, place.inner)


def _written(args: tuple[Any, ...], place: Descent, source: Tensor, shape: Shape) -> Descent:
    """Follow samples written into a tensor; they stay in order if all of its rows are written."""
    if source is args[0]:
        return place
    index = args[1][0] if isinstance(args[1], tuple) else args[1]
    in_order = place.axis == 0 and index == slice(None) and shape[0] == source.shape[0]
    return place if in_order else LOST


def _reshaped(place: Descent, before: Shape, shape: Shape, size: int) -> Descent:
    """Return where the samples are after a reshape, by the strides they cover."""
    if not math.prod(before):
        return LOST
    low = axis_moves.span(before, place.axis)[0] * place.inner
    high = low * size
    # From the front, so that axes of length 1 do not take the place of a longer one behind them.
    for axis in range(len(shape)):
        start, end = axis_moves.span(shape, axis)
        inside = start <= low and high <= end and low % start == 0 and end % high == 0
        if inside and (shape[axis] > 1 or size == 1):
            return Descent("known", axis, end // high, low // start)
    return LOST


def _is_reordered(call: Applied, source: Tensor, axis: int) -> bool:
    """Return whether a function mixes or reorders the entries of an axis."""
    name, ndim = call.name, source.ndim
    if name in PICKING or (name == "where" and len(call.args) == 1):
        return True
    first = bool(call.args) and source is call.args[0]
    if name == "__getitem__":
        return first and _is_listed(call.args[1], axis, ndim)
    if name in ADDING:
        return not first and axis in _dimensions(call, 1, ndim)
    if name in MIXING and (first or name != "index_select"):
        usual = {ndim - 1} if name in ("argsort", "sort", "topk") else range(ndim)
        return axis in (_dimensions(call, MIXING[name], ndim) or usual)
    return False


def _dimensions(call: Applied, position: int, ndim: int) -> set[int]:
    """Return the axes that the arguments name."""
    named = [call.kwargs[key] for key in ("dim", "dims") if key in call.kwargs]
    named = named or list(call.args[position:])
    if not named or named[0] is None:
        return set()
    several = isinstance(named[0], (tuple, list))
    dims = named[0] if several else itertools.takewhile(lambda dim: type(dim) is int, named)
    return {dim % ndim for dim in dims}


def _is_listed(index: object, axis: int, ndim: int) -> bool:
    """Return whether an index lists entries of an axis one by one, in an order of its own."""
    parts = index if isinstance(index, tuple) else (index,)
    masks = [isinstance(part, Tensor) and part.dtype == torch.bool for part in parts]
    widths = [
        part.ndim if mask else int(part is not None)
        for part, mask in zip(parts, masks, strict=True)
    ]
    position = 0
    for part, width in zip(parts, widths, strict=True):
        if part is Ellipsis:
            width = ndim - sum(widths) + 1
        if isinstance(part, (Tensor, list)) and position <= axis < position + width:
            return True
        position += width
    return False


def _moved(call: Applied, axis: int, source: Tensor, shape: Shape) -> int | None:
    """Return where an axis is after a function that neither reshapes nor joins."""
    name, added = call.name, len(shape) - source.ndim
    if name in MOVES:
        order = call.order(source.ndim)
        return order.index(axis) if axis in order else None
    if name == "einsum":
        letters, output = axis_moves.letters_of(call.args, source)
        return output.index(letters[axis]) if letters and letters[axis] in output else None
    if name in PRODUCTS:
        return axis_moves.multiplied(call, axis, source, len(shape))
    if name in APPENDING or not added:
        return axis
    if added < 0:
        return axis if axis == 0 else None  # most functions leave the first axis alone
    # Tensors of unequal rank are aligned at the last axis.
    operands = tensors_in((call.args, list(call.kwargs.values())))
    aligned = name in PREPENDING or any(operand.ndim == len(shape) for operand in operands)
    return axis + added if aligned else axis
