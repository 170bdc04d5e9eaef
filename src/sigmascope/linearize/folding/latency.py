"""How long calls take, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

Call = Callable[[], object]
Timer = Callable[[Sequence[Call]], Sequence[float]]
"""A function of several calls that returns the seconds of each."""

ROUND = 5e-4  # seconds that a call is repeated for in a round, at least
ROUNDS, FEWEST = 32, 4
LONGEST = 4.0  # seconds for all rounds, after the fewest


def latency(calls: Sequence[Call], *, device: torch.device | None = None) -> list[float]:
    """Return the seconds of each of several calls, which take turns: the lower decile.

    What else the machine does only adds, so that the median says more of a busy machine than of the
    calls. There, two thirds of the calls of a millisecond or two are interrupted, and the quartile
    was now and then that of an interrupted call.

    Args:
        calls: functions without arguments.
        device: whose queue is waited for.

    >>> [seconds > 0 for seconds in latency([lambda: sum(range(1000))])]
    [True]
    """
    counts = []
    for call in calls:
        call()  # the first call may choose kernels
        counts.append(max(1, round(ROUND / max(_seconds(call, 1, device), 1e-9))))
    found: list[list[float]] = [[] for _ in calls]
    started = time.perf_counter()
    for number in range(ROUNDS):
        if number >= FEWEST and time.perf_counter() - started > LONGEST:
            break
        for call, count, seconds in zip(calls, counts, found, strict=True):
            seconds.append(_seconds(call, count, device) / count)
    return [sorted(seconds)[len(seconds) // 10] for seconds in found]


def _seconds(call: Call, count: int, device: torch.device | None) -> float:
    _wait(device)
    started = time.perf_counter()
    for _ in range(count):
        call()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device | None) -> None:
    if device is not None and device.type not in ("cpu", "meta"):
        torch.accelerator.synchronize(device)


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    """Run with so many threads of the CPU, and as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
