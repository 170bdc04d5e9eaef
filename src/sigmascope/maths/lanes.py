"""Several streams of work on one accelerator, and a host that goes on wherever it can.

A task is a generator that launches work in its lane and, where it needs a number from there, yields
a function that tells whether the number has come.
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

__all__ = ["Lane", "Ready", "run", "wait_for", "wait_until"]

Ready: TypeAlias = Callable[[], bool]
Result = TypeVar("Result")

# Seconds to sleep where nothing can go on: short beside the work, long enough for other threads of
# the process to run.
IDLE = 5e-5
# How many steps each task starts behind the one before: the first one may need the solver and is
# not to wait for the rest.
BEHIND = 2


def run(tasks: list[Generator[Ready, None, Result]]) -> list[Result]:
    """Resume the tasks when what they wait for has come, the least advanced first; return what they
    return, as it comes.
    """
    waiting: dict[Generator[Ready, None, Result], Ready] = {task: lambda: True for task in tasks}
    steps = {task: BEHIND * number for number, task in enumerate(tasks)}
    results = []
    while waiting:
        task = min(
            (task for task, ready in waiting.items() if ready()),
            key=steps.__getitem__,
            default=None,
        )
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
    """Wait until the device has done what the caller gave it: work that is launched earlier starts
    all at once, in no order.
    """
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def wait_until(ready: Ready) -> None:
    """Block this thread only."""
    while not ready():
        time.sleep(IDLE)


@functools.cache
def _stream(device: torch.device, number: int, priority: int) -> torch.cuda.Stream:
    """Return always the same streams: torch keeps freed memory by stream, and new streams would
    each ask for their own.
    """
    return torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]


class Lane:
    """A stream of work beside the caller's; without an accelerator, nothing at all."""

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
        """Copy values from the host, without waiting for what the device has to do before."""
        tensor = torch.from_numpy(values)
        return (
            tensor
            if self.stream is None
            else tensor.pin_memory().to(self.stream.device, non_blocking=True)
        )

    def fetch(self, values: Tensor) -> tuple[Tensor, Ready]:
        """Start to copy values to the host; they may be read when the second result says so."""
        if self.stream is None:
            return values, lambda: True
        copy = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True).copy_(
            values, non_blocking=True
        )
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self.stream)
        return copy, event.query
