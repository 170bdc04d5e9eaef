"""Where an axis of a tensor goes when a function permutes, reshapes, cuts or indexes the tensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.capture.words import words

Shape: TypeAlias = tuple[int, ...]
Order: TypeAlias = list[int | None]
DOTTED = "0123456789"  # stand for the axes that the dots of an einsum mean
RESHAPING = frozenset(
    words("flatten ravel reshape reshape_as squeeze unflatten unsqueeze view view_as")
)
REDUCTIONS = words("amax amin logsumexp max mean median min nanmean nansum prod sum")


class Applied(NamedTuple):
    """A torch function, by name, and the arguments it was called with."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def order(self, ndim: int) -> Order:
        """Return which axis of a tensor of `ndim` axes each new axis is; see `MOVES`."""
        return MOVES[self.name](ndim, self.args, self.kwargs)

    def value(self, position: int, *names: str, default: Any = None) -> Any:
        """Return an argument given by position or, first, by one of its names."""
        named = (self.kwargs[name] for name in names if name in self.kwargs)
        return next(named, self.args[position] if len(self.args) > position else default)


def with_plain_numbers(call: Applied) -> Applied:
    """Return a call with the integers of NumPy, also those in tuples and lists, as Python's own.

    >>> with_plain_numbers(Applied("permute", (None, (np.int64(1), 0)), {}))
    Applied(name='permute', args=(None, (1, 0)), kwargs={})
    """
    args = tuple(_plain(value) for value in call.args)
    return Applied(call.name, args, {name: _plain(value) for name, value in call.kwargs.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return operator.index(value)
    if isinstance(value, slice):
        ends = value.start, value.stop, value.step
        return (
            slice(*map(_plain, ends)) if any(isinstance(end, np.integer) for end in ends) else value
        )
    if type(value) not in (list, tuple):
        return value
    items = type(value)(map(_plain, value))
    # the same object where nothing changed, which is recognized at once in the next pass
    return value if all(map(operator.is_, items, value)) else items


def span(shape: Shape, axis: int) -> tuple[int, int]:
    """Return the strides that an axis covers: that of one step, and that of all steps."""
    inner = math.prod(shape[axis + 1 :])
    return inner, inner * shape[axis]


def letters_of(args: tuple[Any, ...], source: Tensor) -> tuple[str, str]:
    """Return the letters of an operand of an einsum and of its result; empty where not given."""
    equation = args[0] if args else None
    if not isinstance(equation, str) or "->" not in equation:
        return "", ""
    terms, output = equation.replace(" ", "").split("->")
    operands = args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]
    spelled, longest = {}, ""
    for letters, operand in zip(terms.split(","), operands, strict=True):
        hidden = operand.ndim - len(letters.replace("...", "")) if "..." in letters else 0
        dots = DOTTED[len(DOTTED) - hidden :]
        spelled[id(operand)], longest = letters.replace("...", dots), max(dots, longest, key=len)
    return spelled.get(id(source), ""), output.replace("...", longest)


def multiplied(call: Applied, axis: int, source: Tensor, ndim: int) -> int | None:
    """Return where an axis of a factor is in a product of `ndim` axes; None if summed over."""
    factors = call.args[1:3] if call.name in ("addmm", "baddbmm") else call.args[:2]
    if call.name == "__rmatmul__":
        factors = factors[::-1]
    if len(factors) < 2 or not any(factor is source for factor in factors) or source.ndim < 2:
        return None
    first = factors[0] is source
    back = axis - source.ndim
    if back == (-1 if first else -2):
        return None
    vector = factors[first].ndim == 1  # its product has one axis less
    return ndim + back + (vector and (first or back < -2))


def looked_up(call: Applied, source: Tensor, axis: int) -> int | None:
    """Return where an axis of an index is in the values looked up; None if not followed."""
    args = call.args
    if call.name == "index_select":
        return int(args[1]) if len(args) > 2 and args[1] >= 0 else None
    parts = args[1] if isinstance(args[1], tuple) else (args[1],)
    listed = [isinstance(part, (Tensor, list)) for part in parts]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    front, apart = parts[: listed.index(True)], not all(listed[listed.index(True) :][: sum(listed)])
    plain = all(part is None or isinstance(part, slice) for part in front)
    given = any(part is source for part in tensors)
    if apart or not plain or not given or any(part.dtype == torch.bool for part in tensors):
        return None
    return len(front) + axis + max(part.ndim for part in tensors) - source.ndim


def _permuted(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dims = kwargs.get("dims", args[1:])
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return [dim % ndim for dim in dims]


def _reversed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    return [*range(ndim)][::-1]


def _transposed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    given = [*args[1:], *kwargs.values()] or [ndim - 2, ndim - 1]
    first, second = (dim % ndim for dim in given[:2])
    order: Order = [*range(ndim)]
    order[first], order[second] = second, first
    return order


def _moved(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    named = {**dict(zip(("source", "destination"), args[1:], strict=False)), **kwargs}
    source, target = (
        [dim % ndim for dim in ([named[key]] if isinstance(named[key], int) else named[key])]
        for key in ("source", "destination")
    )
    order: Order = [dim for dim in range(ndim) if dim not in source]
    for position, dim in sorted(zip(target, source, strict=True)):
        order.insert(position, dim)
    return order


def _picked(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dim = Applied("", args, kwargs).value(1, "dim", default=0)
    return [old for old in range(ndim) if old != dim % ndim]


def _stacked(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    dim = Applied("", args, kwargs).value(1, "dim", default=0)
    order: Order = [*range(ndim)]
    order.insert(dim % (ndim + 1), None)
    return order


def _indexed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
    """Numbers remove axes, None adds one, slices and one list keep theirs; others are unknown."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    lists = [part for part in index if isinstance(part, list) or _is_vector(part)]
    known = [part is None or part is Ellipsis or isinstance(part, (slice, int)) for part in index]
    unknown = len(index) - len(lists) - sum(known)
    if len(lists) > 1 or unknown or any(isinstance(part, bool) for part in index):
        return []
    rest = ndim - sum(part is not None and part is not Ellipsis for part in index)
    axes, order = iter(range(ndim)), Order()
    for part in index:
        if part is None:
            order.append(None)
        elif part is Ellipsis:
            order += [next(axes) for _ in range(rest)]
        elif isinstance(part, int):
            next(axes)
        else:
            order.append(next(axes))
    return [*order, *axes]


def _is_vector(part: object) -> bool:
    return isinstance(part, Tensor) and part.ndim == 1


def _reduced(
    ndim: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    position: int = 1,
    keeping: int | None = None,
) -> Order:
    """Remove the axes that a reduction sums over, or leave them with length 1.

    `position` and `keeping` are the positions of the arguments `dim` and `keepdim`.
    """
    dims = Applied("", args, kwargs).value(position, "dim", "axis")
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
"""Name -> function of the number of axes and the arguments; returns each new axis's old one."""
