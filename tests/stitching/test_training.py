"""Training: a planted element is found, nothing leaks, and a run that was stopped ends as if it had
not been.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.stitching import Task, setup, stitcher as running
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.trainer import StitchTrainer
from sigmascope.store import claim_beside, write_features
from sigmascope.training import evaluation
from sigmascope.training.data import StitchData
from sigmascope.training.feed import split_samples
from tests.stitching.small import (
    conv_net,
    cross_validate,
    data,
    dropping,
    equal,
    moved,
    samples,
    state,
    stitch_many,
    trained,
)

SHORT = {"preset": "fast", "batch": 64, "epochs": 2, "progress": False}
GIVEN: dict[str, dict[str, Any]] = {"low-rank": {"rank": 2}, "fixed": {"element": torch.eye(8)}}


def short(front: nn.Module, back: nn.Module, **changes: Any) -> StitchResult:
    return sg.stitch(front, back, **{"at": "2", "data": data(), **SHORT, **changes})


def test_a_planted_element_is_found() -> None:
    """Theorem 4.2: the group holds a stitch without loss, training finds it; no element of it is
    the identity.
    """
    front, back, planted = trained(), moved(), data(1024, 512)
    computed = short(front, back, data=planted, family="permutation", batch_norm_pass=False)
    assert computed.penalty == 0
    found = short(front, back, data=planted, epochs=10, pass_batches=None)
    assert abs(found.penalty) < 1.5
    assert found.element is not None
    assert computed.element is not None
    assert torch.equal(found.element.permutation, computed.element.permutation)
    assert found.notes == ()
    assert short(front, back, data=planted, family="identity").penalty > 20


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("at", ["2", "5"])
def test_every_family_runs(family: str, at: str) -> None:
    front, back = trained(), trained(1)
    before = state(front), state(back)
    result = short(front, back, at=at, family=family, **GIVEN.get(family, {}))
    assert 0 <= result.stitched_accuracy <= 100
    assert result.penalty == pytest.approx(
        (result.front_accuracy + result.back_accuracy) / 2 - result.stitched_accuracy
    )
    assert len(result.history) == (2 if FAMILIES[family].is_trained else 0)
    assert result.samples == (461, 51, 256)
    if FAMILIES[family].monomial:
        assert result.sparsity == pytest.approx(1 - 1 / 8)
    if family == "low-rank":
        assert int(torch.linalg.matrix_rank(result.matrix, rtol=1e-5)) == 2
    assert equal(state(front), before[0])
    assert equal(state(back), before[1])
    assert not front.training


@pytest.mark.parametrize("family", ["full", "relu-group"])
def test_training_helps(family: str) -> None:
    front, back = trained(), moved()
    one, ten = (short(front, back, family=family, epochs=epochs, rate=0.005) for epochs in (1, 10))
    assert ten.chosen_accuracy >= one.chosen_accuracy
    assert ten.history[-1].loss < ten.history[0].loss


def test_only_the_stitch_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The front runs without a graph, the back passes gradients on but keeps none, and all batch
    norms follow the batches.
    """
    seen: list[StitchTrainer] = []
    step = StitchTrainer.step

    def watched(self: StitchTrainer, values: tuple[Tensor, ...], labels: Tensor) -> None:
        assert not any(value.requires_grad for value in values)
        assert self.back.training
        step(self, values, labels)
        assert all(
            parameter.grad is None and not parameter.requires_grad
            for parameter in self.back.parameters()
        )
        seen.append(self)

    monkeypatch.setattr(StitchTrainer, "step", watched)
    front, back = trained(), trained(1)
    result = short(front, back, family="full", epochs=1)
    [trainer] = set(seen)
    assert len(seen) == 461 // 64
    weights = dict(back.named_parameters())
    assert all(torch.equal(value, weights[name]) for name, value in trainer.back.named_parameters())
    for side, network in (("front/1", front[1]), ("back/4", back[4])):
        assert not torch.equal(result.tensors[f"{side}.running_mean"], network.running_mean)
        assert (
            int(result.tensors[f"{side}.num_batches_tracked"])
            == int(network.num_batches_tracked) + 7
        )


def test_a_frozen_front_keeps_its_statistics() -> None:
    front = trained()
    result = short(front, trained(1), family="full", front_mode="eval")
    assert torch.equal(result.tensors["front/1.running_mean"], front[1].running_mean)


@pytest.mark.parametrize("averaging", ["exponential", "cumulative"])
def test_batch_norm_adapts_to_the_rounded_stitch_and_training_goes_on_as_before(
    averaging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Tensor] = {}
    judge = TrainingLoop._evaluate

    def watched(self: TrainingLoop, trainers: list[StitchTrainer]) -> None:
        before = {name: value.clone() for name, value in trainers[0].back.named_buffers()}
        judge(self, trainers)
        assert all(
            torch.equal(value, before[name]) for name, value in trainers[0].back.named_buffers()
        )
        found.update(before)

    monkeypatch.setattr(TrainingLoop, "_evaluate", watched)
    # One class of images for the test would be another mean: what is evaluated must not leak into
    # the statistics.
    front, back = trained(), trained(1)
    result = short(front, back, epochs=1, averaging=averaging, pass_batches=None)
    adapted = result.tensors["back/4.running_mean"]
    assert not torch.equal(adapted, found["4.running_mean"])
    if averaging == "cumulative":  # the mean over the pass, computed here by hand
        network = result.network(front, back, data().test[0][:2])
        network.train()
        kept, _ = split_samples(512, 0.1, 0)
        mean = torch.zeros(8)
        with torch.no_grad():
            inputs = data().train[0][kept]
            features = network.stitch.eval()(network.front(inputs)[0])
            mean = network.back.get_submodule("3")(features).mean(dim=(0, 2, 3))
        torch.testing.assert_close(adapted, mean, atol=0.1, rtol=0.1)


def test_the_pass_can_be_left_out() -> None:
    front, back = trained(), moved()
    without = short(front, back, family="identity", batch_norm_pass=False)
    assert torch.equal(without.tensors["back/4.running_mean"], back.get_submodule("4").running_mean)  # type: ignore[arg-type]


def test_the_head_start_leaves_scales_out() -> None:
    result = short(trained(), moved(), epochs=4, head_start=3)
    assert [epoch.scaled for epoch in result.history] == [False, False, False, True]
    only = short(trained(), moved(), epochs=2, head_start=2)
    assert set(only.matrix.unique().tolist()) == {0.0, 1.0}
    none = short(trained(), moved(), epochs=2, head_start=0)
    assert [epoch.scaled for epoch in none.history] == [True, True]
    assert [epoch.scaled for epoch in short(trained(), moved(), family="full").history] == [
        False,
        False,
    ]


def test_the_second_phase_begins_at_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([50.0, 90.0, 40.0, 10.0])
    states: list[Tensor] = []
    begin, note = StitchTrainer.begin, StitchTrainer.note

    def noted(self: StitchTrainer, epoch: int, steps: int, accuracy: float, *rest: Any) -> None:
        states.append(self.stitch.values["permutation"].detach().clone())
        note(self, epoch, steps, next(accuracies), *rest)

    def begun(self: StitchTrainer, epoch: int) -> bool:
        optimizer = self.optimizer
        changed = begin(self, epoch)
        if epoch == 3:
            assert changed
            assert torch.equal(self.stitch.values["permutation"], states[1])
            assert self.optimizer is not optimizer
        else:
            assert not changed
        return changed

    monkeypatch.setattr(StitchTrainer, "note", noted)
    monkeypatch.setattr(StitchTrainer, "begin", begun)
    result = short(trained(), moved(), epochs=4, head_start=3)
    assert (result.best_epoch, result.chosen_accuracy) == (2, 90.0)
    # of the first phase, so without scales
    assert set(result.matrix.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("select_on", ["validation", "test"])
def test_selection(select_on: str) -> None:
    result = short(trained(), moved(), family="full", epochs=4, select_on=select_on)
    best = max(epoch.accuracy for epoch in result.history)
    assert result.chosen_accuracy == best
    assert result.history[result.best_epoch - 1].accuracy == best
    if select_on == "test":
        assert result.stitched_accuracy == best
        assert result.samples == (512, 256, 256)


def test_held_out_samples_are_never_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are right only where nothing is held out: training on held-out samples would show
    in the loss.
    """
    inputs, labels = samples(400, 1)
    _, held = split_samples(400, 0.1, 0)
    marked = inputs.clone()
    marked[held] = torch.nan  # one look at these in training mode and nothing is finite any more
    result = short(
        trained(),
        moved(),
        data=StitchData((marked, labels), samples(100, 2)),
        family="full",
        epochs=2,
    )
    assert all(epoch.loss == epoch.loss for epoch in result.history)
    assert result.notes == ()


def test_the_accuracy_counts_answers_not_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "BATCH", 100)  # 256 test samples: the last batch has 56
    network = trained()
    inputs, labels = data().test
    share = 100 * int((network(inputs).argmax(dim=1) == labels).sum()) / 256
    result = short(network, network, family="identity", batch_norm_pass=False)
    assert result.front_accuracy == result.back_accuracy == result.stitched_accuracy == share


def same(one: StitchResult, two: StitchResult) -> bool:
    fields = [
        field.name for field in dataclasses.fields(one) if field.name not in ("tensors", "settings")
    ]
    return all(getattr(one, name) == getattr(two, name) for name in fields) and equal(
        one.tensors, two.tensors
    )


def test_the_seed_decides() -> None:
    one, two, other = (short(trained(), moved(), seed=seed) for seed in (0, 0, 1))
    assert same(one, two)
    assert [epoch.loss for epoch in one.history] != [epoch.loss for epoch in other.history]


@pytest.mark.parametrize("always", [False, True])
def test_whatever_was_drawn_before_changes_nothing(always: bool) -> None:
    """Also for stitches that are not trained, whose batch norm is adapted behind random layers."""
    networks = [dropping(seed, always=always) for seed in (0, 1)]
    tasks = [
        *TASKS,
        Task("least-squares", {"batch_norm_pass": True}),
        Task("identity", {"batch_norm_pass": True}),
    ]
    given: dict[str, Any] = {
        "at": "act",
        "data": data(),
        "preset": running_settings(),
        "progress": False,
    }
    found = []
    for drawn in (5, 6):
        torch.manual_seed(drawn)
        found.append(stitch_many(*networks, tasks, **given))
    assert all(same(one, two) for one, two in zip(*found, strict=True))
    other = stitch_many(*networks, tasks, **given, seed=1)
    assert not any(
        equal(one.tensors, two.tensors) for one, two in zip(found[0], other, strict=True)
    )


def test_randomness_outside_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    short(trained(), moved(), epochs=1)
    assert torch.equal(torch.rand(3), expected)


TASKS = [
    Task("relu-group"),
    Task("full"),
    Task("low-rank", {"rank": 2}),
    Task("softsort"),
    Task("permutation"),
    Task("relu-group", {"alpha": 1.0}),
]


def test_together_is_as_alone() -> None:
    front, back = trained(), trained(1)
    together = stitch_many(front, back, TASKS, at="2", data=data(), preset="fast", progress=False)
    for task, result in zip(TASKS, together, strict=True):
        alone = sg.stitch(
            front,
            back,
            at="2",
            data=data(),
            family=task.family,
            preset="fast",
            progress=False,
            **task.changes,
        )
        assert same(alone, result), task


class Stop(Exception):  # noqa: N818
    """The power fails."""


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, back, file = trained(), trained(1), tmp_path / "run.checkpoint"
    given: dict[str, Any] = {
        "at": "2",
        "data": data(),
        "preset": running_settings(),
        "progress": False,
    }
    expected = stitch_many(front, back, TASKS, **given)
    save = running.save_checkpoint
    saved = 0

    def failing(*args: Any) -> None:
        nonlocal saved
        save(*args)
        saved += 1
        if saved == after:
            raise Stop("the power fails")

    with monkeypatch.context() as patched:
        patched.setattr(running, "save_checkpoint", failing)
        with pytest.raises(Stop, match="power"):
            stitch_many(front, back, TASKS, checkpoint=file, **given)
    resumed = stitch_many(front, back, TASKS, checkpoint=file, **given)
    assert all(same(one, two) for one, two in zip(expected, resumed, strict=True))
    finished = stitch_many(front, back, TASKS, checkpoint=file, **given)  # nothing is left to do
    assert all(same(one, two) for one, two in zip(expected, finished, strict=True))


def running_settings() -> Any:
    from sigmascope.stitching.settings import Settings

    return Settings(
        rate=0.05, momentum=0.9, batch=64, epochs=4, head_start=2, averaging="cumulative"
    )


def test_a_checkpoint_of_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.checkpoint"
    short(trained(), moved(), checkpoint=file)
    with pytest.raises(sg.ResumeError, match="belongs to another run: seed is 0 there and 1 here"):
        short(trained(), moved(), checkpoint=file, seed=1)
    with pytest.raises(sg.ResumeError, match="belongs to another run: back is "):
        short(trained(), trained(1), checkpoint=file)
    identity = setup.StitchSetup.identity

    def elsewhere(*given: Any, **options: Any) -> dict[str, object]:
        own = identity(*given, **options)
        assert own["device"] == "cpu"
        return {**own, "device": "cuda"}

    with monkeypatch.context() as patched:
        patched.setattr(setup.StitchSetup, "identity", elsewhere)
        with pytest.raises(
            sg.ResumeError,
            match=r"another run: device is 'cpu' there and 'cuda' here\. Use the same",
        ):
            short(trained(), moved(), checkpoint=file)
    with pytest.raises(
        sg.ResumeError,
        match=r"another run: cache_front is .* stitches\.1\.front_mode is 'train' there",
    ):
        short(trained(), moved(), checkpoint=file, cache_front=True, front_mode="eval")
    file.write_bytes(b"junk")
    with pytest.raises(sg.FileFormatError, match="damaged"):
        short(trained(), moved(), checkpoint=file)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"key": "0f", "done": 1, "seams": []}, r"was written by an earlier version\. Remove it"),
        ({}, r"is not a checkpoint of a stitch\. Remove it"),
    ],
)
def test_a_checkpoint_without_an_identity_is_refused(
    about: dict[str, object], told: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.checkpoint"
    write_features(file, {"x": torch.ones(2)}, about)
    with pytest.raises(sg.FileFormatError, match=rf"run\.checkpoint {told}"):
        short(trained(), moved(), checkpoint=file)


def test_a_checkpoint_is_for_one_run(tmp_path: Path) -> None:
    file = tmp_path / "new" / "run.checkpoint"
    with (
        claim_beside(file),
        pytest.raises(
            sg.ResumeError, match=r"run\.checkpoint is open in another run\. Wait for it"
        ),
    ):
        short(trained(), moved(), checkpoint=file)
    assert list(file.parent.iterdir()) == []
    short(trained(), moved(), checkpoint=file)
    assert list(file.parent.iterdir()) == [file]


def test_a_checkpoint_knows_its_style(tmp_path: Path) -> None:
    torch.manual_seed(0)
    # As many positions as channels: the two stitches have the same shape.
    square = nn.Sequential(
        nn.Conv2d(1, 4, 1),
        nn.Flatten(2),
        nn.Linear(36, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 4),
    ).eval()
    file = tmp_path / "run.checkpoint"
    given: dict[str, Any] = {"at": "3", "family": "full", "checkpoint": file}
    linear = short(square, square, style="linear", **given)
    with pytest.raises(
        sg.ResumeError, match="belongs to another run: style is 'linear' there and 'conv' here"
    ):
        short(square, square, style="conv", **given)
    assert same(short(square, square, **given), linear)  # what "auto" finds is what counts


def test_a_checkpoint_knows_its_element(tmp_path: Path) -> None:
    tasks = [
        Task("full", {"epochs": 1, "batch": 64}),
        Task("fixed", {"epochs": 1, "batch": 64}, torch.eye(8)),
    ]
    other = [tasks[0], dataclasses.replace(tasks[1], element=torch.eye(8).roll(1, 0))]
    given: dict[str, Any] = {
        "at": "2",
        "data": data(),
        "preset": "fast",
        "checkpoint": tmp_path / "a",
        "progress": False,
    }
    stitch_many(trained(), moved(), tasks, **given)
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: stitches\.2\.element is "):
        stitch_many(trained(), moved(), other, **given)
    stitch_many(trained(), moved(), tasks, **given)


def test_augmentation_changes_training_only() -> None:
    plain, augmented = (
        short(trained(), moved(), data=dataclasses.replace(data(), augment=a))
        for a in ("none", "flip-shift")
    )
    assert plain.front_accuracy == augmented.front_accuracy
    assert plain.history[0].loss != augmented.history[0].loss
    assert augmented.augment == "flip-shift"


def test_a_training_that_diverges_is_a_result_with_a_reason() -> None:
    tasks = [
        Task("lasso", {"rate": 10.0, "strength": 1e38, "shrinkage": "gradient"}),
        Task("relu-group"),
    ]
    bad, good = stitch_many(
        trained(), moved(), tasks, at="2", data=data(), preset="fast", progress=False
    )
    assert bad.notes[0].startswith(
        "training diverged in epoch 1: the stitch is not finite; a lower rate"
    )
    assert bad.has_diverged
    assert math.isnan(bad.stitched_accuracy)
    assert math.isnan(bad.sparsity)
    assert bad.matrix.shape == (8, 8)
    assert bad.matrix.isnan().all()
    assert not good.has_diverged
    assert len(good.history) == 10
    assert good.notes == ()


def test_scales_that_hit_zero_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    project = FAMILIES["relu-group"].project
    assert project is not None

    def crushed(parameters: dict[str, Tensor], settings: Any) -> None:
        project(parameters, settings)
        parameters["scales"].clamp_(min=0.5)  # no other one may hit zero by itself
        parameters["scales"][3] = 0

    monkeypatch.setitem(
        FAMILIES, "relu-group", dataclasses.replace(FAMILIES["relu-group"], project=crushed)
    )
    result = short(trained(), moved(), head_start=0)
    assert result.notes == ("1 of 8 scales are 0, outside the group; `element` has 1e-6 there",)
    assert result.element is not None
    assert float(result.element.scales[3]) == 1e-6
    assert sg.symmetry.group("relu").contains(result.element)


def test_other_projections_run() -> None:
    for projection in ("gradient", "none"):
        result = short(trained(), moved(), epochs=4, projection=projection, regularizer="rms")
        assert result.element is not None


def test_monotone_rounding_runs_and_goes_on(tmp_path: Path) -> None:
    given: dict[str, Any] = {"epochs": 4, "rounding": "monotone"}
    expected = short(trained(), moved(), **given)
    assert expected.element is not None
    resumed = [
        short(trained(), moved(), checkpoint=tmp_path / "run.checkpoint", **given) for _ in range(2)
    ]
    assert all(same(expected, one) for one in resumed)
    assert not torch.equal(expected.matrix, short(trained(), moved(), epochs=4).matrix)


def test_cross_validation() -> None:
    found = cross_validate(
        trained(),
        moved(),
        at="2",
        data=data(),
        alphas=(0.01, 1.0),
        preset="fast",
        batch=64,
        progress=False,
    )
    assert found.alphas == (0.01, 1.0)
    for result in found.results:
        assert len(result.history) == 5
        assert all(epoch.scaled for epoch in result.history)
        assert result.samples == (410, 102, 256)
    best = max(result.chosen_accuracy for result in found.results)
    assert found.chosen.chosen_accuracy == best
    assert found.alpha == found.chosen.settings.alpha
    assert repr(found).count("←") == 1


def test_cross_validation_goes_on_and_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {
        "at": "2",
        "data": data(),
        "alphas": (0.01, 1.0),
        "preset": "fast",
        "batch": 64,
        "progress": False,
    }
    given |= {
        "front_mode": "eval",
        "cache_front": True,
        "checkpoint": tmp_path / "run.checkpoint",
        "epochs": 2,
    }
    first = cross_validate(trained(), moved(), **given)
    monkeypatch.setattr(TrainingLoop, "epoch", None)  # nothing is left to train
    again = cross_validate(trained(), moved(), **given)
    assert all(same(one, two) for one, two in zip(first.results, again.results, strict=True))
    with pytest.raises(
        sg.ResumeError, match="another run: cache_front is True there and False here"
    ):
        cross_validate(trained(), moved(), **{**given, "cache_front": False})


def test_cross_validation_chooses_by_held_out_data() -> None:
    with pytest.raises(sg.OptionError, match="chooses from alphas"):
        cross_validate(trained(), moved(), at="2", data=data(), select_on="test")


def test_an_alpha_that_diverges_is_never_chosen() -> None:
    given: dict[str, Any] = {
        "at": "2",
        "data": data(),
        "preset": "fast",
        "batch": 64,
        "epochs": 1,
        "progress": False,
    }
    found = cross_validate(trained(), moved(), alphas=(1e39, 0.1, 1e39), **given)
    assert ["diverged" in "".join(one.notes) for one in found.results] == [True, False, True]
    assert found.alpha == 0.1
    assert found.chosen is found.results[1]
    assert [line.endswith("diverged") for line in repr(found).splitlines()] == [True, False, True]
    none = cross_validate(trained(), moved(), alphas=(1e39, 2e39), **given)
    assert "←" not in repr(none)
    for read in (lambda: none.chosen, lambda: none.alpha):
        with pytest.raises(
            sg.InputError, match=r"diverged for every α \(1e\+39, 2e\+39\).*lower rate"
        ):
            read()


def test_wrong_questions() -> None:
    front, back = trained(), moved()
    with pytest.raises(sg.OptionError, match=r"element=\.\.\. belongs to family='fixed'"):
        short(front, back, family="fixed")
    with pytest.raises(sg.OptionError, match=r"element=\.\.\. belongs to family='fixed'"):
        short(front, back, family="full", element=torch.eye(8))
    with pytest.raises(sg.OptionError, match="site='relu' is not in this network"):
        short(front, back, at="relu")
    with pytest.raises(
        sg.InputError, match=r"the front has features \(8, 6, 6\) and the back \(4, 6, 6\)"
    ):
        short(front, conv_net(4).eval())
    with pytest.raises(sg.OptionError, match="must agree in batch, got 1 and 2"):
        stitch_many(
            front,
            back,
            [Task("full", {"batch": 1}), Task("full", {"batch": 2})],
            at="2",
            data=data(),
        )
    with pytest.raises(
        sg.OptionError,
        match=r"rank=4 is read by family='low-rank' only, not by 'full'\. Leave it out",
    ):
        short(front, back, family="full", rank=4)
    with pytest.raises(sg.OptionError, match="tasks is empty"):
        stitch_many(front, back, [], at="2", data=data())
    with pytest.raises(sg.InputTypeError, match="the front is on cpu and the back on meta"):
        short(front, conv_net().to("meta"))


def test_dropout_and_tokens() -> None:
    """Random layers are active in training and reproducible; tokens have their channels last."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.act, self.drop = nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5)
            self.mix, self.head = nn.Linear(5, 5), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.drop(self.act(self.embed(x.flatten(1, 2))))
            return self.head(torch.relu(self.mix(tokens)).mean(dim=1))

    torch.manual_seed(0)
    front, back = Tokens().eval(), Tokens().eval()
    one, two = (short(front, back, at="drop", family="full") for _ in range(2))
    assert (one.style, one.channels) == ("linear", 5)
    assert same(one, two)
