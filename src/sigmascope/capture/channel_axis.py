"""Which axis of a tensor holds the channels, known from the function that produced it.

A convolution and its norms put channels on axis 1, a linear layer and its norms on the last axis.
From there the axis is followed through permutations, reshapes, sums, slices and everything else
that keeps it recognizable.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sigmascope.capture.axis_moves import MOVES, RESHAPING, Applied, Shape, multiplied, span
from sigmascope.capture.marks import Mark, Marks, Trace
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.words import words

# They put the channels on axis 1, and on the last axis.
FIRST = frozenset(
    words("""
    batch_norm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    group_norm instance_norm local_response_norm
""")
)
LAST = frozenset(
    words("""
    addmm baddbmm bilinear bmm embedding layer_norm linear lstm gru matmul mm
    multi_head_attention_forward rms_norm rnn_tanh rnn_relu scaled_dot_product_attention __matmul__
""")
)
# They may change how many channels there are, but not which axis holds them.
CUTTING = frozenset(
    words("""
    cat chunk concat concatenate expand index_select narrow pad pixel_shuffle pixel_unshuffle
    repeat split tensor_split unsafe_chunk unsafe_split
""")
)
PRODUCTS = ("matmul", "__matmul__", "bmm", "mm")


@dataclass(frozen=True)
class Layout:
    """The channel axis of a tensor, counted from the front or None, and how it is known."""

    axis: int | None
    reason: str


class Layouts:
    """The channel axes of the tensors of one forward pass, as far as they are known."""

    def __init__(self, marks: Marks[Mark]) -> None:
        self._marks = marks
        self._latest: tuple[str, int] | None = None  # the last producer and its number of channels
        # the sides, 1 or -1, on which producers have put channels so far
        self._sides: set[int] = set()

    def of(self, tensor: Tensor) -> Layout:
        """Return where the channels of a tensor are."""
        if tensor.ndim < 3:
            return Layout(1 if tensor.ndim == 2 else None, "the only axis beside the samples")
        trace = self._trace(tensor)
        if trace is not None and trace.shape == tensor.shape:
            return _following(trace.axis, trace.producer)
        return self._likely(tensor)

    def _likely(self, tensor: Tensor) -> Layout:
        """Return a guess from the last producers, for a tensor that could not be followed."""
        if self._latest is not None:
            producer, channels = self._latest
            axis = 1 if _side(producer) == 1 else tensor.ndim - 1
            if tensor.shape[axis] == channels:
                return Layout(axis, f"as many as the last {producer} put there")
        if len(self._sides) == 1:
            axis = 1 if self._sides == {1} else tensor.ndim - 1
            where = "on axis 1" if axis == 1 else "last"
            return Layout(axis, f"every layer so far put them {where}")
        return Layout(
            None, "nothing is known of what produced the tensor; pass channel_axis={pattern: axis}"
        )

    def traces(
        self, call: Applied, outputs: Sequence[Tensor]
    ) -> tuple[list[Trace | None], list[Trace]]:
        """Return where the channels are in the outputs of a function, and which it put there."""
        produces = _side(call.name) and not _spans_axes(call)
        found: list[Trace | None] = []
        produced = []
        for output in outputs:
            trace = self._multiplied(call, output) if call.name in PRODUCTS else None
            if trace is None and produces:
                trace = _produced(call, output)
                produced += [trace] if trace is not None else []
            elif trace is None:
                trace = self._followed(call, output)
            found.append(trace)
        return found, produced

    def remember(self, produced: Sequence[Trace]) -> None:
        """Remember the channels that a function has put somewhere, for later guesses."""
        for trace in produced:
            self._latest = trace.producer, trace.shape[trace.axis]
            if len(trace.shape) > 2:
                self._sides.add(_side(trace.producer))

    def _trace(self, tensor: Tensor) -> Trace | None:
        mark = self._marks.get(tensor)
        return None if mark is None else mark.trace

    def _multiplied(self, call: Applied, output: Tensor) -> Trace | None:
        """Follow the channels of a factor, unless they are summed over.

        A matrix in front of them puts its rows there.
        """
        for source in tensors_in(call.args):
            trace = self._trace(source)
            if trace is None or trace.shape != tuple(source.shape):
                continue
            axis = multiplied(call, trace.axis, source, output.ndim)
            rows = source.ndim > 2 and trace.axis == source.ndim - 2
            if axis is None and rows and self._trace(call.args[0]) is None:
                axis = output.ndim - 2
            if axis is not None and 0 <= axis < output.ndim:
                return Trace(axis, trace.producer, tuple(output.shape))
        return None

    def _followed(self, call: Applied, output: Tensor) -> Trace | None:
        for source in tensors_in(call.args[:1] if call.name == "__getitem__" else call.args):
            trace = self._trace(source)
            if trace is not None:
                shape = tuple(output.shape)
                if call.name == "einsum":
                    sources = [operand is source for operand in tensors_in(call.args)]
                    axis = _contracted(trace.axis, call.args[0], sources)
                else:
                    axis = _after(call, trace.axis, trace.shape, shape)
                pieces = _pieces(call, trace, shape)
                if pieces:
                    axis = _chosen(axis, pieces, trace, shape)
                if axis is not None:
                    others = tuple(new for new in pieces.values() if new not in (None, axis))
                    return Trace(axis, trace.producer, shape, others)
        return None


@functools.cache
def _following(axis: int, producer: str) -> Layout:
    return Layout(axis, f"follows {producer}")


def _produced(call: Applied, output: Tensor) -> Trace | None:
    if output.ndim < 2:
        return None
    axis = 1 if _side(call.name) == 1 else output.ndim - 1
    return Trace(axis, call.name, tuple(output.shape))


def _side(producer: str) -> int:
    return 1 if producer in FIRST else -1 if producer in LAST else 0


def _spans_axes(call: Applied) -> bool:
    """Return whether a norm covers several axes, such as (c, h, w), not just the channels."""
    shape = call.value(1, "normalized_shape", default=())
    return call.name in ("layer_norm", "rms_norm") and len(shape) > 1


def _after(call: Applied, axis: int, source: Shape, output: Shape) -> int | None:
    """Return where an axis is after a call between these shapes, or None if it is lost."""
    if call.name in MOVES:
        order = call.order(len(source))
        return order.index(axis) if axis in order else None
    if call.name in RESHAPING:
        return _reshaped(axis, source, output)
    if len(output) != len(source):
        return None
    return axis if call.name in CUTTING or output[axis] == source[axis] else None


def _reshaped(axis: int, source: Shape, output: Shape) -> int | None:
    """Return where an axis is after a reshape, by the strides it covers.

    They are the same; or more, when it was joined with others, as the heads of an attention are; or
    a part of them, when it was split, as for shuffling channels.
    """
    if not math.prod(source):
        return None
    low, high = span(source, axis)
    kept = (new for new in range(len(output)) if output[new] > 1 or source[axis] == 1)
    spans = {new: span(output, new) for new in kept}
    same = [new for new, covered in spans.items() if covered == (low, high)]
    around = [new for new, (start, end) in spans.items() if start <= low and high <= end]
    pieces = [new for new, (start, end) in spans.items() if low <= start and end <= high]
    if same or around:
        return (same or around)[0]
    # Of the last axis, and of two pieces, the last one holds the channels (after heads or groups);
    # of more in front the first one (the rest is space).
    return (pieces[-1] if low == 1 or len(pieces) == 2 else pieces[0]) if pieces else None


def _pieces(call: Applied, trace: Trace, output: Shape) -> dict[int, int | None]:
    """Return the axes over which the channels are split: where each was, and where it is now."""
    axes = (trace.axis, *trace.pieces)
    if call.name in RESHAPING and 0 not in trace.shape:
        low, high = span(trace.shape, trace.axis)
        if not trace.pieces:
            spans = {new: span(output, new) for new in range(len(output)) if output[new] > 1}
            inside = [new for new, (start, end) in spans.items() if low <= start and end <= high]
            return {-1 - new: new for new in inside} if len(inside) > 1 else {}
        return {axis: _same_span(axis, trace.shape, output) for axis in axes}
    return {axis: _after(call, axis, trace.shape, output) for axis in axes} if trace.pieces else {}


def _same_span(axis: int, source: Shape, output: Shape) -> int | None:
    covered = span(source, axis)
    return next(
        (new for new in range(len(output)) if output[new] > 1 and span(output, new) == covered),
        None,
    )


def _chosen(
    axis: int | None, pieces: dict[int, int | None], trace: Trace, output: Shape
) -> int | None:
    """Return which of the pieces holds the channels.

    Queries, keys and values are cut out of the channels of one head, so an axis that was cut is
    that of the channels. Where the chosen piece is gone or joined with the samples, it was that of
    the heads, and where it is joined with space it was space: the last of the others holds the
    channels.
    """
    cut = [
        new
        for old, new in pieces.items()
        if old >= 0 and old != trace.axis and new is not None and output[new] < trace.shape[old]
    ]
    if cut:
        return cut[0]
    left = [new for new in pieces.values() if new is not None]
    joined = trace.axis in pieces and pieces[trace.axis] is None
    return max(left) if left and (axis in (None, 0) or joined) else axis


def _contracted(axis: int, equation: object, sources: Sequence[bool]) -> int | None:
    """Return where an axis is after an einsum: at its letter or, if summed, at the only new one.

    `sources` tells for each operand whether it is the tensor with the axis.

    >>> _contracted(2, "btc,cd->btd", [True, False]), _contracted(1, "nctv,vw->nctw", [True, False])
    (2, 1)
    """
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    terms, output = equation.replace(" ", "").split("->")
    letters = terms.split(",")[sources.index(True)]
    if letters[axis] in output:
        return output.index(letters[axis])
    new = [letter for letter in output if letter not in letters]
    return output.index(new[0]) if len(new) == 1 else None
