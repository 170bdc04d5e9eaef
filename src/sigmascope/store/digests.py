"""Digests: what a file says about its own content, checked when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 32  # hexadecimal digits


def digest_of(value: object, before: str = "") -> str:
    """Return the digest of plain values; spaces, line ends and how a number is written are no part.

    Args:
        value: as `parse` returns it.
        before: the digest of what must precede it.

    >>> digest_of({"score": 0.5}) == digest_of(json.loads('{"score":  5e-1}'))
    True
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(before.encode() + text.encode()).hexdigest()[:LENGTH]


def digest_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the digest of named dense tensors on the CPU: names, types, shapes and values."""
    import torch

    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        flat = tensor.contiguous().as_strided((tensor.numel(),), (1,))  # a single value has any
        found.update(flat.view(torch.uint8).numpy().data)
    return found.hexdigest()[:LENGTH]
