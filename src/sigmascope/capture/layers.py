"""Layers of torch that compute one known function, so that nobody need look inside them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType, NoneType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from sigmascope.capture.walk import tensors_of

FUNCTIONS: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Linear: F.linear,
    nn.Conv1d: F.conv1d,
    nn.Conv2d: F.conv2d,
    nn.Conv3d: F.conv3d,
    nn.BatchNorm1d: F.batch_norm,
    nn.BatchNorm2d: F.batch_norm,
    nn.BatchNorm3d: F.batch_norm,
    nn.GroupNorm: F.group_norm,
    nn.LayerNorm: F.layer_norm,
    nn.ReLU: F.relu,
    nn.ReLU6: F.relu6,
    nn.SiLU: F.silu,
    nn.GELU: F.gelu,
    nn.Sigmoid: torch.sigmoid,
    nn.Tanh: torch.tanh,
    nn.LeakyReLU: F.leaky_relu,
    nn.ELU: F.elu,
    nn.Hardswish: F.hardswish,
    nn.Hardsigmoid: F.hardsigmoid,
    nn.Mish: F.mish,
}
"""Class -> the function of one tensor and of the layer's own weights that it computes."""
FORWARDS = {kind: kind.forward for kind in FUNCTIONS}  # which somebody may replace
OWN = (nn.Parameter, NoneType)


def is_known(module: nn.Module) -> bool:
    """Return whether a layer computes what its class computes, as far as that can be told."""
    kind = type(module)
    own = kind in FUNCTIONS and kind.forward is FORWARDS[kind]
    return own and "forward" not in module.__dict__


def has_own_weights(module: nn.Module) -> bool:
    """Return whether a layer uses its parameters, and no tensors that were put in their place.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> has_own_weights(nn.Linear(2, 2)), has_own_weights(nn.ReLU()), is_known(layer)
    (True, True, False)
    """
    parameters = module._parameters
    return not parameters or type(parameters.get("weight", module)) in OWN


def arguments_of(module: nn.Module, x: torch.Tensor) -> tuple[Any, ...]:
    """Return what the function of a layer is called with, as far as axes depend on it."""
    shape = getattr(module, "normalized_shape", None)
    return (x, *([] if shape is None else [shape]), *tensors_of([("", module)]))


class Forward:
    """Stands for the forward of a module; a copy of the module gets its own again."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        self.__self__ = module
        self.__wrapped__ = module.forward
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer."""
        return self._function(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo.get(id(self.__self__), self.__self__)
        return MethodType(type(copied).forward, copied)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, "forward")


class Replaced:
    """The forward of a module, replaced until it is removed."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        self._own = module.__dict__  # setting an attribute of a module takes long
        self._own["forward"] = Forward(module, forward)

    def remove(self) -> None:
        """Give the module its own forward again."""
        self._own.pop("forward", None)
