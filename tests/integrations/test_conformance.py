"""What holds for each framework: the same numbers, an untouched training, a history that goes on.

Each test runs over all of `TRAININGS`. A new framework is a function there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sigmascope as sg
from tests.integrations.networks import PROBE, Adapted, Affine, network
from tests.integrations.trainings import CALLBACKS, TRAININGS, Done, Job

pytestmark = [
    pytest.mark.slow,
    # Lightning asks torch in an old way, and says that four batches want no workers
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
]
ALL = pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
WITH_CALLBACK = pytest.mark.parametrize(
    "training", [TRAININGS[name] for name in CALLBACKS], ids=CALLBACKS
)
STEPS = [0, 3, 6]


def same(one: Done, other: Done) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.state, other.state, strict=True))


def expected(weights: dict[str, Any]) -> dict[str, float]:
    """What `signature` says of a network with these weights."""
    model = network()
    model.load_state_dict(weights)
    found = sg.signature(model, PROBE, estimator="population", progress=False)
    dead = [site.dead for site in found.sites]
    return found.to_dict("sigmascope/") | {"sigmascope/dead_share": sum(dead) / len(dead)}


@ALL
def test_the_training_is_the_same_to_the_bit(training: Any) -> None:
    watched = training(Job(network()))
    alone = training(Job(network(), options=None))
    assert same(watched, alone)
    assert watched.record.losses == alone.record.losses
    assert len(alone.record.losses) == 8
    other = training(Job(network(dropout=0.3), options=None))
    assert not same(other, alone)


@ALL
def test_numbers_are_those_of_signature_and_logged_once(training: Any) -> None:
    done = training(Job(network()))
    assert [one.step for one in done.record.logged] == done.track.steps == STEPS
    for row, one in enumerate(done.record.logged):
        wanted = expected(one.weights)
        assert one.values == wanted
        assert done.track.scores[row].tolist() == [
            wanted["sigmascope/body.2"],
            wanted["sigmascope/head.1"],
        ]
    assert done.track.ended == "finished"
    assert not torch.equal(*(one.weights["head.0.weight"] for one in done.record.logged[:2]))


@ALL
def test_a_training_that_is_resumed_has_one_history(training: Any, tmp_path: Path) -> None:
    def job(**options: Any) -> Job:
        return Job(network(dropout=0.0), **options)

    whole = training(job())
    first = training(job(epochs=1, directory=tmp_path))
    assert first.track.steps == [0, 3]
    rest = training(job(directory=tmp_path, resumes=True))
    assert [one.step for one in rest.record.logged] == [6]
    assert rest.track.steps == whole.track.steps
    assert np.array_equal(rest.track.scores, whole.track.scores)
    weights = [list(one.record.logged[-1].weights.values()) for one in (rest, whole)]
    assert all(map(torch.equal, *weights))
    if training is not TRAININGS["plain loop"]:
        return
    with pytest.raises(sg.ResumeError, match="max_positions"):
        training(job(directory=tmp_path, resumes=True, options={"every": 3, "max_positions": 7}))


@WITH_CALLBACK
def test_a_history_of_other_settings_is_refused_before_the_first_step(
    training: Any, tmp_path: Path
) -> None:
    training(Job(network(), epochs=1, directory=tmp_path))
    job = Job(network(), directory=tmp_path, resumes=True, options={"every": 3, "eps": 1e-3})
    with pytest.raises(sg.ResumeError, match="eps"):
        training(job)


def compiled(inside: nn.Module) -> Any:
    return torch.compile(inside, backend="eager")


@ALL
@pytest.mark.parametrize("wrap", [compiled, Adapted])
def test_wrapped_networks_are_measured_inside(training: Any, wrap: Any) -> None:
    bare = network(dropout=0.0)
    done = training(Job(bare, wrapped=wrap(bare)))
    assert [one.step for one in done.record.logged] == STEPS
    for row, one in enumerate(done.record.logged):
        wanted = expected(one.weights)
        scores = [wanted["sigmascope/body.2"], wanted["sigmascope/head.1"]]
        assert done.track.scores[row].tolist() == scores
    if wrap is compiled:
        assert done.track.sites == ["body.2", "head.1"]
    inside = network(dropout=0.0)
    assert same(done, training(Job(inside, wrapped=wrap(inside), options=None)))


@WITH_CALLBACK
@pytest.mark.parametrize(
    ("model", "probe", "text"),
    [
        (Affine, PROBE, "step 0: the network was not measured, .* Affine made no activation call"),
        (network, [torch.randn(96, 9)], "step 0: .* RuntimeError: .*shapes cannot be multiplied"),
    ],
)
def test_a_training_goes_on_without_measurements(
    training: Any, model: Any, probe: Any, text: str
) -> None:
    def fresh() -> nn.Module:
        torch.manual_seed(0)
        return model()

    with pytest.warns(sg.TrainingWarning, match=text) as told:
        done = training(Job(fresh(), probe=probe))
    assert len([one for one in told if one.category is sg.TrainingWarning]) == 1
    assert done.record.logged == []
    assert len(done.record.losses) == 8
    assert same(done, training(Job(fresh(), options=None)))


@ALL
@pytest.mark.parametrize(
    ("model", "probe", "error", "text"),
    [
        (Affine, PROBE, sg.NoActivationError, "Affine made no activation call"),
        (network, [torch.randn(96, 9)], RuntimeError, "shapes cannot be multiplied"),
    ],
)
def test_an_error_is_raised_where_it_is_asked_for(
    training: Any, model: Any, probe: Any, error: type[Exception], text: str
) -> None:
    """A monitor raises, and so do callbacks with errors="raise"; the network is as it was."""
    job = Job(model(), probe=probe)
    if training not in [TRAININGS[name] for name in CALLBACKS]:
        job.options = {"every": 3}
    else:
        job.options = {"every": 3, "errors": "raise"}
    before = [value.clone() for value in job.network.state_dict().values()]
    with pytest.raises(error, match=text):
        training(job)
    assert all(map(torch.equal, before, job.network.state_dict().values()))


class Breaks:
    """A way to run the network that fails in its third measurement."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: nn.Module, batch: Any) -> Any:
        self.calls += 1
        if self.calls > 2 * len(PROBE):
            raise OSError("the disk with the probe is gone")
        return model(batch)


@WITH_CALLBACK
def test_what_was_measured_before_a_failure_is_kept(training: Any, tmp_path: Path) -> None:
    file = tmp_path / "track.json"
    options = {"every": 3, "forward": Breaks(), "file": file}
    with pytest.warns(sg.TrainingWarning, match="step 6: .* OSError: the disk with the probe"):
        done = training(Job(network(), options=options))
    assert done.track.steps == [0, 3]
    assert done.track.ended == sg.load(file).ended == "stopped by OSError"
    assert len(done.record.losses) == 8
