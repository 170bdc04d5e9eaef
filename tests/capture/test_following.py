"""What is known of a pass is taken from the pass before only where nothing has changed."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.following import Following
from sigmascope.capture.observer import Call
from sigmascope.capture.recorder import Recorder
from sigmascope.capture.recording import recording


class Switching(nn.Module):
    """A network that does something else from the second pass on."""

    def __init__(self, first: Callable[..., Tensor], then: Callable[..., Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        self.other = nn.Conv2d(6, 6, 1)
        self.register_buffer("held", torch.zeros(6, 6, 6, 6))
        self.register_buffer("kept", torch.zeros(6, 6, 6, 6))
        self.steps = (first, then)
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        step = self.steps[min(self.passes, 1)]
        self.passes += 1
        return torch.relu(step(self, self.conv(x)))


def watch(model: nn.Module, batches: list[Tensor]) -> list[list[Call]]:
    """Return the calls of every pass."""
    calls: list[Call] = []
    found = []
    with torch.no_grad(), recording(model, lambda call, x: calls.append(call)) as recorder:
        recorder.stop()
        for x in batches:
            with recorder.forward_pass([x], size=len(x)):
                model(x)
            found.append(calls.copy())
            calls.clear()
    return found


def fresh(then: Callable[..., Tensor], x: Tensor) -> list[Call]:
    return watch(Switching(then, then), [x])[0]


CUBE = torch.randn(6, 6, 6, 6)  # axes that cannot be told apart by their length
CHANGES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "numbers": (lambda m, x: x.permute(0, 2, 1, 3), lambda m, x: x.permute(0, 1, 3, 2)),
    "the sample axis": (lambda m, x: x.transpose(1, 2), lambda m, x: x.transpose(0, 1)),
    "a list": (lambda m, x: x.permute([0, 2, 1, 3]), lambda m, x: x.permute([0, 2, 3, 1])),
    "the number of arguments": (lambda m, x: x.flatten(1), lambda m, x: x.flatten(1, 2)),
    "the kind of a number": (lambda m, x: x[:, 1], lambda m, x: x[:, True]),
    "a slice": (lambda m, x: x[:, 0:1], lambda m, x: x[0:1, :].transpose(0, 1)),
    "keywords": (lambda m, x: x.sum(dim=2), lambda m, x: x.sum(dim=1)),
    "the order of keywords": (
        lambda m, x: torch.movedim(x, source=1, destination=3),
        lambda m, x: torch.movedim(x, destination=1, source=3),
    ),
    "which tensor": (
        lambda m, x: x.movedim(1, 3) @ torch.ones(6, 6),
        lambda m, x: torch.ones(6, 6) @ x.movedim(1, 3),
    ),
    "one tensor twice": (
        lambda m, x: (y := x.movedim(0, 3)) @ (y + 1),
        lambda m, x: (y := x.movedim(0, 3) + 1) @ y,
    ),
    "a source of the same shape": (
        lambda m, x: x.permute(0, 2, 1, 3) + 1,
        lambda m, x: x.permute(3, 0, 1, 2) + 1,
    ),
    "a mask": (
        lambda m, x: m.held[x.flatten(1).argmax(1) * 0],
        lambda m, x: m.held[x.flatten(1).isfinite().all(1)],
    ),
    "a buffer that takes samples": (
        lambda m, x: m.held.copy_(m.kept.transpose(1, 2)) + 0,
        lambda m, x: m.held.copy_(x.transpose(1, 2)) + 0,
    ),
    "more functions": (lambda m, x: x + 1, lambda m, x: (x + 1).transpose(1, 2).neg()),
    "fewer functions": (lambda m, x: (x + 1).transpose(1, 2).neg(), lambda m, x: x + 1),
    "a weight": (
        lambda m, x: F.conv2d(x, m.conv.weight),
        lambda m, x: F.linear(x, m.conv.bias[None]),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_pass_is_worked_out_again(change: str) -> None:
    first, then = CHANGES[change]
    passes = watch(Switching(first, then), [CUBE, CUBE, CUBE])
    assert passes == [fresh(first, CUBE), fresh(then, CUBE), fresh(then, CUBE)]


@pytest.mark.parametrize("change", CHANGES)
def test_the_changes_matter(change: str) -> None:
    first, then = CHANGES[change]
    assert fresh(first, CUBE) != fresh(then, CUBE)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Flatten(2),
        nn.Linear(36, 4),
        nn.GELU(),
    ).eval()


ONCE = ["conv2d", "batch_norm", "relu", "flatten", "linear", "gelu"]


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that were worked out."""
    names: list[str] = []
    work_out = Following._work_out

    def counted(self: Following, call: Applied, outputs: list[Tensor]) -> object:
        names.append(call.name)
        return work_out(self, call, outputs)

    monkeypatch.setattr(Following, "_work_out", counted)
    return names


def test_the_same_pass_is_not_worked_out_again(worked_out: list[str]) -> None:
    sizes = [5, 5, 5, 4, 5]
    passes = watch(network(), [torch.randn(size, 3, 8, 8) for size in sizes])
    assert worked_out == ONCE + ONCE + ONCE  # the first, the smaller one, and the one after it
    assert passes == [passes[0]] * 5


def test_nor_is_it_when_the_network_is_watched_again(worked_out: list[str]) -> None:
    model, x = network(), torch.randn(5, 3, 8, 8)
    first, again = watch(model, [x]), watch(model, [x])
    assert worked_out == ONCE
    assert first == again
    old = weakref.ref(model[0].weight)
    model[0].weight = nn.Parameter(torch.randn(8, 3, 3, 3))
    assert old() is None  # nobody keeps it
    assert watch(model, [x]) == first
    assert worked_out == ONCE  # a layer does to axes what it did
    watch(network(), [x])
    assert worked_out == [*ONCE, *ONCE]  # another network


def test_a_buffer_that_becomes_an_input_is_one(worked_out: list[str]) -> None:
    model = Switching(lambda m, x: x + m.held, lambda m, x: x + m.held)
    held = model.held
    assert watch(model, [CUBE])[0] == fresh(lambda m, x: x + m.held, CUBE)
    model.held = torch.zeros(6, 6, 6, 6)
    assert watch(model, [held])[0][0].descent.state == "known"


def test_other_weights_are_noticed() -> None:
    model, x = network(), torch.randn(4, 3, 8, 8)
    with torch.no_grad(), recording(model, lambda call, x: None) as recorder:
        for _ in range(2):
            with recorder.forward_pass([x], size=4):
                model(x)
            model[0].weight = nn.Parameter(torch.randn(8, 3, 3, 3))
        assert _places(recorder) == 1


def _places(recorder: Recorder) -> int:
    """Count the tensors of the first function that are not constants."""
    return recorder.following._steps[0].tensors


def test_steps_keep_no_activation_alive() -> None:
    alive = []

    def observe(call: Call, x: Tensor) -> None:
        alive.append(weakref.ref(x))

    model, x = network(), torch.randn(4, 3, 8, 8)
    with torch.no_grad(), recording(model, observe) as recorder:
        for _ in range(2):
            with recorder.forward_pass([x], size=4):
                model(x)
        assert [ref() for ref in alive] == [None] * 4


def test_a_recording_without_end_remembers_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.capture.following.LIMIT", 7)
    model, x, calls = network(), torch.randn(4, 3, 8, 8), []
    with torch.no_grad(), recording(model, lambda call, x: calls.append(call)) as recorder:
        for _ in range(3):
            model(x)
        assert len(recorder.following._steps) == 7
    assert [(call.layout, call.descent) for call in calls] == [
        (call.layout, call.descent) for call in calls[:2]
    ] * 3
