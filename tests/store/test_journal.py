"""The journal: whatever kills a run, what was acknowledged is there."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError, InputTypeError, ResumeError
from sigmascope.store import Journal, write_json
from sigmascope.store.documents import dump, wrap

HEADER: dict[str, object] = {"model": "resnet50", "seed": 0, "options": {"eps": 1e-6, "kind": "σ"}}
RECORDS: list[dict[str, object]] = [
    {"i": 0, "score": 0.1},
    {"i": 1, "name": "Zürich"},
    {},
    {"i": 3, "none": None},
]


def started(path: Path, records: list[dict[str, object]] = RECORDS) -> bytes:
    with Journal.open(path, HEADER) as journal:
        for record in records:
            journal.append(record)
    return path.read_bytes()


def found(path: Path) -> list[dict[str, object]]:
    with Journal.open(path, HEADER) as journal:
        return journal.records


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    data = started(path)
    assert found(path) == RECORDS
    assert path.read_bytes() == data
    started(path, [{"i": 4}])
    assert found(path) == [*RECORDS, {"i": 4}]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["record"] for line in lines[1:]] == found(path)


def test_records_are_those_found_when_opened(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run", HEADER) as journal:
        journal.append({"i": 0})
        assert journal.records == []


def test_order_of_the_header_does_not_matter(tmp_path: Path) -> None:
    started(tmp_path / "run")
    with Journal.open(tmp_path / "run", dict(reversed(HEADER.items()))) as journal:
        assert journal.records == RECORDS


@pytest.mark.slow
def test_truncation_at_every_byte_keeps_the_complete_records(tmp_path: Path) -> None:
    path = tmp_path / "run"
    data = started(path)
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        complete = max(data[:length].count(b"\n") - 1, 0)
        assert found(path) == RECORDS[:complete]
        started(path, [{"again": length}])
        assert found(path) == [*RECORDS[:complete], {"again": length}]


@pytest.mark.parametrize(
    "tail",
    [
        b"{",
        b"{}",
        b'{"i": NaN}\n',
        bytes(4096),
        b"\x00\xff\n",
        b"[1]\n",
        b"\n",
        b'{"a": 1, "a": 2}\n',
    ],
)
def test_garbled_last_line_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "run"
    data = started(path)
    path.write_bytes(data + tail)
    assert found(path) == RECORDS
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "line", [b'{"i": \n', b"\n", b"[]\n", b"\xff\n", b'{"i": NaN}\n', b"[" * 10**5 + b"\n"]
)
def test_garbled_earlier_line_is_refused_and_kept(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "run"
    data = started(path) + line + b'{"i": 9}\n'
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"run is damaged in line 6: .*Remove that line"):
        Journal.open(path, HEADER)
    assert path.read_bytes() == data


def test_other_run_is_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    data = started(path) + b'{"torn'
    path.write_bytes(data)
    other: dict[str, object] = {
        "model": "x" * 1000,
        "options": {"eps": 1e-3, "kind": "σ"},
        "device": None,
    }
    with pytest.raises(ResumeError, match="run belongs to another run") as caught:
        Journal.open(path, other)
    message = str(caught.value)
    assert "device is absent there and None here" in message
    assert "model is 'resnet50' there and 'xxx" in message
    assert "options.eps is 1e-06 there and 0.001 here" in message
    assert "seed is 0 there and absent here" in message
    assert "kind" not in message
    assert message.endswith("Use the same settings, choose another path, or remove it first.")
    assert len(message) < 500
    assert path.read_bytes() == data


FOREIGN = {
    "text": (b"Dear diary,\n", "is not a journal of sigmascope"),
    "text without end": (b"Dear diary", "is not a journal of sigmascope"),
    "pickle": (pickle.dumps(RECORDS), "is not a journal"),
    "newline": (b"\n", "is not a journal"),
    "other lines": (b'{"a": 1}\n{"b": 2}\n', "was not written by sigmascope"),
    "list": (b"[1]\n", "is not a journal"),
    "torn header of another run": (
        b'{"format": "sigmascope", "kind": "journal", "version": 1, "content": {"s',
        "is not a journal",
    ),
    "newer": (dump(wrap("journal", 2, HEADER)) + b"\n", "written by a newer sigmascope.*Upgrade"),
    "other kind": (dump(wrap("scores", 1, HEADER)) + b"\n", "is of kind 'scores'"),
    "no header": (dump(wrap("journal", 1, [])) + b"\n", "without a header"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_file_is_refused_and_kept(tmp_path: Path, name: str) -> None:
    data, match = FOREIGN[name]
    path = tmp_path / "run"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=f"run .*{match}"):
        Journal.open(path, HEADER)
    assert path.read_bytes() == data


def test_document_is_no_journal(tmp_path: Path) -> None:
    write_json(tmp_path / "run", "journal", 1, HEADER)
    with pytest.raises(FileFormatError, match="not a journal"):
        Journal.open(tmp_path / "run", HEADER)


def test_bad_input_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(InputError, match="not JSON compliant"):
        Journal.open(path, {"eps": math.nan})
    with pytest.raises(InputTypeError, match="The header is a list"):
        Journal.open(path, [])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a directory"):
        Journal.open(tmp_path, HEADER)
    assert os.listdir(tmp_path) == []
    data = started(path)
    journal = Journal.open(path, HEADER)
    with pytest.raises(InputError, match="not JSON compliant"):
        journal.append({"score": math.nan})
    with pytest.raises(InputTypeError, match="The record is a list"):
        journal.append([1])  # type: ignore[arg-type]
    journal.close()
    journal.close()
    with pytest.raises(InputError, match="The journal is closed"):
        journal.append({})
    assert path.read_bytes() == data


def test_full_disk_leaves_complete_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    data = started(path)
    with Journal.open(path, HEADER) as journal:
        with monkeypatch.context() as patched:
            patched.setattr(
                os,
                "fsync",
                lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")),
            )
            with pytest.raises(OSError, match="No space left"):
                journal.append({"lost": 1})
        assert path.read_bytes() == data
        journal.append({"kept": 1})
    assert found(path) == [*RECORDS, {"kept": 1}]


def test_slow_disk_takes_the_line_in_pieces(tmp_path: Path) -> None:
    class Slow(io.FileIO):
        def write(self, data: memoryview) -> int:  # type: ignore[override]
            return super().write(bytes(data[:3])) or 0

    with Slow(tmp_path / "run", "a+") as file:
        Journal(file, [], 0, "").append({"i": "long enough"})
    assert (tmp_path / "run").read_bytes() == b'{"i": "long enough"}\n'


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_only_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    code = "import sys; from sigmascope.store import Journal; Journal.open(sys.argv[1], {})"
    with Journal.open(path, {}) as journal:
        with pytest.raises(ResumeError, match=r"run is open in another run\. Wait"):
            Journal.open(path, {})
        run = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=600
        )
        assert "ResumeError" in run.stderr
        journal.append({"still": "mine"})
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=600)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)  # as some network file systems do
    with Journal.open(path, {}) as journal:
        assert journal.records == [{"still": "mine"}]


KILLED = """
import sys
from sigmascope.store import Journal
with Journal.open(sys.argv[1], {"run": 1}) as journal:
    for i in range(len(journal.records), 10**9):
        journal.append({"i": i, "pad": "x" * (i * 7919 % 5000)})
        print(i, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_runs_keep_what_they_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    moments = random.Random(0)
    acknowledged = -1
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None
            acknowledged = int(run.stdout.readline())
            time.sleep(moments.uniform(0, 0.05))
            run.kill()
            acknowledged = max(
                [acknowledged, *(int(line) for line in run.stdout if line.endswith("\n"))]
            )
        with Journal.open(path, {"run": 1}) as journal:
            assert [record["i"] for record in journal.records] == list(range(len(journal.records)))
            assert [len(str(record["pad"])) for record in journal.records] == [
                i * 7919 % 5000 for i in range(len(journal.records))
            ]
            # the last may lack its acknowledgment
            assert len(journal.records) in (acknowledged + 1, acknowledged + 2)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX links")
def test_a_file_that_is_written_elsewhere_too_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()  # empty, as a journal is before its first line
    os.link(tmp_path / "mine", tmp_path / "hard")
    (tmp_path / "soft").symlink_to("mine")
    with pytest.raises(InputError, match=r"hard is a hard link .* Copy it, or choose another"):
        Journal.open(tmp_path / "hard", {})
    with pytest.raises(InputError, match=r"soft is a symbolic link"):
        Journal.open(tmp_path / "soft", {})
    assert (tmp_path / "mine").read_bytes() == b""
