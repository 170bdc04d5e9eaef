"""`sigmascope stitch`, on networks of a Python file and a folder of data that look like CIFAR-10."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.stitching.data import AUGMENTATIONS
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.layer import STYLES
from sigmascope.stitching.settings import PRESETS
from tests.cli.running import document, run

SOURCE = """
import torch
from torch import nn

def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.AvgPool2d(8), nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10)
    )

def one():
    return build(1)

def two():
    return build(2)

def other():
    return nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 10), nn.ReLU(), nn.Linear(10, 10))
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(SOURCE)
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for split, count in (("train", 80), ("test", 30)):
        np.save(tmp_path / f"data/cifar10/{split}_images.npy", generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8))
        np.save(tmp_path / f"data/cifar10/{split}_labels.npy", generator.integers(0, 10, count))
    return tmp_path


NETWORKS = ("py:nets.py:one", "py:nets.py:two")
SHORT = ("--at", "3", "--data", "cifar10", "--epochs", "2", "--batch-size", "16", "--preset", "fast", "--device", "cpu")


def test_the_choices_are_those_of_the_library() -> None:
    command = importlib.import_module("sigmascope.cli.stitch")  # the package offers the command under this name
    assert (*command.FAMILIES, "fixed") == tuple(FAMILIES)
    assert tuple(PRESETS) == command.PRESETS
    assert tuple(AUGMENTATIONS) == command.AUGMENT
    assert ("auto", *STYLES) == command.STYLES
    read = {setting: name for name, row in FAMILIES.items() for setting in row.options}
    assert {option: read[option] for option in command.SETTINGS if option in read} == command.OF_FAMILY


def test_it_prints_and_writes(files: Path) -> None:
    result = run("stitch", *NETWORKS, *SHORT, "-o", "out/stitch.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("py:nets.py:one stitched to py:nets.py:two at 3: relu-group, alpha=0.1")
    assert result.stdout.endswith("Written: out/stitch.json, out/stitch.safetensors\n")
    assert sorted(one.name for one in (files / "out").iterdir()) == ["stitch.json", "stitch.safetensors"]
    stored = sg.StitchResult.load(files / "out" / "stitch.json")
    assert (stored.augment, stored.settings.batch, len(stored.history)) == ("flip-shift", 16, 2)
    again = run("stitch", *NETWORKS, *SHORT, "-o", "out/stitch.json")
    assert again.stdout == result.stdout


def test_the_style_is_passed_on(files: Path) -> None:
    auto, linear = (
        document(run("stitch", *NETWORKS, *SHORT, "--family", "identity", "--json", *more))[1]
        for more in ([], ["--style", "linear"])
    )
    assert [(one["style"], one["channels"]) for one in (auto, linear)] == [("conv", 6), ("linear", 4)]


def test_networks_of_two_kinds_are_named(files: Path) -> None:
    result = run("stitch", "py:nets.py:one", "py:nets.py:other", *SHORT)
    assert result.exit_code == 1
    assert (
        "the front py:nets.py:one and the back py:nets.py:other differ in structure: operation 2 is Conv2d 1" in result.stderr
    )


def test_json(files: Path) -> None:
    result = run("stitch", *NETWORKS, *SHORT, "--family", "low-rank", "--rank", "2", "--json", "--limit", "40")
    kind, content = document(result)
    assert kind == "stitch"
    assert content["samples"] == [36, 4, 30]
    assert content["settings"]["rank"] == 2
    mean = (content["front_accuracy"] + content["back_accuracy"]) / 2
    assert content["penalty"] == pytest.approx(mean - content["stitched_accuracy"])


def test_a_cached_front(files: Path) -> None:
    result = run("stitch", *NETWORKS, *SHORT, "--cache-front", "memory", "--front-mode", "eval", "--json")
    assert document(result)[1]["augment"] == "none"
    refused = run("stitch", *NETWORKS, *SHORT, "--cache-front", "memory")
    assert refused.exit_code == 1
    assert "front_mode='eval'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "relu"], "at='relu' is no site of this network. Activations: 3"),
        (
            ["--data", "embedded"],
            "embedded has no split 'train'. Stitching needs data with the splits train and test, such as cifar10",
        ),
        (["--device", "abacus"], "device='abacus' cannot be used here"),
        (["-o", "nets.json"], "holds no stitch"),
    ],
)
def test_errors(files: Path, arguments: list[str], message: str) -> None:
    (files / "nets.json").write_text("{}")
    result = run("stitch", *NETWORKS, *SHORT, *arguments)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "fixed"], "'fixed' is not one of"),
        (["--rank", "0"], "0 is not in the range"),
        (["--rank", "3", "--family", "full"], "--rank belongs to --family low-rank, and the family is full."),
        (["--strength", "3"], "--strength belongs to --family lasso, and the family is relu-group."),
        (["--alpha", "3", "--family", "lasso"], "--alpha belongs to --family relu-group"),
        (["--style", "round"], "'round' is not one of"),
        (["-o", "stitch.txt"], "does not end in .json"),
    ],
)
def test_wrong_usage(files: Path, arguments: list[str], message: str) -> None:
    result = run("stitch", *NETWORKS, *SHORT, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
