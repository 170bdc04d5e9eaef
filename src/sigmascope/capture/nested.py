"""Tensors among values: in nested tuples, lists and mappings, and which are parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType

from torch import Tensor, nn

SIMPLE = {bool, float, int, str, NoneType}  # for which it takes long to ask what they are


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors in a value, in order.

    >>> import torch
    >>> [tensor.item() for tensor in tensors_in(([torch.tensor(1)], {"a": torch.tensor(2)}, "b"))]
    [1, 2]
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif type(value) not in SIMPLE and isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is an `nn.Parameter`, faster than `isinstance` where it is not.

    >>> import torch
    >>> is_parameter(torch.zeros(2)), is_parameter(nn.Parameter(torch.zeros(2)))
    (False, True)
    """
    kind = type(tensor)
    return kind is nn.Parameter or (kind is not Tensor and isinstance(tensor, nn.Parameter))
