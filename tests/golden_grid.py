"""The functions of the golden grid, by the names that its files use."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu_0.01": F.leaky_relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardtanh": F.hardtanh,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardswish": F.hardswish,
    "elu_1.0": F.elu,
    "softplus": F.softplus,
    "x^2": lambda x: x**2,
    "x^3": lambda x: x**3,
    "x^4": lambda x: x**4,
    "x^5": lambda x: x**5,
}
