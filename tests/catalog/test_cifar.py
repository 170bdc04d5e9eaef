"""Our own networks: their sizes, what their parts compute, and that they can be measured."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog import model_names
from sigmascope.catalog.cifar import NETWORKS, TRAININGS, VGG_COUNTS
from sigmascope.catalog.cifar_transformers import WindowAttention, put_together, windows_of

# name -> parameters, activations
SIZES = {
    **{f"resnet20-{training}": (269_722, 19) for training in TRAININGS},
    "resnet20-unrectified": (269_722, 10),
    "resnet18": (11_173_962, 17),
    "myrtle-wide": (7_100_938, 4),
    "vgg11": (183_450, 9),
    "vgg13": (195_066, 11),
    "vgg16": (289_882, 14),
    "vgg19": (384_698, 17),
    "googlenet": (324_602, 43),
    "mobilenetv2-small": (161_770, 35),
    "efficientnet": (289_708, 61),
    "efficientnet-small": (173_895, 61),
    "vit-patch2": (475_690, 6),
    "vit-patch4": (460_714, 6),
    "vit-patch8": (469_930, 6),
    "swin": (461_454, 8),
    "swin-small": (262_054, 8),
    "convnext-small": (396_418, 8),
}


def images(n: int = 8) -> Tensor:
    """Images that differ in brightness and contrast, as real ones do."""
    random = torch.Generator().manual_seed(0)
    scale, offset = (
        torch.rand(n, 1, 1, 1, generator=random) + 0.5,
        torch.randn(n, 3, 1, 1, generator=random),
    )
    return scale * torch.randn(n, 3, 32, 32, generator=random) + offset


def settled(name: str) -> nn.Module:
    """Build a network whose batch norms have seen the images: with fresh ones the signal of a deep
    network dies out.
    """
    torch.manual_seed(0)
    network = NETWORKS[name]()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        network.train()(images())
    return network.eval()


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_signatures(name: str) -> None:
    network, (parameters, activations) = settled(name), SIZES[name]
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    coverage = sg.signature(network, images()).coverage
    assert (coverage.seen, coverage.scored, coverage.failed) == (activations, activations, 0)
    assert (coverage.skipped, coverage.never_called) == ((), ())
    assert f"sigmascope/{name}" in model_names()["sigmascope"]


def test_without_an_activation_after_additions_the_stream_takes_negative_values() -> None:
    plain, other = settled("resnet20"), settled("resnet20-unrectified")
    assert list(plain.state_dict()) == list(other.state_dict())
    least = {}
    for name, network in (("plain", plain), ("other", other)):
        network.blocks[-1].register_forward_hook(
            lambda *given, name=name: least.update({name: float(given[-1].min())})
        )
        with torch.no_grad():
            network(images())
    assert least["other"] < 0 <= least["plain"]


@pytest.mark.parametrize("training", TRAININGS)
def test_another_training_is_no_other_network(training: str) -> None:
    torch.manual_seed(4)
    plain = NETWORKS["resnet20"]().state_dict()
    torch.manual_seed(4)
    other = NETWORKS[f"resnet20-{training}"]().state_dict()
    assert list(plain) == list(other)
    assert all(torch.equal(plain[key], other[key]) for key in plain)


@pytest.mark.parametrize(("depth", "counts"), VGG_COUNTS.items())
def test_a_vgg_has_as_many_layers_as_its_name_says(depth: int, counts: tuple[int, ...]) -> None:
    """The published ones have three linear layers, ours two."""
    layers = [type(module) for module in NETWORKS[f"vgg{depth}"]()]
    assert layers.count(nn.Conv2d) + 3 == depth
    assert layers.count(nn.Linear) == 2
    stages = "".join({nn.Conv2d: "c", nn.MaxPool2d: " "}.get(layer, "") for layer in layers).split()
    assert [len(stage) for stage in stages] == list(counts)


def test_the_silu_of_an_efficientnet_is_in_place_and_its_gate_a_sigmoid() -> None:
    network = NETWORKS["efficientnet"]()
    activations = [module for module in network.modules() if isinstance(module, nn.SiLU)]
    assert activations
    assert all(module.inplace for module in activations)
    blocks = [module for module in network.modules() if type(module).__name__ == "MBConv"]
    assert len(blocks) == sum(isinstance(module, nn.Sigmoid) for module in network.modules()) == 15


@pytest.mark.parametrize("patch", [2, 4, 8])
def test_patches_cover_the_image(patch: int) -> None:
    network = NETWORKS[f"vit-patch{patch}"]()
    tokens = network.patches(images(1)).flatten(2)
    assert tokens.shape == (1, 96, (32 // patch) ** 2)
    assert network.positions.shape == (1, (32 // patch) ** 2, 96)


def test_windows_are_cut_and_put_together() -> None:
    x = torch.arange(2 * 8 * 8 * 3.0).view(2, 8, 8, 3)
    cut = windows_of(x, 4)
    assert cut.shape == (2, 4, 16, 3)
    assert torch.equal(cut[1, 1].view(4, 4, 3), x[1, :4, 4:])
    assert torch.equal(put_together(cut, 8, 4), x)


def brute_force(layer: WindowAttention, x: Tensor) -> Tensor:
    """Attention over all pairs of positions of one image, of which those in the same shifted window
    count.

    The windows begin at `shift` and end at the borders of the image; no circle is made.
    """
    side, window, heads, channels = layer.side, layer.window, layer.heads, x.shape[-1]
    places = list(itertools.product(range(side), repeat=2))
    q, k, v = (
        layer.qkv(x.view(side * side, channels)).view(-1, 3, heads, channels // heads).unbind(1)
    )
    out = torch.zeros(side * side, heads, channels // heads, dtype=x.dtype)
    for (i, one), head in itertools.product(enumerate(places), range(heads)):
        scores, others = [], []
        for j, other in enumerate(places):
            if all(
                (a - layer.shift) // window == (b - layer.shift) // window
                for a, b in zip(one, other, strict=True)
            ):
                row, column = (a - b + window - 1 for a, b in zip(one, other, strict=True))
                bias = layer.bias[row * (2 * window - 1) + column, head]
                scores.append(q[i, head] @ k[j, head] / (channels // heads) ** 0.5 + bias)
                others.append(j)
        out[i, head] = torch.softmax(torch.stack(scores), 0) @ v[others, head]
    return layer.out(out.view(side, side, channels))


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_attention_in_shifted_windows_is_attention_with_a_mask(shift: int) -> None:
    torch.manual_seed(0)
    layer = WindowAttention(6, 2, side=8, window=4, shift=shift).double()
    nn.init.normal_(layer.bias)
    x = torch.randn(2, 8, 8, 6, dtype=torch.float64)
    with torch.no_grad():
        expected = torch.stack([brute_force(layer, one) for one in x])
        torch.testing.assert_close(layer(x), expected)
        layer.mask.zero_()
        # without the mask the borders meet
        assert torch.allclose(layer(x), expected) == (shift == 0)


def test_every_second_block_of_a_swin_is_shifted_where_there_is_more_than_one_window() -> None:
    layers = [
        module for module in NETWORKS["swin"]().modules() if isinstance(module, WindowAttention)
    ]
    assert [(layer.side, layer.shift) for layer in layers] == [
        (16, 0),
        (16, 2),
        *[(8, 0), (8, 2)] * 2,
        *[(4, 0)] * 2,
    ]
