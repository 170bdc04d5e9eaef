from __future__ import annotations

import pytest

from sigmascope.compare.block_places import MOST, OTHER, OUTSIDE, places_of
from tests.reporting.examples import example, residual_paths, transformer_paths


def places(*paths: str) -> list[str]:
    return places_of(example("made", [(path, 0) for path in paths]).sites)


# As the packages name them.
@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("layer1.0.relu", "relu"),  # torchvision's ResNet
        ("layer3.22.act2", "act2"),  # timm's
        ("encoder.layers.encoder_layer_11.mlp.1", "mlp.1"),  # ViT
        ("features.5.17.mlp.1", "mlp.1"),  # Swin
        ("features.1.0.block.4", "block.4"),  # ConvNeXt
        ("features.2.conv.0.2", "conv.0.2"),  # MobileNetV2: two calls in a block
        ("features.2.conv.1.2", "conv.1.2"),
        ("features.denseblock1.denselayer6.relu2", "relu2"),  # DenseNet
        ("inception3a.branch2.0", "branch2.0"),  # GoogLeNet
        # BERT
        ("encoder.layer.7.intermediate.intermediate_act_fn", "intermediate.intermediate_act_fn"),
        ("features.3", OUTSIDE),  # VGG: layers in a row are no blocks
        ("relu", OUTSIDE),
        ("", OUTSIDE),
    ],
)
def test_place_in_a_block(path: str, place: str) -> None:
    assert places(path, "layer9.9.other") == [place, "other"]


def test_calls_of_one_module_are_different_places() -> None:
    found = places_of(example("resnet", residual_paths(4)).sites)
    assert found == [OUTSIDE, *["relu", "relu#1", "relu#2"] * 4]


def test_layers_that_are_alike_have_one_place() -> None:
    assert set(places_of(example("vit", transformer_paths(12)).sites)) == {"mlp.1"}


def test_without_blocks_the_kind_tells_sites_apart() -> None:
    assert places("features.1", "features.3") == ["relu", "relu"]


def test_the_rarest_places_are_put_together() -> None:
    paths = [f"block{block}.place{place}" for place in range(12) for block in range(12 - place)]
    found = places(*paths)
    assert len(set(found)) == MOST
    assert found.count("place0") == 12
    assert found.count(OTHER) == sum(range(1, 6))
