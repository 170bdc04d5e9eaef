"""What watching costs alone: ResNet-50 with every activation call recognized, against without.

The observer receives the input and the output of every activation call and drops them, so that
neither pooling nor scoring is counted. Batches of 8 images of 224 × 224 on one thread of the CPU,
after two batches on which channels, samples and formulas are worked out. Two copies of the network
take turns, one of them watched, and the ratios of the turns are compared, so that other work on the
machine slows both. The processor's time is what counts; that of the clock stands beside it.

On small images, where a pass is short, the difference of the two is seen more exactly.

The aim is a ratio of 1.05 at most. Run as `python benchmarks/recording.py` (two minutes).
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch
from setting import describe, progress
from torch import Tensor, nn
from workload import photographs, torchvision_models

from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooled import capturing
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.recording import recording

IMAGES, SIDE, TURNS, WARM = 8, 32, 24, 2
AIM = 1.05


class Turn(NamedTuple):
    """Seconds of one forward pass."""

    processor: float
    clock: float


def timed(call: Callable[[], object]) -> Turn:
    processor, clock = time.process_time(), time.perf_counter()
    call()
    return Turn(time.process_time() - processor, time.perf_counter() - clock)


class Watched:
    """A network whose calls are recorded, and pooled or not, and then dropped."""

    def __init__(self, model: nn.Module, stack: ExitStack, *, pools: bool) -> None:
        self.sites = 0
        self._model, self._pools = model, pools
        if pools:
            self._capture = stack.enter_context(capturing(model))
        else:
            self._recorder = stack.enter_context(recording(model, self._observe))
            self._recorder.stop()

    def run(self, images: Tensor) -> None:
        self.sites = 0
        if self._pools:
            pooling = Pooling("channels", "batch", {}, 0, size=len(images), masks={})
            self.sites = len(self._capture.run(lambda: self._model(images), [images], pooling))
            return
        with self._recorder.forward_pass([images], size=len(images)):
            self._model(images)

    def _observe(self, call: Call, x: Tensor) -> Finish:
        self.sites += 1
        return _drop


def _drop(y: Tensor) -> None:
    pass


class Measured(NamedTuple):
    """The turns of the plain network and of the watched ones, and how many sites it has."""

    plain: list[Turn]
    watched: dict[str, list[Turn]]
    sites: int

    def ratios(self, name: str, *, clock: bool = False) -> list[float]:
        """Return the ratios of the turns, in order of size."""
        return sorted(
            one[clock] / other[clock]
            for one, other in zip(self.watched[name], self.plain, strict=True)
        )

    def added(self, name: str) -> float:
        """Return by how many seconds of the processor a watched pass takes longer."""
        pairs = zip(self.watched[name], self.plain, strict=True)
        return statistics.median(one.processor - other.processor for one, other in pairs)


def measured(images: int, side: int, turns: int) -> Measured:
    """Let a network and its watched copies take turns, in changing order."""
    torch.manual_seed(0)
    model = torchvision_models().resnet50(weights=None).eval()
    batches = [photographs(images, seed=seed)[:, :, :side, :side].clone() for seed in range(4)]
    with torch.no_grad(), ExitStack() as stack:
        watched = {
            "recording": Watched(copy.deepcopy(model), stack, pools=False),
            "recording and pooling": Watched(copy.deepcopy(model), stack, pools=True),
        }
        calls: dict[str, Callable[[Tensor], object]] = {"plain": model}
        calls |= {name: one.run for name, one in watched.items()}
        found: dict[str, list[Turn]] = {name: [] for name in calls}
        for turn in range(WARM + turns):
            progress(f"turn {turn + 1} of {WARM + turns}")
            names = [*calls][turn % len(calls) :] + [*calls][: turn % len(calls)]
            for name in names:
                one = timed(partial(calls[name], batches[turn % len(batches)]))
                found[name] += [one] if turn >= WARM else []
    return Measured(found.pop("plain"), found, watched["recording"].sites)


def row(name: str, turns: list[Turn], ratios: list[float], clock: list[float]) -> str:
    quarter = len(ratios) // 4
    seconds = statistics.median(one.processor for one in turns)
    return (
        f"| {name} | {seconds:.3f} | {statistics.median(ratios):.3f} | {ratios[quarter]:.3f} to "
        f"{ratios[-1 - quarter]:.3f} | {statistics.median(clock):.3f} |"
    )


def main() -> str:
    torch.set_num_threads(1)
    large, small = measured(IMAGES, 224, TURNS), measured(1, SIDE, 5 * TURNS)
    seconds = statistics.median(one.processor for one in large.plain)
    tiny = statistics.median(one.processor for one in small.plain)
    added = small.added("recording")
    return "\n".join(
        [
            "# Recording alone against the forward pass",
            "",
            describe("cpu"),
            "",
            f"ResNet-50, {large.sites} activation calls, batches of {IMAGES} images of 224 × 224 "
            f"on one thread, {TURNS} turns after {WARM} to warm up. Ratios are medians over the "
            "turns, of the processor's time and of the clock's.",
            "",
            "| | seconds | ratio | middle half of the turns | ratio, clock |",
            "|---|---:|---:|---:|---:|",
            row("forward pass", large.plain, [1.0], [1.0]),
            *(
                row(name, turns, large.ratios(name), large.ratios(name, clock=True))
                for name, turns in large.watched.items()
            ),
            "",
            "What is recorded does not depend on the size of the images. On one image of "
            f"{SIDE} × {SIDE}, for which the network takes {1e3 * tiny:.1f} ms, recording adds "
            f"{1e3 * added:.2f} ms to a pass ({5 * TURNS} turns), which is "
            f"{100 * added / seconds:.2f} % of the forward pass above. The aim is "
            f"{100 * AIM - 100:.0f} % at most.",
        ]
    )


if __name__ == "__main__":
    print(main())
