"""One bad network never stops a survey: messages, names and directories that are not Unicode."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.errors import Interruption
from sigmascope.runs import Failure, Outcome, measure_runs, outcome_in, read_runs
from sigmascope.runs.outcome import LONGEST_MESSAGE, LONGEST_TRACEBACK, failure_of
from tests.cli.running import run, started
from tests.runs.tiny import asked, names_in

DATA = ("--data", "random:8", "--limit", "32", "--batch-size", "16", "--device", "cpu")
SOURCE = r"""
import torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")

class Leaving(Exception):
    def __str__(self):
        raise SystemExit(5)

class Fatal(BaseException):
    pass

def conv():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

def surrogate():
    raise ValueError("caf\udce9 \ud800")

def escape():
    raise ValueError("\x1b[2J \x00 \u202e")

def speechless():
    raise Speechless

def leaving():
    raise Leaving

def fatal():
    raise Fatal("not an Exception")

def endless():
    raise ValueError("x" * 10**7)

def grouped():
    raise ExceptionGroup("caf\udce9", [ValueError("\udcff")])
"""
BAD = ("surrogate", "escape", "speechless", "leaving", "fatal", "endless", "grouped")


def test_whatever_an_error_says_it_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(SOURCE, encoding="utf-8")
    names = [f"py:{tmp_path / 'bad.py'}:{name}" for name in (*BAD, "conv")]
    outcomes = list(measure_runs(asked(names), tmp_path / "runs"))
    assert [outcome.state for outcome in outcomes] == ["failed"] * len(BAD) + ["measured"]
    for outcome in outcomes[:-1]:
        assert outcome_in(tmp_path / "runs", outcome.name) == Outcome(
            outcome.name, "failed", failure=outcome.failure
        )
    told = {
        outcome.name.rpartition(":")[2]: outcome.failure for outcome in outcomes if outcome.failure
    }
    assert told["surrogate"].message == r"ValueError: caf\udce9 \ud800"
    assert told["speechless"].message == "Speechless: its message cannot be shown"
    assert told["leaving"].message == "Leaving: its message cannot be shown"
    assert told["fatal"].message == "Fatal: not an Exception"
    assert len(told["endless"].message) < LONGEST_MESSAGE + 100
    assert told["endless"].message.endswith("(10000012 characters)")
    assert all(len(failure.traceback) <= LONGEST_TRACEBACK for failure in told.values())
    assert len(read_runs([tmp_path / "runs"]).missing) == len(BAD)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Interruption])
def test_who_asks_to_stop_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise kind("stop")

    monkeypatch.setattr("sigmascope.runs.network.model", stop)
    with pytest.raises(kind, match="stop"):
        list(measure_runs(asked(names_in(tmp_path, "conv")), tmp_path / "runs"))


def test_a_failure_is_told_in_full() -> None:
    failure = failure_of("a", sg.InputError("x\n  y"))
    assert failure == Failure("a", "InputError", "x y", failure.traceback)
    assert failure.traceback.endswith("InputError: x\n  y\n")


@pytest.mark.parametrize(
    "name",
    [
        "py:" + "x" * 5000 + "/networks.py:conv",
        "py:" + "x" * 300 + ".py:conv",
        "onnx:" + "y" * 300 + ".onnx",
        "py:a\0b.py:conv",
        "x" * 300 + "/" + "y" * 300,
        "x" * 300 + "/y",
        "",
    ],
    ids=lambda name: name[:8].replace("\0", "0"),
)
def test_a_name_that_no_file_can_have_is_an_outcome(tmp_path: Path, name: str) -> None:
    names = [name, *names_in(tmp_path, "conv")]
    outcomes = list(measure_runs(asked(names), tmp_path / "runs"))
    assert [outcome.state for outcome in outcomes] == ["failed", "measured"]
    found = outcome_in(tmp_path / "runs", name)
    assert found is not None
    assert found.failure == outcomes[0].failure


def test_a_file_that_cannot_be_read_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = names_in(tmp_path, "conv")
    monkeypatch.setattr("sigmascope.runs.request.hashlib.file_digest", lambda *_: os.stat("/\0"))
    assert asked(names).files == {}


def test_names_that_are_not_unicode_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    names = ["py:caf\udce9.py:conv", *names_in(tmp_path, "conv")]
    with pytest.raises(
        sg.InputError, match=r"py:caf\\udce9\.py:conv is not valid Unicode.*pass a relative path"
    ):
        measure_runs(asked(names), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    # without files, there is nothing that could not be written
    assert [outcome.state for outcome in measure_runs(asked(names))] == ["failed", "measured"]


def latin(folder: Path) -> Path:
    """Return a directory whose name is not UTF-8, with networks; the test is skipped without."""
    place = folder / os.fsdecode(b"caf\xe9")
    try:
        place.mkdir()
    except OSError:  # as on macOS
        pytest.skip("the file system has only names in Unicode")
    (place / "bad.py").write_text(SOURCE, encoding="utf-8")
    return place


@pytest.mark.skipif(sys.platform == "win32", reason="names are Unicode")
def test_a_working_directory_in_latin_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = latin(tmp_path)
    monkeypatch.chdir(place)
    names = [f"py:bad.py:{name}" for name in ("conv", "surrogate", "missing")]
    for out in ("runs", place / "absolute"):
        result = run("measure", *names, *DATA, "-o", out)
        assert result.exit_code == 3, result.stderr
        assert result.stderr.count("failed") == 3
        assert "is not a function" in result.stderr
    assert run("report", place / "absolute", "-o", place / "report.html").exit_code == 3
    assert run("measure", names[0], *DATA, "-o", place / "one.json").exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="names are Unicode")
def test_an_output_in_latin_1_and_a_child_process(tmp_path: Path) -> None:
    """As users start it, where nothing is UTF-8."""
    place = latin(tmp_path)
    names = [f"py:{name}" for name in ("bad.py:surrogate", "bad.py:conv", "bad.py:missing")]
    process = started(
        "measure", *names, *DATA, "-o", place / "runs", "--isolate",
        PYTHONIOENCODING="latin-1:strict", PYTHONPATH=os.pathsep.join(filter(None, sys.path)),
        cwd=place,
    )  # fmt: skip
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 3, errors
    assert "2 of 3 networks failed" in errors
    assert "Traceback" not in errors
    assert "py:bad.py:conv" in output
