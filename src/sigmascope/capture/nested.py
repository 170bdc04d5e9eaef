"""Tensors in nested tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor


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
