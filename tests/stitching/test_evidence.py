"""Where the channels are: by what produced the value, so that a stitch without loss is found
wherever they lie.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog.cifar_convnets import MyrtleCNN, ResNet
from sigmascope.catalog.cifar_transformers import ConvNeXt, VisionTransformer
from sigmascope.stitching.assembly import assemble, prepare
from sigmascope.symmetry.action import move
from tests.stitching.small import cross_validate
from tests.symmetry.lively import images, lively


def sequences(count: int = 300) -> tuple[Tensor, Tensor]:
    drawn = torch.randn(
        count, 2, 20, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    )
    return drawn, torch.arange(count) % 4


def conv1d() -> nn.Module:
    layers = (nn.Conv1d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1), nn.ReLU())
    return lively(nn.Sequential(*layers, nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(16, 4)))


def answers(network: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Label inputs as a network does, so that its accuracy is 100 % and any change shows."""
    with torch.no_grad():
        return inputs, network(inputs).argmax(dim=1)


@pytest.mark.parametrize("at", ["1", "3"])
def test_theorem_4_2_on_sequences(at: str) -> None:
    network = conv1d()
    samples = answers(network, sequences()[0])
    other = move(network, seed=3, example_input=samples[0])
    given: dict[str, Any] = {
        "at": at,
        "data": (samples, samples),
        "family": "permutation",
        "progress": False,
    }
    found = sg.stitch(network, other, **given)
    assert (found.style, found.channels, found.penalty) == ("conv", 8, 0.0)
    # positions are no channels
    assert sg.stitch(network, other, style="linear", **given).penalty > 1


def planted(network: ConvNeXt, order: Tensor) -> ConvNeXt:
    """Permute the hidden channels of the first block, which computes the same."""
    other = copy.deepcopy(network)
    block: Any = other[1]
    with torch.no_grad():
        for parameter in (block.fc1.weight, block.fc1.bias):
            parameter.copy_(parameter[order].clone())
        block.fc2.weight.copy_(block.fc2.weight[:, order].clone())
    return other


def test_theorem_4_2_on_maps_with_channels_last() -> None:
    network: Any = lively(ConvNeXt((4, 8, 8)))
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    other, x = planted(network, order), images(32, count=40)
    joint = prepare(network, other, site="1.act", inputs=x[:2])
    assert (joint.style, joint.channels) == ("linear", 16)
    element = torch.eye(16)[order]
    stitched = assemble(network, other, site="1.act", inputs=x[:2], stitch=element)
    torch.testing.assert_close(stitched(x), network(x), atol=1e-9, rtol=1e-9)
    wrong = assemble(network, other, site="1.act", inputs=x[:2], stitch=element.roll(1, 0))
    assert (wrong(x) - network(x)).abs().max() > 1e-4
    samples = answers(network, x)
    found = sg.stitch(
        network, other, at="1.act", data=(samples, samples), family="permutation", progress=False
    )
    assert found.penalty == 0
    assert torch.equal(found.matrix != 0, element != 0)


def test_channels_may_change_sides() -> None:
    """Outside of the blocks of a ConvNeXt channels are on axis 1, inside they are last."""
    network, x = lively(ConvNeXt((4, 8, 8))), images(32)
    found = {
        at: prepare(network, network, site=at, inputs=x)
        for at in ("0", "1.conv", "1.norm", "1.act", "1.fc2", "1", "2")
    }
    assert {at: joint.style for at, joint in found.items()} == {
        **dict.fromkeys(("0", "1.conv", "1", "2"), "conv"),
        **dict.fromkeys(("1.norm", "1.act", "1.fc2"), "linear"),
    }
    assert [found[at].channels for at in ("1.conv", "1.norm", "1.act")] == [4, 4, 16]


def test_the_stored_experiments_keep_their_styles() -> None:
    x = images(32)
    for network, sites, style in (
        (MyrtleCNN(widths=(2, 4, 8, 16)), ("2", "5", "9"), "conv"),
        (ResNet(8), ("act1", "blocks.0.act1", "blocks.2"), "conv"),
        (VisionTransformer(8, 2, 2), ("blocks.0", "blocks.1", "blocks.0.act"), "linear"),
    ):
        lively(network)
        assert {prepare(network, network, site=at, inputs=x).style for at in sites} == {style}


class Unknown(nn.Module):
    """Activates its inputs, of which nothing is known."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.head = nn.ReLU(), nn.Linear(40, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.act(x).flatten(1))
        return out


def test_without_evidence_the_style_is_asked_for() -> None:
    network = lively(Unknown())
    samples = sequences(80)
    given: dict[str, Any] = {"at": "act", "data": (samples, samples), "progress": False}
    with pytest.raises(
        sg.OptionError, match=r"the channel axis .* is unknown.*style=\"conv\".*style=\"linear\""
    ):
        sg.stitch(network, network, family="identity", **given)
    found = sg.stitch(network, network, family="identity", style="conv", **given)
    assert (found.style, found.channels, found.penalty) == ("conv", 2, 0.0)
    tried = cross_validate(
        network, network, style="linear", alphas=(0.1,), epochs=1, preset="fast", **given
    )
    assert (tried.chosen.style, tried.chosen.channels) == ("linear", 20)
