"""Networks in a child process: whatever they do to it, the survey goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.runs import Isolation, Outcome, measure_one, measure_runs, outcome_in
from sigmascope.runs.folder import SCRATCH, files_of
from sigmascope.runs.started import Started, left_behind, under_way
from sigmascope.store import claim
from tests.cli.running import Forker
from tests.faults.failing import SOURCE
from tests.runs.tiny import asked, hold, names_in, wait_until_held

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
DATA = ("--data", "random:8", "--limit", "160", "--batch-size", "16")


def named(folder: Path, *functions: str) -> list[str]:
    (folder / "failing.py").write_text(SOURCE)
    return [f"py:{folder / 'failing.py'}:{function}" for function in functions]


def states(outcomes: Iterator[Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_the_result_is_the_same_and_a_crash_has_a_place(tmp_path: Path) -> None:
    names = named(tmp_path, "good_1", "segfault", "good_2")
    outcomes = list(measure_runs(asked(names), tmp_path / "runs", isolate=True))
    assert [outcome.state for outcome in outcomes] == ["measured", "failed", "measured"]
    failure = outcomes[1].failure
    assert failure is not None
    assert (failure.error, failure.message) == (
        "Crash",
        "the process that measured it was ended by SIGSEGV.",
    )
    assert "Segmentation fault" in failure.traceback
    assert "failing.py" in failure.traceback
    assert outcome_in(tmp_path / "runs", names[1]) == Outcome(names[1], "failed", failure=failure)
    whole = list(measure_runs(asked([names[0], names[2]]), tmp_path / "whole"))
    assert [outcomes[0].signature, outcomes[2].signature] == [one.signature for one in whole]
    assert [outcomes[0].facts, outcomes[2].facts] == [one.facts for one in whole]
    assert list((tmp_path / "runs" / SCRATCH).glob("*.started")) == []
    # without the one that crashes, nothing is left to do, and no child is started
    left = measure_runs(asked(names), tmp_path / "runs", isolate=True, skip=[names[1]])
    assert states(left) == ["kept", "skipped", "kept"]


def test_what_cannot_be_isolated_is_refused(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    for out in (None, tmp_path / "x.json"):
        with pytest.raises(sg.OptionError, match=r"isolate needs a directory"):
            measure_runs(request, out, isolate=True)
    for limit in (0, -1, float("nan"), float("inf")):
        with pytest.raises(sg.OptionError, match=r"time_limit must be > 0 seconds, got"):
            Isolation(limit)
    with pytest.raises(sg.OptionError, match=r"skip='x' is not a valid choice"):
        measure_runs(request, tmp_path / "runs", skip=["x"])


def test_a_survey_that_is_stopped_leaves_no_child_and_no_mark(tmp_path: Path) -> None:
    names = names_in(tmp_path, "held")
    hold(tmp_path, after=2)
    forker = Forker()
    command = ["measure", *names, *DATA, "-o", tmp_path / "runs", "--isolate"]
    process = forker.start(tmp_path / "streams", *command)
    wait_until_held(tmp_path)
    mark = left_behind(files_of(tmp_path / "runs", names[0]).started)
    assert mark is not None
    process.send(signal.SIGTERM)
    code, _, errors = process.end()
    forker.close()
    assert code == 143, errors
    assert "Stopped. What was scored is kept" in errors
    assert is_gone(mark.process)
    assert os.listdir(tmp_path / "runs" / SCRATCH) == [
        files_of(tmp_path / "runs", names[0]).partial.name
    ]


def test_a_survey_that_is_killed_takes_its_child_along(tmp_path: Path) -> None:
    names = names_in(tmp_path, "held")
    hold(tmp_path, after=2)
    forker = Forker()
    process = forker.start(
        tmp_path / "streams", "measure", *names, *DATA, "-o", tmp_path / "runs", "--isolate"
    )
    wait_until_held(tmp_path)
    files = files_of(tmp_path / "runs", names[0])
    mark = left_behind(files.started)
    assert mark is not None
    process.send(signal.SIGKILL)
    process.end()
    forker.close()
    assert is_gone(mark.process)
    with claim(files.lock) as free:
        assert free


def is_gone(process: int) -> bool:
    for _ in range(6_000):  # a minute: against a process that stays
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        if "\nState:\tZ" in Path(f"/proc/{process}/status").read_text():
            return True
        time.sleep(0.01)
    return False


def test_any_process_can_measure_one(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "broken")
    request, folder = asked(names), tmp_path / "runs"
    (tmp_path / "empty").mkdir()
    with pytest.raises(sg.InputError, match=r"has no manifest\.json\. Begin with measure_runs"):
        measure_one(tmp_path / "empty", names[0])
    list(measure_runs(request, folder, skip=names))
    assert outcome_in(folder, names[0]) is None
    assert measure_one(folder, names[0], device="cpu").state == "measured"
    assert measure_one(folder, names[0], device="cpu").state == "kept"
    assert measure_one(folder, names[1], device="cpu").state == "failed"
    found = outcome_in(folder, names[0])
    assert found is not None
    assert (found.state, found.signature) == ("kept", next(measure_runs(request)).signature)
    with pytest.raises(sg.OptionError, match=r"name='x' is not a valid choice"):
        measure_one(folder, "x")
    path = tmp_path / "networks.py"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: .*networks\.py is"):
        measure_one(folder, names[0])


def test_a_network_that_ended_its_process_is_named(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    request, folder = asked([name]), tmp_path / "runs"
    list(measure_runs(request, folder, skip=[name]))
    mark = files_of(folder, name).started
    assert mark is not None
    leave = under_way(mark, name)
    leave.__enter__()  # and the process dies
    left = mark.read_bytes()
    told = rf"process {os.getpid()} on .* ended while it measured {name}\. .*--skip {name}"
    with pytest.warns(UserWarning, match=told):
        assert states(measure_runs(request, folder)) == ["measured"]
    assert not mark.exists()
    assert states(measure_runs(request, folder)) == ["kept"]
    # left out, its death is what the directory knows of it
    mark.write_bytes(left)
    [outcome] = measure_runs(request, folder, skip=[name])
    assert (outcome.state, outcome.failure is not None) == ("skipped", True)
    found = outcome_in(folder, name)
    assert found is not None
    assert found.failure == outcome.failure
    assert not mark.exists()


def test_deaths_are_counted(tmp_path: Path) -> None:
    mark = tmp_path / "x.started"
    never_left = [under_way(mark, "x") for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sigmascope.runs.started.warnings.warn", lambda *_, **__: None)
        for manager in never_left:
            manager.__enter__()
    left = left_behind(mark)
    assert left is not None
    assert left == Started("x", left.host, os.getpid(), 2, left.table)
    assert str(left).endswith("ended while it measured x, as 2 before it")
    mark.write_bytes(b"torn")
    assert left_behind(mark) is None


def test_a_folder_that_is_moved_is_told(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    outcomes = measure_runs(request, tmp_path / "runs")
    assert next(outcomes).state == "measured"
    (tmp_path / "runs").rename(tmp_path / "moved")
    found = next(outcomes)
    assert found.failure is not None
    assert "runs was moved, removed or replaced" in found.failure.message
    assert not (tmp_path / "runs").exists()
    assert states(measure_runs(request, tmp_path / "moved")) == ["kept", "measured"]


def test_a_folder_that_is_moved_while_a_network_is_measured_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(names_in(tmp_path, "conv"))
    real = sg.signature

    def moving(*args: object, **options: object) -> sg.Signature:
        (tmp_path / "runs").rename(tmp_path / "moved")
        (tmp_path / "runs").mkdir()
        return real(*args, **{**options, "resume": None})

    monkeypatch.setattr("sigmascope.runs.network.signature", moving)
    [outcome] = measure_runs(request, tmp_path / "runs")
    assert outcome.failure is not None
    assert "runs was moved, removed or replaced" in outcome.failure.message
    assert not list((tmp_path / "runs").glob("*.json"))


WRITING = """

def written(data):
    for number in range(3, 64):
        try:
            os.write(number, data)
        except OSError:
            pass
    return good(0)

def number():
    return written(b"5\\n")

def words():
    return written(b"not JSON\\n")

def half_a_line():
    return written(b'{"state": ')

def twice():
    os.fork()
    return good(0)
"""


def test_what_a_network_writes_to_the_pipe_and_answers_twice_is_no_answer(tmp_path: Path) -> None:
    functions = ("number", "words", "half_a_line", "twice", "good_1", "good_2")
    names = named(tmp_path, *functions)
    (tmp_path / "failing.py").write_text(SOURCE + WRITING)
    outcomes = {
        outcome.name.rpartition(":")[2]: outcome
        for outcome in measure_runs(asked(names), tmp_path / "runs", isolate=Isolation(60))
    }
    # of two copies one may be refused by the journal of the other
    assert [outcomes[name].state for name in functions if name != "twice"] == ["measured"] * 5
    for name, outcome in outcomes.items():
        assert outcome.failure is None or outcome.failure.name == outcome.name, name
