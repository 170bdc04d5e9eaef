"""Where the elements of a tensor lie among those of another one, after views and permutations.

A tensor without data stands for it: its strides tell which element is where. So a view and the way
back cancel, and two tensors of the same shape are told apart where one is the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import RESHAPING, Applied
from sigmascope.capture.words import words

Place: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], int]

PERMUTING = frozenset(
    words("H T mH mT adjoint moveaxis movedim permute swapaxes swapdims t transpose")
)
# They return views of some of the elements.
DIVIDING = frozenset(
    words(
        "__getitem__ chunk hsplit narrow select split split_with_sizes tensor_split unbind vsplit"
    )
)
VIEWS = RESHAPING | PERMUTING | DIVIDING


def arranged(shape: Sequence[int]) -> Tensor:
    """Return the arrangement of a tensor in itself."""
    return torch.empty(tuple(shape), device="meta")


def place_of(arrangement: Tensor) -> Place:
    """Return what tells arrangements apart; the stride of an axis of one entry means nothing.

    >>> x = arranged((2, 3))
    >>> place_of(x.t().t()) == place_of(x), place_of(x[:2, :2].t()) == place_of(x[:2, :2])
    (True, False)
    """
    shape = tuple(arrangement.shape)
    strides = (
        stride for stride, size in zip(arrangement.stride(), shape, strict=True) if size != 1
    )
    return (
        arrangement.untyped_storage()._cdata,
        shape,
        tuple(strides),
        int(arrangement.storage_offset()),
    )


def views_of(call: Applied, arrangement: Tensor, outputs: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the arrangements of what a function of one tensor returns; None unless it moves only.

    Where strides cannot tell it is one of its own, as of a tensor that is transposed and flattened.
    """
    if call.name in RESHAPING:
        if len(outputs) != 1 or outputs[0].numel() != arrangement.numel():
            return None
        shape = tuple(outputs[0].shape)
        return [arrangement if shape == tuple(arrangement.shape) else arrangement.reshape(shape)]
    if call.name in PERMUTING:
        order = call.order(arrangement.ndim)
        return [arrangement.permute([axis for axis in order if axis is not None])]
    if call.name not in DIVIDING:
        return None
    try:
        found = getattr(Tensor, call.name)(arrangement, *call.args[1:], **call.kwargs)
    except Exception:  # an index that only data can tell
        return None
    parts = [found] if isinstance(found, Tensor) else [*found]
    storage = arrangement.untyped_storage()._cdata
    same = len(parts) == len(outputs) and all(
        part.untyped_storage()._cdata == storage and part.shape == output.shape
        for part, output in zip(parts, outputs, strict=True)
    )
    return parts if same else None
