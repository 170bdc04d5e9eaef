"""What is known of a network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.catalog import Model, model


def test_facts_of_an_embedded_network() -> None:
    found = model("sigmascope/resnet20")
    facts = found.facts()
    assert list(facts) == ["accuracy", "parameters", "flops", "depth", "weights"]
    assert facts == {
        "accuracy": found.accuracy,
        "parameters": 269_722,
        "flops": found.flops,
        "depth": 19,
        "weights": "embedded",
    }
    # as published: 40.55 million multiplications
    assert facts["flops"] == pytest.approx(2 * 40.55e6, rel=0.01)


def test_flops_are_two_per_multiplication() -> None:
    found = model("sigmascope/myrtle", weights=None)
    convolutions = 9 * (32**2 * (3 * 64 + 64 * 128) + 16**2 * 128 * 256 + 8**2 * 256 * 512)
    assert found.flops == 2 * (convolutions + 512 * 10)


def test_flops_of_attention_are_counted() -> None:
    tokens, width, hidden, blocks = 64, 128, 256, 6
    projections, products, perceptron = (
        4 * tokens * width**2,
        2 * tokens**2 * width,
        2 * tokens * width * hidden,
    )
    patches, head = tokens * 3 * 16 * width, width * 10
    fast_path = torch.backends.mha.get_fastpath_enabled()
    found = model("sigmascope/vit", weights=None).flops
    assert found == 2 * (blocks * (projections + products + perceptron) + patches + head)
    assert torch.backends.mha.get_fastpath_enabled() is fast_path


def test_a_network_that_does_not_run_on_its_example() -> None:
    found = Model("mine", nn.Linear(3, 2), "none", torch.zeros(1, 5))
    assert found.facts() == {
        "accuracy": None,
        "parameters": 8,
        "flops": None,
        "depth": None,
        "weights": "none",
    }
    with pytest.raises(
        sg.InputError, match="mine does not run on its example inputs: mat1 and mat2"
    ):
        found.flops  # noqa: B018
    with pytest.raises(sg.InputError, match="mine does not run on its example inputs"):
        found.depth  # noqa: B018


def test_an_example_may_be_a_mapping() -> None:
    network = nn.Bilinear(3, 4, 2)
    assert (
        Model(
            "mine", network, "none", {"input1": torch.zeros(1, 3), "input2": torch.zeros(1, 4)}
        ).depth
        == 0
    )


def test_accuracy_belongs_to_the_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    found = model("sigmascope/resnet20")
    assert found.facts()["accuracy"] > 91.5
    save_file(found.network.state_dict(), tmp_path / "w.safetensors")
    for weights in (None, tmp_path / "w.safetensors"):
        assert model("sigmascope/resnet20", weights=weights).facts()["accuracy"] is None
