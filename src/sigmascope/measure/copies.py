"""Copies of batches, for networks that overwrite their input; which batches are empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from sigmascope.measure.batches import Batch, arguments_of, batches_of, tensors_in, to_model
from sigmascope.measure.graphs import is_graph


def copy_of(content: Any) -> Any:
    """Return a batch whose tensors and arrays may be overwritten.

    >>> import torch
    >>> batch = torch.zeros(2), {"ids": torch.zeros(3)}
    >>> _ = copy_of(batch)[1]["ids"].add_(1)
    >>> batch[1]["ids"].tolist()
    [0.0, 0.0, 0.0]
    """
    if isinstance(content, Tensor):
        return content.clone()
    if isinstance(content, np.ndarray):
        return content.copy()
    if isinstance(content, Mapping):
        return {key: copy_of(value) for key, value in content.items()}
    if isinstance(content, tuple) and hasattr(content, "_fields"):
        return type(content)(*map(copy_of, content))
    if isinstance(content, tuple | list):
        return type(content)(map(copy_of, content))
    if is_graph(content) and callable(getattr(content, "clone", None)):
        return content.clone()
    return content


def example_of(batches: object, model: nn.Module) -> Any:
    """Return the arguments of a network for up to two samples of the first batch that has some.

    None where batches can be read only once, or have no sample.
    """
    items = batches_of(batches)
    for item in () if isinstance(items, Iterator) else items:
        batch = to_model(copy_of(item), model, batch_axis=0)
        if not is_empty(batch):
            return arguments_of(model, _first_of(batch.content, batch.size))
    return None


def _first_of(content: Any, size: int) -> Any:
    if isinstance(content, Tensor):
        return content[:2] if content.ndim and len(content) == size else content
    if isinstance(content, Mapping):
        return {key: _first_of(value, size) for key, value in content.items()}
    if isinstance(content, tuple | list) and not hasattr(content, "_fields"):
        return type(content)(_first_of(value, size) for value in content)
    return content


def is_empty(batch: Batch) -> bool:
    """Return whether a batch has tensors and no sample."""
    first = next((one for one in tensors_in(batch.content) if one.ndim), None)
    return not batch.size and first is not None and not len(first)
