"""Experiments made of jobs: a journal of what is done, and processes that do the rest."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar


class Keyed(Protocol):
    """A job: its row in the journal has its key."""

    @property
    def key(self) -> str: ...


Job = TypeVar("Job", bound=Keyed)
PAUSE = 1.0  # seconds, at least, between two lines of quick jobs


class Journal:
    """Rows by their keys, in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, dict[str, dict[str, Any]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else ():
            if line.endswith("}"):  # the last may have been cut
                row = json.loads(line)
                self.rows[row["key"]] = row

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["key"]] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def follow(
    plan: list[Job],
    work: Callable[[Job], dict[str, Any]],
    ready: Callable[[Job], bool],
    journal: Journal,
    *,
    processes: int,
    deadline: float,
) -> list[str]:
    """Do the jobs, each once the files it reads are there; return those that failed, with why."""
    began, failed, running = time.monotonic(), list[str](), dict[Future[dict[str, Any]], Job]()
    told, left, context = 0.0, list(plan), multiprocessing.get_context("spawn")
    how = {"mp_context": context, "initializer": _end_with_parent}
    with threads(processes), ProcessPoolExecutor(processes, **how) as pool:
        while left or running:
            for job in [] if time.monotonic() > deadline else list(left):
                if len(running) == processes:
                    break
                if ready(job):
                    left.remove(job)
                    running[pool.submit(work, job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                problem = future.exception()
                if problem is None:
                    journal.add(future.result())
                else:
                    failed.append(f"{job.key}: {problem!r}")
                spent = time.monotonic() - began
                if problem is not None or spent - told >= PAUSE or not running:
                    word = "done" if problem is None else "failed"
                    count = f"{len(plan) - len(left) - len(running)}/{len(plan)}"
                    print(f"{spent:6.1f} s  {count}  {job.key} {word}", flush=True)
                    told = spent
    return failed


def _end_with_parent() -> None:
    """End this process when the one that started it was killed, which tells it nothing."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def threads(processes: int) -> Iterator[None]:
    """Divide the cores among the processes that are started inside the context."""
    name = "OMP_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, (os.cpu_count() or 1) // processes))
    try:
        yield
    finally:
        del os.environ[name]
