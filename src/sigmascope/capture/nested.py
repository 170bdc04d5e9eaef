"""Tensors among values: in nested tuples, lists and mappings, and which are parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

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


def are_samples(value: object, labels: object = None) -> bool:
    """Return whether a value is a list of single samples, such as images, not of batches.

    They are floating tensors with three axes, or differ in the length of the first one. Not so
    where labels count as many samples as the first axis of each tensor.

    >>> import torch
    >>> image, batch = torch.zeros(3, 8, 8), torch.zeros(5, 3, 8, 8)
    >>> are_samples([image, image]), are_samples([batch, batch]), are_samples([])
    (True, False, False)
    """
    if not isinstance(value, (list, tuple)) or hasattr(value, "_fields") or not value:
        return False
    if not all(isinstance(item, Tensor) and item.ndim and _is_floating(item) for item in value):
        return False
    lengths = {len(item) for item in value}
    if isinstance(labels, Tensor) and labels.ndim and len(value) != len(labels) in lengths:
        return False
    return len(lengths) > 1 or all(item.ndim == 3 for item in value)


def _is_floating(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point


def inputs_in(arguments: tuple[object, ...]) -> list[Tensor | list[Tensor]]:
    """Return what holds the samples among the arguments of a network.

    Those are all tensors or, where the first argument is one, a list of single samples.

    >>> import torch
    >>> [type(one).__name__ for one in inputs_in((torch.zeros(2, 3), {"a": torch.zeros(2)}))]
    ['Tensor', 'Tensor']
    """
    samples = [list(tensors_in(value)) for value in arguments[:1] if are_samples(value)]
    return [*samples] or [*tensors_in(arguments)]


def outputs_of(name: str, args: tuple[Any, ...], result: object) -> list[Tensor]:
    """Return the tensors that a function returned, or that it wrote into."""
    if isinstance(result, Tensor):
        return [result]
    if name != "__setitem__" and not isinstance(result, (tuple, list)):
        return []
    several: Any = args[:1] if name == "__setitem__" else result
    return [one for one in several if isinstance(one, Tensor)]


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is an `nn.Parameter`, faster than `isinstance` where it is not.

    >>> import torch
    >>> is_parameter(torch.zeros(2)), is_parameter(nn.Parameter(torch.zeros(2)))
    (False, True)
    """
    kind = type(tensor)
    return kind is nn.Parameter or (kind is not Tensor and isinstance(tensor, nn.Parameter))
