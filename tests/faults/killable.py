"""Work that may be killed, in processes that a server forks: `python -m tests.faults.killable`.

The server imports everything once. For each order, a line of JSON, it forks a process that does the
work in a directory, and kills it at a moment or at a file operation; it answers how that ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# as audit hooks call them: what may change a directory
CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")
# the file that a work that was finished leaves, beside its directory
COUNT = "operations"


def survey(folder: Path) -> None:
    """Measure networks into a directory of runs."""
    _command("measure", *_networks(folder), *_DATA, "-o", folder / "runs")


def isolated_survey(folder: Path) -> None:
    """Measure networks in a child process."""
    _command("measure", *_networks(folder), *_DATA, "-o", folder / "runs", "--isolate")


def single_file(folder: Path) -> None:
    """Measure one network into a file."""
    (folder / "runs").mkdir(exist_ok=True)
    _command("measure", _networks(folder)[0], *_DATA, "-o", folder / "runs" / "one.json")


def kept_features(folder: Path) -> None:
    """Measure a network with a journal and kept features."""
    import torch

    import sigmascope as sg

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    network.append(torch.nn.Tanh())
    where = folder / "runs"
    batches = [torch.randn(16, 6) for _ in range(6)]
    found = sg.signature(
        network, batches, resume=folder / "journal", keep=where / "kept", progress=False
    )
    found.save(where / "result.json")


def stitch(folder: Path) -> None:
    """Train a stitch into a file, with a checkpoint after every epoch."""
    from tests.cli.stitchable import NETWORKS, SHORT

    os.chdir(folder)
    (folder / "runs").mkdir(exist_ok=True)
    _command("stitch", *NETWORKS, *SHORT, "--epochs", "4", "-o", "runs/stitch.json")


WORK: dict[str, Callable[[Path], None]] = {
    work.__name__: work for work in (survey, isolated_survey, single_file, kept_features, stitch)
}
_DATA = ("--data", "random:8", "--limit", "64", "--batch-size", "16", "--device", "cpu")


def _networks(folder: Path) -> list[str]:
    return [f"py:{folder / 'networks.py'}:{name}" for name in ("conv", "broken", "wide", "leaves")]


def _command(*arguments: object) -> None:
    from sigmascope.cli import main

    try:
        main([str(one) for one in arguments], prog_name="sigmascope")
    except SystemExit as end:
        if end.code not in (0, 3):  # two of the networks fail
            raise


def _counted(folder: Path, kill_at: int) -> Callable[[], int]:
    """Kill this process at a file operation in a directory; return what counts them."""
    inside, count = str(folder), 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in CHANGES and _is_change(event, arguments, inside):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return lambda: count


def _is_change(event: str, arguments: tuple[Any, ...], inside: str) -> bool:
    place = os.path.abspath(os.fsdecode(arguments[0])) if _is_path(arguments[0]) else ""
    writes = event != "open" or bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    return writes and place.startswith(inside)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _work(order: dict[str, Any]) -> None:
    """Do the work in a forked process, which ends here."""
    folder = Path(order["folder"])
    with (folder / "output").open("ab") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    code = 1
    try:
        counted = _counted(folder, order["kill_at"] or 0)
        WORK[order["work"]](folder)
        (folder / COUNT).write_text(str(counted()))
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def _serve() -> None:
    import sigmascope.cli.measure
    import sigmascope.cli.stitch
    import sigmascope.runs.worker
    import sigmascope.stitching

    for module in sigmascope.runs.worker.SHARED:
        import_module(module)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _work(order)
        status = _waited(child, order["kill_after"])
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _waited(child: int, kill_after: float | None) -> int:
    """Wait for a process, which is killed after so many seconds; return its status."""
    until = time.monotonic() + (kill_after or 0)
    while kill_after is not None and time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.002)
    if kill_after is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


class Server:
    """The server, as the tests call it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.killable"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(
        self, work: str, folder: Path, kill_at: int | None = None, kill_after: float | None = None
    ) -> int:
        """Do some work, perhaps not to its end; return the exit code, or minus the signal."""
        order = {"work": work, "folder": str(folder), "kill_at": kill_at, "kill_after": kill_after}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


if __name__ == "__main__":
    _serve()
