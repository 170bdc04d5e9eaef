"""On a GPU fine-tuning captures its steps, and ends where the CPU does."""

from __future__ import annotations

import pytest
import torch

from sigmascope.dissection.penalty import RotationPenalty, rotation_penalty
from sigmascope.dissection.settings import FineTuning
from sigmascope.symmetry.rotations import random_rotation
from sigmascope.training.cuda_graph import Step
from tests.dissection.test_penalty import QUICK, data, trained

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_captured_step_is_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> RotationPenalty:
        settings = FineTuning(epochs=6, batch=32, rate=1e-2, drops=2)
        return rotation_penalty(
            trained().cuda(), "0", random_rotation(8, 0), data(), settings=settings, progress=False
        )

    captured = run()
    monkeypatch.setattr(Step, "__call__", lambda self, *inputs: self._run(*inputs))
    plain = run()
    assert captured.base_accuracy == plain.base_accuracy
    # of 51 samples, after atomics that round at random
    assert captured.history == pytest.approx(plain.history, abs=4)
    assert captured.accuracy == pytest.approx(plain.accuracy, abs=2)


def test_a_gpu_ends_where_the_cpu_does() -> None:
    runs = [
        rotation_penalty(
            trained().to(device), "0", random_rotation(8, 0), data(), settings=QUICK, progress=False
        )
        for device in ("cpu", "cuda")
    ]
    assert runs[0].start_accuracy == pytest.approx(runs[1].start_accuracy, abs=1)
    assert runs[0].accuracy == pytest.approx(runs[1].accuracy, abs=4)
