"""Chosen calls are those that `recording` has numbered, also beside lists of modules and modes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import sigmascope as sg
from sigmascope.capture.chosen_calls import chosen_calls


class Part(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x - 0.5)


class Listed(nn.Module):
    """Calls functions itself, between modules in a list which do, too."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Part(), Part()])

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = torch.tanh(part(x))
        return x


class Replacing(TorchFunctionMode):
    """Computes tanh in another way, which nobody below sees."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] * 2 if func is torch.tanh else func(*args, **(kwargs or {}))


class UnderMode(Listed):
    def forward(self, x: Tensor) -> Tensor:
        with Replacing():
            x = F.silu(super().forward(x))
        return F.silu(x)


def compared(network: nn.Module) -> list[tuple[tuple[str, int], float]]:
    """All calls with the sums of their inputs, of which `chosen_calls` must see the network's."""
    x = torch.linspace(-2, 2, 40).reshape(8, 5)
    recorded: list[tuple[tuple[str, int], float]] = []
    with sg.recording(
        network, lambda call, x: recorded.append(((call.path, call.call), float(x.sum())))
    ):
        network(x)
    chosen: list[tuple[tuple[str, int], float]] = []
    own = [(key, total) for key, total in recorded if not key[0]]
    with chosen_calls(
        network, {key for key, _ in own}, lambda key, x: chosen.append((key, float(x.sum())))
    ):
        network(x)
    assert torch._C._len_torch_function_stack() == 0
    assert chosen == own
    return recorded


def test_functions_of_modules_in_a_list_are_not_those_of_the_module_around_it() -> None:
    assert len(compared(Listed())) == 4


def test_functions_that_a_mode_of_the_network_replaces_are_not_seen() -> None:
    assert [key for key, _ in compared(UnderMode())] == [
        ("parts.0", 0),
        ("parts.1", 0),
        ("", 0),
        ("", 1),
    ]
