"""What a penalty on the scores of activations costs: a training step with and without.

ResNet-18 for CIFAR-10 (17 ReLU calls of 64 to 512 channels), batches of 128 images, SGD with
momentum, in float32 with TF32 convolutions and with autocast to bfloat16.

The floor, written down before anything was measured on a GPU: the penalty must read the input and
output of every activation once, and add its gradient to both, which reads and writes each once
more: six passes over 17 activations, 3.5 MB to 33.6 MB each in float32, 288 MB in all, so 1.7 GB or
0.4 ms at 4.0 TB/s. Beside that, for each of the four widths, a covariance and about 130 products of
matrices up to 512 × 512 in float64: 0.14 TFLOP, 3 ms at 45 TFLOP/s, or nothing to the host where
they are replayed from a CUDA graph. A step without takes about 9 ms, most of it launching kernels.

Prediction: 1.4 with every=1, 1.15 with every=4; without the CUDA graph 1.8. On a CPU: 1.5 with a
batch of 32, for eigendecompositions of four matrices of 512 and four of 256 do not become smaller
with the batch, and 1.15 with 128.

Run as `python benchmarks/penalty.py cuda` (a minute) or `python benchmarks/penalty.py` (minutes).
On one core of a CPU a batch of 32 was seen to cost 1.75, more than predicted.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from setting import describe, progress
from torch import nn

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS

# Way of training -> options of the penalty; None for a step without.
WAYS: dict[str, dict[str, int | str | None] | None] = {
    "without": None,
    "every=1": {"every": 1},
    "every=4": {"every": 4},
    'samples="positions"': {"samples": "positions"},
    "block=None": {"block": None},
}
WARM_UP = 24  # steps, after which every site has samples enough, so that all are scored
# Device -> images in a batch, steps that are timed together, and how often.
SIZES = {"cpu": (128, 1, 3), "cuda": (128, 20, 15)}


class Training:
    """One network in training, in one way."""

    def __init__(
        self, options: dict[str, int | str | None] | None, device: str, batch: int
    ) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = NETWORKS["resnet18"]().to(device)
        self.images = torch.randn(batch, 3, 32, 32, device=device)
        self.labels = torch.randint(0, 10, (batch,), device=device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.penalty = None
        if options is not None:
            self.penalty = sg.AffinityPenalty(self.model, weight=0.01, **options)

    def step(self, autocast: AbstractContextManager[object]) -> None:
        self.optimizer.zero_grad()
        with self.penalty or nullcontext(), autocast:
            loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        if self.penalty is not None:
            loss = loss + self.penalty.value
        loss.backward()
        self.optimizer.step()


def timed(call: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def measured(device: str, *, halved: bool) -> dict[str, list[float]]:
    """Return the seconds of a step, each way, in rounds in which all take turns."""
    batch, steps, rounds = SIZES[device]
    names = list(WAYS) if device == "cuda" else ["without", "every=1"]
    ways = {name: Training(WAYS[name], device, batch) for name in names}

    def run(training: Training, count: int) -> None:
        for _ in range(count):
            training.step(torch.autocast(device, torch.bfloat16, enabled=halved))

    for name, training in ways.items():
        progress(f"warming up: {name}")
        run(training, WARM_UP if device == "cuda" else 2)
        if device == "cpu" and training.penalty is not None:
            fill(training.penalty)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name, training in ways.items():
            seconds[name].append(timed(lambda one=training: run(one, steps), device) / steps)
    for training in ways.values():
        if training.penalty is not None and training.penalty.every == 1:
            assert len(training.penalty.scores) == 17, training.penalty.skipped
    return seconds


def fill(penalty: sg.AffinityPenalty) -> None:
    """Count samples enough as seen, where so many steps would take minutes."""
    for site_scores in penalty._running.values():
        for group in site_scores.groups:
            group.running.rows = 4.0 * group.running.channels


def table(device: str, *, halved: bool) -> list[str]:
    seconds = measured(device, halved=halved)
    mode = "bfloat16" if halved else "float32"
    rows = []
    for name, found in seconds.items():
        ratios = [one / base for one, base in zip(found, seconds["without"], strict=True)]
        rows.append(
            f"| {mode} | {name} | {1e3 * statistics.median(found):.1f} | "
            f"{statistics.median(ratios):.2f} |"
        )
    return rows


def main(device: str = "cpu") -> str:
    batch, steps, rounds = SIZES[device]
    modes = (False, True) if device == "cuda" else (False,)
    rows = [row for halved in modes for row in table(device, halved=halved)]
    return "\n".join(
        [
            f"# A penalty on the scores of ResNet-18 in training ({device})",
            "",
            describe(device),
            "",
            f"Training steps with batches of {batch}; median of {rounds} rounds of {steps} steps in"
            " which all take turns, and of the ratios within a round.",
            "",
            "| mode | penalty | ms per step | ratio |",
            "|---|---|---:|---:|",
            *rows,
        ]
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
