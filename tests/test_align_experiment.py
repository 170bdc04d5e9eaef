"""The experiment on lines between networks: its plan, its arithmetic, and that it runs."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope_papers.setting import RESULTS
from sigmascope_papers.symmetry.lines import CURVES, Line, Lines, jackknifed, reduction

ZOO = Path(__file__).resolve().parents[1] / "zoo"
SCRIPTS = ("align_experiment", "align_gather", "align_jobs", "align_plan", "align_summary")
BEST = "activations, all, corrected"
OTHERS = ("train", "trainer", "recipes", "objectives", "journal")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(str(ZOO))
    settings = {name: getattr(torch.backends.cudnn, name) for name in ("allow_tf32", "benchmark")}
    with torch.random.fork_rng(devices=[]):
        yield {name: importlib.import_module(name) for name in SCRIPTS}
    for name, value in settings.items():
        setattr(torch.backends.cudnn, name, value)
    for name in (*SCRIPTS, *OTHERS):
        sys.modules.pop(name, None)


def row(family: str, seeds: tuple[int, int], lost: dict[str, float], width: int = 1) -> Any:
    """A pair whose lines lose so many points in the middle, all others 40."""
    curves = {}
    for curve in CURVES:
        for name in (curve, f"{curve}, corrected"):
            drop = lost.get(name, 40.0)
            losses = [0.5, 0.6 + drop / 100, 0.7]
            accuracies = [0.9, 0.85 - drop / 100, 0.8]
            curves[name] = {"losses": losses, "calibrated": losses, "accuracies": accuracies}
    similarity = {"procrustes": 1 - lost.get("activations, all, corrected", 40.0) / 100}
    facts = {"family": family, "seeds": list(seeds), "width": width, "curves": curves}
    facts |= {"images": 2500, "device": "cpu", "torch": "2"}
    return {"key": f"{family}{width}{seeds}", **facts, "similarity": {**similarity, "cka": 0.5}}


def test_the_files_are_in_the_zoo_and_the_pairs_are_all(scripts: dict[str, ModuleType]) -> None:
    jobs = scripts["align_jobs"]
    index = json.loads((ZOO / "index.json").read_text())
    for path in jobs.files():
        assert Path(path).stem in index
    keys = [job.key for job in jobs.planned([*jobs.FAMILIES], ["lines", "widths"])]
    assert len(keys) == len(set(keys)) == 28 + 36 + 6 + 1 + 3 + 6 + 6
    assert keys[0] == "train/vgg16-x4/1"
    assert keys[-1] == "lines/vgg16-x4/2-3"
    assert [job.key for job in jobs.planned(["resnet20"], ["lines"], 2)] == [
        "lines/resnet20/0-1",
        "lines/resnet20/0-2",
    ]


def test_heights_and_reductions(scripts: dict[str, ModuleType]) -> None:
    lines_of = scripts["align_summary"].lines_of
    rows = [row("myrtle", (0, 1), {BEST: 10.0}), row("myrtle", (0, 2), {"naive": 20.0, BEST: 0.0})]
    one, other = lines_of(rows).pairs
    assert one.lost("naive") == pytest.approx(40)
    assert one.heights["naive"]["losses"] == pytest.approx(0.4)
    assert reduction([one], BEST, "accuracies") == pytest.approx(0.75)
    assert reduction([one, other], BEST, "accuracies") == pytest.approx(1 - 10 / 60)
    trial = row("myrtle", (0, 3), {}) | {"images": 20}
    assert lines_of([*rows, trial]).pairs == (one, other)  # of the most images alone


def test_the_jackknife_leaves_networks_out() -> None:
    """With additive effects of networks its error is that of the mean of as many numbers, twice."""
    effects = np.array([0.0, 1.0, 3.0, 4.0, 9.0])
    pairs = [
        Line("myrtle", 1, (i, j), {"naive": {"accuracies": effects[i] + effects[j]}}, {})
        for i in range(5)
        for j in range(i)
    ]

    def mean(part: Sequence[Line]) -> float:
        return float(np.mean([one.lost("naive") for one in part]))

    value, error = jackknifed(pairs, mean)
    assert value == pytest.approx(2 * effects.mean())
    assert error == pytest.approx(2 * effects.std(ddof=1) / 5**0.5)
    few = [one for one in pairs if max(one.seeds) < 3]
    assert math.isnan(jackknifed(few, mean)[1])
    star = [one for one in pairs if 0 in one.seeds]  # as where the first pairs are measured
    assert math.isnan(jackknifed(star, mean)[1])


@pytest.mark.parametrize(("corrected", "answer"), [(2.0, "**holds**"), (30.0, "**fails**")])
def test_the_rule_is_applied(scripts: dict[str, ModuleType], corrected: float, answer: str) -> None:
    rows = []
    for family in ("myrtle", "vgg16"):
        for i in range(5):
            for j in range(i):
                lost = {"activations, all, corrected": corrected + (i + j) / 50}
                lost["weights, all"] = 35.0 + (i + j) / 50
                rows.append(row(family, (j, i), lost))
    for width, drop in ((2, corrected / 1.5), (4, corrected / 3)):
        rows += [
            row("vgg16", pair, {"activations, all, corrected": drop}, width)
            for pair in ((1, 2), (1, 3))
        ]
    text = scripts["align_summary"].summarized(rows)
    parts = dict(zip("012345", text.split("## "), strict=True))
    assert answer in parts["1"]
    assert "by weights: 4.92 points" in parts["2"]
    assert "**help**" in parts["2"].splitlines()[2]
    assert "**holds**" in parts["3"]
    assert "**holds**" in parts["4"]
    assert "G-Procrustes: -1.00 over all pairs, -" in parts["5"]
    assert "**holds**" in parts["5"].splitlines()[2]
    assert "G-CKA: nan over all pairs" in parts["5"]


def test_the_lines_are_stored_and_drawn(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row("myrtle", (0, one), {BEST: 2.0 + 3 * one}) for one in range(1, 6)]
    rows += [row("vgg16", (1, 2), {BEST: 20.0}), row("vgg16", (1, 2), {BEST: 8.0}, 2)]
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (tmp_path / "journal.jsonl").write_text(text + '{"key": "cut')
    main, stored = scripts["align_experiment"].main, tmp_path / "align.json"
    main(["summary", str(tmp_path), "--store", str(stored)])
    assert capsys.readouterr().out.startswith("7 pairs, 2500 images: 7 on cpu (torch 2).")
    assert Lines.load(stored) == scripts["align_summary"].lines_of(rows)
    main(["figure", str(tmp_path)])
    for name in ("lines", "similarity"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
    with pytest.raises(SystemExit, match=r"journal.jsonl does not exist"):
        main(["figure", str(tmp_path / "elsewhere")])


def test_what_is_stored_is_that_of_the_journal(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "align.json"
    scripts["align_experiment"].main(["summary", str(ZOO / "align"), "--store", str(stored)])
    assert (ZOO / "align" / "summary.md").read_text().endswith(capsys.readouterr().out)
    found = Lines.load(RESULTS / "trainings" / "align.json")
    assert found == Lines.load(stored)
    assert {name: len(own) for name, own in found.families.items()} == {
        "myrtle": 28,
        "myrtle-nobn": 3,
        "resnet20": 6,
        "vgg16": 36,
        "vit-patch4": 1,
        "vgg16 x2": 3,
        "vgg16 x4": 3,
    }


def write_data(folder: Path) -> None:
    """Write images of noise as `zoo/data.py` does."""
    folder.mkdir()
    drawn = np.random.default_rng(0)
    for split, count in (("train", 64), ("test", 20)):
        images = drawn.integers(0, 256, (count, 3, 32, 32), "uint8")
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", drawn.integers(0, 10, count, "uint8"))


def test_rows_of_trials_are_computed_again_and_needless_trainings_are_not(
    scripts: dict[str, ModuleType], tmp_path: Path
) -> None:
    jobs = scripts["align_jobs"]
    options, trial = (jobs.Options(tmp_path, tmp_path, "cpu", images) for images in (2500, 20))
    plan = jobs.planned(["vgg16"], ["widths"], 1)
    assert [job.key for job in plan] == [
        *("train/vgg16-x4/1", "train/vgg16-x4/2", "train/vgg16-x2/1", "train/vgg16-x2/2"),
        *("lines/vgg16-x2/1-2", "lines/vgg16-x4/1-2"),
    ]
    rows = {job.key: job.size(options) for job in plan}
    assert rows["train/vgg16-x4/1"] == {"epochs": 40}
    assert rows["lines/vgg16-x4/1-2"] == {"epochs": 40, "images": 2500}
    assert jobs.missing(plan, rows, options) == []  # though the weights are not there
    assert jobs.missing(plan, rows, trial) == plan
    del rows["lines/vgg16-x2/1-2"]
    left = [job.key for job in jobs.missing(plan, rows, options)]
    assert left == ["train/vgg16-x2/1", "train/vgg16-x2/2", "lines/vgg16-x2/1-2"]
    (tmp_path / "vgg16-x2-s1.safetensors").touch()
    left = [job.key for job in jobs.missing(plan, rows, options)]
    assert left == ["train/vgg16-x2/2", "lines/vgg16-x2/1-2"]
    assert jobs.Job("resnet20", (0, 1)).size(options) == {"images": 2500}


def test_what_the_lines_read_is_gathered(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data(tmp_path / "data")
    command = ["gather", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "new")]
    scripts["align_experiment"].main([*command, "--only", "vit-patch4", "--images", "8"])
    size = sum(one.stat().st_size for one in (tmp_path / "new").rglob("*") if one.is_file())
    assert capsys.readouterr().out == f"{tmp_path / 'new'}: {size / 1e6:.1f} MB\n"
    names = [one.name for one in sorted((tmp_path / "new" / "weights").iterdir())]
    assert names == ["vit-patch4-s0.safetensors", "vit-patch4-s1.safetensors"]
    assert [*json.loads((tmp_path / "new" / "index.json").read_text())] == [
        "vit-patch4-s0",
        "vit-patch4-s1",
    ]
    for split, count in (("train", 64), ("test", 8)):
        whole, part = (
            np.load(tmp_path / folder / f"{split}_images.npy") for folder in ("data", "new")
        )
        assert np.array_equal(part, whole[:count])


def test_what_is_planned_is_counted(scripts: dict[str, ModuleType]) -> None:
    jobs = scripts["align_jobs"]
    options = jobs.Options(Path(), Path(), "cpu", 2500)
    told = scripts["align_plan"].plan(jobs.planned([*jobs.FAMILIES], ["lines", "widths"]), options)
    rows = {line.split(" | ")[0]: line.split(" | ")[1:] for line in told}
    assert rows["| myrtle, pairs"][:2] == ["28", f"{81 * 2500 + 4000 + 3000:,}"]
    assert rows["| myrtle-nobn, pairs"][:2] == ["3", f"{86 * 2500 + 4000 + 3000:,}"]
    assert rows["| vgg16 x4, trainings"][:2] == ["3", f"{3 * 50000 * 40:,}"]
    ratio = float(rows["| vgg16 x4, pairs"][2]) / float(rows["| vgg16, pairs"][2])
    assert 15 < ratio < 17


def test_threads_are_told_to_new_processes_alone(
    scripts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = importlib.import_module("journal").threads
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threads(1000):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with threads(1000):
        assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "3"


@pytest.mark.thorough
def test_it_runs_and_resumes(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data(tmp_path / "data")
    command = ["run", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    command += ["--scratch", str(tmp_path / "scratch"), "--only", "resnet20", "--stage", "lines"]
    command += ["--pairs", "1", "--images", "20", "--jobs", "1", "--device", "cpu"]
    for _ in range(2):
        scripts["align_experiment"].main(command)
        assert "| resnet20 | 1 | naive |" in capsys.readouterr().out
        rows = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
        assert [json.loads(one)["key"] for one in rows] == ["lines/resnet20/0-1"]


@pytest.mark.thorough
def test_wide_networks_are_trained_and_followed(
    scripts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = scripts["align_jobs"]
    monkeypatch.setattr(jobs, "BASE", (4, 4, 6, 6, 6))
    write_data(tmp_path / "data")
    options = jobs.Options(tmp_path / "data", tmp_path, "cpu", 20, 1)
    pair = jobs.Job("vgg16", (1, 2), 2)
    assert not pair.ready(options)
    for seed in pair.seeds:
        training = jobs.Job("vgg16", (seed,), 2)
        rows = {training.key: {"epochs": 1}}
        assert not jobs.done(training, rows, options)  # its file is missing
        assert jobs.work(options, training)["epochs"] == 1
        assert jobs.done(training, rows, options)
    found = jobs.work(options, pair)
    assert jobs.done(pair, {pair.key: found}, options)
    assert found["width"] == 2
    assert [*found["curves"]][::2] == [*CURVES]
    assert set(map(len, found["curves"]["naive"].values())) == {5}
