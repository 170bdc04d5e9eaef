"""Monitors: the training they watch is the same to the bit, and what they tell is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.monitoring.monitor import Monitor

PROBE = [torch.randn(128, 8, generator=torch.Generator().manual_seed(7)) for _ in range(2)]
STEPS = 12


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(16, 16),
        nn.Tanh(),
        nn.Linear(16, 3),
    )


def train(
    model: nn.Module,
    after_step: Callable[[int], object] = lambda step: None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    steps: range = range(STEPS),
) -> list[Tensor]:
    """Train on data drawn from the random state of torch; return all that the training has."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.train()
    for step in steps:
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(model(x), torch.randint(0, 3, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step(step)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*model.state_dict().values(), *gradients, torch.get_rng_state()]


def test_the_training_is_the_same_to_the_bit() -> None:
    model = network()
    torch.manual_seed(1)
    plain = train(model)
    model = network()
    torch.manual_seed(1)
    random.seed(3)
    np.random.seed(3)
    monitor = Monitor(model, PROBE, every=3)
    watched = train(model, monitor.step)
    assert all(map(torch.equal, plain, watched))
    assert model.training
    assert [*map(len, (monitor.track.entries, monitor.track.sites))] == [4, 2]
    draws = random.random(), float(np.random.rand())
    random.seed(3)
    np.random.seed(3)
    assert draws == (random.random(), float(np.random.rand()))


def test_numbers_are_those_of_signature() -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=5)
    found = {}

    def after_step(step: int) -> None:
        values = monitor.step(step)
        if values is not None:
            found[step] = values, sg.signature(model, PROBE, estimator="population")

    train(model, after_step)
    assert list(found) == monitor.track.steps == [0, 5, 10]
    for row, (values, alone) in enumerate(found.values()):
        assert monitor.track.scores[row].tolist() == alone.scores_by("population").tolist()
        assert {name: values[f"sigmascope/{name}"] for name in alone.to_dict()} == alone.to_dict()
        dead = [site.dead for site in alone.sites]
        assert values["sigmascope/dead_share"] == sum(dead) / len(dead)


def test_sites_are_chosen() -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=1, sites="tanh")
    values = monitor.step(0)
    assert monitor.track.sites == ["5"]
    assert values is not None
    assert "sigmascope/2" not in values
    with pytest.raises(
        sg.OptionError, match=r"sites=\('6',\) matches none of the 2 activation calls"
    ):
        Monitor(model, PROBE, every=1, sites="6").step(0)


def test_auto_keeps_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that the test sets: a measurement takes 1 s, a step 0.1 s."""
    clock = [100.0]
    monkeypatch.setattr("sigmascope.monitoring.monitor.time.perf_counter", lambda: clock[0])
    monitor = Monitor(network(), PROBE, budget=0.1)
    real = sg.signature

    def slow(*args: Any, **kwargs: Any) -> sg.Signature:
        clock[0] += 1.0
        return real(*args, **kwargs)

    monkeypatch.setattr("sigmascope.monitoring.monitor.signature", slow)
    for step in range(400):
        clock[0] += 0.1
        monitor.step(step)
    assert 0.1 < monitor.seconds / (clock[0] - 100) <= 0.14
    steps = np.diff(monitor.track.steps).tolist()
    assert steps[0] in (10, 11)  # 1 s, up to rounding
    assert {*steps[1:]} <= {90, 91}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"every": 0}, sg.OptionError, "every must be"),
        ({"every": "often"}, sg.OptionError, "a number of steps or 'auto'"),
        ({"budget": 0}, sg.OptionError, "budget must be a share above 0"),
        ({"log": object()}, sg.InputTypeError, r"one of \.log_metrics, \.add_scalar, \.log"),
        ({"sites": 3}, sg.InputTypeError, "sites must be a pattern"),
    ],
)
def test_bad_input(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Monitor(network(), PROBE, **given)


def test_a_probe_that_fails_leaves_the_training_alone() -> None:
    model = network()
    monitor = Monitor(model, [torch.randn(64, 9)], every=1)
    before = [value.clone() for value in model.state_dict().values()]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        monitor.step(0)
    assert model.training
    assert all(map(torch.equal, before, model.state_dict().values()))
    assert not model[0]._forward_pre_hooks


def test_a_network_without_activations() -> None:
    with pytest.raises(sg.NoActivationError, match="Linear made no activation call"):
        Monitor(nn.Linear(8, 3), PROBE, every=1).step(0)


def test_a_closed_monitor_measures_nothing() -> None:
    with Monitor(network(), PROBE, every=1) as monitor:
        monitor.step(0)
    assert len(monitor.track) == 1
    with pytest.raises(sg.InputError, match="closed"):
        monitor.step(1)


class Writer:
    """Has the method of a SummaryWriter."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.seen.append((name, value, step))


class Run:
    """Has the method of a run of W&B or Trackio."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, float], int]] = []

    def log(self, values: dict[str, float], step: int) -> None:
        self.seen.append((values, step))


def test_loggers() -> None:
    writer, run, called = Writer(), Run(), list[tuple[Any, int]]()
    log = [writer, run, lambda values, step: called.append((values, step))]
    monitor = Monitor(network(), PROBE, every=2, log=log)
    for step in range(3):
        monitor.step(step)
    assert run.seen == called
    assert [step for _, step in called] == [0, 2]
    flat = [(name, value, step) for values, step in called for name, value in values.items()]
    assert writer.seen == flat


def test_a_layer_that_died_is_told_once() -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=1, warn=True)
    monitor.step(0)
    with torch.no_grad():
        model[1].bias.fill_(-100)
    with pytest.warns(sg.TrainingWarning, match=r"died: 100% of its channels") as told:
        monitor.step(1)
    monitor.step(2)
    assert str(told[0].message) == "step 1: 2 died: 100% of its channels do not vary"
    events = [(event.step, event.site, event.what) for event in monitor.track.events]
    assert events == [(1, "2", "dead"), (1, "5", "dead")]  # what follows has nothing to vary with


def test_affine_and_saturated_layers_are_told() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid())
    with torch.no_grad():
        model[0].weight.mul_(1e-3)
        model[0].bias.zero_()
        model[2].weight.copy_(torch.eye(4)).mul_(1e6)
        model[2].bias.zero_()
    limits = sg.Thresholds(saturated=0.2)
    with pytest.warns(sg.TrainingWarning, match=r"became affine|saturated") as told:
        Monitor(model, PROBE, every=1, warn=limits).step(0)
    assert [str(one.message).partition(":")[2].split()[1] for one in told] == [
        "became",
        "saturated:",
    ]


def test_a_track_is_kept_and_continued(tmp_path: Path) -> None:
    file = tmp_path / "track.json"
    model = network()
    first = Monitor(model, PROBE, every=2, file=file)
    train(model, first.step, steps=range(7))
    assert first.track.steps == [0, 2, 4, 6]
    again = Monitor(model, PROBE, every=2, file=file)
    assert again.track.steps == [0, 2, 4, 6]
    train(model, again.step, steps=range(4, 9))  # from a checkpoint of step 3
    assert again.track.steps == [0, 2, 4, 6, 8]
    loaded = sg.load(file)
    assert repr(loaded) == repr(again.track)
    assert np.array_equal(loaded.scores, again.track.scores, equal_nan=True)
    with pytest.raises(sg.ResumeError, match="samples"):
        Monitor(model, PROBE, every=2, file=file, samples="tokens", estimator="population")


def test_state_travels_in_a_checkpoint(tmp_path: Path) -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=2)
    train(model, monitor.step, steps=range(5))
    torch.save(monitor.state_dict(), tmp_path / "state.pt")
    other = Monitor(model, PROBE, every=2)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert other.track.steps == [0, 2, 4]
    other.step()
    assert other.track.steps == [0, 2, 4]  # the count goes on with 5
    other.step()
    assert other.track.steps == [0, 2, 4, 6]


def test_track_of_checkpoints(tmp_path: Path) -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=4)

    def after_step(step: int) -> None:
        monitor.step(step)
        if step % 4 == 0:
            torch.save(model.state_dict(), tmp_path / f"run2-step{step:03d}.pt")

    train(model, after_step)
    files = sorted(tmp_path.glob("*.pt"))
    found = sg.track(files, model, PROBE, progress=False)
    assert found.steps == [0, 4, 8]
    assert np.array_equal(found.scores, monitor.track.scores)
    as_dict = sg.track(dict(zip((1, 2, 3), files, strict=True)), model, PROBE, progress=False)
    assert as_dict.steps == [1, 2, 3]
    with pytest.raises(sg.InputError, match="has no number in its name"):
        sg.track([tmp_path / "last.pt"], model, PROBE)
    with pytest.raises(sg.InputError, match="are both of step 1"):
        sg.track([tmp_path / "a1.pt", tmp_path / "b1.pt"], model, PROBE)
    with pytest.raises(sg.InputTypeError, match="a checkpoint is a file, got a OrderedDict"):
        sg.track({0: model.state_dict()}, model, PROBE)
    with pytest.raises(sg.FileFormatError, match="not the weights of"):
        sg.track({0: files[0]}, nn.Sequential(nn.Linear(3, 3), nn.ReLU()), [torch.randn(64, 3)])


def test_frame_and_figure() -> None:
    model = network()
    monitor = Monitor(model, PROBE, every=3)
    train(model, monitor.step)
    frame = monitor.track.to_frame()
    assert frame.shape == (8, 9)
    assert frame["step"].tolist() == [0, 0, 3, 3, 6, 6, 9, 9]
    drawn = monitor.track.plot()
    assert [row["score"] for row in drawn.table] == frame["score"].tolist()
    with pytest.raises(sg.InputError, match="is empty"):
        sg.Track("net", sg.signature(model, PROBE).options).plot()


def test_a_compiled_network_is_measured_through_its_original() -> None:
    model = network()
    compiled = torch.compile(model, backend="eager")
    monitor = Monitor(compiled, PROBE, every=1)
    monitor.step(0)
    assert monitor.track.sites == ["2", "5"]


def test_what_is_not_valid_is_named_at_once() -> None:
    for warn in ("yes", 1, None):
        with pytest.raises(sg.OptionError, match=r"warn must be True, False or sigmascope\.Thres"):
            Monitor(network(), PROBE, warn=warn)  # type: ignore[arg-type]
    monitor = Monitor(network(), PROBE, every=1)
    state = monitor.state_dict()
    for name in state:
        with pytest.raises(sg.InputError, match=f"has no entry '{name}'.*state_dict"):
            monitor.load_state_dict({key: state[key] for key in state if key != name})


def test_a_probe_with_too_few_samples_is_told_of_once() -> None:
    monitor = Monitor(nn.Sequential(nn.Linear(8, 64), nn.ReLU()), torch.randn(20, 8), every=1)
    reason = "20 samples are too few for 64 channels"
    with pytest.warns(sg.TrainingWarning, match=reason) as told:
        monitor.step(0)
    assert told[0].filename == __file__
    monitor.step(1)  # warnings are errors here
    assert f"no score at 1: {reason}" in repr(monitor.track)
    assert repr(monitor) == "Monitor of Sequential: every=1, 2 measurements"


def test_what_a_probe_and_an_option_must_be() -> None:
    with pytest.raises(sg.InputTypeError, match="probe must be a list of batches, or one, got str"):
        Monitor(network(), "probe")
    with pytest.raises(sg.OptionError, match=r"not a valid choice. Did you mean .every"):
        Monitor(network(), PROBE, evry=3)  # type: ignore[call-arg]
    with pytest.raises(RuntimeError, match="cannot be multiplied") as told:
        Monitor(network(), torch.randn(64, 5)).step(0)
    assert "measured its probe" in told.value.__notes__[0]
