"""Layers that compute one known function: not looked into, and seen all the same."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture import activations, recorder as module
from sigmascope.capture.layers import FUNCTIONS, has_own_weights, is_known

ACTIVATIONS = [kind for kind in FUNCTIONS if kind.__module__ == nn.ReLU.__module__]


def seen(model: nn.Module, *inputs: Any, **named: Any) -> list[tuple[object, ...]]:
    """Return path, number, kind, layout, samples, input and output of every call."""
    found: list[tuple[object, ...]] = []

    def observe(call: Any, x: Tensor) -> Any:
        before = x.clone()
        about = (call.path, call.number, call.kind, call.layout, call.descent)
        return lambda y: found.append((*about, before.tolist(), y.tolist()))

    with torch.no_grad(), sg.recording(model, observe):
        model(*inputs, **named)
    return found


class Mixed(nn.Module):
    """All layers that are known, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GroupNorm(2, 8))
        self.acts = nn.ModuleList(kind() for kind in ACTIVATIONS)
        self.flat = nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Any:
        x = self.first(x)
        for act in self.acts:
            x = act(x) + F.relu(x)
        return self.flat(x.mean((2, 3)))


def test_the_same_calls_as_where_every_function_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(5, 3, 8, 8)
    short = seen(model, x)
    monkeypatch.setattr(module, "is_known", lambda layer: False)
    assert short == seen(model, x)
    assert len(short) == 2 * len(ACTIVATIONS) + 1


def test_nothing_is_left_behind() -> None:
    model, x = Mixed().eval(), torch.randn(5, 3, 8, 8)
    before = {path: {**layer.__dict__} for path, layer in model.named_modules()}
    seen(model, x)
    with pytest.raises(RuntimeError, match=r"expected input.* to have 3 channels"):
        seen(model, x[:, :2])
    assert {path: {**layer.__dict__} for path, layer in model.named_modules()} == before
    assert torch._C._len_torch_function_stack() == 0


class Calling(nn.Module):
    """Calls an activation in a way of its own."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.act, self.call = nn.ReLU(), call

    def forward(self, x: Tensor) -> Any:
        return self.call(self.act, x)


class Marked(Tensor):
    """A tensor of another class."""


@pytest.mark.parametrize(
    "call",
    [
        lambda act, x: act(input=x),
        lambda act, x: act(x.as_subclass(Marked)),
        lambda act, x: act.forward(x),
    ],
    ids=["by name", "another class of tensor", "forward itself"],
)
def test_other_ways_to_call_a_layer(call: Any) -> None:
    paths = [about[0] for about in seen(Calling(call), torch.randn(4, 3))]
    assert paths == ["act"]


def test_a_mode_above_sees_the_function() -> None:
    names = []

    class Above(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            names.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    def call(act: nn.Module, x: Tensor) -> Any:
        with Above():
            return act(x)

    assert [about[0] for about in seen(Calling(call), torch.randn(4, 3))] == ["act"]
    assert "relu" in names


def test_another_thread_is_left_alone() -> None:
    def call(act: nn.Module, x: Tensor) -> Any:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(act(x)))
        thread.start()
        thread.join()
        return found[0]

    assert seen(Calling(call), torch.randn(4, 3)) == []


def test_layers_that_are_not_what_their_class_says() -> None:
    replaced, normed = nn.Linear(2, 2), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    replaced.forward = lambda x: torch.tanh(x)  # type: ignore[method-assign]
    assert not is_known(replaced)
    assert not is_known(normed)
    assert [about[2] for about in seen(nn.Sequential(replaced), torch.randn(4, 2))] == ["tanh"]
    assert replaced.forward(torch.zeros(1)) == 0  # its own is kept


def test_a_layer_copied_while_it_is_watched_is_a_layer_of_its_own() -> None:
    class Copying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            written = pickle.dumps(self.layer)
            for other in (copy.deepcopy(self.layer), pickle.loads(written)):  # our own bytes
                nn.init.zeros_(other.weight)
                nn.init.ones_(other.bias)
                assert torch.equal(other(x), torch.ones(4, 3))
            assert [*inspect.signature(self.layer.forward).parameters] == ["input"]
            return self.layer(x).relu()

    assert len(seen(Copying(), torch.randn(4, 3))) == 1


def test_a_class_whose_forward_was_replaced_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: F.gelu(x))
    found = seen(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(4, 3))
    assert [about[:3] for about in found] == [("1", 0, "gelu")]


def test_a_class_of_torch_that_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_registered_classes", {nn.Tanh: "my_tanh"})
    found = seen(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.randn(4, 3))
    assert [about[:3] for about in found] == [("1", 0, "my_tanh")]


def test_weights_that_depend_on_the_samples_are_followed() -> None:
    """A layer whose weights were exchanged for the time of a call is watched."""

    class Hyper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            weights = {"weight": x[:3] * 1.0}
            assert has_own_weights(self.layer)
            return torch.func.functional_call(self.layer, weights, (torch.ones(5, 3),)).relu()

    ((*_, descent, _, _),) = seen(Hyper(), torch.randn(4, 3))
    assert descent.state in ("lost", "merged")
