"""Float32 in full: a GPU may round the factors of convolutions and products to ten bits (TF32)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 convolutions and matrix products in full precision; restore the settings.

    torch allows TF32 for convolutions by default, which moves outputs by 1e-4 to 1e-3: as much as a
    real difference between two networks.

    >>> with full_float32():
    ...     product = torch.eye(2) @ torch.eye(2)
    """
    switches = _switches()
    before = [getattr(holder, name) for holder, name, _ in switches]
    try:
        for holder, name, exact in switches:
            setattr(holder, name, exact)
        yield
    finally:
        for (holder, name, _), value in zip(switches, before, strict=True):
            setattr(holder, name, value)


def _switches() -> list[tuple[object, str, object]]:
    """Return what allows TF32: where it is, its name, and its value for full precision."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):  # torch 2.9 and newer, where the older names may raise
        holders: list[object] = [cudnn.conv, cudnn.rnn, matmul]
        return [(holder, "fp32_precision", "ieee") for holder in holders]
    return [(cudnn, "allow_tf32", False), (matmul, "allow_tf32", False)]
