"""`sigmascope stitch`, on networks of a Python file and data that look like CIFAR-10."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import sigmascope as sg
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.settings import Settings
from tests.cli.running import document, run
from tests.cli.stitchable import NETWORKS, SHORT


def test_an_option_of_a_family_names_its_family() -> None:
    # the package offers the command under this name
    command = importlib.import_module("sigmascope.cli.stitch")
    read = {setting: name for name, row in FAMILIES.items() for setting in row.options}
    assert {
        option: read[option] for option in command.SETTINGS if option in read
    } == command.OF_FAMILY


def test_it_prints_and_writes(files: Path) -> None:
    result = run("stitch", *NETWORKS, *SHORT, "-o", "out/stitch.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "py:nets.py:one stitched to py:nets.py:two at 3: relu-group, alpha=0.1"
    )
    assert result.stdout.endswith("Written: out/stitch.json, out/stitch.safetensors\n")
    assert sorted(one.name for one in (files / "out").iterdir()) == [
        "stitch.json",
        "stitch.safetensors",
    ]
    stored = sg.StitchResult.load(files / "out" / "stitch.json")
    assert (stored.augment, stored.settings.batch, len(stored.history)) == ("flip-shift", 16, 2)


def test_the_style_is_passed_on(files: Path) -> None:
    auto, linear = (
        document(run("stitch", *NETWORKS, *SHORT, "--family", "identity", "--json", *more))[1]
        for more in ([], ["--style", "linear"])
    )
    assert [(one["style"], one["channels"]) for one in (auto, linear)] == [
        ("conv", 6),
        ("linear", 4),
    ]


def test_every_setting_can_be_reached(files: Path) -> None:
    command = importlib.import_module("sigmascope.cli.stitch")
    usual = {field.name: field.default for field in dataclasses.fields(Settings)}
    assert set(command.SETTINGS.values()) < usual.keys()
    others = {name: value for name, value in usual.items() if name not in command.SETTINGS.values()}
    assert (
        dict(command._setting(f"{name}={value}".lower()) for name, value in others.items())
        == others
    )
    assert command._setting("pass_batches=3") == ("pass_batches", 3)
    # a name here, nothing there
    assert command._setting("projection=none") == ("projection", "none")
    for none in ("none", "None"):
        assert command._setting(f"batch_norm_pass={none}") == ("batch_norm_pass", None)
        assert command._setting(f"pass_batches={none}") == ("pass_batches", None)
    for text, value in {"true": True, "True": True, "FALSE": False}.items():
        assert command._setting(f"final_pass={text}") == ("final_pass", value)


def test_other_settings_are_passed_on(files: Path) -> None:
    given = (
        "--set",
        "momentum=0.5",
        "--set",
        "validation=0.25",
        "--set",
        "batch_norm_pass=false",
        "--set",
        "optimizer=sgd",
    )
    _, content = document(run("stitch", *NETWORKS, *SHORT, "--family", "full", *given, "--json"))
    found = [
        content["settings"][name]
        for name in ("momentum", "validation", "batch_norm_pass", "optimizer")
    ]
    assert found == [0.5, 0.25, False, "sgd"]
    assert content["samples"] == [60, 20, 30]


def test_networks_of_two_kinds_are_named(files: Path) -> None:
    result = run("stitch", "py:nets.py:one", "py:nets.py:other", *SHORT)
    assert result.exit_code == 1
    assert (
        "the front py:nets.py:one and the back py:nets.py:other differ in structure: "
        "operation 2 is Conv2d 1" in result.stderr
    )


def test_json(files: Path) -> None:
    result = run(
        "stitch",
        *NETWORKS,
        *SHORT,
        "--family",
        "low-rank",
        "--rank",
        "2",
        "--json",
        "--limit",
        "40",
    )
    kind, content = document(result)
    assert kind == "stitch-summary"
    (files / "printed.json").write_text(result.stdout)
    with pytest.raises(sg.FileFormatError, match=r"printed\.json is the output of .*Load the file"):
        sg.load(files / "printed.json")
    assert content["samples"] == [36, 4, 30]
    assert content["settings"]["rank"] == 2
    mean = (content["front_accuracy"] + content["back_accuracy"]) / 2
    assert content["penalty"] == pytest.approx(mean - content["stitched_accuracy"])


def test_a_training_that_diverges_is_told(files: Path) -> None:
    given = (
        "--family",
        "lasso",
        "--rate",
        "10",
        "--strength",
        "1e38",
        "--set",
        "shrinkage=gradient",
    )
    _, content = document(run("stitch", *NETWORKS, *SHORT, *given, "--json"))
    assert (content["penalty"], content["sparsity"], content["stitched_accuracy"]) == (
        None,
        None,
        None,
    )
    assert "training diverged in epoch 1" in content["notes"][0]


def test_a_cached_front(files: Path) -> None:
    result = run(
        "stitch", *NETWORKS, *SHORT, "--cache-front", "memory", "--front-mode", "eval", "--json"
    )
    assert document(result)[1]["augment"] == "none"
    refused = run("stitch", *NETWORKS, *SHORT, "--cache-front", "memory")
    assert refused.exit_code == 1
    assert "front_mode='eval'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "relu"], "site='relu' is not in this network. Choose from its activations: 3"),
        (
            ["--data", "embedded"],
            "embedded has no split 'train'. Stitching needs data with the splits train and "
            "test, such as cifar10",
        ),
        (["--device", "abacus"], "device='abacus' cannot be used here"),
        (
            ["-o", "nets.json"],
            "nets.json exists and is not a stitch file. Choose another name, or remove it first.",
        ),
        (
            ["-o", "weights.json"],
            "weights.safetensors exists and does not hold the tensors of a stitch.",
        ),
        (["-o", "folder.json"], "folder.json is a directory"),
        (
            ["--set", "momentun=0.5"],
            "--set='momentun' is not a valid choice. Did you mean 'momentum'?",
        ),
        (["--set", "momentum=much"], "momentum must be a number >= 0 and < 1, got 'much'"),
        (["--set", "decay=inf"], "decay must be a number >= 0, got 'inf'"),
        (["--set", "pass_batches=1.5"], "pass_batches must be a whole number >= 1, got '1.5'"),
        (
            ["--set", "batch_norm_pass=maybe"],
            "batch_norm_pass must be True or False or None, got 'maybe'",
        ),
    ],
)
def test_errors(files: Path, arguments: list[str], message: str) -> None:
    (files / "nets.json").write_text("{}")
    (files / "folder.json").mkdir()
    save_file({"weight": torch.ones(2)}, files / "weights.safetensors")
    before = (files / "weights.safetensors").read_bytes()
    result = run("stitch", *NETWORKS, *SHORT, *arguments)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert message in line
    assert (files / "weights.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "fixed"], "'fixed' is not one of"),
        (["--rank", "0"], "0 is not in the range"),
        (
            ["--rank", "3", "--family", "full"],
            "--rank belongs to --family low-rank, and the family is full.",
        ),
        (
            ["--strength", "3"],
            "--strength belongs to --family lasso, and the family is relu-group.",
        ),
        (["--alpha", "3", "--family", "lasso"], "--alpha belongs to --family relu-group"),
        (["--style", "round"], "'round' is not one of"),
        (["-o", "stitch.txt"], "does not end in .json"),
        (["--rate", "inf"], "inf is not in the range"),
        (["--set", "rate=1"], "--set rate=1: use --rate."),
        (["--set", "head_start=1"], "--set head_start=1: use --head-start."),
        (["--set", "momentum"], "--set momentum: write NAME=VALUE."),
    ],
)
def test_wrong_usage(files: Path, arguments: list[str], message: str) -> None:
    result = run("stitch", *NETWORKS, *SHORT, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
