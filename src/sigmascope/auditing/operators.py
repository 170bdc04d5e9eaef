"""The activation operators that torch computes, counted below everything that `capture` watches.

A dispatch mode receives every operator after torch has resolved functions, methods, in-place forms,
scripted functions and composite operators. It shares no code with `capture`, so that each can judge
the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import TorchDispatchMode

# Operator, without the marks of in-place and out forms -> names that sites of it may have. What
# torch composes of it (selu of elu, relu6 of hardtanh) has the name of the whole.
OPERATORS: dict[str, tuple[str, ...]] = {
    "_prelu_kernel": ("prelu",),
    "celu": ("celu",),
    "elu": ("elu", "selu", "celu"),
    "erf": ("gelu",),  # which nothing else in a network computes
    "gelu": ("gelu",),
    "glu": ("glu",),
    "hardshrink": ("hardshrink",),
    "hardsigmoid": ("hardsigmoid",),
    "hardswish": ("hardswish",),
    "hardtanh": ("hardtanh", "relu6"),
    "leaky_relu": ("leaky_relu", "rrelu"),
    "log_sigmoid_forward": ("logsigmoid",),
    "mish": ("mish",),
    "relu": ("relu",),
    "relu6": ("relu6",),
    "rrelu_with_noise": ("rrelu",),
    "selu": ("selu",),
    "sigmoid": ("sigmoid",),
    "silu": ("silu",),
    "softplus": ("softplus",),
    "softshrink": ("softshrink",),
    "tanh": ("tanh", "tanhshrink"),
    "threshold": ("threshold",),
}
SOFTMAX: dict[str, tuple[str, ...]] = {
    "_log_softmax": ("log_softmax",),
    "_softmax": ("softmax", "softmin", "gumbel_softmax"),
}
# Operators of which formulas of activations are composed; alone they are none.
PARTS = frozenset(
    {"abs", "clamp", "clamp_max", "clamp_min", "cos", "cosh", "div", "erfc", "exp", "expm1", "ge"}
    | {"gt", "heaviside", "le", "log", "log1p", "logaddexp", "lt", "masked_fill", "maximum"}
    | {"minimum", "mul", "neg", "pow", "reciprocal", "rsqrt", "sign", "sin", "sinh", "sqrt"}
    | {"square", "where"}
)


@dataclass(frozen=True)
class Operator:
    """An operator that was computed.

    Attributes:
        name: as torch dispatches it, such as `relu`, also for `relu_` and `relu.out`.
        path: of the innermost module that ran; empty for the network.
        step: how many operators were noted before it.
        activation: whether it is an activation; otherwise it may be a part of one.
    """

    name: str
    path: str
    step: int
    activation: bool


class OperatorCounter(TorchDispatchMode):
    """Notes the activation operators that are computed while a network runs.

    Attributes:
        operators: what was computed, in order.
    """

    def __init__(self, network: nn.Module, *, softmax: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[Operator] = []
        self._paths = {id(module): path for path, module in network.named_modules()}
        self._running: list[tuple[int, str]] = []
        self._activations = {*OPERATORS, *(SOFTMAX if softmax else ())}

    @property
    def step(self) -> int:
        """How many operators were noted so far."""
        return len(self.operators)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self._running:
            name = func._schema.name.partition("::")[2]
            # `_prelu_kernel` is a name, `relu_` the in-place form of relu
            name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
            activation = name in self._activations
            if activation or name in PARTS:
                path = self._running[-1][1]
                self.operators.append(Operator(name, path, self.step, activation))
        # who watches functions must not see by this call what is not seen without it
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count inside the context; hooks common to all modules tell which one is running."""
        handles = [
            module_hooks.register_module_forward_pre_hook(self._enter),
            module_hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            with self:
                yield
        finally:
            self._running.clear()
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, args: Any) -> None:
        # a module that the network has just made has no path: what it computes is its caller's
        around = self._running[-1][1] if self._running else ""
        self._running.append((id(module), self._paths.get(id(module), around)))

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._running and self._running.pop()[0] != id(module):
            pass  # those that an exception left, which the network caught
