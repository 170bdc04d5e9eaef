"""Slurm, by submitit: job arrays; without Slurm the same jobs as processes of this machine."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sigmascope.errors import MissingExtraError, OptionError
from sigmascope.runs.executors.resources import Resources, cores, has_slurm
from sigmascope.runs.executors.slurm_queue import Queue
from sigmascope.runs.executors.window import LostTaskError

LONGEST = 24 * 60  # minutes of a job without a time limit
MARGIN = 15  # minutes for its start, and for what is written at its end
LARGEST_ARRAY = 1000  # one less than what Slurm allows unless it is told otherwise
LAG = 15.0  # seconds after its end in which the result of a job may still appear on other machines
TAIL = 20  # lines of its output that are told of a job that has left no result


@contextmanager
def slurm_jobs(
    partition: str, resources: Resources, folder: Path, *, pending: int = 64
) -> Iterator[SlurmJobs]:
    """Yield an executor whose calls are elements of job arrays; those that are left are cancelled.

    Args:
        partition: of Slurm; "" for the default one.
        resources: what each job asks for.
        folder: where submitit keeps its files and the output of jobs; every node must see it.
        pending: how many elements of an array Slurm runs at a time.

    Raises:
        MissingExtraError: submitit is not installed.
    """
    executor = SlurmJobs(partition, resources, folder, pending)
    try:
        yield executor
    finally:
        executor.cancel()


class SlurmJobs:
    """An executor of submitit.

    Attributes:
        is_local: whether there is no Slurm, so that jobs are processes of this machine.
        most: how many calls are pending at most.
        group: how many calls are one array.
    """

    def __init__(self, partition: str, resources: Resources, folder: Path, pending: int) -> None:
        submitit = _submitit()
        self.is_local = not has_slurm()
        # without a scheduler, each job is started at once
        self.most = max(1, int(cores() / resources.cpus)) if self.is_local else pending
        self.group = self.most if self.is_local else LARGEST_ARRAY
        self._submitit = submitit
        self._executor = submitit.AutoExecutor(
            folder=folder, cluster="local" if self.is_local else "slurm"
        )
        self._executor.update_parameters(**self._asked(partition, resources, pending))
        self._queue = None if self.is_local else Queue()
        self._jobs: list[Job] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Job:
        """Return the job of a call."""
        return self.submit_many([(function, *arguments)])[0]

    def submit_many(self, calls: Sequence[tuple[Any, ...]]) -> list[Job]:
        """Return the jobs of calls, which are one array.

        Raises:
            OptionError: Slurm refuses them.
        """
        errors = self._submitit.core.utils
        try:
            with self._executor.batch():
                found = [self._executor.submit(*call) for call in calls]
        except (errors.FailedJobError, errors.FailedSubmissionError) as error:
            told = " ".join(str(error).split())[:500]
            raise OptionError(
                f"Slurm does not take the jobs ({told}). Look at the partition, and at what each "
                "job asks for: cpus, gpus, memory, time_limit."
            ) from error
        if self.is_local:
            for job in found:
                job._results_timeout_s = 0  # no other machine has yet to send what it wrote
        jobs = [Job(self._submitit, job, self._queue) for job in found]
        self._jobs = [job for job in self._jobs if not job.is_over] + jobs
        return jobs

    def cancel(self) -> None:
        """Cancel the jobs that have not ended."""
        for job in self._jobs:
            if not job.is_over:
                with suppress(Exception):  # Slurm may not answer
                    job.cancel()

    def _asked(self, partition: str, resources: Resources, pending: int) -> dict[str, Any]:
        limit = resources.time_limit
        asked: dict[str, Any] = {
            "name": "sigmascope",
            "cpus_per_task": math.ceil(resources.cpus),
            "gpus_per_node": math.ceil(resources.gpus),
            "timeout_min": LONGEST if limit is None else math.ceil(limit / 60) + MARGIN,
        }
        if resources.memory is not None:
            asked["mem_gb"] = resources.memory / 2**30
        if not self.is_local:
            asked["slurm_array_parallelism"] = pending
            if partition:
                asked["slurm_partition"] = partition
        return asked


class Job:
    """A job of submitit as a future.

    Args:
        submitit: the module.
        job: its job.
        queue: what Slurm says about jobs; None for processes of this machine.

    Attributes:
        is_over: whether it was seen to have ended, without asking again.
    """

    def __init__(self, submitit: Any, job: Any, queue: Queue | None) -> None:
        self._submitit = submitit
        self._job = job
        self._queue = queue
        self._ended: tuple[str, float] | None = None  # its last state, and when that was seen
        self.is_over = False
        if queue is not None:
            queue.add(job.job_id)

    def done(self) -> bool:
        """Return whether it has ended."""
        if not self.is_over:
            self.is_over = bool(self._job.done()) if self._queue is None else self._has_ended()
        return self.is_over

    def result(self) -> Any:
        """Return the result, or raise the error; a `LostTaskError` if the job left none."""
        errors = self._submitit.core.utils
        try:
            while self._queue is not None and not self.done():
                time.sleep(1)
            if self._ended is not None and not self._has_result():
                raise LostTaskError(self._told())
            return self._job.result()
        except errors.FailedJobError:
            raise  # the function did, its traceback is in the message
        except errors.UncompletedJobError as error:
            raise LostTaskError(" ".join(str(error).split())[:1000]) from error
        finally:
            self._close()

    def cancel(self) -> None:
        """End the job."""
        self._close()
        self._job.cancel()

    def _close(self) -> None:
        self.is_over = True
        if self._queue is not None:
            self._queue.remove(self._job.job_id)

    def _has_ended(self) -> bool:
        """Return whether Slurm says so, or the result is there."""
        if self._has_result():
            return True
        state = self._queue.ended(self._job.job_id) if self._queue else None
        if state is None:
            self._ended = None  # it may have been submitted again by Slurm itself
            return False
        self._ended = self._ended or (state, time.monotonic())
        return time.monotonic() - self._ended[1] >= LAG

    def _has_result(self) -> bool:
        folder = self._job.paths.folder
        with suppress(OSError):
            folder.chmod(folder.stat().st_mode)  # so that a network file system looks again
        return bool(self._job.paths.result_pickle.exists())

    def _told(self) -> str:
        """Return how it ended, with the last lines of its output."""
        state = self._ended[0] if self._ended else "unknown"
        told = f"job {self._job.job_id} of Slurm ended without a result, its state is {state}"
        for path in (self._job.paths.stderr, self._job.paths.stdout):
            with suppress(OSError):
                lines = path.read_text(errors="replace").split("\n")[-TAIL:]
                if words := " ".join(" ".join(lines).split()):
                    return f"{told}; its output ends with: {words[-1000:]}"
        return f"{told}, and it has no output"


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError as error:
        raise MissingExtraError(
            f'submitit cannot be imported ({error}): pip install "sigmascope[slurm]".'
        ) from error
