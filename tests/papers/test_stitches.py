"""Stored stitching experiments: what is read, refused, continued, and never touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.models import model
from sigmascope.errors import FileFormatError, InputError, ResumeError
from sigmascope.stitching import Task, settings_for
from sigmascope.store import claim_beside
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import kept, plans, stitches
from sigmascope_papers.symmetry.kept import images_of, kept_place, member, samples_of
from sigmascope_papers.symmetry.plans import SMOKE, Plan
from sigmascope_papers.symmetry.stitches import FOLDER, PairStitches, Stitches, stitches_of
from tests.papers.staged_stitches import staged, store

ZOO = Path(__file__).resolve().parents[2] / "zoo"
SITES = {"act1": "3", "blocks.0.act1": "8*", "blocks.8.act2": "75"}
PLAN = Plan(
    "trial",
    "resnet20",
    ((0, 1), (2, 3)),
    SITES,
    {"full": Task("full"), "permutation": Task("permutation")},
    epochs=2,
    smoke_sites=("blocks.8.act2",),
)
ALL_PLANS = [
    plans.MYRTLE,
    plans.RESNET20,
    plans.RESNET18,
    plans.TRANSFORMER,
    plans.ALPHA,
    plans.LASSO,
    *plans.LEAKY.values(),
]


def numbers(plan: Plan = PLAN) -> dict[str, np.ndarray]:
    return {label: np.arange(1.0, len(plan.layers) + 1) + at for at, label in enumerate(plan.tasks)}


class Trainer:
    """Stands in for `Stitcher`: remembers what it is asked for, and stops at a site if told so."""

    def __init__(self, stop_at: str = "") -> None:
        self.stop_at = stop_at
        self.asked: list[str] = []
        self.tasks: list[Task] = []

    def __call__(
        self, front: nn.Module, back: nn.Module, batches: Any, **options: Any
    ) -> SimpleNamespace:
        return SimpleNamespace(fit_many=lambda tasks: self.fit_many(tasks, **options))

    def fit_many(self, tasks: Sequence[Task], **options: Any) -> list[SimpleNamespace]:
        site = options["site"]
        if site == self.stop_at:
            raise KeyboardInterrupt("stopped here")
        self.asked.append(site)
        self.tasks = list(tasks)
        return [
            SimpleNamespace(
                site=site,
                channels=16,
                front_accuracy=90.0,
                back_accuracy=92.0,
                stitched_accuracy=80.0 + len(site) + at,
                chosen_accuracy=81.0,
                best_epoch=1,
                sparsity=0.5,
                notes=(),
                history=(SimpleNamespace(accuracy=81.0),),
                settings=settings_for(options["preset"], task.family, task.changes),
                samples=(45, 5, 10),
                augment="flip-shift",
            )
            for at, task in enumerate(tasks)
        ]


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """Nothing is trained, and no network or image is read."""
    one = Trainer()
    monkeypatch.setattr(stitches, "Stitcher", one)
    monkeypatch.setattr(kept, "member", lambda *_: SimpleNamespace(network=nn.Linear(1, 1)))
    monkeypatch.setattr(kept, "samples_of", lambda *_: None)
    return one


def scratch(folder: Path | None) -> Setting:
    return Setting(from_scratch=True, keep=folder, progress=False)


def same(one: Stitches, other: Stitches) -> bool:
    return (one.plan, one.pairs) == (other.plan, other.pairs)


# Numbers


def test_penalties_are_mean_accuracies_minus_those_of_the_stitched() -> None:
    found = staged(PLAN, {"full": [1.0, 2.0, math.nan]}, noise=0.5, accuracies=(90.0, 94.0))
    np.testing.assert_allclose(
        found.penalties("full"), [[0.5, 1.5, math.nan], [1.5, 2.5, math.nan]]
    )
    np.testing.assert_allclose(found.values("stitched_accuracy", "full")[0], [91.5, 90.5, math.nan])
    np.testing.assert_allclose(
        found.penalties("full", ["8*", "75", "99"]).mean(axis=0), [2.0, math.nan, math.nan]
    )
    assert np.isnan(found.penalties("permutation")).all()
    assert found.layers == ("3", "8*", "75")


def test_a_result_is_written_and_read_unchanged(tmp_path: Path) -> None:
    one = staged(PLAN, {"full": [1.0, -2.0, math.nan]}).pairs[0]
    one.save(tmp_path / "one.json")
    found = PairStitches.load(tmp_path / "one.json")
    assert replace(found, stitches=found.stitches[:2]) == replace(one, stitches=one.stitches[:2])
    assert math.isnan(found.stitches[2].stitched_accuracy)


# What is stored


def test_what_is_stored_is_read(tmp_path: Path, trainer: Trainer) -> None:
    made = staged(PLAN, numbers())
    store(made, tmp_path)
    assert same(stitches_of(Setting(results=tmp_path), PLAN), made)
    assert trainer.asked == []
    assert {file.name for file in (tmp_path / FOLDER).iterdir()} == {
        "trial-resnet20-0-1.json",
        "trial-resnet20-2-3.json",
    }


def test_what_is_not_stored_is_named(tmp_path: Path, trainer: Trainer) -> None:
    store(staged(replace(PLAN, pairs=((0, 1),)), numbers()), tmp_path)
    told = r"trial-resnet20-2-3\.json is missing\. .*--from-scratch.*--smoke"
    with pytest.raises(InputError, match=told):
        stitches_of(Setting(results=tmp_path), PLAN)
    assert trainer.asked == []


def test_sites_that_are_not_stored_are_named(tmp_path: Path, trainer: Trainer) -> None:
    short = replace(PLAN, layers={"act1": "3"})
    store(staged(short, numbers(short)), tmp_path)
    with pytest.raises(
        InputError,
        match=r"trial-resnet20-0-1\.json lacks blocks\.0\.act1, blocks\.8\.act2\. Restore",
    ):
        stitches_of(Setting(results=tmp_path), PLAN)
    assert trainer.asked == []


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 3},
        {"name": "other"},
        {"network": "resnet32"},
        {"tasks": {"full": Task("full")}},
        {"preset": "paper"},
    ],
)
@pytest.mark.parametrize("from_scratch", [False, True])
def test_another_experiment_is_refused(
    changes: dict[str, Any], from_scratch: bool, tmp_path: Path, trainer: Trainer
) -> None:
    other = replace(PLAN, **changes)
    (one, *_) = staged(other, numbers(other)).pairs
    (tmp_path / FOLDER).mkdir()
    place = tmp_path / FOLDER / PLAN.file_name((0, 1))
    one.save(place)
    before = place.read_bytes()
    with pytest.raises(
        ResumeError, match=r"trial-resnet20-0-1\.json belongs to another run: .*or remove it"
    ):
        stitches_of(scratch(tmp_path) if from_scratch else Setting(results=tmp_path), PLAN)
    assert (trainer.asked, place.read_bytes()) == ([], before)


def test_a_result_is_made_by_one_run_and_read_without_a_lock(
    tmp_path: Path, trainer: Trainer
) -> None:
    made = staged(PLAN, numbers())
    store(made, tmp_path)
    with claim_beside(tmp_path / FOLDER / PLAN.file_name((0, 1))):
        with pytest.raises(ResumeError, match=r"0-1\.json is open in another run\. Wait for it"):
            stitches_of(scratch(tmp_path), PLAN)
        assert same(stitches_of(Setting(results=tmp_path), PLAN), made)
    assert trainer.asked == []


def test_a_pair_under_anothers_name_is_refused(tmp_path: Path) -> None:
    store(staged(PLAN, numbers()), tmp_path)
    folder = tmp_path / FOLDER
    (folder / PLAN.file_name((2, 3))).replace(folder / PLAN.file_name((0, 1)))
    with pytest.raises(ResumeError, match="belongs to another run"):
        stitches_of(Setting(results=tmp_path), PLAN)


@pytest.mark.parametrize("content", ["", "{", '{"kind": "signature", "version": 1, "content": {}}'])
def test_a_damaged_or_foreign_file_is_refused(
    content: str, tmp_path: Path, trainer: Trainer
) -> None:
    (tmp_path / FOLDER).mkdir()
    place = tmp_path / FOLDER / PLAN.file_name((0, 1))
    place.write_text(content)
    for setting in (Setting(results=tmp_path), scratch(tmp_path)):
        with pytest.raises(FileFormatError, match=r"trial-resnet20-0-1\.json"):
            stitches_of(setting, PLAN)
    assert (trainer.asked, place.read_text()) == ([], content)


def test_the_other_papers_networks_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"networks of the zoo only\. Leave out --weights and --data"
    ):
        stitches_of(Setting(weights="none", data="random"), PLAN)


def test_the_place_of_a_result(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "a.json").touch()
    assert kept_place(Setting(results=tmp_path), f"{FOLDER}/a.json") == tmp_path / FOLDER / "a.json"
    assert (
        kept_place(scratch(tmp_path / "out"), f"{FOLDER}/a.json")
        == tmp_path / "out" / FOLDER / "a.json"
    )
    assert kept_place(scratch(None), f"{FOLDER}/a.json") is None
    assert kept_place(Setting(smoke=True, keep=tmp_path), f"{FOLDER}/a.json") is None


# Training


def test_an_interrupted_training_goes_on_where_it_stopped(tmp_path: Path, trainer: Trainer) -> None:
    whole = stitches_of(scratch(tmp_path / "whole"), PLAN)
    assert all(row.history == (81.0,) for pair in whole.pairs for row in pair.stitches)
    assert trainer.asked == [*SITES, *SITES]
    trainer.asked, trainer.stop_at = [], "blocks.8.act2"
    with pytest.raises(KeyboardInterrupt, match="stopped here"):
        stitches_of(scratch(tmp_path / "stopped"), PLAN)
    (left,) = (tmp_path / "stopped" / FOLDER).iterdir()
    assert [one.site for one in PairStitches.load(left).stitches] == [
        "act1",
        "act1",
        "blocks.0.act1",
        "blocks.0.act1",
    ]
    trainer.asked, trainer.stop_at = [], ""
    assert same(stitches_of(scratch(tmp_path / "stopped"), PLAN), whole)
    assert trainer.asked == ["blocks.8.act2", *SITES]
    trainer.asked = []
    assert same(stitches_of(scratch(tmp_path / "stopped"), PLAN), whole)
    # the folder looks like that of the zoo
    assert same(stitches_of(Setting(results=tmp_path / "stopped"), PLAN), whole)
    assert trainer.asked == []


def test_all_machines_are_told(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(PLAN, pairs=((0, 1),))
    trainer.stop_at = "blocks.8.act2"
    with pytest.raises(KeyboardInterrupt, match="stopped here"):
        stitches_of(scratch(tmp_path), plan)
    trainer.stop_at, first = "", kept.machine_of(kept.best_device())
    monkeypatch.setattr(kept, "machine_of", lambda device: "another machine")
    (pair,) = stitches_of(scratch(tmp_path), plan).pairs
    # each once, for three sites
    assert pair.machines == (first, "another machine")


def test_without_a_folder_nothing_is_kept(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = stitches_of(scratch(None), PLAN)
    assert found.penalties("full").shape == (2, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_without_sites_is_refused(trainer: Trainer) -> None:
    with pytest.raises(InputError, match=r"trial-resnet20-0-1\.json: expected at least one part"):
        stitches_of(scratch(None), replace(PLAN, layers={}))


def test_rows_are_what_training_gives(tmp_path: Path, trainer: Trainer) -> None:
    (first, _) = stitches_of(scratch(tmp_path), PLAN).pairs
    assert [(one.site, one.label) for one in first.stitches] == [
        (site, label) for site in SITES for label in PLAN.tasks
    ]
    assert (first.accuracies, first.samples, first.networks) == (
        (90.0, 92.0),
        (45, 5, 10),
        PLAN.names((0, 1)),
    )
    assert first.values("stitched_accuracy", "permutation", ["act1"]) == [80.0 + len("act1") + 1]
    assert {label: one.epochs for label, one in first.settings.items()} == {
        "full": 2,
        "permutation": 2,
    }


@pytest.fixture
def few_images(tmp_path: Path) -> str:
    """A folder of data sets with a few of the images that the package carries, under the name of
    CIFAR-10.
    """
    images, labels = embedded_images()
    (tmp_path / "cifar10").mkdir()
    for split, rows in (("train", slice(0, 40)), ("test", slice(40, 56))):
        np.save(tmp_path / "cifar10" / f"{split}_images.npy", images[rows].numpy())
        np.save(tmp_path / "cifar10" / f"{split}_labels.npy", labels[rows].numpy())
    return str(tmp_path)


def test_real_networks_are_stitched_and_read_again(
    few_images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(ZOO))
    small = {
        label: Task(label, {"batch": 12, "pass_batches": 1}) for label in ("full", "permutation")
    }
    plan = replace(PLAN, pairs=((0, 1),), layers={"blocks.8.act2": "75"}, tasks=small, epochs=1)
    setting = Setting(
        from_scratch=True, data_root=few_images, keep=tmp_path / "out", progress=False
    )
    found = stitches_of(setting, plan)
    (pair,) = found.pairs
    assert (pair.samples, pair.augment) == ((36, 4, 16), "flip-shift")
    assert min(pair.accuracies) > 70  # trained networks
    assert {one.channels for one in pair.stitches} == {64}
    assert np.isfinite(found.penalties("permutation")).all()
    monkeypatch.setattr(stitches, "Stitcher", Trainer(stop_at="blocks.8.act2"))
    assert same(stitches_of(Setting(results=tmp_path / "out"), plan), found)


# A tiny size


def test_a_tiny_run_neither_reads_nor_writes(tmp_path: Path, trainer: Trainer) -> None:
    (tmp_path / FOLDER).mkdir()
    for pair in PLAN.pairs:
        # reading it would be an error
        (tmp_path / FOLDER / PLAN.file_name(pair)).write_text("not JSON")
    before = sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*"))
    found = stitches_of(Setting(smoke=True, results=tmp_path, keep=tmp_path, progress=False), PLAN)
    assert sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*")) == before
    assert trainer.asked == ["blocks.8.act2"]
    assert found.plan == replace(PLAN, pairs=((0, 1),), layers={"blocks.8.act2": "75"})
    assert found.penalties("full").shape == (1, 1)


def test_a_tiny_run_trains_for_one_epoch(trainer: Trainer) -> None:
    plan = replace(PLAN, tasks={"full": Task("full", {"epochs": 7, "rate": 0.5})})
    stitches_of(Setting(smoke=True, progress=False), plan)
    (task,) = trainer.tasks
    assert task.changes == {**SMOKE, "rate": 0.5}
    stitches_of(scratch(None), plan)
    (task,) = trainer.tasks
    assert task.changes == {"epochs": 7, "rate": 0.5}


def test_without_smoke_sites_a_tiny_run_takes_all(trainer: Trainer) -> None:
    stitches_of(Setting(smoke=True, progress=False), replace(PLAN, smoke_sites=()))
    assert trainer.asked == list(SITES)


def test_networks_without_weights_are_untrained_in_a_tiny_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path))  # an empty zoo
    # the package carries these
    assert member(Setting(smoke=True), "resnet20", 0).name == "sigmascope/resnet20:0"
    found = member(Setting(smoke=True), "resnet20", 7)
    assert found.name == "sigmascope/resnet20:7-init"
    again = model("sigmascope/resnet20:7-init")
    for one, other in zip(found.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(
        InputError,
        match=r"resnet20:7: the package ships weights for .*zoo/README\.md says how it is trained",
    ):
        member(Setting(), "resnet20", 7)
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(ZOO))  # a zoo without this seed
    assert member(Setting(smoke=True), "resnet20", 77).name == "sigmascope/resnet20:77-init"
    with pytest.raises(
        InputError, match=r"resnet20:77 is not in the zoo.*zoo/README\.md says how it is trained"
    ):
        member(Setting(), "resnet20", 77)


def test_a_tiny_run_takes_the_images_of_the_package() -> None:
    like = model("sigmascope/resnet20")
    images, labels = embedded_images()
    found = samples_of(Setting(smoke=True), like)
    size = kept.SMOKE_IMAGES
    # none is in both
    assert torch.equal(torch.cat([found.train[1], found.test[1]]), labels[: 2 * size])
    assert like.transform is not None
    assert torch.equal(
        torch.cat([found.train[0], found.test[0]]), like.transform(images[: 2 * size])
    )
    batches = list(images_of(Setting(smoke=True), like, images=10_000, batch=500))
    assert [len(inputs) for inputs, _ in batches] == [size // 2] * 2


def test_otherwise_the_images_are_those_of_cifar_10(few_images: str) -> None:
    like = model("sigmascope/resnet20")
    setting = Setting(from_scratch=True, data_root=few_images)
    found = samples_of(setting, like)
    assert (len(found.train[0]), len(found.test[0]), found.augment) == (40, 16, "flip-shift")
    batches = list(images_of(setting, like, images=10, batch=4))
    assert [len(inputs) for inputs, _ in batches] == [4, 4, 2]
    tests = {tuple(image.flatten().tolist()) for image in found.test[0]}
    assert all(
        tuple(image.flatten().tolist()) in tests for inputs, _ in batches for image in inputs
    )


# Plans


@pytest.mark.parametrize("plan", ALL_PLANS, ids=lambda plan: f"{plan.name}-{plan.network}")
def test_a_plan_can_be_carried_out(plan: Plan) -> None:
    network = model(f"sigmascope/{plan.network}:0-init").network
    for site in plan.layers:
        network.get_submodule(site)
    assert set(plan.smoke_sites) <= set(plan.layers)
    assert len(set(plan.layers.values())) == len(plan.layers)
    for smoke in (False, True):
        settings = plan.settings(smoke=smoke)
        assert {one.epochs for one in settings.values()} == {1 if smoke else plan.epochs}
    files = [plan.file_name(pair) for pair in plan.pairs]
    assert len(set(files)) == len(plan.pairs)
    assert all(front != back for front, back in plan.pairs)


def test_no_two_experiments_share_a_file() -> None:
    files = [plan.file_name(pair) for plan in ALL_PLANS for pair in plan.pairs]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize(
    "plan", [plans.MYRTLE, plans.RESNET20, plans.RESNET18], ids=lambda plan: plan.network
)
def test_all_activations_are_stitched_in_order(plan: Plan) -> None:
    network = model(f"sigmascope/{plan.network}:0-init").network
    assert list(plan.layers) == [
        name for name, module in network.named_modules() if isinstance(module, nn.ReLU)
    ]


def test_the_papers_names_of_layers() -> None:
    """Places of modules among all that the paper's networks have, in the order in which they are
    registered.
    """
    assert list(plans.MYRTLE.layers.values()) == ["3", "6", "10", "14"]
    assert list(plans.RESNET20.layers.values()) == [
        "3",
        *(f"{8 + 4 * k - k % 2}{'' if k % 2 else '*'}" for k in range(18)),
    ]
    names = "3 8* 11 16* 19 24* 27 34* 37 42* 45 52* 55 60* 63 70* 73"
    assert list(plans.RESNET18.layers.values()) == names.split()
