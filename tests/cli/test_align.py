"""`align`: what is printed, written and returned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sigmascope as sg
from tests.cli.running import document, run

NETWORKS = ("sigmascope/resnet20", "sigmascope/resnet20:0")
FEW = ("--limit", "16", "--points", "3", "--controls", "0")


def test_tables_figure_and_weights_are_written(tmp_path: Path) -> None:
    result = run("align", *NETWORKS, *FEW, "-o", tmp_path)
    assert result.exit_code == 0
    assert "cosine of the parameters of each layer" in result.output
    assert "Barrier between sigmascope/resnet20 and sigmascope/resnet20:0, 16" in result.output
    names = {path.name for path in tmp_path.iterdir()}
    pictures = {"barrier.svg", "barrier.png", "barrier.csv"}
    assert names == {*pictures, "layers.csv", "aligned.safetensors"}
    rows = (tmp_path / "layers.csv").read_text().splitlines()
    assert rows[0] == "layer,before,aligned"
    assert rows[1].startswith('"conv1",1.0')
    # a network aligned to itself stays where it is
    weights = load_file(tmp_path / "aligned.safetensors")
    for name, one in sg.catalog.model(NETWORKS[0]).network.state_dict().items():
        torch.testing.assert_close(weights[name], one)


def test_json() -> None:
    _, content = document(run("align", *NETWORKS, *FEW, "--by", "activations", "--json"))
    assert content["request"]["by"] == "activations"
    assert content["alignment"]["alike"] is None
    assert content["alignment"]["overall"] == pytest.approx(1)
    assert content["barrier"]["points"] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("there", [False, True])
def test_other_architectures_are_refused(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()
    result = run("align", "sigmascope/resnet20", "sigmascope/plain20", *FEW, "-o", out)
    assert result.exit_code == 1
    assert "different architectures" in result.stderr
    assert out.exists() == there  # what was made for it goes again


def test_two_files_with_weights_of_one_network(tmp_path: Path) -> None:
    network = sg.catalog.model(NETWORKS[0]).network
    files = [tmp_path / name for name in ("first.pt", "second.pt")]
    torch.save(network.state_dict(), files[0])
    torch.save(sg.symmetry.move(network, seed=1).state_dict(), files[1])
    result = run("align", NETWORKS[0], NETWORKS[0], *FEW, "--weights", *files)
    assert result.exit_code == 0
    title = "sigmascope/resnet20 (second.pt) aligned to sigmascope/resnet20 (first.pt) by weights"
    assert title in result.output
    assert "cosine 1.0000" in result.output
    assert "conv1" in result.output


def test_random_weights_are_of_two_seeds() -> None:
    _, content = document(
        run("align", NETWORKS[0], NETWORKS[0], *FEW, "--weights", "none", "none", "--json")
    )
    assert content["alignment"]["before"] > 100
    assert content["alignment"]["overall"] < 0.5
    one = run("align", *NETWORKS, *FEW, "--weights", "none")
    assert one.exit_code == 2
    assert "'--weights' requires 2 arguments" in one.stderr


def test_networks_that_do_not_move_are_named() -> None:
    name = "sigmascope/swin-small"
    result = run("align", name, name, *FEW, "--weights", "none", "none")
    assert result.exit_code == 1
    assert "networks such as sigmascope/swin-small cannot be aligned" in result.stderr
    assert "view#2" in result.stderr
