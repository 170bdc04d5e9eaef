"""Where an axis of a tensor goes when the tensor is permuted, reshaped, cut, indexed or computed
with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = [
    "MOVES",
    "RESHAPING",
    "Shape",
    "contracted",
    "followed",
    "letters_of",
    "looked_up",
    "multiplied",
    "span",
]

Shape: TypeAlias = tuple[int, ...]
Order: TypeAlias = list[int | None]
DOTTED = "0123456789"  # stand for the axes that the dots of an einsum mean
RESHAPING = (
    "flatten",
    "ravel",
    "reshape",
    "reshape_as",
    "squeeze",
    "unflatten",
    "unsqueeze",
    "view",
    "view_as",
)
REDUCTIONS = (
    "amax",
    "amin",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "nanmean",
    "nansum",
    "prod",
    "sum",
)
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


def followed(
    name: str,
    axis: int,
    called: tuple[tuple[Any, ...], dict[str, Any]],
    source: Shape,
    output: Shape,
) -> int | None:
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

    They are the same; or more, when it was joined with others, as the heads of an attention are; or
    a part of them, when it was split, as for shuffling channels.
    """
    if not math.prod(source):
        return None
    low, high = span(source, axis)
    spans = {
        new: span(output, new) for new in range(len(output)) if output[new] > 1 or source[axis] == 1
    }
    same = [new for new, covered in spans.items() if covered == (low, high)]
    around = [new for new, (start, end) in spans.items() if start <= low and high <= end]
    pieces = [new for new, (start, end) in spans.items() if low <= start and end <= high]
    if same or around:
        return (same or around)[0]
    # Of an axis in front the first piece holds the channels (the rest is space), of the last axis
    # the last piece (after heads).
    return (pieces[-1] if low == 1 else pieces[0]) if pieces else None


def span(shape: Shape, axis: int) -> tuple[int, int]:
    """Return the strides that an axis covers, from that of one step to that of all."""
    inner = math.prod(shape[axis + 1 :])
    return inner, inner * shape[axis]


def contracted(axis: int, equation: object, sources: Sequence[bool]) -> int | None:
    """Find an axis again by its letter in an einsum; where it is summed over, by the only letter
    that comes in its place.

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
    places = (
        [letters[axis]]
        if letters[axis] in output
        else [letter for letter in output if letter not in letters]
    )
    return output.index(places[0]) if len(places) == 1 else None


def letters_of(args: tuple[Any, ...], source: Tensor) -> tuple[str, str]:
    """Return the letters of an operand of an einsum and those of its result; empty where they are
    not spelt out.
    """
    equation = args[0] if args else None
    if not isinstance(equation, str) or "->" not in equation:
        return "", ""
    terms, output = equation.replace(" ", "").split("->")
    operands = args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]
    spelt, longest = {}, ""
    for letters, one in zip(terms.split(","), operands, strict=True):
        dots = (
            DOTTED[len(DOTTED) - one.ndim + len(letters.replace("...", "")) :]
            if "..." in letters
            else ""
        )
        spelt[id(one)], longest = letters.replace("...", dots), max(dots, longest, key=len)
    return spelt.get(id(source), ""), output.replace("...", longest)


def multiplied(
    name: str, axis: int, args: tuple[Any, ...], source: Tensor, ndim: int
) -> int | None:
    """Return where an axis of a factor is in a matrix product of so many axes; None if it is summed
    over.
    """
    factors = args[1:3] if name in ("addmm", "baddbmm") else args[:2]
    if name == "__rmatmul__":
        factors = factors[::-1]
    if len(factors) < 2 or not any(one is source for one in factors) or source.ndim < 2:
        return None
    first = factors[0] is source
    back = axis - source.ndim
    if back == (-1 if first else -2):
        return None
    vector = factors[first].ndim == 1  # its product has one axis less
    return ndim + back + (vector and (first or back < -2))


def looked_up(name: str, args: tuple[Any, ...], source: Tensor, axis: int) -> int | None:
    """Return where an axis of an index is in what is looked up with it; None where that is not
    followed.
    """
    if name == "index_select":
        return int(args[1]) if len(args) > 2 and args[1] >= 0 else None
    parts = args[1] if isinstance(args[1], tuple) else (args[1],)
    listed = [isinstance(part, (Tensor, list)) for part in parts]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    front, apart = parts[: listed.index(True)], not all(listed[listed.index(True) :][: sum(listed)])
    plain = all(part is None or isinstance(part, slice) for part in front)
    if (
        apart
        or not plain
        or not any(one is source for one in tensors)
        or any(one.dtype == torch.bool for one in tensors)
    ):
        return None
    return len(front) + axis + max(one.ndim for one in tensors) - source.ndim


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
    source, target = (
        [named[key]] if isinstance(named[key], int) else named[key]
        for key in ("source", "destination")
    )
    order: Order = [dim for dim in range(ndim) if dim not in [one % ndim for one in source]]
    for position, dim in sorted(
        zip((one % ndim for one in target), (one % ndim for one in source), strict=True)
    ):
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
    """Numbers take axes away, None adds one, slices and a single list of places keep theirs; the
    rest is not followed.
    """
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


def _reduced(
    ndim: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    position: int = 1,
    keeping: int | None = None,
) -> Order:
    """Sums and their like take axes away, or leave them with length 1; the numbers are those of the
    arguments that say so.
    """
    dims = kwargs.get("dim", kwargs.get("axis", args[position] if len(args) > position else None))
    if isinstance(dims, Tensor):  # the larger one of two tensors
        return [*range(ndim)]
    if dims is None or isinstance(dims, bool):  # of a deviation: whether it is unbiased
        return []
    gone = {dim % ndim for dim in ([dims] if isinstance(dims, int) else dims)}
    keeping = position + 1 if keeping is None else keeping
    if kwargs.get("keepdim", len(args) > keeping and args[keeping] is True):
        return [None if axis in gone else axis for axis in range(ndim)]
    return [axis for axis in range(ndim) if axis not in gone]


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
    **dict.fromkeys((*REDUCTIONS, "all", "any", "argmax", "argmin"), _reduced),
    **dict.fromkeys(
        ("kthvalue", "linalg_norm", "linalg_vector_norm", "norm"), partial(_reduced, position=2)
    ),
    **dict.fromkeys(("std", "std_mean", "var", "var_mean"), partial(_reduced, keeping=3)),
}
"""Name -> function of the number of axes and the arguments that returns, for each new axis, which
old one it is.
"""
