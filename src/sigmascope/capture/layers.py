"""Layers of torch that compute one known function, so that nobody need look inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType, NoneType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from sigmascope.capture.ending import ending
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


class StandIn:
    """Stands for a method of a module; a copy of the module gets its own again."""

    def __init__(self, module: nn.Module, function: Callable[..., Any], name: str) -> None:
        self.__self__ = module
        self.__wrapped__ = getattr(module, name)
        self._function, self._name = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        return self._function(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo.get(id(self.__self__), self.__self__)
        return MethodType(getattr(type(copied), self._name), copied)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, self._name)


class Replaced:
    """A method of a module, by default its forward, that can be replaced for a while."""

    def __init__(
        self, module: nn.Module, function: Callable[..., Any], name: str = "forward"
    ) -> None:
        self._own = module.__dict__  # setting an attribute of a module takes long
        self._name, self._stand_in = name, StandIn(module, function, name)

    def add(self) -> None:
        """Replace the method, unless somebody else has."""
        self._own.setdefault(self._name, self._stand_in)

    def remove(self) -> None:
        """Give the module its own method again."""
        if self._own.get(self._name) is self._stand_in:
            self._own.pop(self._name, None)


class Hooked:
    """The hooks of a module that see it run, last before its forward and first after it."""

    def __init__(
        self, module: nn.Module, before: Callable[..., None], after: Callable[..., None]
    ) -> None:
        self._module, self._before, self._after = module, before, after

    def add(self) -> None:
        """Register the hooks: others act outside."""
        self._module.register_forward_pre_hook(self._before, with_kwargs=True)
        self._module.register_forward_hook(self._after, prepend=True, always_call=True)

    def remove(self) -> None:
        """Remove the hooks that are registered."""
        remove_hook(self._module, self._before)
        remove_hook(self._module, self._after)


@contextmanager
def hooked(
    hooks: Iterable[tuple[nn.Module, Callable[..., Any]]],
    *,
    before: bool = False,
    prepend: bool = False,
) -> Iterator[None]:
    """Register forward hooks inside the context, or hooks `before` forward passes.

    They are removed also where a Ctrl-C comes while they are registered or removed.

    >>> module = nn.ReLU()
    >>> with hooked([(module, print)]):
    ...     len(module._forward_hooks)
    1
    >>> len(module._forward_hooks)
    0
    """
    with ending() as steps:
        for module, hook in hooks:
            steps.append(partial(remove_hook, module, hook))
            if before:
                module.register_forward_pre_hook(hook, prepend=prepend)
            else:
                module.register_forward_hook(hook, prepend=prepend)
        yield


def remove_hook(module: nn.Module, hook: Callable[..., Any]) -> None:
    """Remove a forward hook by its function: a handle is lost to who is interrupted.

    >>> module = nn.ReLU()
    >>> _ = module.register_forward_hook(print)
    >>> remove_hook(module, print)
    >>> len(module._forward_hooks)
    0
    """
    hooks: list[dict[int, Any]] = [module._forward_pre_hooks, module._forward_hooks]
    about: list[dict[int, Any]] = [
        module._forward_pre_hooks_with_kwargs,
        module._forward_hooks_with_kwargs,
        module._forward_hooks_always_called,
    ]
    for key in [key for table in hooks for key, value in [*table.items()] if value is hook]:
        for table in (*about, *hooks):  # the hook last: it is found again after an interrupt
            table.pop(key, None)
