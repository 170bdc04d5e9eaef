"""Ctrl-C at any line of the code that watches a network leaves nothing of it behind."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, overrides

import sigmascope as sg
from sigmascope.capture import activations, gate, recording, turns
from sigmascope.capture.ending import ending
from sigmascope.capture.guard import preserve_state
from tests.faults.scale import as_many, write_down

CAPTURE = str(Path(recording.__file__).parent)


class Attending(nn.Module):
    """Layers of all the ways in which they are watched, formulas, statistics and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.attend = nn.MultiheadAttention(6, 2, batch_first=True)
        self.last, self.act = nn.Linear(6, 5), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.norm(self.first(x)) + torch.rand(6) + random.random())
        x = x * torch.sigmoid(x)
        x = self.attend(x[:, None], x[:, None], x[:, None])[0][:, 0]
        return self.act(self.last(torch.relu(x)))


def network() -> Attending:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Attending()


def left(model: nn.Module) -> dict[str, Any]:
    """Everything that may be left behind."""
    tables = [name for name in vars(model) if "hooks" in name]
    return {
        "flags": [module.training for module in model.modules()],
        "hooks": [[list(getattr(one, name)) for name in tables] for one in model.modules()],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "values": [tensor.tolist() for tensor in model.state_dict().values()],
        "gradients": torch.is_grad_enabled(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),
        "python": random.getstate(),
        "functions": overrides._get_current_function_mode_stack(),
        "functions seen": torch._C._is_torch_function_enabled(),
        "operators": torch._C._len_torch_dispatch_stack(),
        "turns": list(turns._turns),
        "gates": list(gate._closed),
        "recorders": list(recording._active),
        "modes": activations.own_modes,
    }


class Lines:
    """Counts the lines of the files that watch a network; raises a KeyboardInterrupt at one.

    Attributes:
        seen: the lines, in order of execution.
    """

    def __init__(self, stop: int | None = None) -> None:
        self.seen: list[str] = []
        self._stop = stop

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(CAPTURE):
            return None
        if event == "line":
            self.seen.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            if len(self.seen) - 1 == self._stop:
                raise KeyboardInterrupt  # which also ends the tracing
        return self

    def run(self, work: Callable[[], object]) -> bool:
        """Return whether the work was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


def places(work: Callable[[], object]) -> list[int]:
    """Return when each line runs first, next and last."""
    lines = Lines()
    assert not lines.run(work)
    times: dict[str, list[int]] = {}
    for number, line in enumerate(lines.seen):
        times.setdefault(line, []).append(number)
    return sorted({number for one in times.values() for number in (*one[:2], one[-1])})


def evenly(items: list[int], count: int) -> list[int]:
    """Return that many of the items, or all."""
    count = min(count, len(items))
    return [items[k * len(items) // count] for k in range(count)]


BATCH = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def measured(model: nn.Module, mode: str) -> list[float]:
    found = sg.signature(model, [BATCH], mode=mode, estimator="published", progress=False)
    return found.scores.tolist()


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("mode", ["eval", "as-is"])
def test_an_interrupt_at_any_line_leaves_nothing(mode: str, known: bool) -> None:
    """A network that was measured before is not worked out again, so that other lines run."""
    model, failures = network(), []
    expected = measured(model, mode)

    def work() -> None:
        measured(model, mode)

    chosen = evenly(places(work if known else lambda: measured(network(), mode)), as_many(8, 400))
    for place in chosen:
        if not known:
            model = network()
        before, lines = left(model), Lines(place)
        interrupted, after = lines.run(work), left(model)
        changed = [part for part, value in before.items() if after[part] != value]
        if changed or not interrupted:
            failures.append(f"{lines.seen[-1]}: {', '.join(changed) or 'was not interrupted'}")
            repair()
            model = network()
    write_down(
        f"Ctrl-C while a {'known' if known else 'new'} network is watched ({mode})",
        tried=len(chosen),
        failed=len(failures),
        note="at lines of the code that watches; hooks, modes, statistics, random states compared",
    )
    assert not failures
    assert measured(model, mode) == expected


def repair() -> None:
    """Remove what an earlier failure has left, so that each is reported once."""
    for _ in overrides._get_current_function_mode_stack():
        overrides._pop_mode()
    for one in (turns._turns, gate._closed, recording._active):
        one.clear()
    activations.own_modes = 0
    torch.set_grad_enabled(True)


def test_what_is_left_is_seen() -> None:
    """Negative control: each part of the state can differ."""
    model = network()
    before = left(model)
    with preserve_state(model, mode="as-is"), recording.recording(model, lambda *_: None):
        model(BATCH)
        random.random(), np.random.rand()
        inside = left(model)
    assert {part for part in before if before[part] != inside[part]} == {*before} - {
        "flags",
        "functions seen",
        "operators",
        "modes",
    }
    assert left(model) == before


def test_an_interrupt_while_steps_run_runs_them_again() -> None:
    ran, interrupts = [], [KeyboardInterrupt(), None]

    def interrupted() -> None:
        error = interrupts.pop(0)
        if error is not None:
            raise error
        ran.append("second")

    with pytest.raises(KeyboardInterrupt, match=r"^$"), ending() as steps:
        steps += [lambda: ran.append("first"), interrupted]
    assert ran == ["second", "first"]


def test_a_step_that_fails_stops_no_other() -> None:
    ran = []
    with pytest.raises(ZeroDivisionError, match="division"), ending() as steps:
        steps += [lambda: ran.append("first"), lambda: 1 / 0, lambda: ran.append("third")]
    assert ran == ["third", "first"]
