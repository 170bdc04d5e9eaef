"""`sigmascope linearize`, on a network of a Python file and data that look like CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope import choices
from sigmascope.choices import values_of
from sigmascope.linearize.result import MAPS_IN_WORDS
from sigmascope.store import claim
from tests.cli.running import document, run

NETS = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.AvgPool2d(8), nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(96, 10)
    )
"""
NETWORK = "py:net.py:net"
COMMAND = (
    *("linearize", NETWORK, "--data", "cifar10", "--budget", "1", "--by", "r2"),
    *("--epochs", "1", "--no-fold", "--device", "cpu"),
)


@pytest.fixture
def folder(files: Path) -> Path:
    (files / "net.py").write_text(NETS)
    return files


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_it_prints_writes_and_shows_again(folder: Path) -> None:
    result = run(*COMMAND, "-o", "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "py:net.py:net: 1 of 2 activations replaced (budget: 1 site; ranked by r2)"
    )
    assert "of 30 samples that were used for nothing else" in result.stdout
    assert "tuned: 1 epoch on 72 samples" in result.stdout
    assert result.stdout.endswith(
        "Written: out/linearization.html, out/network.json, out/linearization.json\n"
    )
    before = contents(folder / "out")
    assert sorted(before) == [
        "linearization.html",
        "linearization.json",
        "network.json",
        "network.safetensors",
        "plan.json",
        "plan.safetensors",
        "request.json",
    ]
    (folder / "out" / "linearization.html").unlink()
    again = run(*COMMAND, "-o", "out")
    assert (again.exit_code, again.stderr) == (0, "out: already there\n")
    assert contents(folder / "out") == before
    shown = run("show", "out")
    assert shown.stdout == again.stdout
    assert run("show", "out/plan.json").stdout.startswith("Sequential: 1 of 2 activations become")
    kind, content = document(run("show", "out", "--json"))
    assert (kind, len(content["points"])) == ("linearization-summary", 4)
    network = sg.linearize.load(folder / "out", sg.catalog.model(NETWORK).network)
    assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_json(folder: Path) -> None:
    kind, content = document(run(*COMMAND, "--json"))
    assert kind == "linearization-summary"
    assert (content["activations"], len(content["replaced"])) == (2, 1)
    assert content["elements_saved"] == content["elements"] / 2
    assert content["written"] == []
    assert [point["replaced"] for point in content["points"]] == [0, 1, 2, 1]


def test_options_reach_the_fit(folder: Path) -> None:
    more = ("--points", "2", "--baseline", "--budget", "100%", "--maps", "full", "--rate", "0.01")
    more += ("--optimizer", "adamw", "--batch-size", "8", "--distill", "0.5", "--sites", "?")
    result = run(*COMMAND, *more, "-o", "out", "--augment", "none", "--temperature", "2")
    assert result.exit_code == 0, result.output
    found: Any = sg.load(folder / "out")
    assert [one.replaced for one in found.tunings] == [0, 1, 2]
    settings = found.settings
    assert (settings.optimizer, settings.rate, settings.batch) == ("adamw", 0.01, 8)
    assert (settings.distill, settings.temperature, settings.augment) == (0.5, 2.0, "none")
    assert found.plan.maps == "full"
    other = run(*COMMAND, "-o", "usual")
    assert other.exit_code == 0
    usual: Any = sg.load(folder / "usual")
    assert usual.settings.augment == "flip-shift"


@pytest.mark.parametrize("budget", ["50%", "50% elements", "40 elements", "loss+5"])
def test_budgets(folder: Path, budget: str) -> None:
    result = run(*COMMAND, "--budget", budget, "--epochs", "0", "--json")
    assert result.exit_code == 0, result.output
    assert len(document(result)[1]["replaced"]) == (2 if budget == "loss+5" else 1)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--budget", "9"), 1, "budget=9 is more than the 2 activation sites"),
        (("--budget", "many"), 1, "budget='many' is not valid"),
        (("--by", "afinity"), 2, "'afinity' is not one of 'affinity'"),
        (("--epochs", "-1"), 2, "Invalid value for '--epochs'"),
        (("--data", "embeded"), 1, "Did you mean 'embedded'"),
        (("--data", "random", "--test-limit", "3"), 2, "--test-limit: random has no splits"),
        (("--limit", "1"), 1, "too few to be divided"),
        (("--distill", "2"), 1, "distill must be a number"),
        (("--device", "gpu7"), 1, "device='gpu7' cannot be used here"),
        (("--weights", "nowhere.safetensors"), 1, "nowhere.safetensors"),
    ],
)
def test_bad_input(folder: Path, more: tuple[str, ...], code: int, told: str) -> None:
    result = run(*COMMAND, *more, "-o", "out")
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr


def test_labels_that_the_network_does_not_know(folder: Path) -> None:
    (folder / "net.py").write_text(NETS.replace("nn.Linear(96, 10)", "nn.Linear(96, 3)"))
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert "the network has 3 output classes" in result.stderr


def test_other_runs_are_not_replaced(folder: Path) -> None:
    assert run(*COMMAND, "-o", "out").exit_code == 0
    before = contents(folder / "out")
    result = run(*COMMAND, "--seed", "1", "-o", "out")
    assert result.exit_code == 1
    assert "out belongs to another run: " in result.stderr
    assert "options.seed is 0 there and 1 here" in result.stderr
    (folder / "net.py").write_text(NETS.replace("manual_seed(0)", "manual_seed(1)"))
    result = run(*COMMAND, "-o", "out")
    assert "weights is " in result.stderr
    (folder / "net.py").write_text(NETS)
    with claim(folder / "out" / ".linearize.lock"):
        result = run(*COMMAND, "-o", "out")
    assert "another process is working in out" in result.stderr
    after = contents(folder / "out")
    after.pop(".linearize.lock", None)
    assert after == before


def test_the_choices_are_those_of_the_library() -> None:
    assert values_of(choices.LinearizeBy) == tuple(sg.linearize.CRITERIA)
    assert values_of(choices.LinearizeMaps) == tuple(MAPS_IN_WORDS)


def test_show_wants_one_for_json(folder: Path) -> None:
    for name in ("one", "two"):
        assert run(*COMMAND, "--epochs", "0", "-o", name).exit_code == 0
    result = run("show", "one", "two", "--json")
    assert result.exit_code == 2
    assert "Pass one directory only" in result.stderr
    assert run("show", "one", "two").stdout.count("activations replaced") == 2
