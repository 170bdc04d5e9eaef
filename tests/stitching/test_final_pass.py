"""The pass before the test: over all training data, held-out ones last, for stitches whose batch
norm is adapted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.stitching import Task, stitcher as running
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.settings import Settings
from sigmascope.training.feed import Feed, split_samples
from tests.stitching.small import cross_validate, data, dropping, equal, moved, stitch_many, trained

SHORT = {"at": "2", "preset": "fast", "batch": 64, "epochs": 2, "progress": False}


def short(**changes: Any) -> StitchResult:
    return sg.stitch(
        trained(), trained(1), **{"data": data(), **SHORT, "final_pass": True, **changes}
    )


def seen(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Note the samples of every training epoch and pass, in order."""
    found: list[set[int]] = []
    shuffled = Feed.shuffled

    def watched(
        self: Feed, size: int, seed: int, *, limit: int | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        found.append(set())
        for batch in shuffled(self, size, seed, limit=limit):
            found[-1] |= set(batch[0].tolist())
            yield batch

    monkeypatch.setattr(Feed, "shuffled", watched)
    return found


def test_it_sees_all_training_data_and_held_out_ones_last(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, held = (set(part.tolist()) for part in split_samples(512, 0.25, 0))
    passes = seen(monkeypatch)
    short(validation=0.25, pass_batches=1)
    *training, first, second = passes[:6]
    assert len(training) == 4  # two epochs, and a pass after each
    assert not any(one & held for one in training)
    assert first == kept  # 384 samples are six full batches; `pass_batches` is for the other passes
    assert second == held
    # then the same two passes for either network by itself, after the one that chooses no epoch
    assert [one & held for one in passes[6:]] == [set(), set(), held] * 2


def test_the_test_data_are_not_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = seen(monkeypatch)
    short(select_on="test")
    assert len(passes) == 2 + 2 + 1 + 2 * 2
    assert passes[4] == set(range(512))


def test_statistics_are_those_of_all_samples() -> None:
    """With one batch for each half of the data, the mean over the pass is computed by hand."""
    result = short(validation=0.5, batch=256, front_mode="eval")
    network = result.network(trained(), trained(1), data().test[0][:2])
    with torch.no_grad():
        features = network.stitch(network.front(data().train[0])[0])
        mean = network.back.get_submodule("3")(features).mean(dim=(0, 2, 3))
    torch.testing.assert_close(result.tensors["back/4.running_mean"], mean, atol=1e-5, rtol=1e-4)
    without = short(validation=0.5, batch=256, front_mode="eval", final_pass=False)
    assert not torch.allclose(without.tensors["back/4.running_mean"], mean, atol=1e-5, rtol=1e-4)


def test_only_the_test_knows_of_it(tmp_path: Path) -> None:
    """The choice of the epoch does not see held-out samples in its statistics, and the result has
    those that were tested.
    """
    one, two = (short(final_pass=final) for final in (True, False))
    assert one.history == two.history
    assert (one.chosen_accuracy, one.best_epoch) == (two.chosen_accuracy, two.best_epoch)
    assert torch.equal(one.matrix, two.matrix)
    for name in ("front/1.running_mean", "back/4.running_var"):
        assert not torch.equal(one.tensors[name], two.tensors[name])
    again = StitchResult.load(one.save(tmp_path / "stitch.json"))
    inputs, labels = data().test
    answers = again.network(trained(), trained(1), inputs[:2])(inputs).argmax(dim=1)
    assert 100 * float((answers == labels).double().mean()) == pytest.approx(one.stitched_accuracy)


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"family": "full"}, False),
        ({"batch_norm_pass": False}, False),
        ({"family": "full", "batch_norm_pass": True}, True),
        ({"family": "permutation"}, True),
        ({"family": "fixed", "element": torch.eye(8)}, False),
    ],
)
def test_only_what_adapts_batch_norm_has_it(changes: dict[str, Any], passes: bool) -> None:
    one, two = (short(final_pass=final, **changes) for final in (True, False))
    assert equal(one.tensors, two.tensors) != passes


def test_a_cached_front_is_used_to_the_end(tmp_path: Path) -> None:
    plain, cached = (short(front_mode="eval", cache_front=where) for where in (False, tmp_path))
    torch.testing.assert_close(
        cached.tensors["back/4.running_mean"], plain.tensors["back/4.running_mean"]
    )
    assert not list(tmp_path.iterdir())


TASKS = [
    Task("relu-group"),
    Task("full", {"batch_norm_pass": True}),
    Task("permutation"),
    Task("softsort"),
]
SETTINGS = Settings(rate=0.05, momentum=0.9, batch=64, epochs=3, head_start=1, final_pass=True)


def same(one: StitchResult, two: StitchResult) -> bool:
    return equal(one.tensors, two.tensors) and one.record() == two.record()


@pytest.mark.parametrize("always", [False, True])
def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(
    always: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was drawn before."""
    given: dict[str, Any] = {"at": "act", "data": data(), "preset": SETTINGS, "progress": False}
    networks, save = [dropping(seed, always=always) for seed in (0, 1)], running.save_checkpoint
    file = tmp_path / "run.checkpoint"
    expected = stitch_many(*networks, TASKS, **given)

    def failing(*args: Any) -> None:
        save(*args)
        raise InterruptedError("the power fails")

    with monkeypatch.context() as patched:
        patched.setattr(running, "save_checkpoint", failing)
        torch.manual_seed(7)
        with pytest.raises(InterruptedError, match="power"):
            stitch_many(*networks, TASKS, checkpoint=file, **given)
    for seed in (8, 9):  # the second time nothing is left to train, but for the pass
        torch.manual_seed(seed)
        resumed = stitch_many(*networks, TASKS, checkpoint=file, **given)
        assert all(same(one, two) for one, two in zip(expected, resumed, strict=True))


def test_together_is_as_alone() -> None:
    given: dict[str, Any] = {"at": "2", "data": data(), "preset": SETTINGS, "progress": False}
    together = stitch_many(trained(), trained(1), TASKS, **given)
    for task, result in zip(TASKS, together, strict=True):
        assert same(stitch_many(trained(), trained(1), [task], **given)[0], result), task


def test_cross_validation_does_it_unless_told_otherwise() -> None:
    given: dict[str, Any] = {
        "at": "2",
        "data": data(),
        "alphas": (0.1,),
        "preset": "fast",
        "batch": 64,
        "progress": False,
    }
    usual, without = (
        cross_validate(trained(), moved(), **given, **more) for more in ({}, {"final_pass": False})
    )
    assert usual.chosen.settings.final_pass
    assert not without.chosen.settings.final_pass
    assert usual.chosen.chosen_accuracy == without.chosen.chosen_accuracy
    assert not equal(usual.chosen.tensors, without.chosen.tensors)
