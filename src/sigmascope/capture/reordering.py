"""Functions that mix or reorder the entries of an axis."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.words import words

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


def is_reordered(call: Applied, source: Tensor, axis: int) -> bool:
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
