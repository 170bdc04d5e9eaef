"""Folding networks as other libraries write them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.linearize import apply, fold, plan
from tests.linearize.test_fold_chains import no_clock


class Embedding(nn.Module):
    """Takes another way where an argument is None, which a symbolic value never is."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(9, 8), nn.Embedding(5, 8)
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))

    def forward(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        if places is None:
            places = torch.arange(ids.shape[1])
        return self.norm(self.after(self.before(self.words(ids) + self.places(places))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.act, self.head = Embedding(), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        return self.head(self.act(self.embedding(ids, places)).mean(1))


def test_an_argument_that_is_none_takes_the_way_of_the_module() -> None:
    torch.manual_seed(0)
    network, ids = Model().double().eval(), torch.randint(0, 9, (4, 5))
    found = fold(network, ids, keep="all", timer=no_clock)
    assert any("does not run as torch.fx traced it" in reason for reason in found.refused)
    assert found.steps == ("embedding.norm.0 + embedding.norm.1 → one linear layer, 8 to 4",)
    others = torch.randint(0, 9, (4, 5))
    for places in (None, torch.tensor([4, 3, 2, 1, 0])):
        torch.testing.assert_close(found.network(others, places), network(others, places))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_map_in_a_transformer_layer_of_torch_stays_for_a_reason() -> None:
    torch.manual_seed(0)
    network, x = Encoder().double().eval(), torch.randn(32, 4, 8, dtype=torch.float64)
    shorter = apply(network, plan(network, x, budget=2, by="depth"))
    found = fold(shorter, keep="all", timer=no_clock)
    assert not found.steps
    assert any(
        reason.startswith("encoder.layers.0: ") and "torch.fx" in reason for reason in found.refused
    )
    torch.testing.assert_close(found.network(x), shorter(x))


class Derived(nn.Conv2d):
    """A class derived from that of torch, which sets options only."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1, bias=False)


class Standardized(nn.Conv2d):
    """One that computes with another weight."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias)


class ByHand(nn.BatchNorm2d):
    """A norm that calls no function of torch."""

    def forward(self, x: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        scale = self.weight / (self.running_var + self.eps).sqrt()
        return (x - self.running_mean[:, None, None]) * scale[:, None, None]


def test_layers_of_derived_classes_are_folded_and_counted() -> None:
    torch.manual_seed(0)
    layers = [Derived(3, 4), nn.BatchNorm2d(4), nn.ReLU(), Standardized(4, 5, 1), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Conv2d(5, 4, 1), ByHand(4)).double().eval()
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    found = fold(network, x, keep="all", timer=no_clock)
    assert found.steps == ("0 + 1 → one convolution of 3 × 3, 4 channels",)
    assert (found.before.layers, found.before.maps) == (3, 1)
    assert (found.after.layers, found.after.maps) == (3, 0)  # those that run in functions count
    assert "6: a ByHand computes its norm in a forward of its own" in found.refused
    torch.testing.assert_close(found.network(x), network(x))
