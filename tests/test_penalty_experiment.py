"""The experiment with the penalty: its trainings run, and its rule judges as it is written."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

ZOO = Path(__file__).resolve().parents[1] / "zoo"
SCRIPTS = ("penalty_experiment", "train", "trainer", "recipes", "objectives", "data")


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module("penalty_experiment")
    for name in SCRIPTS:
        sys.modules.pop(name, None)


def outcome(accuracy: float, inside: float, others: float = 0.7) -> dict[str, list[float]]:
    return {"accuracy": [accuracy] * 2, "inside": [inside] * 2, "others": [others] * 2}


@pytest.mark.parametrize(
    ("weighted", "slope", "expected"),
    [
        ((91.9, 0.75), (90.0, 0.9), ("yes, affinity-0.3", "affinity-0.3", "neither")),
        ((91.9, 0.75), (90.0, 0.7), ("yes, affinity-0.3", "affinity-0.3", "yes, affinity-0.3")),
        ((89.0, 0.75), (92.1, 0.9), ("no", "affinity-0.3", "loses")),
        ((90.5, 0.75), (92.6, 0.9), ("undecided", "affinity-0.3", "loses")),
        ((92.0, 0.62), (92.6, 0.9), ("no", "affinity-0.3", "loses")),
    ],
)
def test_the_rule(
    experiment: ModuleType,
    weighted: tuple[float, float],
    slope: tuple[float, float],
    expected: tuple[str, ...],
) -> None:
    nothing = outcome(92.0, 0.6)
    summary = dict.fromkeys(experiment.WAYS, nothing)
    summary |= {"affinity-0.3": outcome(*weighted), "prelu-0.3": outcome(*slope)}
    assert tuple(experiment.judged(summary).values()) == expected


def test_seeds_that_disagree_change_nothing(experiment: ModuleType) -> None:
    summary = {"none": outcome(92.0, 0.6), "affinity-1": outcome(92.0, 0.6)}
    summary["affinity-1"]["inside"] = [0.9, 0.5]
    assert experiment.change(summary, "affinity-1", "inside") == 0


@pytest.mark.slow
@pytest.mark.parametrize("run", ["affinity-1-s0", "prelu-0.3-s1"])
def test_a_training(experiment: ModuleType, run: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(experiment, "Recipe", _recipe)
    monkeypatch.setattr(experiment, "IMAGES", 40)
    generator = torch.Generator().manual_seed(0)
    data = {
        f"{split}_{kind}": torch.randn(n, 3, 32, 32, generator=generator)
        if kind == "images"
        else torch.randint(0, 10, (n,), generator=generator)
        for split, n in (("train", 64), ("test", 1000))
        for kind in ("images", "labels")
    }
    experiment.train(run, data, tmp_path, epochs=1)
    found = json.loads((tmp_path / f"{run}.json").read_text())
    assert (tmp_path / f"{run}.safetensors").exists()
    assert found["log"][0]["added"] > 0.01
    assert len(found["scores"]["positions"]) == 19
    inside, others = experiment.mean_scores(found)
    assert 0 < inside < 1
    assert 0 < others < 1
    assert len(found["slopes"]) == (9 if run.startswith("prelu") else 0)


def _recipe(epochs: int) -> object:
    from recipes import Recipe

    return Recipe(epochs=epochs, batch=32, rate=0.01)
