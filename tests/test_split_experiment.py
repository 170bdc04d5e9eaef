"""The experiment on the split in training: when it measures, and that its trainings run."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from sigmascope_papers.nonlinearity.courses import Courses

ZOO = Path(__file__).resolve().parents[1] / "zoo"
SCRIPTS = ("split_experiment", "train", "trainer", "recipes", "objectives", "data")


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module("split_experiment")
    for name in SCRIPTS:
        sys.modules.pop(name, None)


def test_when_it_measures(experiment: ModuleType) -> None:
    steps = experiment.due(93, 80)
    assert steps[:13] == [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 93]
    assert [step / 93 for step in steps[12:21]] == [1, 2, 3, 4, 5, 6, 8, 10, 12]
    assert (steps[-1], len(steps)) == (93 * 80, 55)
    assert experiment.due(4, 7) == [0, 1, 2, 3, 4, 8, 12, 16, 20, 24, 28]  # the last of an odd one


def write_data(folder: Path) -> None:
    """Write images of noise as `zoo/data.py` does."""
    folder.mkdir()
    drawn = np.random.default_rng(0)
    for split, count in (("train", 232), ("test", 20)):
        np.save(folder / f"{split}_images.npy", drawn.integers(0, 256, (count, 3, 32, 32), "uint8"))
        np.save(folder / f"{split}_labels.npy", drawn.integers(0, 10, count, "uint8"))


@pytest.mark.slow
def test_all_of_it(experiment: ModuleType, tmp_path: Path, monkeypatch) -> None:
    write_data(tmp_path / "data")
    arguments = [str(tmp_path / "data"), str(tmp_path / "out"), "--device", "cpu"]
    arguments += ["--epochs", "1", "--batch", "32", "--probe", "168"]
    monkeypatch.setattr(experiment, "EARLY", (0,))
    for run in experiment.RUNS:  # in this process, which imports once
        experiment.main([*arguments, "--only", run])
    experiment.main(arguments)  # all are there
    out = tmp_path / "out"
    found = Courses.load(out / "split.json")
    assert [(one.network, one.seed, one.statistics) for one in found.courses] == [
        (network, seed, statistics)
        for seed in (0, 1)
        for network in ("resnet20", "plain20")
        for statistics in ("batch", "running")
    ]
    assert {(one.epoch, one.steps, len(one.sites)) for one in found.courses} == {(2, (0, 2), 19)}
    assert np.isfinite([one.gaps for one in found.courses]).all()
    batch, running = (np.array(one.scores) for one in found.courses[:2])
    assert not np.allclose(batch[0], running[0], atol=0.01)  # running statistics are 0 and 1
    known = json.loads((out / "plain20-s1.json").read_text())
    assert (known["epochs"], len(known["log"])) == (1, 1)
    assert "built in: " in (out / "summary.md").read_text()


@pytest.mark.slow
def test_monitors_change_nothing(experiment: ModuleType, tmp_path: Path, monkeypatch) -> None:
    """Training is the same to the bit with the monitors and without."""
    write_data(tmp_path / "data")
    data = experiment.load_data(tmp_path / "data", "cpu")
    recipe = experiment.Recipe(epochs=1, batch=32, rate=0.01)

    def trained() -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = experiment.NETWORKS["resnet20"]()
        trainer = experiment.WatchedTrainer(model, recipe, data, seed=0, images=168)
        model.train()
        trainer.measure()
        trainer.epoch(0)
        return model.state_dict()

    watched = trained()
    monkeypatch.setattr(experiment.WatchedTrainer, "measure", lambda self: None)
    plain = trained()
    assert all(torch.equal(watched[name], plain[name]) for name in plain)


def test_a_failed_training_is_named(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def run(command: list[str], **options: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=int("plain20-s1" in command))

    monkeypatch.setattr(experiment.subprocess, "run", run)
    (tmp_path / "resnet20-s0.json").write_text("{}")  # this one is done
    with pytest.raises(SystemExit, match=r"^failed: plain20-s1; the same command repeats only"):
        experiment.main(["DATA", str(tmp_path), "--epochs", "3", "--device", "cpu"])
    assert sorted(command[command.index("--only") + 1] for command in commands) == [
        "plain20-s0",
        "plain20-s1",
        "resnet20-s1",
    ]
    parsed = experiment.options().parse_args(commands[0][2:])  # what a process is told
    assert (parsed.data, parsed.out) == (Path("DATA"), tmp_path)
    assert (parsed.epochs, parsed.batch, parsed.probe, parsed.device) == (3, 512, 2000, "cpu")
