"""What Slurm says about jobs, asked for all of them at once.

`squeue` is asked, and not `sacct`, since clusters without accounting have no `sacct` that answers.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

LOOK = 5.0  # seconds between two questions to the scheduler
PATIENCE = 60.0  # seconds that it may take to answer
# A job in one of these states does not run again by itself. One that was preempted may.
ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("REVOKED", "TIMEOUT"),
}
UNKNOWN_JOB = "Invalid job id"  # said where all jobs that were asked for ended long ago
GONE = "no longer known to Slurm"


class Queue:
    """The states of jobs; one question to the scheduler answers for all of them.

    Args:
        ask: returns the lines "JOB STATE" of these arrays and jobs; None if there is no answer.
        now: the time in seconds.
    """

    def __init__(
        self,
        ask: Callable[[list[str]], list[str] | None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask or asked_of_squeue
        self._now = now
        self._waited_for: dict[str, float] = {}  # job -> when it was submitted
        self._states: dict[str, str] = {}
        self._asked, self._answered = -LOOK, -LOOK

    def add(self, job: str) -> None:
        """Begin to ask for a job that was just submitted."""
        self._waited_for[job] = self._now()

    def remove(self, job: str) -> None:
        """Ask no more for a job."""
        self._waited_for.pop(job, None)

    def ended(self, job: str) -> str | None:
        """Return the state in which a job has ended; None if it has not, as far as is known."""
        if self._now() - self._asked >= LOOK:
            self._look()
        if self._answered < self._waited_for.get(job, self._answered):
            return None  # the last answer is older than the job
        state = self._states.get(job, GONE)
        return state if state in ENDED or state == GONE else None

    def _look(self) -> None:
        self._asked = self._now()
        lines = self._ask(sorted({job.partition("_")[0] for job in self._waited_for}))
        if lines is None:  # a scheduler that does not answer now may do so at the next look
            return
        self._states = dict(pair for line in lines if len(pair := line.split()[:2]) == 2)
        self._answered = self._asked


def asked_of_squeue(jobs: list[str]) -> list[str] | None:
    """Return the lines "JOB STATE" of arrays and jobs, each element of an array on its own."""
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    try:
        answer = subprocess.run(
            [*command, f"--jobs={','.join(jobs)}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode:
        return [] if UNKNOWN_JOB in answer.stderr else None
    return answer.stdout.splitlines()
