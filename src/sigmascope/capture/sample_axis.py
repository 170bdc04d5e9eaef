"""Which axis of a tensor counts the samples, followed from the inputs of the network.

Rows can be joined (windows, tokens), repeated (views, beams) or reordered (experts). So what is
followed is a place: an axis, and how the samples lie on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from torch import Tensor

from sigmascope.capture import axis_moves, partial_samples, permuting
from sigmascope.capture.axis_moves import MOVES, RESHAPING, Applied, Shape
from sigmascope.capture.marks import Descent, Mark, Marks
from sigmascope.capture.nested import is_parameter, tensors_in
from sigmascope.capture.partial_samples import BLANKS, DIVIDING, JOINING, PARTIAL, STACKING
from sigmascope.capture.reordering import is_reordered
from sigmascope.capture.words import words

LOST, MERGED, CONSTANT, UNKNOWN, FEATURES, BLANK = (
    Descent(state) for state in ("lost", "merged", "constant", "unknown", "features", "blank")
)
# Functions without a tensor among their arguments whose values are the same for all samples, and
# those whose values are yet to be written. Not so random ones.
MADE = {
    **dict.fromkeys(words("arange eye full linspace logspace ones range tril_indices"), CONSTANT),
    **dict.fromkeys(words("bartlett_window blackman_window hamming_window hann_window"), CONSTANT),
    **dict.fromkeys(words("kaiser_window triu_indices"), CONSTANT),
    **dict.fromkeys(words("empty zeros"), BLANK),
}
# Function -> how many axes its input has where it has no axis of samples; a linear layer takes any.
UNBATCHED = {f"conv{kind}{count}d": count + 1 for kind in ("", "_transpose") for count in (1, 2, 3)}
INTO_BASE = "into_base"  # a function that wrote into a view, seen from the tensor it is a view of
# They add axes behind those of their input; the others in front.
APPENDING = ("embedding", "embedding_bag", "one_hot")
PREPENDING = ("broadcast_to", "expand", "expand_as")
PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "addmm", "baddbmm")
# Function -> the axis of the samples in its results after the first.
BESIDE = {
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), 1),
    "multi_head_attention_forward": 0,
}


Places: TypeAlias = list[tuple[Tensor, Descent]]


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
        # also constants made in this pass, but no parameters and buffers
        made = id(tensor) in self._marks.entries and self.of(tensor) == CONSTANT
        free = self.of(tensor) in (UNKNOWN, BLANK) or (made and not is_parameter(tensor))
        return Descent("known", batch_axis) if counts and free else None

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
        if call.name == INTO_BASE:
            (base, before), (_, view) = sources
            shape, block = tuple(base.shape), call.kwargs["block"]
            return [partial_samples.written_through(block, before, view, shape, self.size)]
        packed = permuting.packing(call, sources, outputs)
        if packed is not None:
            return packed
        place = next((descent for _, descent in sources if descent.state == "known"), None)
        found = []
        for number, output in enumerate(outputs):
            shape = tuple(output.shape)
            descent = self._piece(call, sources, outputs, number)
            if descent is None:
                descent = self._descent(call, sources, shape)
            if number and call.name in BESIDE and place is not None:
                axis, rows = BESIDE[call.name], self.size * place.outer * place.inner
                kept = len(shape) == 3 and shape[axis] == rows
                descent = replace(place, axis=axis) if kept else LOST
            found.append(descent)
        return found

    def _piece(
        self, call: Applied, sources: Places, outputs: Sequence[Tensor], number: int
    ) -> Descent | None:
        """Return the place of a piece of the samples; None where they were not divided."""
        if call.name not in DIVIDING or not sources or sources[0][1].state not in ("known", "part"):
            return None
        return partial_samples.piece(call, sources[0][1], outputs, number, self.size)

    def _descent(self, call: Applied, sources: Places, shape: Shape) -> Descent:
        states = {descent.state for _, descent in sources}
        followed = {
            self._follow(call, source, descent, shape)
            for source, descent in sources
            if descent.state == "known"
        }
        gone = followed & {LOST, MERGED, FEATURES}
        partial = {place for place in followed if place.state in PARTIAL}
        places = followed - gone - partial
        if places:
            # Where sources disagree, as in attention between two sequences, the one with the fewest
            # rows per sample.
            return min(
                places, key=lambda place: (bool(place.order), place.outer * place.inner, place.axis)
            )
        packed = [source for source in sources if source[1].state == "packed"]
        if packed and len(states & {"known", "lost", "merged", *PARTIAL}) == 0:
            return _packed_still(call, packed, shape)
        if partial and not gone:
            return partial.pop()
        if not followed and states & {*PARTIAL} and "lost" not in states:
            return self._of_some(call, sources, shape)
        for one in (FEATURES, MERGED):
            if gone == {one} or (not gone and one.state in states and "lost" not in states):
                return one
        if states & {"known", "lost", "merged", "features", "packed", *PARTIAL}:
            return LOST
        written = call.name in ("__setitem__", "copy") and "constant" in states
        return (
            CONSTANT if states <= ({"constant", "blank"} if written else {"constant"}) else UNKNOWN
        )

    def _of_some(self, call: Applied, sources: Places, shape: Shape) -> Descent:
        """Return the place in a function of single samples or of parts of the batch."""
        if call.name == "__setitem__":
            return self._put_in_order(call, sources)
        some = [(source, place) for source, place in sources if place.state in PARTIAL]
        if len(some) == len(sources) and call.name in (*STACKING, *JOINING):
            joined = partial_samples.put_together(call, some, len(shape), self.size)
            if joined is not None:
                return joined
        single = [place for _, place in some if place.state == "single"]
        if single and call.name in BLANKS:
            return CONSTANT
        parts = {
            self._follow(call, source, place, shape)
            for source, place in some
            if place.state == "part"
        }
        if parts & {LOST, MERGED, FEATURES}:
            return LOST
        return partial_samples.combined([*single, *parts]) or LOST

    def _put_in_order(self, call: Applied, sources: Places) -> Descent:
        """Return the place in a tensor into which single samples are written by their numbers."""
        if len(sources) != 2:
            return LOST
        (target, before), (_, value) = sources
        index = call.args[1][0] if isinstance(call.args[1], tuple) else call.args[1]
        if value.state in ("constant", "unknown", "blank"):
            return before
        if before.state in ("single", "part") and (before.first, before.count) == (
            value.first,
            value.count,
        ):
            return before
        if type(index) is not int or target.shape[0] != self.size:
            return LOST
        return partial_samples.written(before, value, 0, index % self.size, self.size)

    def _follow(self, call: Applied, source: Tensor, place: Descent, shape: Shape) -> Descent:
        name, before = call.name, tuple(source.shape)
        if _takes_as_features(call, source, place.axis):
            return FEATURES
        if name in ("__getitem__", "select") and source is call.args[0]:
            found = partial_samples.indexed(call, place, before, self.size)
            if found is not None:
                return found
        if name == "__setitem__":
            return _written(call.args, place, source, shape)
        if name in JOINING:
            return self._joined(call, place, shape)
        if name in RESHAPING:
            return _reshaped(place, before, shape, place.count or self.size)
        if name in ("repeat", "tile", "repeat_interleave"):
            return _repeated(call, place, before, shape)
        if name in ("chunk", "split") and shape[place.axis] != before[place.axis]:
            return self._cut(call, place, before, shape)
        if is_reordered(call, source, place.axis):
            back = name in ("index_add", "index_copy") and len(call.args) > 2
            if back and source is not call.args[0]:
                return permuting.put_back(call.args[2], place)
            return permuting.reordered(call, source, place)
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
        length, count = shape[place.axis], (place.count or self.size) * place.inner
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
    return replace(place, axis=axis, outer=place.outer * times)


def _written(args: tuple[Any, ...], place: Descent, source: Tensor, shape: Shape) -> Descent:
    """Follow samples written into a tensor; they stay in order if all of its rows are written."""
    if source is args[0]:
        return place
    index = args[1][0] if isinstance(args[1], tuple) else args[1]
    if isinstance(index, Tensor):
        return permuting.put_back(index, place)
    in_order = place.axis == 0 and index == slice(None) and shape[0] == source.shape[0]
    return place if in_order else LOST


def _reshaped(place: Descent, before: Shape, shape: Shape, size: int) -> Descent:
    """Return where the samples are after a reshape, by the strides they cover."""
    if not math.prod(before) or (place.order < 0 and shape[: place.axis + 1] != before[:1]):
        return LOST
    low = axis_moves.span(before, place.axis)[0] * place.inner
    high = low * size
    # From the front, so that axes of length 1 do not take the place of a longer one behind them.
    for axis in range(len(shape)):
        start, end = axis_moves.span(shape, axis)
        inside = start <= low and high <= end and low % start == 0 and end % high == 0
        if inside and (shape[axis] > 1 or size == 1):
            return replace(place, axis=axis, outer=end // high, inner=low // start)
    return LOST


def _packed_still(call: Applied, packed: Places, shape: Shape) -> Descent:
    """Return packed where a function leaves the rows of packed sequences as they are, or lost."""
    source, place = packed[0]
    kept = bool(shape) and shape[0] == len(source) and not is_reordered(call, source, 0)
    return place if kept and all(one == place for _, one in packed) else LOST


def _takes_as_features(call: Applied, source: Tensor, axis: int) -> bool:
    """Return whether a layer reads the entries of an axis as the features of one sample."""
    if not call.args or source is not call.args[0]:
        return False
    if call.name == "linear":
        return bool(axis == source.ndim - 1)
    return axis == 0 and UNBATCHED.get(call.name) == source.ndim


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
