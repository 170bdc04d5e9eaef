"""A network made of steps, to see what the recorder says after them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Steps(nn.Module):
    """A producer, then functions, then an activation."""

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self.modules_among_them = nn.ModuleList(
            step for step in steps if isinstance(step, nn.Module)
        )
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return torch.relu(x)
