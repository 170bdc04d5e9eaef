"""Networks whose parameters and statistics are all different from 0 and 1, so that a wrong move
shows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def lively(model: nn.Module, seed: int = 0) -> nn.Module:
    """Fill a network in float64: weights of unit gain, and gains, offsets and statistics that
    differ between channels.
    """
    source = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=source, dtype=torch.float64)
            if name.endswith("running_var") or (name.endswith("weight") and tensor.ndim == 1):
                tensor.copy_(0.5 + noise.abs())
            else:
                tensor.copy_(
                    noise * (0.3 if tensor.ndim < 2 else max(tensor[0].numel(), 1) ** -0.5)
                )
    return model


def images(side: int, count: int = 2, channels: int = 3) -> Tensor:
    source = torch.Generator().manual_seed(7)
    return torch.randn(count, channels, side, side, generator=source, dtype=torch.float64)


def changed(model: nn.Module, moved: nn.Module) -> set[str]:
    """The parameters in which two networks differ."""
    pairs = zip(model.named_parameters(), moved.parameters(), strict=True)
    return {name for (name, one), two in pairs if not torch.equal(one, two)}
