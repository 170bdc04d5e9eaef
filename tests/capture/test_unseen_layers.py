"""A layer that is an activation by its class and computes none that is seen is named, no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture import activations

X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
NOTE = (
    "{} ran, and no activation was seen inside, although the class derives from one; "
    "sigmascope.register_activation makes it one itself"
)


class WithNumpy(nn.ReLU):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.maximum(x.detach().numpy(), 0))


class Doubled(nn.ReLU):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * F.relu(x)


class Smooth(nn.GELU):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class Inner(nn.ReLU):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


class Logistic(nn.Sigmoid):
    """A part of a formula that its caller completes."""


class Swish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Logistic()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x * self.gate(x)
        return result


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = WithNumpy()

    def forward(self, x: Tensor) -> Tensor:
        return x


def network(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 3), nn.Tanh())


def notes(model: nn.Module, **options: Any) -> list[str]:
    found = sg.signature(model, [X, X + 1], progress=False, **options).coverage.notes
    return [note for note in found if "derives from" in note]


@contextmanager
def registered(monkeypatch: pytest.MonkeyPatch, layer: type[nn.Module]) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(activations, "_registered_classes", {})
        sg.register_activation(layer)
        yield


def test_a_layer_that_computes_with_numpy_is_named() -> None:
    assert notes(network(WithNumpy())) == [NOTE.format("1 (WithNumpy)")]
    assert notes(network(WithNumpy(), WithNumpy())) == [NOTE.format("1 (WithNumpy) and 1 more")]


def test_the_error_of_a_network_without_a_site_names_it() -> None:
    with pytest.raises(sg.NoActivationError, match=r"Note that 1 \(WithNumpy\) ran, and no"):
        sg.signature(network(WithNumpy())[:2], X, progress=False)


def test_the_remedy_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with registered(monkeypatch, WithNumpy):
        model = network(WithNumpy())
        assert notes(model) == []
        assert [site.path for site in sg.signature(model, X, progress=False).sites] == ["1", "3"]


@pytest.mark.parametrize("layer", [nn.ReLU, Doubled, Smooth, Inner, Swish, Unused])
def test_a_layer_that_is_seen_or_does_not_run_is_not_named(layer: type[nn.Module]) -> None:
    assert notes(network(layer())) == []


def test_only_what_was_asked_for_is_named() -> None:
    model = network(WithNumpy())
    assert notes(model, activations=["tanh"]) == []
    assert notes(model, sites=["3"]) == []


def test_no_hook_is_left() -> None:
    layer = WithNumpy()
    layer.register_forward_pre_hook(lambda _, args: None)
    before = dict(layer._forward_pre_hooks)
    assert notes(network(layer))
    assert dict(layer._forward_pre_hooks) == before
