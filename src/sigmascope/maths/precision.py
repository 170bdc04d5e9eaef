"""How exactly a device computes in float32."""

from __future__ import annotations

import torch


def allows_tf32() -> bool:
    """Return whether a GPU may compute in TF32, which rounds factors to ten bits.

    torch allows it for convolutions by default. Two computations of the same outputs then differ by
    1e-4 to 1e-3, where they would by 1e-6.

    >>> isinstance(allows_tf32(), bool)
    True
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):  # torch 2.9 and newer, where the older names may raise
        holders = (cudnn.conv, cudnn.rnn, matmul)
        return any(holder.fp32_precision == "tf32" for holder in holders)
    return bool(cudnn.allow_tf32 or matmul.allow_tf32)
