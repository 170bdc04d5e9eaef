"""What becomes of jobs of Slurm, and one survey by a real Slurm where there is one."""

from __future__ import annotations

import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.runs import Resources, survey
from sigmascope.runs.executors import LostTaskError, slurm, slurm_queue
from sigmascope.runs.executors.slurm import Job
from sigmascope.runs.executors.slurm_queue import GONE, LOOK, Queue, asked_of_squeue
from tests.runs.tiny import DATA, hold, names_in, wait_until_held

HAS_SLURM = shutil.which("sbatch") is not None


class Scheduler:
    """What `squeue` would say, and a clock that the test moves."""

    def __init__(self) -> None:
        self.lines: list[str] | None = []
        self.asked: list[list[str]] = []
        self.clock = 100.0

    def ask(self, jobs: list[str]) -> list[str] | None:
        self.asked.append(jobs)
        return self.lines

    def queue(self) -> Queue:
        return Queue(self.ask, lambda: self.clock)


def test_one_question_answers_for_all_jobs() -> None:
    scheduler = Scheduler()
    queue = scheduler.queue()
    for job in ("7_0", "7_1", "7_2", "9"):
        queue.add(job)
    scheduler.lines = ["7_0 RUNNING", "7_1 CANCELLED", "9 PREEMPTED"]
    found = [queue.ended(job) for job in ("7_0", "7_1", "7_2", "9")]
    # one that was preempted may run again; one that is not in the list any more has ended
    assert found == [None, "CANCELLED", GONE, None]
    assert scheduler.asked == [["7", "9"]]
    for job in ("7_0", "7_1", "7_2"):
        queue.remove(job)
    scheduler.clock += LOOK
    scheduler.lines = []
    assert queue.ended("9") == GONE
    assert scheduler.asked[1:] == [["9"]]


def test_an_answer_that_is_older_than_a_job_says_nothing_of_it() -> None:
    scheduler = Scheduler()
    queue = scheduler.queue()
    queue.add("1")
    scheduler.lines = ["1 RUNNING"]
    assert queue.ended("1") is None
    scheduler.clock += 1
    queue.add("2")
    assert queue.ended("2") is None
    scheduler.clock += LOOK
    scheduler.lines = None  # it does not answer
    assert [queue.ended("1"), queue.ended("2")] == [None, None]
    scheduler.clock += LOOK
    scheduler.lines = []
    assert [queue.ended("1"), queue.ended("2")] == [GONE, GONE]


@pytest.mark.parametrize(
    ("code", "output", "error", "found"),
    [
        (0, "5_0 RUNNING\n5_1 PENDING\n", "", ["5_0 RUNNING", "5_1 PENDING"]),
        (1, "", "slurm_load_jobs error: Invalid job id specified", []),
        (1, "", "slurm_load_jobs error: Unable to contact slurm controller", None),
    ],
)
def test_what_squeue_says(
    monkeypatch: pytest.MonkeyPatch, code: int, output: str, error: str, found: list[str] | None
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "--jobs=5,6"
        return subprocess.CompletedProcess(command, code, output, error)

    monkeypatch.setattr(subprocess, "run", run)
    assert asked_of_squeue(["5", "6"]) == found


def test_without_squeue_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert asked_of_squeue(["5"]) is None


class Submitted:
    """A job as submitit has it."""

    def __init__(self, folder: Path) -> None:
        self.job_id, self.paths, self.cancelled = "5_0", self, False
        self.folder, self.result_pickle = folder, folder / "result.pkl"
        self.stderr, self.stdout = folder / "log.err", folder / "log.out"

    def result(self) -> str:
        return self.result_pickle.read_text()


def test_a_job_that_leaves_no_result_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "LAG", 0.05)
    submitit, scheduler = pytest.importorskip("submitit"), Scheduler()
    scheduler.lines = ["5_0 RUNNING"]
    lost = Job(submitit, Submitted(tmp_path), scheduler.queue())
    assert not lost.done()
    scheduler.clock += LOOK
    scheduler.lines = ["5_0 OUT_OF_MEMORY"]
    assert not lost.done()  # its result may still be on the way
    time.sleep(0.06)
    assert lost.done()
    (tmp_path / "log.err").write_text("slurmstepd: error: Detected 1 oom-kill event")
    with pytest.raises(LostTaskError, match=r"OUT_OF_MEMORY; its output ends with: slurmstepd"):
        lost.result()
    whole = Job(submitit, Submitted(tmp_path), scheduler.queue())
    (tmp_path / "result.pkl").write_text("done")
    assert (whole.done(), whole.result()) == (True, "done")


@pytest.mark.skipif(not HAS_SLURM, reason="needs a Slurm")
@pytest.mark.thorough
class TestRealSlurm:
    """A Slurm of one node is enough; all jobs ask for little memory."""

    LITTLE = Resources(memory=2**31)

    def test_a_job_that_is_cancelled_is_submitted_again(self, tmp_path: Path) -> None:
        names = names_in(tmp_path, "held", "conv", "broken")
        hold(tmp_path, after=2)
        runs: dict[str, Any] = {"out": tmp_path / "runs", "resources": self.LITTLE}
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(
                survey, names, DATA, executor="slurm", device="cpu", isolate=False, **runs
            )
            wait_until_held(tmp_path)
            command = ["squeue", "--noheader", "--array", "--name=sigmascope", "--format=%i"]
            job = min(subprocess.check_output(command, text=True).split())
            (tmp_path / "networks.hold").unlink()
            subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True)
            states = [outcome.state for outcome in found.result(timeout=300)]
        assert states == ["measured", "measured", "failed"]

    def test_what_slurm_refuses_is_told(self, tmp_path: Path) -> None:
        names = names_in(tmp_path, "conv")
        with pytest.raises(sg.OptionError, match=r"Slurm does not take the jobs .*partition"):
            survey(names, DATA, out=tmp_path / "runs", executor="slurm:nowhere")


def test_the_patience_is_longer_than_a_look() -> None:
    assert slurm_queue.PATIENCE > slurm_queue.LOOK < slurm.LAG
