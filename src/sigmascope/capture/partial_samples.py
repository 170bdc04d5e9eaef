"""Some samples of a batch apart from the others: cut out, put together again, written one by one.

A network that receives a list of images, or that takes its batch apart, handles single samples.
Each is followed by its number, so that a tensor that holds all in order is known as the batch.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace

from torch import Tensor

from sigmascope.capture.axis_moves import Applied, Shape
from sigmascope.capture.marks import Descent
from sigmascope.capture.words import words

LOST, MERGED, CONSTANT = (Descent(state) for state in ("lost", "merged", "constant"))
PARTIAL = ("part", "single")
# Function that returns pieces of a tensor -> the position of the argument `dim`.
DIVIDING = {
    "unbind": 1,
    **dict.fromkeys(
        words("chunk split split_with_sizes tensor_split unsafe_chunk unsafe_split"), 2
    ),
}
# They return a new tensor with no value of their argument in it.
BLANKS = frozenset(
    words("""
    empty_like full_like new_empty new_empty_strided new_full new_ones new_tensor new_zeros
    ones_like rand_like randn_like zeros_like
""")
)
JOINING = ("cat", "concat", "concatenate")
STACKING = ("stack", "pad_sequence")


def single(number: int) -> Descent:
    """Return the place of a tensor computed from one sample."""
    return Descent("single", first=number, count=1)


def some(place: Descent, first: int, count: int, size: int) -> Descent:
    """Return the place of `count` samples from number `first` on; of all where it is all."""
    if count == size:
        return replace(place, state="known", first=0, count=0)
    return replace(place, state="part", first=first, count=count)


def entry(place: Descent, number: int, size: int) -> Descent:
    """Return the place of one entry of the axis of the samples."""
    held = place.count or size
    if not held or place.order:
        return MERGED
    return single(place.first + number // place.inner % held)


def stretch(place: Descent, start: int, length: int, size: int) -> Descent:
    """Return the place of consecutive entries of the axis of the samples."""
    inner = place.inner
    if place.outer != 1 or place.order or start % inner or length % inner or not length:
        return LOST
    return some(place, place.first + start // inner, length // inner, size)


def piece(
    call: Applied, place: Descent, outputs: Sequence[Tensor], number: int, size: int
) -> Descent | None:
    """Return the place of one of the tensors that a batch was divided into.

    None where it was not divided along the samples.
    """
    ndim = outputs[number].ndim + (call.name == "unbind")
    dim = call.value(DIVIDING[call.name], "dim", "axis", default=0)
    if not isinstance(dim, int) or dim % ndim != place.axis:
        return None
    if call.name == "unbind":
        return entry(place, number, size)
    lengths = [output.shape[place.axis] for output in outputs]
    if place.outer != 1 or len(lengths) == 1:
        return None
    return stretch(place, sum(lengths[:number]), lengths[number], size)


def indexed(call: Applied, place: Descent, before: Shape, size: int) -> Descent | None:
    """Return the place after an index of one number or a run of the samples; None for others."""
    if call.name == "select":
        dim, index = call.value(1, "dim", default=0), call.value(2, "index")
        part: object = index if dim % len(before) == place.axis else None
    else:
        part = _index_of(call.args[1], place.axis, len(before))
    length = before[place.axis]
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        whole = step == 1 and stop - start == length
        return None if step != 1 or whole else stretch(place, start, max(0, stop - start), size)
    number = _whole(part)
    return None if number is None else entry(place, number % max(length, 1), size)


def _whole(part: object) -> int | None:
    if isinstance(part, (bool, Tensor)):
        return None
    try:
        return operator.index(part)  # type: ignore[arg-type]
    except TypeError:
        return None


def _index_of(index: object, axis: int, ndim: int) -> object:
    """Return the part of an index that applies to an axis; None where it is not plain."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = [
        part is None or part is Ellipsis or isinstance(part, slice) or _whole(part) is not None
        for part in parts
    ]
    if not all(plain):
        return None
    counted = [part for part in parts if part is not None]
    if any(part is Ellipsis for part in counted):
        at = next(number for number, part in enumerate(counted) if part is Ellipsis)
        counted[at : at + 1] = [slice(None)] * (ndim - len(counted) + 1)
    return counted[axis] if axis < len(counted) else slice(None)


def put_together(
    call: Applied, pieces: Sequence[tuple[Tensor, Descent]], ndim: int, size: int
) -> Descent | None:
    """Return the place of samples stacked or put one after another; None for parts side by side."""
    dim = call.value(1, "dim", "axis", default=0) % ndim
    places = [place for _, place in pieces]
    if call.name in STACKING:
        if call.name == "pad_sequence":
            dim = 0 if call.value(1, "batch_first", default=False) else 1
        alone = all(place.state == "single" for place in places)
        return _in_order([(place, 1) for place in places], dim, size) if alone else None
    if all(place.state == "part" and place.axis != dim for place in places):
        return None
    return _in_order([(place, tensor.shape[dim]) for tensor, place in pieces], dim, size)


def _in_order(pieces: Sequence[tuple[Descent, int]], axis: int, size: int) -> Descent:
    """Return the place of pieces along an axis, each with its number of entries there."""
    if len(pieces) > 1 and len({(place.state, place.first) for place, _ in pieces}) == 1:
        return pieces[0][0] if pieces[0][0].state == "single" else LOST
    first = following = pieces[0][0].first
    entries = set()
    for place, length in pieces:
        apart = place.state == "part" and (place.axis != axis or place.outer != 1)
        if place.state not in PARTIAL or apart or place.first != following:
            return LOST
        entries.add(length // place.count)
        following += place.count
    if len(entries) != 1:
        return LOST
    return some(Descent("known", axis, 1, entries.pop()), first, following - first, size)


def combined(places: Iterable[Descent]) -> Descent | None:
    """Return the place of a function of some samples, once for each argument; None for none."""
    found = {*places}
    parts = {place for place in found if place.state == "part"}
    if not parts:
        return None if not found else found.pop() if len(found) == 1 else MERGED
    if len({(place.first, place.count) for place in parts}) > 1:
        return LOST
    return min(parts, key=lambda place: (place.outer * place.inner, place.axis))


def written(before: Descent, value: Descent, axis: int, number: int, size: int) -> Descent:
    """Return the place after one sample was written into a tensor, at a number of an axis.

    The samples written before are those of the numbers below.
    """
    if value.state != "single" or value.first != number:
        return LOST
    if number and (before.state, before.axis, before.count) != ("filling", axis, number):
        return LOST
    if number + 1 == size:
        return Descent("known", axis)
    return Descent("filling", axis, count=number + 1)


def view_of(base: Tensor, view: Tensor) -> tuple[tuple[int, int, int], ...] | None:
    """Return where a view lies in its base: of each axis the start, the length and its own axis.

    That axis is -1 where the view has none. None where it is not a block of the base.
    """
    if base.is_nested or view.is_nested or not base.is_contiguous() or not view.numel():
        return None
    offset, block = view.storage_offset() - base.storage_offset(), []
    own = {stride: axis for axis, stride in enumerate(view.stride()) if view.shape[axis] > 1}
    for stride in base.stride():
        axis = own.pop(stride, -1)
        block.append((offset // stride, 1 if axis < 0 else view.shape[axis], axis))
        offset %= stride
    fits = all(
        start + length <= most for (start, length, _), most in zip(block, base.shape, strict=True)
    )
    return tuple(block) if fits and not own and not offset else None


def written_through(
    block: Sequence[tuple[int, int, int]], base: Descent, view: Descent, shape: Shape, size: int
) -> Descent:
    """Return the place of a tensor after a function wrote into a view of it; see `view_of`."""
    if base.state == "blank" and view.state == "constant":
        return view
    if base.state == "known" or view.state in ("blank", "constant", "unknown", "filling"):
        return base
    if view.state == "single":
        for axis, (start, length, _) in enumerate(block):
            if length == 1 and shape[axis] == size and start == view.first:
                return written(base, view, axis, start, size)
    elif view.state in ("known", "part"):
        for axis, (_, length, own) in enumerate(block):
            if own == view.axis and length == shape[axis]:
                return replace(view, axis=axis)
    return LOST
