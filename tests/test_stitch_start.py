"""The experiment on stitches that start at an aligned element: its rule, and where it starts."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import sigmascope as sg
from sigmascope_papers.setting import RESULTS
from sigmascope_papers.symmetry.stitch_starts import StitchStarts

ZOO = Path(__file__).resolve().parents[1] / "zoo"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module("stitch_start")
    for name in ("stitch_start", "train", "trainer", "recipes", "objectives"):
        sys.modules.pop(name, None)


def row(random: list[float], weights: list[float], activations: list[float]) -> dict[str, Any]:
    accuracies = {"random": random, "weights": weights, "activations": activations}
    accuracies["matched"] = activations
    return {
        "site": "9",
        "steps": 10,
        "samples": [320, 32, 32],
        "accuracies": accuracies,
        "penalties": dict.fromkeys(accuracies, 1.0),
    }


def test_an_aligned_start_wins_by_a_point_in_fewer_epochs(script: ModuleType) -> None:
    random = [70.0, 80.0, 80.0]  # its best epoch is the second
    for own, won in (
        ([50.0, 81.0, 80.0, 80.0], True),  # above it in the first
        ([81.0, 50.0, 50.0, 50.0], True),  # at the start
        ([50.0, 80.9, 80.0, 80.0], False),  # by less than a point
        ([50.0, 50.0, 81.0, 80.0], False),  # in as many epochs
        ([50.0, 50.0, 50.0, 50.0], False),
    ):
        assert script.wins(row(random, own, own)["accuracies"], "weights") is won


def test_the_summary_says_what_holds(script: ModuleType) -> None:
    good, bad, random = [90.0, 90.0, 90.0], [10.0, 10.0, 10.0], [60.0, 70.0]
    rows = [row(random, good, bad), row(random, good, good), row(random, good, good)]
    text = script.summarized([{**one, "site": site} for one, site in zip(rows, "abc", strict=True)])
    assert "by weights: wins at 3 of 3 sites: **holds**, 1 sites missing" in text
    assert "by activations: wins at 2 of 3 sites: **weakly**" in text
    assert "| a | random | 70.0 | 2 | – | 1.00 | –, 60.0, 70.0 |" in text
    assert "| a | weights | 90.0 | 0 | 0 | 1.00 | 90.0, 90.0, 90.0 |" in text


def test_what_is_stored_is_that_of_the_journal(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (ZOO / "align" / "stitch.jsonl").read_text().splitlines()
    (tmp_path / "stitch.jsonl").write_text("\n".join(reversed(rows)))  # sites end in any order
    stored = tmp_path / "stitch.json"
    script.main(["summary", str(tmp_path), "--store", str(stored)])
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == sorted((ZOO / "align" / "stitch.md").read_text().splitlines())
    found = StitchStarts.load(RESULTS / "trainings" / "stitch.json")
    assert found == StitchStarts.load(stored)
    assert [one.site for one in found.sites] == [json.loads(one)["site"] for one in rows]
    assert {one.steps * len(one.accuracies["random"]) for one in found.sites} == {28120}


def test_there_is_no_summary_of_nothing(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"stitch.jsonl does not exist"):
        script.main(["summary", str(tmp_path), "--store", str(tmp_path / "stitch.json")])
    assert not [*tmp_path.iterdir()]


def test_the_element_takes_the_first_network_to_the_second(script: ModuleType) -> None:
    a = sg.catalog.model("sigmascope/vgg11:1").network.eval().double()
    b = sg.symmetry.move(a, seed=1)
    found = sg.symmetry.align(a, b, progress=False)
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
    site = next(name for name, one in a.named_modules() if isinstance(one, torch.nn.ReLU))
    features = []
    for network in (a, b):
        network.get_submodule(site).register_forward_hook(lambda *args: features.append(args[2]))
        network(x)
    element = script.element_at(found, site)
    torch.testing.assert_close(element.apply(features[0].detach(), axis=1), features[1].detach())
    assert not torch.allclose(features[0], features[1])


def test_it_runs_and_continues(script: ModuleType, tmp_path: Path) -> None:
    source = np.random.default_rng(0)
    for split, count in (("train", 80), ("test", 20)):
        pixels = source.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        np.save(tmp_path / f"{split}_images.npy", pixels)
        np.save(tmp_path / f"{split}_labels.npy", source.integers(0, 10, count))
    script.SITES = ("39",)
    given = ["--data", str(tmp_path), "--out", str(tmp_path), "--images", "80", "--epochs", "2"]
    given += ["--device", "cpu"]
    script.main(["run", *given])
    (found,) = map(json.loads, (tmp_path / "stitch.jsonl").read_text().splitlines())
    assert found["device"] == "cpu"
    lengths = {name: len(own) for name, own in found["accuracies"].items()}
    assert lengths == {"random": 2, "matched": 3, "weights": 3, "activations": 3}
    script.main(["run", *given])
    assert len((tmp_path / "stitch.jsonl").read_text().splitlines()) == 1
    assert "by weights" in (tmp_path / "stitch.md").read_text()
