"""Copies of batches, for networks that overwrite their input; which batches are empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from sigmascope.measure.batches import Batch, tensors_in
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


def is_empty(batch: Batch) -> bool:
    """Return whether a batch has tensors and no sample."""
    first = next((one for one in tensors_in(batch.content) if one.ndim), None)
    return not batch.size and first is not None and not len(first)
