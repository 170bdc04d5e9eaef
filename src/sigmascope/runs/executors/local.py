"""Processes of this machine, replaced when one of them dies; none outlives this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from sigmascope.runs.executors.resources import Engine, Resources, devices

GRACE = 2.0  # seconds in which a process may end by itself


@contextmanager
def local_processes(count: int, resources: Resources) -> Iterator[LocalProcesses]:
    """Yield an executor with that many processes, which are ended, whatever they do, at the end.

    Raises:
        OptionError: the GPUs of this machine are too few.
    """
    environments = [_environment(slot, count, resources) for slot in range(count)]
    executor = LocalProcesses(environments)
    try:
        yield executor
    finally:
        executor.close()


class LocalProcesses:
    """An executor of which every process is replaced when it is killed, and takes no call along.

    Attributes:
        most: how many calls are pending at most: one for each process, so that none waits behind a
            call that kills its process.
    """

    def __init__(self, environments: list[dict[str, str]]) -> None:
        self.most = len(environments)
        self._slots = [_Slot(environment) for environment in environments]

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Return the future of a call; a BrokenExecutor is its error if its process dies."""
        return min(self._slots, key=_Slot.load).submit(function, *arguments)

    def close(self) -> None:
        """End all processes, at once."""
        for slot in self._slots:
            slot.release()
        until = time.monotonic() + GRACE
        for slot in self._slots:
            slot.end(until)


class _Slot:
    """One process, started when it is needed."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._pool: ProcessPoolExecutor | None = None
        self._held: Connection | None = None
        self._pending: list[Future[Any]] = []

    def load(self) -> int:
        """Return how many calls have not ended."""
        self._pending = [future for future in self._pending if not future.done()]
        return len(self._pending)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Return the future of a call, in a new process if the last one died."""
        try:
            future = self._submitted(function, *arguments)
        except BrokenProcessPool:
            self.release()
            self.end(time.monotonic() + GRACE)
            future = self._submitted(function, *arguments)
        self._pending.append(future)
        return future

    def _submitted(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        pool = self._pool or self._start()
        with _deaf():
            return pool.submit(function, *arguments)

    def release(self) -> None:
        """Let the process end, whatever it does."""
        if self._held is not None:
            with suppress(OSError):
                self._held.close()  # which it waits for
            self._held = None

    def end(self, until: float) -> None:
        """Wait until the process has ended; kill it if it does not, such as in code written in C.

        Args:
            until: when that is, by the monotonic clock.
        """
        if self._pool is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.join(max(0.0, until - time.monotonic()))
                process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # torch and its threads survive no fork
        waited, self._held = context.Pipe(duplex=False)
        paths = [path for path in sys.path if path]
        self._pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=_begin, initargs=(waited, self._environment, paths)
        )
        return self._pool


@contextmanager
def _deaf() -> Iterator[None]:
    """Put off Ctrl-C here, and in processes that are started here until they are prepared.

    It reaches all processes of a terminal. One that still imports would end with a long traceback.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which would end this, if it were started inside
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(waited: Connection, environment: dict[str, str], paths: list[str]) -> None:
    """Prepare a process: it ends with the one that started it, and Ctrl-C is heard there only."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `_deaf`
    os.environ.update(environment)
    sys.path[:] = [*dict.fromkeys([*sys.path, *paths])]
    threading.Thread(target=_end_with, args=(waited,), daemon=True).start()


def _end_with(waited: Connection) -> None:
    with suppress(EOFError, OSError):
        waited.recv_bytes()
    os._exit(1)


def _environment(slot: int, count: int, resources: Resources) -> dict[str, str]:
    """Return the variables of a process: its threads, and the GPUs that it sees."""
    found = {}
    if "OMP_NUM_THREADS" not in os.environ:
        found["OMP_NUM_THREADS"] = str(resources.threads)
    if resources.gpus:
        Engine("local", str(count)).check(resources)
        free, many = devices(), max(1, int(resources.gpus))
        first = slot // resources.sharing * many
        found["CUDA_VISIBLE_DEVICES"] = ",".join(free[first : first + many])
    return found
