"""The tasks that executors run: one network each, written into the directory of its survey.

A task claims its network, measures it, writes its files and returns a few plain values. It knows
the directory, the name and an `Order`; everything else is in the directory.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope.runs.isolation import Worker
from sigmascope.runs.network import checked_device
from sigmascope.runs.one import network_in
from sigmascope.runs.outcome import Outcome
from sigmascope.store.files import Location

IDLE = 60.0  # seconds after which a child process that has nothing to do is ended


@dataclass(frozen=True)
class Order:
    """How a task measures its network.

    Attributes:
        device: of the network; "auto" is a GPU that the task was given, or else the CPU.
        resume: whether to keep what is there and to continue partial runs.
        isolate: whether to measure in a child process, so that a network that crashes, hangs or
            fills the memory is a failure with a reason, and not the end of what runs the task.
        time_limit: seconds for one network, with `isolate`.
        threads: that torch computes with; None to leave them as they are.
        directory: where names of files begin; "" to leave it as it is.
    """

    device: str = "auto"
    resume: bool = True
    isolate: bool = True
    time_limit: float | None = None
    threads: int | None = None
    directory: str = ""


def measure_named(folder: str, name: str, order: Order) -> Outcome:
    """Claim, measure and write a network of the catalog; return what became of it.

    The outcome has no signature: that is in the file it names. Networks do not raise.
    """
    with _within(order.directory):
        return _light(_measured(folder, name, order))


def measure_given(folder: str, name: str, order: Order, model: nn.Module, batches: Any) -> Outcome:
    """Claim, measure and write a network that was handed over; return what became of it."""
    with _within(order.directory), _threads(order.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # unless a device is named, the network stays where it is
        device = None if order.device == "auto" else checked_device(order.device)
        network = network_in(folder, name, device, resume=order.resume)
        return _light(replace(network, given=(model, batches)).outcome())


def close_children() -> None:
    """End the child processes that wait for work, of this process."""
    with _free.lock:
        workers = [worker for kept in _free.workers.values() for worker, _ in kept]
        _free.workers.clear()
    for worker in workers:
        worker.close()


def _measured(folder: str, name: str, order: Order) -> Outcome:
    if not order.isolate:
        with _threads(order.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody reads them here
            network = network_in(folder, name, checked_device(order.device), resume=order.resume)
            return network.outcome()
    network = network_in(folder, name, torch.device("cpu"), resume=order.resume)
    with _child(folder, order) as worker:
        return worker.outcome(network)


@dataclass
class _Free:
    """Child processes that wait for work; starting one takes seconds."""

    workers: dict[tuple[Any, ...], list[tuple[Worker, float]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_watched: bool = False


_free = _Free()


@contextmanager
def _child(folder: Location, order: Order) -> Iterator[Worker]:
    """Yield a child process, which waits for the next network of the same order afterwards."""
    key = (str(folder), order)
    with _free.lock:
        kept = _free.workers.get(key)
        worker = kept.pop()[0] if kept else None
    if worker is None:
        threads = {} if order.threads is None else {"OMP_NUM_THREADS": str(order.threads)}
        worker = Worker(
            Path(folder),
            order.device,
            resume=order.resume,
            time_limit=order.time_limit,
            environment=threads,
        )
    try:
        yield worker
    except BaseException:
        worker.close()
        raise
    with _free.lock:
        _free.workers.setdefault(key, []).append((worker, time.monotonic()))
        if not _free.is_watched:
            _free.is_watched = True
            threading.Thread(target=_close_idle, daemon=True).start()


def _close_idle() -> None:
    """Close what waits for too long, until nothing waits."""
    while True:
        time.sleep(IDLE / 2)
        now, idle = time.monotonic(), []
        with _free.lock:
            for key, kept in list(_free.workers.items()):
                idle += [worker for worker, since in kept if now - since >= IDLE / 2]
                _free.workers[key] = [one for one in kept if now - one[1] < IDLE / 2]
            _free.is_watched = any(_free.workers.values())
            is_over = not _free.is_watched
        for worker in idle:
            worker.close()
        if is_over:
            return


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Compute with so many threads; several tasks may be threads of one process."""
    before = torch.get_num_threads()
    if count is None or "OMP_NUM_THREADS" in os.environ or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _within(directory: str) -> Iterator[None]:
    """Work in a directory, as the program that began the survey; Ray begins elsewhere."""
    before = os.getcwd()
    if not directory or directory == before or not os.path.isdir(directory):
        yield
        return
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _light(outcome: Outcome) -> Outcome:
    """Return an outcome without what is in its file."""
    return replace(outcome, signature=None, facts=None)
