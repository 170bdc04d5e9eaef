"""Engines by their texts, the window of pending calls, and what becomes of calls that are lost."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.runs import LostTaskError, Resources
from sigmascope.runs.executors import Engine, finished_calls, open_executor, read_size
from sigmascope.runs.executors.local import _environment
from sigmascope.runs.executors.slurm import SlurmJobs

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("local:12", "local", "12"),
        ("ray", "ray", ""),
        ("ray://head.cluster:10001", "ray", "ray://head.cluster:10001"),
        ("auto", "ray", "auto"),
        ("slurm", "slurm", ""),
        ("slurm:gpu-long", "slurm", "gpu-long"),
    ],
)
def test_texts_name_engines(text: str, kind: str, where: str) -> None:
    assert Engine.named(text) == Engine(kind, where)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "rya", "local:0", "local:x", "ray://", "ray://h", "slurm:a b"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(sg.OptionError, match=r"is not an engine\. Pass 'local:4', 'ray'"):
        Engine.named(text)


@pytest.mark.parametrize("text", ["", "G", "-1G", "8Q", "0", "1e3"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(sg.OptionError, match=r"is not a size\. Pass one such as '8G'"):
        read_size(text)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cpus": 0}, "cpus must be a number > 0"),
        ({"gpus": -1}, "gpus must be a number >= 0"),
        ({"gpus": 1.5}, "gpus above 1 must be a whole number"),
        ({"memory": 0}, "memory must be a whole number >= 1"),
        ({"time_limit": math.nan}, "time_limit must be a number > 0"),
    ],
)
def test_other_resources_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(sg.OptionError, match=told):
        Resources(**given)


class Manual:
    """An executor whose calls end when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.futures: list[Future[Any]] = []

    def submit(self, *call: Any) -> Future[Any]:
        self.calls.append(call)
        self.futures.append(Future())
        return self.futures[-1]


def test_no_more_are_pending_than_allowed() -> None:
    executor, most = Manual(), []

    def watch(pending: int) -> None:
        most.append(pending)
        executor.futures[len(most) - 1].set_result(len(most))

    calls = ((abs, number) for number in range(7))
    ended = list(finished_calls(executor, calls, pending=3, waiting=watch))
    assert [call.number for call in ended] == [0, 1, 2, 3, 4, 5, 6]
    assert max(most) == 3
    assert executor.calls == [(abs, number) for number in range(7)]


def test_what_is_lost_is_submitted_again_and_what_fails_is_not() -> None:
    executor, errors = Manual(), iter([LostTaskError("gone"), BrokenProcessPool("gone"), None])

    def watch(_: int) -> None:
        error = next(errors, None)
        last = executor.futures[-1]
        last.set_exception(error) if error else last.set_result("done")

    [call] = finished_calls(executor, [(abs, 1)], waiting=watch)
    assert (call.value, call.error, call.attempts) == ("done", None, 3)
    always = Manual()
    [call] = finished_calls(
        always,
        [(abs, 1)],
        attempts=2,
        waiting=lambda _: always.futures[-1].set_exception(LostTaskError("node 3 died")),
    )
    assert isinstance(call.error, LostTaskError)
    assert str(call.error) == "it was lost 2 times, the last time so: node 3 died"
    once = Manual()
    [call] = finished_calls(
        once, [(abs, 1)], waiting=lambda _: once.futures[-1].set_exception(ValueError("wrong"))
    )
    assert (type(call.error), call.attempts, len(once.calls)) == (ValueError, 1, 1)


def test_what_is_pending_is_cancelled_when_the_caller_leaves() -> None:
    executor = Manual()
    ended = finished_calls(executor, [(abs, 1), (abs, 2)])
    executor_filled = iter(ended)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, executor_filled)
        while len(executor.futures) < 2:
            time.sleep(0.001)
        executor.futures[0].set_result(1)
        assert first.result().value == 1
    ended.close()  # type: ignore[attr-defined]
    assert executor.futures[1].cancelled()


class Asked:
    """A future that can only be asked, as those of submitit."""

    def __init__(self, value: int) -> None:
        self._value, self._asked = value, 0

    def done(self) -> bool:
        self._asked += 1
        return self._asked > 2

    def result(self) -> int:
        return self._value


class Arrays:
    """An executor that takes groups of calls."""

    most, group = 6, 3

    def __init__(self) -> None:
        self.groups: list[int] = []

    def submit(self, *call: Any) -> Asked:
        raise AssertionError("calls are handed over in groups")

    def submit_many(self, calls: list[tuple[Any, ...]]) -> list[Asked]:
        self.groups.append(len(calls))
        return [Asked(call[1]) for call in calls]


def test_arrays_are_submitted_at_once_and_asked() -> None:
    executor = Arrays()
    ended = finished_calls(executor, [(abs, number) for number in range(7)])  # type: ignore[arg-type]
    assert sorted(call.value for call in ended) == [*range(7)]
    assert executor.groups[0] == 3
    assert sum(executor.groups) == 7


def test_groups_keep_to_the_number_that_may_be_pending() -> None:
    class Wide(Arrays):
        most, group = 4, 4

    executor, pending = Wide(), []
    calls = [(abs, number) for number in range(9)]
    ended = finished_calls(executor, calls, pending=2, waiting=pending.append)  # type: ignore[arg-type]
    assert sorted(call.value for call in ended) == [*range(9)]
    assert max(pending) == 2
    assert max(executor.groups) == 2


def test_an_executor_that_is_gone_is_told() -> None:
    class Gone:
        def submit(self, *call: Any) -> Future[Any]:
            raise BrokenProcessPool("a child was killed")

    with pytest.raises(LostTaskError, match=r"takes no more tasks \(a child was killed\)"):
        list(finished_calls(Gone(), [(abs, 1)]))


@posix
@pytest.mark.slow
def test_a_process_that_dies_takes_no_other_call_along() -> None:
    with open_executor("local:2") as executor:
        calls = [(os._exit, 3), *((pow, 2, number) for number in range(6))]
        ended = {call.number: call for call in finished_calls(executor, calls, attempts=1)}
        number = executor.submit(os.getpid).result()
    assert [ended[place + 1].value for place in range(6)] == [1, 2, 4, 8, 16, 32]
    assert [ended[place + 1].attempts for place in range(6)] == [1] * 6
    assert isinstance(ended[0].error, LostTaskError)
    with pytest.raises(ProcessLookupError, match="No such process"):
        os.kill(number, signal.SIG_DFL)


def heard() -> tuple[bool, bool]:
    """Return whether Ctrl-C is put off here, and whether it is ignored."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.SIGINT in blocked, signal.getsignal(signal.SIGINT) == signal.SIG_IGN


@posix
@pytest.mark.slow
def test_a_process_that_still_imports_is_deaf_to_ctrl_c() -> None:
    with open_executor("local:1") as executor:
        future = executor.submit(heard)
        [number] = executor._slots[0]._pool._processes
        os.kill(number, signal.SIGINT)
        assert future.result() == (False, True)
    assert heard()[0] is False


def test_gpus_are_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def dealt(count: int, gpus: float) -> list[str]:
        asked = Resources(gpus=gpus)
        found = [_environment(slot, count, asked) for slot in range(count)]
        return [one["CUDA_VISIBLE_DEVICES"] for one in found]

    assert dealt(4, 1) == ["4", "5", "6", "7"]
    assert dealt(2, 2) == ["4,5", "6,7"]
    assert dealt(8, 0.5) == ["4", "4", "5", "5", "6", "6", "7", "7"]
    # four times 0.3 would be more than a GPU has
    assert dealt(10, 0.3) == ["4", "4", "4", "5", "5", "5", "6", "6", "6", "7"]
    assert dealt(4, 0.6) == ["4", "5", "6", "7"]
    assert dealt(20, 0.2)[4::5] == ["4", "5", "6", "7"]
    with pytest.raises(sg.OptionError, match=r"5 processes with gpus=0\.6 need 5 GPUs, .* has 4"):
        dealt(5, 0.6)
    with pytest.raises(sg.OptionError, match=r"8 processes with gpus=1 need 8 GPUs, .* has 4"):
        dealt(8, 1)
    assert _environment(0, 1, Resources(cpus=3)) == {"OMP_NUM_THREADS": "3"}


@posix
@pytest.mark.slow
def test_surveys_by_slurm_share_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends takes no jobs of the other along, and leaves nothing."""
    monkeypatch.setattr("sigmascope.runs.executors.slurm.has_slurm", lambda: False)
    calls = [(pow, 2, 5)]
    with open_executor("slurm", folder=tmp_path) as longer:
        ended = finished_calls(longer, [*calls, *calls], pending=1, attempts=1)
        first = next(ended)
        before = sorted(tmp_path.iterdir())
        with open_executor("slurm", folder=tmp_path) as shorter:
            [other] = finished_calls(shorter, calls, attempts=1)
            assert len(list(tmp_path.iterdir())) == 2
        assert sorted(tmp_path.iterdir()) == before != []
        second = next(ended)
    assert [call.value for call in (first, second, other)] == [32] * 3
    assert list(tmp_path.iterdir()) == []


def test_what_slurm_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As submitit understands it; there is no Slurm here."""
    monkeypatch.setattr("sigmascope.runs.executors.resources.shutil.which", lambda _: "/bin/sbatch")
    monkeypatch.setattr("submitit.slurm.slurm.SlurmExecutor.affinity", lambda _: 2)
    jobs = SlurmJobs("gpu", Resources(2.5, 0.25, 8 * 2**30, 90.0), tmp_path, 16)
    asked = jobs._executor._executor.parameters
    expected = {
        "job_name": "sigmascope",
        "cpus_per_task": 3,
        "gpus_per_node": 1,
        "mem": "8GB",
        "time": 17,
        "array_parallelism": 16,
        "partition": "gpu",
    }
    assert {name: asked[name] for name in expected} == expected
    assert (jobs.most, jobs.group, jobs.is_local) == (16, 1000, False)
