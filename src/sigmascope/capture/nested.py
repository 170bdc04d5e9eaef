"""Tensors among values: in nested tuples, lists and mappings, and which are parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors in a value, in order.

    >>> import torch
    >>> [tensor.item() for tensor in tensors_in(([torch.tensor(1)], {"a": torch.tensor(2)}, "b"))]
    [1, 2]
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is an `nn.Parameter`, faster than `isinstance` where it is not.

    >>> import torch
    >>> is_parameter(torch.zeros(2)), is_parameter(nn.Parameter(torch.zeros(2)))
    (False, True)
    """
    kind = type(tensor)
    return kind is nn.Parameter or (kind is not Tensor and isinstance(tensor, nn.Parameter))
