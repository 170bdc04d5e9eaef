"""The six tests of measures of similarity: their networks, their scores, and that they run."""

from __future__ import annotations

import doctest
import importlib
import json
import math
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope_papers.setting import RESULTS
from sigmascope_papers.symmetry.similarity_tests import Scores, SimilarityTests, interval

ZOO = Path(__file__).resolve().parents[1] / "zoo"
SCRIPTS = ("trainings", "measures", "jobs", "scores", "summary", "experiment")
OTHERS = (
    "train",
    "trainer",
    "recipes",
    "objectives",
    "align_experiment",
    "align_jobs",
    "align_gather",
)


@pytest.fixture
def resi(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(str(ZOO))
    settings = {name: getattr(torch.backends.cudnn, name) for name in ("allow_tf32", "benchmark")}
    with torch.random.fork_rng(devices=[]):
        yield {name: importlib.import_module(f"resi_{name}") for name in SCRIPTS}
    for name, value in settings.items():
        setattr(torch.backends.cudnn, name, value)
    for name in (*(f"resi_{one}" for one in SCRIPTS), *OTHERS):
        sys.modules.pop(name, None)


def test_the_examples_in_the_docstrings(resi: dict[str, ModuleType]) -> None:
    tried = [doctest.testmod(resi[name]) for name in ("scores", "jobs")]
    assert sum(one.attempted for one in tried) >= 7
    assert not sum(one.failed for one in tried)


def test_no_two_networks_share_a_seed_and_degree_0_is_shared(resi: dict[str, ModuleType]) -> None:
    t, jobs = resi["trainings"], resi["jobs"]
    setting = jobs.Setting(Path(), Path(), "cpu", 5000, 12, 128, 32, 1000, 4, 10)
    plan = jobs.planned(setting)
    trained = [job.training for job in plan if job.slow]
    assert len({one.random for one in trained}) == len(trained) == 10 + 4 * (4 + 5 + 4)
    assert [one.seed for one in trained] == sorted(one.seed for one in trained)
    assert t.member("label", 0, 2) == t.member("augmentation", 0, 2) == t.Training("plain", 0, 2)
    assert t.member("shortcut", 0, 2) != t.member("label", 0, 2)
    keys = [job.key for job in plan]
    assert len(set(keys)) == len(keys) == len(trained) + 3 * 190 + 10 + 45


def test_labels_and_dots(resi: dict[str, ModuleType]) -> None:
    t = resi["trainings"]
    labels = torch.arange(4000) % 10
    images = torch.zeros(4000, 3, 32, 32)
    for degree in (0, 25, 50, 100):
        wrong = t.training_set(t.Training("label", degree, 3), images, labels)[1] != labels
        assert float(wrong.float().mean()) == pytest.approx(0.9 * degree / 100, abs=1e-3)
        own = float((t.dot_classes(labels, degree) == labels).float().mean())
        assert own == pytest.approx(0.1 + 0.9 * degree / 100, abs=0.02)
    same = [t.training_set(t.Training("label", 50, seed), images, labels)[1] for seed in (0, 1)]
    assert torch.equal(*same)
    marked = t.dotted(images, labels)
    assert len(torch.unique(marked[:, :, 0, 0], dim=0)) == 10
    assert torch.equal(marked[0], marked[10])
    assert float(marked[:, :, t.DOT :].abs().sum() + marked[:, :, :, t.DOT :].abs().sum()) == 0
    assert float(images.abs().sum()) == 0  # the images themselves are left as they are


def test_strengths_of_augmentation(resi: dict[str, ModuleType]) -> None:
    t = resi["trainings"]
    recipes = [t.Training("augmentation", degree, 0).recipe(3, 8) for degree in (0, 25, 50, 100)]
    assert [(one.augment, one.cutout) for one in recipes] == [
        (False, 0),
        (True, 0),
        (True, 8),
        (True, 24),
    ]
    assert not t.Training("label", 100, 0).recipe(3, 8).augment


def test_layers_are_those_of_the_forward_pass(resi: dict[str, ModuleType]) -> None:
    t = resi["trainings"]
    torch.manual_seed(0)
    model, x = t.Chain(8).eval(), torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        found = t.represented(model, x)
        assert found.shape == (6, 5, 8)
        assert float(found.min()) >= 0
        torch.testing.assert_close(model.fc(found[-1]), model(x))
    assert [one.shape[2] for one in model.layers(x)] == [16, 8, 8, 4, 4, 4]


def pairs_of(resi: dict[str, ModuleType], degrees: int, seeds: int) -> list[Any]:
    nodes = [resi["scores"].Node(d, s, 5) for d in range(degrees) for s in range(seeds)]
    return list(combinations(nodes, 2))


def test_average_precision_is_that_of_scikit_learn(resi: dict[str, ModuleType]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    pairs, random = pairs_of(resi, 4, 3), np.random.default_rng(0)
    same = {pair: float(pair[0].degree == pair[1].degree) for pair in pairs}
    for digits in (9, 1):  # without ties, with many
        values = {pair: round(float(random.random()), digits) for pair in pairs}
        expected = metrics.average_precision_score(
            [same[pair] for pair in pairs], [values[pair] for pair in pairs]
        )
        assert resi["scores"].auprc(values, same) == pytest.approx(expected)
    assert resi["scores"].auprc(same, same) == 1
    assert math.isnan(resi["scores"].auprc(dict.fromkeys(pairs, math.nan), same))


def test_conformity_by_brute_force(resi: dict[str, ModuleType]) -> None:
    s = resi["scores"]
    pairs, random = pairs_of(resi, 3, 3), np.random.default_rng(1)
    same = {pair: float(pair[0].degree == pair[1].degree) for pair in pairs}
    values = {pair: round(float(random.random()), 1) for pair in pairs}
    both = values | {pair[::-1]: value for pair, value in values.items()}
    nodes, orders = {node for pair in pairs for node in pair}, []
    for f in nodes:
        for g in nodes - {f}:
            for h in nodes - {f, g}:
                if f.degree == g.degree != h.degree:
                    near, far = both[f, g], both[f, h]
                    orders.append(1.0 if near > far else 0.5 if near == far else 0.0)
    assert len(orders) == 9 * 2 * 6
    assert s.group_conformity(values, same) == pytest.approx(np.mean(orders))
    assert s.group_conformity(same, same) == 1
    assert s.group_conformity(dict.fromkeys(pairs, 0.3), same) == 0.5


def test_orders_of_layers(resi: dict[str, ModuleType]) -> None:
    s = resi["scores"]
    pairs = [
        pair
        for seed in (0, 1)
        for pair in combinations([s.Node(0, seed, layer) for layer in range(6)], 2)
    ]
    distance = {(a, b): float(b.layer - a.layer) for a, b in pairs}
    falling = {pair: -value for pair, value in distance.items()}
    assert s.nested_conformity(falling, distance) == 1
    assert s.nested_conformity(distance, distance) == 0
    assert s.layer_correlation(falling, distance) == pytest.approx(1)
    one_of_both = {pair: value * (1 if pair[0].seed else -1) for pair, value in distance.items()}
    assert s.nested_conformity(one_of_both, distance) == 0.5
    assert s.layer_correlation(one_of_both, distance) == pytest.approx(0)


def test_the_jackknife_of_a_mean() -> None:
    """Of a plain mean it gives the usual error; of two tests that move alike no smaller one."""
    random = np.random.default_rng(2)
    numbers = random.standard_normal(8)
    left = {str(seed): float(np.delete(numbers, seed).mean()) for seed in range(8)}
    one, zero = Scores(float(numbers.mean()), left), Scores(0.0, dict.fromkeys(left, 0.0))
    half = 2.3646243 * numbers.std(ddof=1) / 8**0.5
    for count in (1, 2):
        found = interval([one] * count, [zero] * count)
        assert found == pytest.approx(
            (numbers.mean(), numbers.mean() - half, numbers.mean() + half)
        )
    opposite = Scores(-one.value, {seed: -value for seed, value in left.items()})
    assert interval([one, opposite], [zero, zero]) == pytest.approx((0, 0, 0))


def made_rows(resi: dict[str, ModuleType], quality: dict[str, float]) -> list[dict[str, Any]]:
    """Rows of an experiment in which each measure is right but for noise."""
    jobs, random = resi["jobs"], np.random.default_rng(3)
    setting = jobs.Setting(Path(), Path(), "cpu", 1, 1, 1, 8, 4, 4, 8)

    def values(truth: float) -> dict[str, float]:
        names = resi["measures"].MEASURES
        return {one: truth + quality.get(one, 0.3) * random.standard_normal() for one in names}

    rows = []
    skill = dict(zip(range(8), random.random(8), strict=True))
    for job in jobs.planned(setting):
        row: dict[str, Any] = {"key": job.key, "setting": setting.facts}
        if job.slow:
            degree = job.training.degree / 100
            good = 0.5 + skill[job.training.seed] / 10 - degree / 5
            row |= {"accuracy": good, "followed": degree, "hardened": degree / 2, "seconds": 1.5}
        elif job.key.startswith("monotonicity"):
            pairs = list(combinations(range(6), 2))
            row |= {"seed": job.training.seed, "pairs": pairs}
            row["values"] = [values((i - j) / 5) for i, j in pairs]
        else:
            apart = abs(skill[job.a.seed] - skill[job.b.seed])
            alike = job.test == "alike"
            truth = -apart if alike else float(job.a.degree == job.b.degree)
            row |= {"ends": [[one.degree, one.seed] for one in (job.a, job.b)]}
            row |= {"values": values(truth), "outputs": {"disagreement": apart, "jsd": apart}}
        rows.append(row)
    return rows


def test_the_rule_is_applied(resi: dict[str, ModuleType]) -> None:
    rows = made_rows(resi, {"G-CKA": 0.0, "G-Procrustes": 3.0, "orthogonal Procrustes": 0.01})
    text = resi["summary"].summarized(rows, rows[0]["setting"])
    parts = dict(
        zip(
            ("", *["worked", "ranks", "scores", "against", "group"]), text.split("## "), strict=True
        )
    )
    assert "60 trainings, 90 s of all processes together" in parts[""]
    assert parts["worked"].count("| yes |") == 3
    table = [line.split(" | ") for line in parts["ranks"].splitlines() if " (" in line]
    assert table[0][0] == "| G-CKA"
    assert table[-1][0] == "| G-Procrustes"
    assert "| G-CKA | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 |" in parts["scores"]
    assert "All tests count." in parts["ranks"]
    assert "mean: G-Procrustes less orthogonal Procrustes" in parts["group"]
    hurt = [line for line in parts["group"].splitlines() if "mean: G-Procrustes" in line]
    assert hurt[0].endswith("| hurts |")
    lost = [line for line in parts["against"].splitlines() if "| label | G-Procrustes" in line]
    assert lost[0].endswith("| loses |")
    # without its effect a treatment does not count
    flat = [row | ({"hardened": 0.5} if "hardened" in row else {}) for row in rows]
    text = resi["summary"].summarized(flat, rows[0]["setting"])
    assert "Not counted in the mean: augmentation." in text
    other = resi["summary"].summarized(rows, {**rows[0]["setting"], "width": 9})
    assert other == "Not all tests have been made: none so far."


def test_what_is_stored_is_that_of_the_journal(
    resi: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "resi.json"
    resi["experiment"].main(["summary", str(ZOO / "resi"), "--store", str(stored)])
    assert (ZOO / "resi" / "summary.md").read_text().endswith(capsys.readouterr().out)
    found = SimilarityTests.load(RESULTS / "trainings" / "resi.json")
    assert found == SimilarityTests.load(stored)
    assert {len(test) for test in found.scores.values()} == {9}


def write_data(folder: Path) -> None:
    """Write images of noise as `zoo/data.py` does."""
    folder.mkdir()
    drawn = np.random.default_rng(0)
    for split, count in (("train", 64), ("test", 24)):
        images = drawn.integers(0, 256, (count, 3, 32, 32), "uint8")
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", drawn.integers(0, 10, count, "uint8"))


def test_networks_are_trained_again_only_where_comparisons_need_them(
    resi: dict[str, ModuleType], tmp_path: Path
) -> None:
    jobs = resi["jobs"]
    setting = jobs.Setting(Path(), tmp_path, "cpu", 1, 1, 1, 8, 4, 2, 3)
    plan = jobs.planned(setting)
    assert jobs.missing(plan, {}, setting) == plan
    rows = {job.key: {"setting": setting.facts} for job in plan}
    assert jobs.missing(plan, rows, setting) == []  # though no file is there
    pair = next(job for job in plan if job.key == "label/label-25-s0/label-50-s1")
    del rows[pair.key]
    left = jobs.missing(plan, rows, setting)
    assert [job.key for job in left] == ["train/label-25-s0", "train/label-50-s1", pair.key]
    assert not jobs.ready(setting, pair)
    for job in left[:2]:
        jobs.file_of(job.training, setting).touch()
    assert jobs.ready(setting, pair)
    assert jobs.missing(plan, rows, setting) == [pair]
    other = jobs.Setting(Path(), tmp_path, "cpu", 1, 2, 1, 8, 4, 2, 3)
    assert jobs.missing(plan, rows, other) == plan
    for job in plan:
        job.forget(other)
    assert not jobs.ready(setting, pair)  # what another setting trained is gone


@pytest.mark.slow
def test_it_runs_and_resumes(
    resi: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data(tmp_path / "data")
    command = ["run", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    command += ["--scratch", str(tmp_path / "scratch"), "--images", "64", "--epochs", "1"]
    command += ["--batch", "16", "--width", "8", "--probe", "20", "--seeds", "2", "--alike", "4"]
    command += ["--device", "cpu"]
    experiment = resi["experiment"]
    experiment.main([*command, "--minutes", "0"])
    assert "Unfinished: 175, from train/plain-0-s0 on." in capsys.readouterr().out
    experiment.main(command)
    first = capsys.readouterr().out
    assert "| label | accuracy |" in first
    journal = tmp_path / "out" / "journal.jsonl"
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(rows) == 175
    assert all(math.isfinite(v) for row in rows if "ends" in row for v in row["values"].values())
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows[:-3]))
    experiment.main(command)  # the last three again, with the same numbers
    assert [json.loads(line) for line in journal.read_text().splitlines()] == rows
    capsys.readouterr()
    stored = tmp_path / "resi.json"
    experiment.main(["summary", str(tmp_path / "out"), "--store", str(stored)])
    assert capsys.readouterr().out in first
    found = SimilarityTests.load(stored)
    assert [*found.scores] == [*resi["scores"].TESTS]
    assert found == resi["summary"].tests_of(rows, rows[0]["setting"])
    assert (tmp_path / "out" / "summary.md").read_text() in first
