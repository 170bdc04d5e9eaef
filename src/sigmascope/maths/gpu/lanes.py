"""Several streams of work on one accelerator, and a host that proceeds wherever it can.

A task is a generator that launches work in its lane and, where it needs a number from there, yields
a function that returns whether the number is ready.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

Ready: TypeAlias = Callable[[], bool]
Result = TypeVar("Result")

# Seconds to sleep if nothing is ready: short beside the work, long enough for other threads.
IDLE = 5e-5
# Steps by which each task starts after the one before: the first may need the solver.
BEHIND = 2


def run(tasks: list[Generator[Ready, None, Result]]) -> list[Result]:
    """Return the results of the tasks as they end; of those ready, the least advanced resumes."""
    waiting: dict[Generator[Ready, None, Result], Ready] = {task: lambda: True for task in tasks}
    steps = {task: BEHIND * number for number, task in enumerate(tasks)}
    results = []
    while waiting:
        able = (task for task, ready in waiting.items() if ready())
        task = min(able, key=steps.__getitem__, default=None)
        if task is None:
            time.sleep(IDLE)
            continue
        steps[task] += 1
        try:
            waiting[task] = next(task)
        except StopIteration as stop:
            results.append(stop.value)
            del waiting[task]
    return results


def wait_for(device: torch.device) -> None:
    """Wait until the device has done the caller's work; streams would start in no order."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def wait_until(ready: Ready) -> None:
    """Block this thread only."""
    while not ready():
        time.sleep(IDLE)


@functools.cache
def _stream(device: torch.device, number: int, priority: int) -> torch.cuda.Stream:
    """Return always the same streams: torch caches freed memory by stream."""
    return torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]


class Lane:
    """A stream of work beside the caller's; without an accelerator, none."""

    def __init__(self, device: torch.device, number: int, *, urgent: bool) -> None:
        self.stream = None
        if device.type == "cuda":
            self.caller = torch.cuda.current_stream(device)
            self.stream = _stream(device, number, -1 if urgent else 0)
            self.stream.wait_stream(self.caller)

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Launch in this lane what is computed inside."""
        with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            yield

    def hand_over(self, *tensors: Tensor) -> None:
        """Let the caller's stream go on with tensors that were computed here."""
        if self.stream is not None:
            self.caller.wait_stream(self.stream)
            for tensor in tensors:
                tensor.record_stream(self.caller)

    def send(self, values: np.ndarray[Any, Any]) -> Tensor:
        """Copy values from the host, without waiting for earlier work of the device."""
        tensor = torch.from_numpy(values)
        if self.stream is None:
            return tensor
        return tensor.pin_memory().to(self.stream.device, non_blocking=True)

    def fetch(self, values: Tensor) -> tuple[Tensor, Ready]:
        """Start to copy values to the host; they may be read once the second result is true."""
        if self.stream is None:
            return values, lambda: True
        copy = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
        copy.copy_(values, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self.stream)
        return copy, event.query
