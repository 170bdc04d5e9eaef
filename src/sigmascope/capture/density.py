"""How many values of a feature map are zero."""

from __future__ import annotations

import torch
from torch import Tensor

NEAR_ZERO = 1e-3  # values of at most this size count as zero
# Elements compared at once, so that no second feature map is made.
CHUNK = 2**22


def density_of(tensor: Tensor) -> Tensor:
    """Return the share of values that count as nonzero, without waiting for an accelerator."""
    flat = tensor.detach().reshape(-1)
    visible = sum(
        (torch.count_nonzero(part.abs() > NEAR_ZERO) for part in torch.split(flat, CHUNK)),
        start=flat.new_zeros((), dtype=torch.long),
    )
    return visible.double() / max(flat.numel(), 1)
