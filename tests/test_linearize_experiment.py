"""The experiment with linearized activations: its trainings go on where they stopped, its stages
run, and its rule judges as it is written.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope_papers.nonlinearity.criteria import NEEDED, TITLES, WORDS
from sigmascope_papers.nonlinearity.tuned_curves import PUBLISHED, Curves
from sigmascope_papers.setting import RESULTS

ZOO = Path(__file__).resolve().parents[1] / "zoo"
PARTS = (
    "experiment",
    "jobs",
    "networks",
    "penalized",
    "pool",
    "rounds",
    "selection",
    "stages",
    "summary",
    "training",
    "views",
    "workshop",
)
SCRIPTS = ("train", "trainer", "recipes", "objectives", "linearize_training")
SCRIPTS += tuple(f"linearize_{part}" for part in PARTS)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ZOO))
    yield lambda part: importlib.import_module(f"linearize_{part}")
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def training(load: Any) -> ModuleType:
    module: ModuleType = load("training")
    return module


def images(training: ModuleType, n: int = 24) -> Any:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(n, 3, 32, 32, generator=generator)
    return training.Images.of(pixels, torch.arange(n) % 10)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    head = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *head)


MAPS = {"2": (torch.tensor([0.5, 0.1, 0.0, 1.0]), torch.tensor([0.0, 1.0, 2.0, 0.0]), 1)}


def test_networks_have_the_published_numbers_of_activations(load: Any) -> None:
    networks = load("networks")
    kinds = (nn.ReLU, nn.ReLU6, nn.GELU)
    for name, plan in networks.PLANS.items():
        with torch.device("meta"):
            built = [table[name]() for table in (networks.NETWORKS, networks.NARROW)]
        for model in built:
            found = sum(isinstance(module, kinds) for module in model.modules())
            assert found == plan.activations
        assert max(*plan.removed, *plan.grid) < plan.activations


def test_views_are_shifted_and_flipped_slices(training: ModuleType) -> None:
    held = images(training)
    chosen, forth = torch.tensor([3, 5]), torch.arange(32)
    rows, columns = (4 + forth).expand(2, 32), torch.stack([4 + forth, 4 + forth.flip(0)])
    seen = held.view(chosen, rows, columns)
    original = held.padded[chosen][:, :, 4:36, 4:36].float()
    assert torch.equal(seen[0], original[0])
    assert torch.equal(seen[1], original[1].flip(2))


def test_views_follow_from_seed_and_epoch(training: ModuleType) -> None:
    first, again, other = (
        training.Views.of(50, 1, epoch, torch.device("cpu")) for epoch in (0, 0, 1)
    )
    assert torch.equal(first.columns, again.columns)
    assert not torch.equal(first.columns, other.columns)
    numbers = torch.cat([batch[0] for batch in first.batches(20, whole=False)])
    assert sorted(numbers.tolist()) == list(range(50))
    assert len(list(first.batches(20, whole=True))) == 2


def test_an_activation_fades_into_its_map(training: ModuleType) -> None:
    model = small().eval()
    x = torch.randn(5, 3, 32, 32)
    made, share = training.linearized(model, ["2"], MAPS)
    scale, shift, _ = MAPS["2"]
    before = model[:2](x)
    mapped = before * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)
    torch.testing.assert_close(made[:3](x), mapped)
    made[2].is_done = False
    for value, expected in (
        (0.0, before.relu()),
        (1.0, mapped),
        (0.5, (before.relu() + mapped) / 2),
    ):
        share.fill_(value)
        torch.testing.assert_close(made[:3](x), expected)
    assert isinstance(model[2], nn.ReLU)


def test_a_training_that_was_stopped_goes_on(
    training: ModuleType, load: Any, tmp_path: Path
) -> None:
    held, recipe = (
        images(training),
        load("networks").Recipe(4, 0.05, batch=8, fade=0.6, distill=0.5),
    )
    told = training.answers(small(), held, seed=7, epochs=4)

    def started() -> Any:
        made, share = training.linearized(small(), ["2"], MAPS)
        return training.Training(made, recipe, held, seed=7, teacher=told, share=share)

    whole, first, second = started(), started(), started()
    whole.run()
    with pytest.raises(training.OutOfTime, match="deadline"):
        first.run(deadline=-math.inf, partial=tmp_path / "partial")
    assert first.step == 3
    with pytest.raises(training.OutOfTime, match="deadline"):
        second.run(deadline=-math.inf, partial=tmp_path / "partial")
    assert second.step == 6
    third = started()
    third.run(partial=tmp_path / "partial")
    assert third.losses == whole.losses
    for one, other in zip(third.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not (tmp_path / "partial").exists()


@pytest.mark.parametrize("backend", ["", pytest.param("aot_eager", marks=pytest.mark.thorough)])
def test_a_workshop_trains_as_single_trainings_do(
    training: ModuleType, load: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the same from scratch, then without an activation, then as it was: nothing is left."""
    held = images(training)
    first = load("networks").Recipe(2, 0.05, batch=8)
    then = replace(first, fade=0.6, distill=0.5, clip=1.0)
    told = training.answers(small().eval(), held, seed=7, epochs=2)
    workshop = load("workshop").Workshop(small(), MAPS, first, held, backend=backend)
    state = {name: value.clone() for name, value in small().state_dict().items()}
    for recipe, sites in ((first, []), (then, ["2"]), (first, []), (then, [])):
        made, share = training.linearized(small(), sites, MAPS)
        alone = training.Training(
            made, recipe, held, seed=7, teacher=told, share=share if sites else None
        )
        alone.run()
        again = workshop.begin(state, recipe, seed=7, sites=sites, maps=MAPS, teacher=told)
        again.run()
        assert again.losses == pytest.approx(alone.losses, abs=1e-4)
        found = workshop.finished(small(), sites, MAPS)
        for name, value in alone.model.state_dict().items():
            torch.testing.assert_close(found.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_a_workshop_refuses_weights_of_another_network(training: ModuleType, load: Any) -> None:
    recipe = load("networks").Recipe(2, 0.05, batch=8)
    workshop = load("workshop").Workshop(small(), MAPS, recipe, images(training), backend="")
    state = {name: value for name, value in small().state_dict().items() if name != "0.bias"}
    with pytest.raises(ValueError, match=r"weights of another network: \['0.bias'\]"):
        workshop.begin(state, recipe, seed=0)


def test_a_teacher_answers_to_the_views_of_the_training(training: ModuleType) -> None:
    model, held = small().eval(), images(training)
    told = training.answers(model, held, seed=3, epochs=2)
    views = training.Views.of(len(held), 3, 1, torch.device("cpu"))
    for batch in views.batches(7, whole=False):
        expected = model(held.view(*batch))
        torch.testing.assert_close(told[1][batch[0]].float(), expected, rtol=1e-2, atol=1e-3)


def rows_of(advantage: float, noise: float, stage: str) -> list[dict[str, Any]]:
    """Return two networks with three seeds; affinity is better than r2 by so much."""
    rows = []
    for i, network in enumerate(("resnet18", "vgg16")):
        for seed in range(3):
            shared = {"stage": stage, "network": network, "seed": seed, "maps": "affine"}
            for criterion, accuracy in (
                *(("affinity", 80 + advantage + noise * (seed - 1 + i)), ("r2", 80.0)),
                *((f"random-{draw}", 60.0 + draw) for draw in range(5)),
            ):
                held = {"removed": 8, "criterion": criterion, "test": accuracy}
                rows.append(shared | held | {"held_out": accuracy})
    return rows


@pytest.mark.parametrize(
    ("advantage", "noise", "stage", "expected"),
    [
        (0.0, 0.2, "tuned", ("ties", "helps")),
        (0.5, 0.1, "tuned", ("beats", "helps")),
        (-2.0, 0.1, "tuned", ("loses", "helps")),
        (-1.0, 1.5, "tuned", ("undecided", "helps")),
        (-1.0, 1.5, "untuned", ("ties", "helps")),
        (-30.0, 1.0, "untuned", ("loses", "hurts")),
        (-18.0, 5.0, "tuned", ("loses", "undecided")),
    ],
)
def test_the_rule(
    load: Any, advantage: float, noise: float, stage: str, expected: tuple[str, str]
) -> None:
    summary = load("summary")
    cells = summary.cells_of(rows_of(advantage, noise, stage), stage, "affine")
    found = tuple(
        summary.verdict(rival, summary.advantages(cells, rival), stage)
        for rival in ("r2", "random")
    )
    assert found == expected


def test_cells_that_not_all_criteria_have_are_left_out(load: Any) -> None:
    rows = rows_of(1.0, 0.0, "tuned")
    rows = [row for row in rows if (row["seed"], row["criterion"]) != (1, "random-3")]
    cells = load("summary").cells_of(rows, "tuned", "affine")
    assert {unit[1] for unit, _ in cells["affinity"]} == {0, 2}


def test_a_drop_is_taken_against_the_better_of_original_and_control(load: Any) -> None:
    shared = {"network": "vgg16", "seed": 0, "origin": "a", "held_out": 0.0, "seconds": 1.0}
    shared["criterion"] = "affinity"
    tuned, other = ({"epochs": n, "recipe": {"epochs": n, "rate": 0.1}} for n in (12, 3))
    rows = [
        shared | {"stage": "train", "test": 93.0, "epochs": 20},
        shared | {"stage": "control", "test": 94.0} | tuned,
        shared | {"stage": "control", "test": 99.0} | other,
        shared | {"stage": "curve", "removed": 12, "test": 92.5} | tuned,
        shared | {"stage": "curve", "removed": 14, "test": 92.5} | tuned | {"origin": "b"},
        shared | {"stage": "curve", "removed": 12, "test": 90.0, "criterion": "gradient"} | tuned,
    ]
    summary = load("summary")
    assert summary.drops(rows) == {("vgg16", 12, 12): {0: (92.5, 1.5)}}
    assert summary.drops(rows, "gradient") == {("vgg16", 12, 12): {0: (90.0, 4.0)}}
    assert "| 12 | 12 | 92.50 | 92.50 | 1.50 | 1.50 | 1.0 |" in summary.summarized(rows)
    (point,) = summary.curves_of(rows).points
    assert (point.removed, point.epochs, point.accuracy, point.original) == (12, 12, 92.5, 94.0)


def test_what_is_stored_is_that_of_the_journal(
    load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, stored = ZOO / "linearize" / "journal.jsonl", tmp_path / "linearize.json"
    before = journal.stat().st_mtime_ns
    load("experiment").main(["summary", str(journal.parent), "--points", str(stored)])
    assert journal.stat().st_mtime_ns == before
    told = (journal.parent / "summary.md").read_text(encoding="utf-8")
    assert told.endswith(f"\n{capsys.readouterr().out}")
    found = Curves.load(RESULTS / "trainings" / "linearize.json")
    assert found == Curves.load(stored)
    measured = {one.network for one in found.points}
    assert {"resnet18", "vgg16"} <= measured
    assert len(found.points) == 9 * len(measured)
    assert "random" in {one.rival for one in found.advantages}


def test_published_numbers_are_those_of_the_plans(load: Any) -> None:
    for name, plan in load("networks").PLANS.items():
        published = PUBLISHED[name]
        assert plan.activations == published.activations
        assert plan.start == published.accuracy[0]
        assert plan.published == tuple(published.accuracy[n] for n in plan.removed)
        assert dict(zip(plan.removed, plan.drops, strict=True)) == published.goals


def test_the_item_tells_what_the_experiment_does(load: Any) -> None:
    experiment, jobs, networks = (load(part) for part in ("experiment", "jobs", "networks"))
    assert {"untuned": len(networks.PLANS), "tuned": len(experiment.TUNED)} == NEEDED
    assert jobs.TUNED_EPOCHS == 0.5
    assert WORDS["tuned"] == "tuned for half an epoch"
    assert {*TITLES} | {"affinity"} == {name.partition("-")[0] for name in jobs.CRITERIA}


def test_a_lost_file_is_made_again_only_where_it_is_needed(load: Any, tmp_path: Path) -> None:
    jobs, pool, experiment = load("jobs"), load("pool"), load("experiment")
    options = jobs.Options(tmp_path, tmp_path, "cpu", epochs=2.0)
    journal = pool.Journal(tmp_path / "out" / "journal.jsonl", tmp_path / "journal.jsonl")
    journal.add({"key": "train/vgg16/0"})
    again = pool.Journal(tmp_path / "elsewhere" / "journal.jsonl", tmp_path / "journal.jsonl")
    wanted = experiment.wanted(["vgg16"], ["train"], [0])
    assert experiment.planned(wanted, again, options) == []
    wanted = experiment.wanted(["vgg16"], ["train", "curves"], [0])
    stages = [job.stage for job in experiment.planned(wanted, again, options)]
    assert stages == ["train", "teacher", "control", "rank", "curve", "curve", "curve"]
    assert not pool.ready(wanted[1], options)


def test_rows_of_other_weights_do_not_replace_each_other(load: Any) -> None:
    pool = load("pool")
    row = {"key": "train/vgg16/0", "origin": "a", "test": 1.0}
    assert pool.beside(None, row) == row
    assert pool.beside(row, row | {"test": 2.0}) == row | {"test": 2.0}
    other = pool.beside(row, row | {"origin": "b"})
    assert (other["key"], other["repeated"]) == ("train/vgg16/0/b", True)


@pytest.mark.parametrize(("ease", "shares"), [(1, [0, 0.5, 1, 1]), (3, [0, 0.875, 1, 1])])
def test_activations_fade_by_a_power_of_time(
    load: Any, training: ModuleType, ease: float, shares: list[float]
) -> None:
    recipe = load("networks").Recipe(4, 0.0, batch=24, fade=0.5, ease=ease)
    made, share = training.linearized(small(), ["2"], MAPS)
    started = training.Training(made, recipe, images(training), seed=0, share=share)
    seen = []
    for step in range(4):
        started.step = step
        started._fade()
        seen.append(float(share))
    assert seen == shares


@pytest.mark.parametrize(
    ("removed", "rounds", "expected"),
    [(14, 1, [14]), (14, 2, [11, 3]), (8, 3, [6, 2, 0]), (1, 2, [1, 0])],
)
def test_rounds_remove_most_at_first(
    load: Any, removed: int, rounds: int, expected: list[int]
) -> None:
    assert load("rounds").counts(removed, rounds) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "backend"),
    [("resnet18", ""), pytest.param("swin", "aot_eager", marks=pytest.mark.thorough)],
)
def test_all_stages(
    load: Any, network: str, backend: str, tmp_path: Path, monkeypatch: Any
) -> None:
    generator = np.random.default_rng(0)
    for split, n in (("train", 120), ("test", 20)):
        labels = generator.integers(0, 10, n)
        np.save(tmp_path / f"{split}_labels.npy", labels.astype(np.uint8))
        pixels = generator.integers(0, 200, (n, 3, 32, 32)) + 5 * labels[:, None, None, None]
        np.save(tmp_path / f"{split}_images.npy", pixels.astype(np.uint8))
    jobs, stages, pool, experiment = (load(one) for one in ("jobs", "stages", "pool", "experiment"))
    plan = replace(stages.PLANS[network], grid=(2,), removed=(2, 4, 6))
    monkeypatch.setitem(stages.PLANS, network, plan)
    options = jobs.Options(tmp_path, tmp_path, "cpu", epochs=1.0, narrow=True, compile_with=backend)
    journal, bench = pool.Journal(tmp_path / "journal.jsonl"), stages.Bench(options)
    public = ["train", "curves", "untuned", "tuned"]
    wanted = [
        *experiment.wanted([network], public, [0]),
        *(jobs.Job("pilot", network, 0, 4, variant) for variant in ("fade=0", "rounds=2")),
    ]
    for job in experiment.planned(wanted, journal, options):
        if job.removed in (0, 4):
            assert pool.ready(job, options)
            for row in stages.STAGES[job.stage](job, bench, set()):
                journal.add(row)
            assert set(jobs.keys(job, options)) <= set(journal.rows)
    curve = journal.rows[f"curve/{network}/0/4/1"]
    assert curve["sites"] == journal.rows[f"rank/{network}/0"]["orders"]["affinity"][:4]
    bench.options = replace(options, by="gradient")
    control = jobs.Job("control", network, 0)
    assert jobs.keys(control, bench.options) == [f"control/{network}/0/1,by=gradient"]
    [row] = stages.STAGES["curve"](jobs.Job("curve", network, 0, 4), bench, set())
    journal.add(row)
    other = journal.rows[f"curve/{network}/0/4/1,by=gradient"]
    assert other["sites"] == journal.rows[f"rank/{network}/0"]["orders"]["gradient"][:4]
    assert {one["criterion"] for one in (curve, other)} == {"affinity", "gradient"}
    assert (tmp_path / f"curve-{network}-s0-4-1-by=gradient.pt").exists()
    pilot = journal.rows[f"pilot/{network}/0/4/fade=0"]
    assert "test" not in pilot
    assert pilot["recipe"]["fade"] == 0
    rounds = journal.rows[f"pilot/{network}/0/4/rounds=2"]
    assert rounds["sites"][:3] == curve["sites"][:3]  # the first round, of the same measurement
    assert len({*rounds["sites"]}) == 4
    assert len(rounds["losses"]) == 2
    export = load("export")
    source = tmp_path / f"curve-{network}-s0-4-1.pt"
    exported = export.load(export.write(source, tmp_path / "small"), narrow=True)
    maps = [one for one in exported.modules() if isinstance(one, sg.linearize.Affine)]
    assert len(maps) == 4
    nothing, held = {}, torch.load(source, weights_only=True)
    for site, axis in held["axes"].items():
        width = len(held["state"][f"{site}.scale"])
        nothing[site] = torch.zeros(width), torch.zeros(width), axis
    tuned, _ = load("training").linearized(bench.original(job)[0], curve["sites"], nothing)
    tuned.load_state_dict(held["state"])
    x = bench.parts["test"][0]
    torch.testing.assert_close(exported(x), tuned.eval()(x), rtol=2e-2, atol=2e-2)
    printed = experiment.summarized(list(journal.rows.values()))
    table, by_gradient = (part for part in printed.split("\n\n") if "published (drop)" in part)
    assert by_gradient.startswith("| network, by gradient |")
    assert table.splitlines()[2].startswith(f"| {network} ")
