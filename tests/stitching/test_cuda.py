"""On a GPU: a captured step does what the step does, and everything ends as on the CPU, up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.settings import Settings
from sigmascope.stitching.setup import Task
from sigmascope.training.cuda_graph import Step
from tests.stitching.small import data, stitch_many, trained

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TASKS = [
    Task("relu-group"),
    Task("full"),
    Task("low-rank", {"rank": 2}),
    Task("lasso"),
    Task("lasso", {"shrinkage": "proximal"}),
    Task("relu-group", {"rounding": "monotone"}),
    Task("softsort", {"optimizer": "adam"}),
    Task("permutation"),
    Task("least-squares"),
]
SETTINGS = Settings(
    rate=0.02,
    momentum=0.9,
    batch=64,
    epochs=4,
    head_start=2,
    averaging="cumulative",
    final_pass=True,
)


def stitched(device: str, at: str = "2") -> list[StitchResult]:
    front, back = trained().to(device), trained(1).to(device)
    return stitch_many(front, back, TASKS, at=at, data=data(), preset=SETTINGS, progress=False)


def test_a_captured_step_is_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = stitched("cuda")

    def plainly(self: Step, *inputs: Tensor) -> None:
        self._run(*inputs)

    monkeypatch.setattr(Step, "__call__", plainly)
    for one, two in zip(captured, stitched("cuda"), strict=True):
        torch.testing.assert_close(one.matrix, two.matrix, atol=1e-3, rtol=1e-3)
        assert [epoch.loss for epoch in one.history] == pytest.approx(
            [epoch.loss for epoch in two.history], rel=1e-2
        )
        assert one.stitched_accuracy == pytest.approx(two.stitched_accuracy, abs=1)


def test_a_gpu_ends_where_the_cpu_does() -> None:
    for one, two in zip(stitched("cuda"), stitched("cpu"), strict=True):
        assert (
            one.history[0].loss == pytest.approx(two.history[0].loss, rel=0.05)
            if one.history
            else True
        )
        assert one.stitched_accuracy == pytest.approx(two.stitched_accuracy, abs=5)


def test_a_warm_up_leaves_no_trace() -> None:
    total = torch.zeros((), device="cuda")
    made: list[Tensor] = []

    def run(x: Tensor) -> None:
        if not made:
            made.append(torch.zeros((), device="cuda"))
        made[0].add_(x)
        total.add_(made[0])

    step = Step(run, lambda: [total, *made])
    for value in (1.0, 2.0, 3.0):
        step(torch.tensor(value, device="cuda"))
    assert float(total) == 1 + 3 + 6


def test_what_cannot_be_captured_is_run_as_it_is() -> None:
    total = torch.zeros((), device="cuda")

    def run(x: Tensor) -> None:
        total.add_(x if float(x) > 1.5 else 10 * x)

    step = Step(run, lambda: [total])
    for value in (1.0, 2.0, 3.0):
        step(torch.tensor(value, device="cuda"))
    assert float(total) == 10 + 2 + 3


def test_what_is_wrong_stays_wrong() -> None:
    step = Step(lambda x: x.reshape(7), lambda: [])
    with pytest.raises(RuntimeError, match="shape"):
        step(torch.zeros(3, device="cuda"))


def test_capturing_draws_no_random_numbers() -> None:
    total = torch.zeros((), device="cuda")
    drawn = []
    for steps in (1, 2):
        torch.manual_seed(0)
        step = Step(lambda x: total.copy_(torch.rand((), device="cuda") + x), lambda: [total])
        for _ in range(steps):
            step(torch.zeros((), device="cuda"))
        drawn.append(float(total))
        torch.manual_seed(0)
        expected = [float(torch.rand((), device="cuda")) for _ in range(steps)]
        assert drawn[-1] == pytest.approx(expected[-1])


def waits(x: Tensor) -> None:
    if float(x) < 0:
        raise AssertionError


def breaks_off(x: Tensor) -> None:
    """Torch does not see that this waits, so that the capture itself fails."""
    torch.cuda.synchronize()


@pytest.mark.parametrize("run", [waits, breaks_off])
def test_numbers_are_drawn_after_a_capture_that_failed(run: Callable[[Tensor], None]) -> None:
    total = torch.zeros((), device="cuda")
    zero = torch.zeros((), device="cuda")
    earlier = Step(lambda x: total.copy_(torch.rand((), device="cuda") + x), lambda: [total])
    earlier(zero)
    failed = Step(run, lambda: [])
    failed(zero)
    assert failed._graph is None
    torch.manual_seed(0)
    expected = [float(torch.rand((), device="cuda")) for _ in range(2)]
    torch.manual_seed(0)
    earlier(zero)
    assert float(total) == pytest.approx(expected[0])
    assert float(torch.rand((), device="cuda")) == pytest.approx(expected[1])


def test_what_waits_for_nothing_is_captured() -> None:
    total = torch.zeros((), device="cuda")
    step = Step(lambda x: total.add_(x), lambda: [total])
    step(torch.ones((), device="cuda"))
    assert step._graph is not None
    assert torch.cuda.get_sync_debug_mode() == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_step_runs_where_its_inputs_are() -> None:
    total = torch.zeros((), device="cuda:1")
    step = Step(lambda x: total.add_(x), lambda: [total])
    for value in (1.0, 2.0):
        step(torch.tensor(value, device="cuda:1"))
    assert float(total) == 3
