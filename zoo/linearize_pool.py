"""Processes that share a device and work off the jobs of the experiment with linearized
activations, and the journal that they fill.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
import traceback
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from linearize_jobs import Job, Options, keys, needs, product
from linearize_stages import STAGES, Bench, Row
from linearize_training import OutOfTime


class Journal:
    """Rows by key, one JSON line each, in several files: one to take away and one that stays."""

    def __init__(self, *paths: Path) -> None:
        self.paths, self.rows = paths, dict[str, Row]()
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            for line in path.read_text().splitlines() if path.exists() else ():
                row = json.loads(line)
                self.rows[row["key"]] = row
        text = "".join(json.dumps(row) + "\n" for row in self.rows.values())
        for path in paths:
            if not path.exists() or path.read_text() != text:  # only reading changes none
                path.write_text(text)

    def add(self, row: Row) -> None:
        self.rows[row["key"]] = row
        for path in self.paths:
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def beside(held: Row | None, row: Row) -> Row:
    """Return a row that leaves the one with its key in place, if it belongs to other weights.

    A training is repeated where its file is lost. On a GPU it ends at other weights, and the rows
    of the first ones stay what they are.
    """
    if held is None or held.get("origin") == row.get("origin"):
        return row
    return row | {"key": f"{row['key']}/{row['origin']}", "repeated": True}


def ready(job: Job, options: Options) -> bool:
    """Return whether all files that a job reads are there."""
    paths = (product(one, options) for one in needs(job))
    return all(path is not None and path.exists() for path in paths)


def work(connection: Connection, options: Options) -> None:
    """Do the jobs that come, in a process of its own, and send back rows and how each job ended."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    bench = Bench(options)
    connection.send(("free", None))
    while (order := connection.recv()) is not None:
        job, done = order
        try:
            for row in STAGES[job.stage](job, bench, done):
                connection.send(("row", row))
            if options.device == "cuda":
                torch.cuda.empty_cache()  # others share the device
            connection.send(("free", "done"))
        except OutOfTime:
            connection.send(("free", "stopped"))
        except Exception:
            connection.send(("free", traceback.format_exc()))


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class Pool:
    """Some processes that share the device, and the plan that they work off."""

    def __init__(self, plan: list[Job], journal: Journal, options: Options) -> None:
        self.plan, self.journal, self.options = plan, journal, options
        self.doing: dict[Connection, Job | None] = {}
        self.failed, self.stopped = dict[Job, str](), list[Job]()
        self.started = time.monotonic()

    def run(self, processes: int) -> None:
        """Work until nothing is left or the deadline has passed."""
        context = multiprocessing.get_context("spawn")
        workers = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            worker = context.Process(target=work, args=(theirs, self.options), daemon=True)
            worker.start()
            theirs.close()
            self.doing[ours] = Job("start", "", 0)
            workers.append(worker)
        while any(self.doing.values()):
            for connection in wait([one for one, job in self.doing.items() if job]):
                assert isinstance(connection, Connection)
                self._hear(connection)
            self._assign()
        for connection in self.doing:
            connection.send(None)
        for worker in workers:
            worker.join(20)

    def _hear(self, connection: Connection) -> None:
        """Take one message."""
        job = self.doing[connection]
        assert job is not None
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):  # a killed process may leave either
            self._end(job, "the process ended")
            del self.doing[connection]
            return
        if kind == "row":
            self.journal.add(beside(self.journal.rows.get(content["key"]), content))
            return
        self.doing[connection] = None
        if content is not None:
            self._end(job, content)

    def _end(self, job: Job, outcome: str) -> None:
        if outcome == "stopped":
            self.stopped.append(job)
        elif outcome != "done":
            self.failed[job] = outcome
        left, seconds = len(self.plan), time.monotonic() - self.started
        print(f"{seconds:6.1f} s  {job.label}: {outcome}, {left} left", flush=True)

    def _assign(self) -> None:
        """Give every free process the first job whose files are there."""
        late = time.monotonic() > self.options.deadline
        for connection, doing in self.doing.items():
            if doing or late:
                continue
            job = next((one for one in self.plan if ready(one, self.options)), None)
            if job is None:
                return
            self.plan.remove(job)
            done = {one for one in keys(job, self.options) if one in self.journal.rows}
            # a training whose file is lost is repeated, though its row is there
            connection.send((job, done))
            self.doing[connection] = job
