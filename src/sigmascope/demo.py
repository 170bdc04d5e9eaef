"""What `sigmascope demo` measures: the common activation functions on inputs drawn from simple laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.measure.affinity import Affinity, affinities

__all__ = ["ACTIVATIONS", "LAWS", "Row", "activation_table"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "leaky relu": F.leaky_relu,
    "relu": F.relu,
    "relu6": F.relu6,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "tanh": torch.tanh,
    "hardtanh": F.hardtanh,
    "sigmoid": torch.sigmoid,
}

LAWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "N(0, 1)": lambda normal, uniform: normal,
    "N(-1, 2²)": lambda normal, uniform: 2 * normal - 1,
    "U(-1, 1)": lambda normal, uniform: 2 * uniform - 1,
    "U(-4, 4)": lambda normal, uniform: 8 * uniform - 4,
}
"""Name -> function of a standard normal and a uniform sample."""


@dataclass(frozen=True)
class Row:
    """One activation function and its scores under every law of `LAWS`, in order."""

    activation: str
    scores: list[Affinity]


def activation_table(*, samples: int = 1024, channels: int = 16, seed: int = 0) -> list[Row]:
    """Score every activation of `ACTIVATIONS` under every law of `LAWS`.

    >>> rows = activation_table(samples=64, channels=2)
    >>> len(rows), rows[0].activation, round(float(rows[0].scores[0]), 3)
    (12, 'identity', 1.0)
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(samples, channels, generator=generator, dtype=torch.float64)
    uniform = torch.rand(samples, channels, generator=generator, dtype=torch.float64)
    inputs = [law(normal, uniform) for law in LAWS.values()]
    return [Row(name, affinities([(x, function(x)) for x in inputs])) for name, function in ACTIVATIONS.items()]
