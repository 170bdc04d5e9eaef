"""Where an axis of a tensor goes when the tensor is permuted, reshaped, cut, indexed or computed with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

__all__ = ["Shape", "contracted", "followed"]

Shape: TypeAlias = tuple[int, ...]
Order: TypeAlias = list[int | None]
RESHAPING = ("flatten", "ravel", "reshape", "reshape_as", "squeeze", "unflatten", "unsqueeze", "view", "view_as")
# They may change how many channels there are, but not which axis holds them.
CUTTING = (
    "cat",
    "chunk",
    "concat",
    "concatenate",
    "expand",
    "index_select",
    "narrow",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "split",
    "tensor_split",
    "unsafe_chunk",
    "unsafe_split",
)


def followed(name: str, axis: int, called: tuple[tuple[Any, ...], dict[str, Any]], source: Shape, output: Shape) -> int | None:
    """Return where an axis is after a function was called, or None if it is lost.

    Args:
        name: of the function.
        axis: of its source, from the front.
        called: its arguments, by position and by name.
        source: the shape before.
        output: the shape after.
    """
    if name in MOVES:
        order = MOVES[name](len(source), *called)
        return order.index(axis) if axis in order else None
    if name in RESHAPING:
        return _reshaped(axis, source, output)
    if len(output) != len(source):
        return None
    return axis if name in CUTTING or output[axis] == source[axis] else None


def _reshaped(axis: int, source: Shape, output: Shape) -> int | None:
    """Find an axis again by the strides it covers.

    They are the same; or more, when it was joined with others, as the heads of an attention are; or a part of them, when it
    was split, as for shuffling channels.
    """
    if not math.prod(source):
        return None
    low, high = _span(source, axis)
    overlaps = {}
    for new in range(len(output)):
        start, end = _span(output, new)
        if (start <= low and high <= end) or (low <= start and end <= high):
            overlaps[new] = min(end, high) / max(start, low)
    return max(overlaps, key=lambda new: (overlaps[new], output[new] == source[axis]), default=None)


def _span(shape: Shape, axis: int) -> tuple[int, int]:
    inner = math.prod(shape[axis + 1 :])
    return inner, inner * shape[axis]


def contracted(axis: int, equation: object, sources: Sequence[bool]) -> int | None:
    """Find an axis again by its letter in an einsum; where it is summed over, by the only letter that comes in its place.

    Args:
        axis: of the source, from the front.
        equation: of the einsum.
        sources: for each operand, whether it is the source.

    >>> contracted(2, "btc,cd->btd", [True, False]), contracted(1, "nctv,vw->nctw", [True, False])
    (2, 1)
    """
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    terms, output = equation.replace(" ", "").split("->")
    letters = terms.split(",")[sources.index(True)]
    places = [letters[axis]] if letters[axis] in output else [letter for letter in output if letter not in letters]
    return output.index(places[0]) if len(places) == 1 else None


def _permuted(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dims = kwargs.get("dims", args[1:])
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return [dim % ndim for dim in dims]


def _reversed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    return [*range(ndim)][::-1]


def _transposed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    given = [*args[1:], *kwargs.values()] or [ndim - 2, ndim - 1]
    one, other = (dim % ndim for dim in given[:2])
    order: Order = [*range(ndim)]
    order[one], order[other] = other, one
    return order


def _moved(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    named = {**dict(zip(("source", "destination"), args[1:], strict=False)), **kwargs}
    source, target = ([named[key]] if isinstance(named[key], int) else named[key] for key in ("source", "destination"))
    order: Order = [dim for dim in range(ndim) if dim not in [one % ndim for one in source]]
    for position, dim in sorted(zip((one % ndim for one in target), (one % ndim for one in source), strict=True)):
        order.insert(position, dim)
    return order


def _picked(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    return [old for old in range(ndim) if old != dim % ndim]


def _stacked(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    order: Order = [*range(ndim)]
    order.insert(dim % (ndim + 1), None)
    return order


def _indexed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    """Numbers take axes away, None adds one, slices and a single list of places keep theirs; the rest is not followed."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    lists = [isinstance(one, list) or (isinstance(one, Tensor) and one.ndim == 1) for one in index]
    known = [one is None or one is Ellipsis or isinstance(one, (slice, int)) for one in index]
    if (
        sum(lists) > 1
        or not all(a or b for a, b in zip(lists, known, strict=True))
        or any(isinstance(one, bool) for one in index)
    ):
        return []
    rest = ndim - sum(one is not None and one is not Ellipsis for one in index)
    axes, order = iter(range(ndim)), Order()
    for one in index:
        if one is None:
            order.append(None)
        elif one is Ellipsis:
            order += [next(axes) for _ in range(rest)]
        elif isinstance(one, int):
            next(axes)
        else:
            order.append(next(axes))
    return [*order, *axes]


MOVES: dict[str, Callable[[int, tuple[Any, ...], dict[str, Any]], Order]] = {
    "permute": _permuted,
    "transpose": _transposed,
    "swapaxes": _transposed,
    "swapdims": _transposed,
    "t": _reversed,
    "T": _reversed,
    "H": _reversed,
    "mT": _transposed,
    "mH": _transposed,
    "adjoint": _transposed,
    "movedim": _moved,
    "moveaxis": _moved,
    "select": _picked,
    "unbind": _picked,
    "stack": _stacked,
    "__getitem__": _indexed,
}
"""Name -> function of the number of axes and the arguments that returns, for each new axis, which old one it is."""
