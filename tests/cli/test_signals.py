"""Runs that are stopped or killed: they say so, leave no torn file, and go on to the very same
result.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sigmascope.runs.folder import place_of
from tests.cli.running import Forker, run, started
from tests.runs.tiny import names_in

DATA = ("--data", "random:8", "--limit", "160", "--batch-size", "16")
STOPPED = "Stopped. What was scored is kept: the same command goes on from there."


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    found = Forker()
    yield found
    found.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def wait_for_batches(journal: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") <= count:
        assert time.monotonic() < deadline, "no batch was scored"
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_run_that_is_stopped_goes_on_to_the_same_result(
    tmp_path: Path, forker: Forker, number: signal.Signals, code: int
) -> None:
    names = names_in(tmp_path, "conv", "slow")
    command = ["measure", *names, *DATA, "-o"]
    journal = place_of(tmp_path / "runs", names[1]).journal
    process = forker.start(tmp_path / "streams", *command, tmp_path / "runs")
    wait_for_batches(journal, 3)
    process.send(number)
    ended, output, errors = process.end()
    assert (ended, output) == (code, "")
    lines = errors.splitlines()
    assert lines[0].startswith(f"1/2 {names[0]}: measured in ")
    assert lines[1:] == ([] if number == signal.SIGKILL else [STOPPED])
    # the batch that is being written may be taken back
    assert journal.read_bytes().count(b"\n") >= 3
    assert not place_of(tmp_path / "runs", names[1]).signature.exists()

    resumed = run(*command, tmp_path / "runs")
    assert resumed.exit_code == 0
    assert f"1/2 {names[0]}: already there" in resumed.stderr
    whole = run(*command, tmp_path / "whole")
    assert resumed.stdout.splitlines()[:3] == whole.stdout.splitlines()[:3]
    assert contents(tmp_path / "runs") == contents(tmp_path / "whole")
    assert not journal.exists()


def test_one_file_goes_on_too(tmp_path: Path) -> None:
    """As users start it, with a terminal's Ctrl-C."""
    [name] = names_in(tmp_path, "slow")
    process = started("measure", name, *DATA, "-o", tmp_path / "slow.json")
    journal = tmp_path / ".slow.json.journal"
    wait_for_batches(journal, 2)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=600) == ("", f"{STOPPED}\n")
    assert process.returncode == 130
    assert not (tmp_path / "slow.json").exists()
    assert run("measure", name, *DATA, "-o", tmp_path / "slow.json").exit_code == 0
    assert run("measure", name, *DATA, "-o", tmp_path / "whole.json").exit_code == 0
    assert (tmp_path / "slow.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert not journal.exists()


def test_without_a_place_there_is_nothing_to_resume(tmp_path: Path, forker: Forker) -> None:
    """The file of networks is read when the work begins, and this one never ends."""
    path = tmp_path / "endless.py"
    path.write_text(
        "import pathlib, time\npathlib.Path(__file__).with_suffix('.on').touch()\ntime.sleep(99)"
    )
    process = forker.start(tmp_path / "streams", "measure", f"py:{path}:network", *DATA)
    deadline = time.monotonic() + 60
    while not path.with_suffix(".on").exists():
        assert time.monotonic() < deadline, "the network was not built"
        time.sleep(0.002)
    process.send(signal.SIGTERM)
    assert process.end() == (143, "", "Stopped. Nothing was written: no -o was given.\n")


def test_processes_share_a_folder(tmp_path: Path, forker: Forker) -> None:
    """Two shards and a third process that wants all of them, at the same time."""
    names = names_in(tmp_path, "slow", "conv", "wide")
    command = ["measure", *names, *DATA, "-o", str(tmp_path / "runs")]
    orders = (["--shard", "1/2"], ["--shard", "2/2"], [])
    processes = [
        forker.start(tmp_path / str(number), *command, *more) for number, more in enumerate(orders)
    ]
    for process in processes:
        code, output, errors = process.end()
        assert code in (0, 3), errors
        assert "Traceback" not in errors
        assert "\x1b" not in output + errors
    last = run(*command)
    assert last.exit_code == 0
    assert last.stderr.count("already there") == 3
    assert run(*command[:-1], tmp_path / "whole").exit_code == 0
    assert contents(tmp_path / "runs") == contents(tmp_path / "whole")
