"""Folded networks of the zoo and of torchvision are the same functions in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.optional import optional
from tests.linearize.test_fold_chains import folded


def prepared(network: nn.Module, seed: int = 0) -> nn.Module:
    """Return a network in float64 whose batch norms do something."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            shape = module.num_features
            module.running_mean = 0.3 * torch.randn(shape, generator=generator)
            module.running_var = 0.5 + torch.rand(shape, generator=generator)
    return network.double().eval()


def check(network: nn.Module, budget: float, side: int = 32, maps: Any = "channel") -> Any:
    x = torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(1)).double()
    plan = sg.linearize.plan(network, x, budget=budget, by="r2", scores=False, maps=maps)
    linear = sg.linearize.apply(network, plan)
    found = folded(linear, plan, keep="fewer")
    with torch.no_grad():
        wanted, y = linear(x), found.network(x)
    assert (y - wanted).abs().max() / wanted.abs().max() < 1e-9
    assert found.error < 1e-9
    assert found.after.maps <= found.before.maps
    return found


# Network -> layers before and after with all activations replaced.
ZOO = {
    "resnet20": (20, 20),
    "vgg": (10, 9),
    "densenet": (None, None),
    "vit": (14, 8),
    "swin-small": (36, 28),
    "convnext-small": (None, None),
    "mobilenetv2-small": (53, 21),
}

FEW = ("resnet20", "vit", "mobilenetv2-small")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [one if one in FEW else pytest.param(one, marks=pytest.mark.thorough) for one in ZOO]
)
def test_networks_of_the_zoo(name: str) -> None:
    torch.manual_seed(0)
    network = prepared(NETWORKS[name]())
    found = check(network, 1.0)
    before, after = ZOO[name]
    if before is not None:
        assert (found.before.layers, found.after.layers) == (before, after)
    assert found.steps
    if not name.startswith(("vit", "swin")):
        return
    assert found.after.multiply_adds < 0.7 * found.before.multiply_adds
    some = check(network, 2, maps="full")
    assert len(some.steps) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain20", "googlenet"])
def test_half_of_the_activations(name: str) -> None:
    torch.manual_seed(0)
    assert check(prepared(NETWORKS[name]()), 0.5).steps


@pytest.mark.slow
@pytest.mark.parametrize(("name", "budget"), [("resnet18", 0.5), ("mobilenet_v2", 0.6)])
def test_networks_of_torchvision(name: str, budget: float) -> None:
    torch.manual_seed(0)
    narrow = {"width_mult": 0.25} if name == "mobilenet_v2" else {}
    network = getattr(optional("torchvision.models"), name)(num_classes=10, **narrow)
    found = check(prepared(network), budget)
    assert found.after.maps < found.before.maps
    assert any("addition" in reason for reason in found.refused) == (name == "resnet18")


@pytest.mark.slow
def test_vgg_of_torchvision() -> None:
    torch.manual_seed(0)
    vgg = optional("torchvision.models.vgg")
    widths = [one if one == "M" else one // 8 for one in vgg.cfgs["D"]]
    network = nn.Module.__new__(vgg.VGG)  # whose own head has 120 million parameters
    nn.Module.__init__(network)
    network.features = vgg.make_layers(widths, batch_norm=True)
    network.avgpool = nn.AdaptiveAvgPool2d(7)
    network.classifier = nn.Sequential(
        *(nn.Linear(64 * 49, 64), nn.ReLU(True), nn.Dropout()),
        *(nn.Linear(64, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10)),
    )
    found = check(prepared(network), 1.0)
    assert "classifier.0 + classifier.1 + classifier.3 + classifier.4 + classifier.6" in repr(
        found.steps
    )
    assert "features.0 + features.1 + features.2 + features.3" in repr(found.steps)
