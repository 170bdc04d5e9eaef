"""The same function with other weights, to 1e-9 in float64, on whole networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.embedded import EMBEDDED, embedded_images, embedded_weights
from sigmascope.catalog.optional import optional
from sigmascope.symmetry import UnmovableError, check_equivalence, move, spaces
from tests.symmetry.lively import changed, images, lively

ZOO = [
    "resnet20",
    "plain20",
    "resnet20-leaky0.1",
    "resnet20-leaky1",
    "myrtle",
    "myrtle-nobn",
    "vgg",
    "densenet",
    "mobilenetv2",
]
NORMED = ["vit", "convnext"]  # layer norm: permutations


def torchvision(name: str, change: Callable[[nn.Module], object] = id) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a torchvision of another torch
        models: Any = optional("torchvision.models")
    with torch.device("meta"):  # memory only for what is left after the change
        model: nn.Module = getattr(models, name)(num_classes=10)
        change(model)
    return lively(model.to_empty(device="cpu"))


def narrow(model: Any) -> None:
    """Make the wide linear layers of AlexNet and VGG narrow, for speed."""
    linear = [place for place, layer in enumerate(model.classifier) if isinstance(layer, nn.Linear)]
    widths = [model.classifier[linear[0]].in_features, 24, 16, 10]
    for number, place in enumerate(linear):
        model.classifier[place] = nn.Linear(widths[number], widths[number + 1])


def assert_moves(model: nn.Module, side: int, **options: Any) -> set[str]:
    """Move a network at random and return the parameters that stayed as they were."""
    moved = move(model, generator=11, **options)
    assert check_equivalence(model, moved, images(side)).relative_error < 1e-9
    return {name for name, _ in model.named_parameters()} - changed(model, moved)


@pytest.mark.parametrize("name", [*ZOO, *NORMED])
def test_zoo(name: str) -> None:
    model = lively(NETWORKS[name]())
    stayed = assert_moves(model, 32)
    last = [name for name, _ in model.named_parameters()][-1]
    # Of an attention only what enters and leaves moves; its first bias is inside.
    assert {name for name in stayed if not name.endswith("in_proj_bias")} == {last}


@pytest.mark.parametrize("name", ["resnet20", "myrtle", "mobilenetv2", "densenet"])
def test_zoo_with_scales_in_front_of_batch_norm(name: str) -> None:
    assert len(assert_moves(lively(NETWORKS[name]()), 32, exact_eval=True)) == 1


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("exact_eval", [False, True])
def test_trained(name: str, exact_eval: bool) -> None:
    model = NETWORKS[name]()
    embedded_weights(name, model)
    model = model.double()
    x = embedded_images()[0][:16].double() / 64 - 2
    moved = move(model, generator=2, exact_eval=exact_eval)
    assert check_equivalence(model, moved, x).relative_error < 1e-9
    assert torch.equal(model.eval()(x).argmax(1), moved.eval()(x).argmax(1))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("resnet18", id),
        ("resnet50", id),
        ("mobilenet_v2", id),
        ("alexnet", narrow),
        ("vgg11", narrow),
        ("vgg11_bn", narrow),
    ],
)
def test_torchvision(name: str, change: Callable[[nn.Module], object]) -> None:
    model = torchvision(name, change)
    last = [name for name, _ in model.named_parameters()][-1]
    assert assert_moves(model, 64) == {last}


def test_torchvision_with_scales_in_front_of_batch_norm() -> None:
    assert len(assert_moves(torchvision("resnet18"), 64, exact_eval=True)) == 1


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1"])
def test_gates_and_concatenations(name: str) -> None:
    assert_moves(torchvision(name), 64)


def test_relu6_admits_permutations_only() -> None:
    found = {space.name: space for space in spaces(torchvision("mobilenet_v2"))}
    assert found["features.0.1"].group == "permutations"
    assert found["features.0.1"].reasons == ("relu6 admits d = 1 (features.0.2)",)
    # no activation behind the bottleneck
    assert found["features.2.conv.3"].group == "permutations, d ≠ 0"


def test_channel_shuffle_is_refused() -> None:
    with pytest.raises(UnmovableError, match=r"stage2\.0\.view: .*splits the channels into groups"):
        move(torchvision("shufflenet_v2_x0_5"))


def test_attention_in_windows_is_refused() -> None:
    """Its heads are cut out of the channels by a view; rolling the positions is fine."""
    with pytest.raises(
        UnmovableError,
        match=r"blocks\.0\.attention\.view#2: view .*splits the channels into groups",
    ):
        move(NETWORKS["swin"]())


def test_stages_of_a_residual_network_move_alike() -> None:
    found = {space.name: space for space in spaces(NETWORKS["resnet20"]())}
    assert found["bn1"].joined == (
        *(f"blocks.{block}.bn2" for block in range(3)),
        *(f"blocks.{block}.bn2[8:24]" for block in range(3, 6)),
        *(f"blocks.{block}.bn2[24:40]" for block in range(6, 9)),
    )
    assert found["blocks.3.bn2[0:8,24:32]"].joined[-1] == "blocks.8.bn2[16:24,40:48]"
    assert found["blocks.6.bn2[0:16,48:64]"].width == 32
    assert all(found[f"blocks.{block}.bn1"].joined == () for block in range(9))
    assert found["fc"].group == "fixed"
