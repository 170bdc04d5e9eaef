"""Functions that read or write where a mask says, as functions of every element alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import Applied

SELECTED = "selected"  # the elements where a mask says
KEPT = "clone"  # leaves the elements of the samples what they are


def without_output(call: Applied) -> Applied:
    """Return a call without the tensors that it only overwrites."""
    name, args, kwargs = call
    if name == "copy" and len(args) > 1:
        return Applied(KEPT, args[1:2], {})
    if "out" in kwargs:
        return Applied(name, args, {key: kwargs[key] for key in kwargs if key != "out"})
    return call


def as_elementwise(call: Applied) -> Applied:
    """Return a call that writes or selects by a mask of the same shape as a function of elements.

    >>> x = torch.tensor([-1.0, 2.0])
    >>> as_elementwise(Applied("__setitem__", (x, x < 0, 0.0), {})).name
    'where'
    """
    name, args = call.name, call.args
    if not args or not isinstance(args[0], Tensor):
        return call
    mask = _mask(call)
    if mask is None or mask.shape != args[0].shape:
        return call
    if name in ("__getitem__", "masked_select"):
        return Applied(SELECTED, (args[0], mask), {})
    values: Any = call.value(2, "values", "source", "value")
    added = call.value(3, "accumulate", default=False) if name == "index_put" else False
    if values is None or added:
        return call
    return Applied("where", (mask, values, args[0]), {})


def _mask(call: Applied) -> Tensor | None:
    """Return the mask of a function that selects or writes by one."""
    if call.name in ("masked_select", "masked_scatter"):
        mask = call.value(1, "mask")
    elif call.name in ("__getitem__", "__setitem__", "index_put"):
        mask = call.value(1, "indices")
        if isinstance(mask, (tuple, list)) and len(mask) == 1:
            mask = mask[0]
    else:
        return None
    return mask if isinstance(mask, Tensor) and mask.dtype is torch.bool else None


def with_fixed_mask(call: Applied, fixed: set[int]) -> Applied:
    """Return the function of the samples where a mask that does not depend on them chooses.

    It leaves each element what it is or replaces it by a constant, as attention masks do.
    """
    if call.name == "where" and len(call.args) + len(call.kwargs) == 3:
        # as a method it takes the condition second
        turned = isinstance(call.args[0], Tensor) and call.args[0].dtype is not torch.bool
        mask = call.value(1 if turned else 0, "condition")
        others = [value for value in (*call.args, *call.kwargs.values()) if value is not mask]
    elif call.name == "masked_fill":
        mask, others = call.value(1, "mask"), [call.args[0]]
    else:
        return call
    moving = [one for one in others if isinstance(one, Tensor) and id(one) not in fixed]
    if isinstance(mask, Tensor) and id(mask) in fixed and len(moving) == 1:
        return Applied(KEPT, (moving[0],), {})
    return call
