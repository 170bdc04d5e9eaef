"""Networks that hold the lock of the interpreter, so that no thread of their process can act."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from sigmascope.runs.executors import open_executor
from sigmascope.runs.folder import files_of
from sigmascope.runs.started import left_behind
from tests.cli.running import Forker
from tests.runs.test_isolation import DATA, is_gone
from tests.runs.tiny import hold, let_go, names_in, wait_until_held

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="functions of the C library")
# PyDLL keeps the lock while a function written in C runs.
SOURCE = """
import ctypes, torch
from pathlib import Path
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

class Deaf(nn.Module):
    def forward(self, x):
        if len(x) > 1:  # one sample is the example that shapes are read from
            Path(__file__).with_suffix(".held").touch()
            ctypes.PyDLL(None).sleep(600)
        return x

def deaf():
    return nn.Sequential(Deaf(), nn.Conv2d(3, 4, 3), nn.ReLU())
"""


def sleep_deaf(mark: str) -> None:
    """Sleep without letting another thread of this process run."""
    import ctypes

    Path(mark).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)


@pytest.mark.thorough
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_its_process_ends_with_the_survey(tmp_path: Path, kill: signal.Signals) -> None:
    path = tmp_path / "networks.py"
    path.write_text(SOURCE)
    name = f"py:{path}:deaf"
    forker = Forker()
    command = ["measure", name, *DATA, "-o", tmp_path / "runs", "--on", "local:1"]
    process = forker.start(tmp_path / "streams", *command, "--device", "cpu")
    wait_until_held(tmp_path)
    mark = left_behind(files_of(tmp_path / "runs", name).started)
    assert mark is not None
    process.send(kill)
    code, _, errors = process.end()
    forker.close()
    assert code == (130 if kill == signal.SIGINT else -kill), errors
    assert is_gone(mark.process)


def test_a_process_that_hears_nothing_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "process"
    with open_executor("local:1") as executor:
        future = executor.submit(sleep_deaf, str(mark))
        while not mark.exists() or not mark.read_text():
            assert not future.done(), future.exception()
            time.sleep(0.01)
        begin = time.monotonic()
    assert time.monotonic() - begin < 30  # and not ten minutes
    assert is_gone(int(mark.read_text()))


def test_a_signal_of_the_scheduler_is_no_failure_of_the_network(tmp_path: Path) -> None:
    """Slurm sends SIGTERM to all processes of a job that it is about to end."""
    [name] = names_in(tmp_path, "held")
    hold(tmp_path, after=2)
    forker = Forker()
    command = ["measure", name, *DATA, "-o", tmp_path / "runs", "--isolate"]
    process = forker.start(tmp_path / "streams", *command)
    wait_until_held(tmp_path)
    mark = left_behind(files_of(tmp_path / "runs", name).started)
    assert mark is not None
    status = Path(f"/proc/{mark.process}/status").read_text()
    [original] = re.findall(r"^PPid:\t(\d+)", status, re.MULTILINE)
    for number in (mark.process, int(original)):
        os.kill(number, signal.SIGTERM)
    let_go(tmp_path)
    code, _, errors = process.end()
    forker.close()
    assert code == 0, errors
    assert "process that measured it" not in errors
