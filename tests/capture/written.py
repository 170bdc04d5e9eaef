"""Networks that write activations as formulas, for the tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import sigmascope as sg

X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A layer, something that is written between, and a layer."""

    def __init__(self, between: Callable[[Tensor], Tensor], width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.between, self.last = nn.Linear(8, 16), between, nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.between(self.first(x)))


def sites(model: nn.Module, x: Any = X, **options: Any) -> list[Any]:
    try:
        return list(sg.signature(model, x, progress=False, **options).sites)
    except sg.NoActivationError:
        return []


def erf_gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class Written(nn.Module):
    """An activation class of one's own."""

    def forward(self, x: Tensor) -> Any:
        return erf_gelu(x)
