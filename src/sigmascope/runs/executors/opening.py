"""The executor of a text, as a context."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sigmascope.checks import check_whole
from sigmascope.runs.executors.local import local_processes
from sigmascope.runs.executors.ray_cluster import ray_cluster
from sigmascope.runs.executors.resources import Engine, Resources
from sigmascope.runs.executors.slurm import slurm_jobs
from sigmascope.runs.executors.window import Executor


@contextmanager
def open_executor(
    on: str, resources: Resources | None = None, *, pending: int = 64, folder: Path | None = None
) -> Iterator[Executor]:
    """Yield what has `submit`; at the end, all that it has started is ended.

    Args:
        on: "local:4" for processes; "ray" for a Ray that is started and stopped; "ray://HOST:PORT"
            or "auto" for a Ray cluster that exists; "slurm" or "slurm:PARTITION".
        resources: what each task needs.
        pending: how many tasks Slurm runs at a time; the other engines count their resources.
        folder: where Slurm jobs leave their files, in a directory of this executor, which is
            removed at the end. All nodes must see it; by default the working directory.

    Raises:
        OptionError: the text names no engine, or one that does not answer.
        MissingExtraError: the package of the engine is not installed.

    >>> with open_executor("local:1") as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    """
    engine, asked = Engine.named(on), resources or Resources()
    check_whole("pending", pending, 1)
    engine.check(asked)
    if engine.kind == "local":
        with local_processes(int(engine.where), asked) as processes:
            yield processes
    elif engine.kind == "ray":
        with ray_cluster(engine.where, asked) as tasks:
            yield tasks
    elif folder is not None:
        # not shared with another survey of the same directory, which may end before this one
        own_folder = folder / f"slurm-{uuid.uuid4().hex[:12]}"
        try:
            with slurm_jobs(engine.where, asked, own_folder, pending=pending) as jobs:
                yield jobs
        finally:
            shutil.rmtree(own_folder, ignore_errors=True)
    else:
        with (
            tempfile.TemporaryDirectory(prefix=".sigmascope-slurm-", dir=".") as own,
            slurm_jobs(engine.where, asked, Path(own), pending=pending) as jobs,
        ):
            yield jobs
