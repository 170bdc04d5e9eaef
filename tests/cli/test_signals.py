"""Runs that are stopped or killed: they say so, leave no torn file, and go on to the very same
result.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sigmascope.runs.folder import files_of
from tests.cli.running import Forker, run, started
from tests.runs.tiny import hold, let_go, names_in, wait_until_held

DATA = ("--data", "random:8", "--limit", "160", "--batch-size", "16")
STOPPED = "Stopped. What was scored is kept: the same command continues from there."


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    found = Forker()
    yield found
    found.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.filterwarnings("ignore:process .* ended while it measured")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_run_that_is_stopped_goes_on_to_the_same_result(
    tmp_path: Path, forker: Forker, number: signal.Signals, code: int
) -> None:
    names = names_in(tmp_path, "conv", "held")
    hold(tmp_path, after=4)
    command = ["measure", *names, *DATA, "-o"]
    journal = files_of(tmp_path / "runs", names[1]).partial
    process = forker.start(tmp_path / "streams", *command, tmp_path / "runs")
    wait_until_held(tmp_path)
    process.send(number)
    ended, output, errors = process.end()
    assert (ended, output) == (code, "")
    lines = errors.splitlines()
    assert lines[0].startswith(f"1/2 {names[0]}: measured in ")
    assert lines[1:] == ([] if number == signal.SIGKILL else [STOPPED])
    assert journal.read_bytes().count(b"\n") == 1 + 4
    assert not files_of(tmp_path / "runs", names[1]).finished.exists()

    let_go(tmp_path)
    resumed = run(*command, tmp_path / "runs")
    assert resumed.exit_code == 0
    assert f"1/2 {names[0]}: already there" in resumed.stderr
    whole = run(*command, tmp_path / "whole")
    assert resumed.stdout.splitlines()[:3] == whole.stdout.splitlines()[:3]
    assert contents(tmp_path / "runs") == contents(tmp_path / "whole")
    assert not journal.exists()


def test_one_file_goes_on_too(tmp_path: Path) -> None:
    """As users start it, with a terminal's Ctrl-C."""
    [name] = names_in(tmp_path, "held")
    hold(tmp_path, after=3)
    process = started("measure", name, *DATA, "-o", tmp_path / "part.json")
    journal = tmp_path / ".part.json.journal"
    wait_until_held(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=600) == ("", f"{STOPPED}\n")
    assert process.returncode == 130
    assert not (tmp_path / "part.json").exists()
    assert journal.exists()
    let_go(tmp_path)
    assert run("measure", name, *DATA, "-o", tmp_path / "part.json").exit_code == 0
    assert run("measure", name, *DATA, "-o", tmp_path / "whole.json").exit_code == 0
    assert (tmp_path / "part.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert not journal.exists()


def test_without_a_place_there_is_nothing_to_resume(tmp_path: Path, forker: Forker) -> None:
    """The file of networks is read when the work begins, and this one never ends."""
    path = tmp_path / "networks.py"
    path.write_text(
        "import pathlib, time\npathlib.Path(__file__).with_suffix('.held').touch()\n"
        "while True: time.sleep(9)"
    )
    process = forker.start(tmp_path / "streams", "measure", f"py:{path}:network", *DATA)
    wait_until_held(tmp_path)
    process.send(signal.SIGTERM)
    assert process.end() == (143, "", "Stopped. Nothing was written: no -o was given.\n")


def test_processes_share_a_folder(tmp_path: Path, forker: Forker) -> None:
    """Two shards and a third process that wants all of them, at the same time."""
    names = names_in(tmp_path, "held", "conv", "wide")
    hold(tmp_path, after=2)
    command = ["measure", *names, *DATA, "-o", str(tmp_path / "runs")]
    orders = (["--shard", "1/2"], ["--shard", "2/2"], [])
    processes = [
        forker.start(tmp_path / str(number), *command, *more) for number, more in enumerate(orders)
    ]
    wait_until_held(tmp_path)
    let_go(tmp_path)
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
