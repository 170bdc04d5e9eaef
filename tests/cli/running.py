"""The command line within this process, which is quick, and as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from sigmascope.cli import main


def run(*arguments: str | Path, **environment: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(
        main,
        [str(one) for one in arguments],
        prog_name="sigmascope",
        env={"COLUMNS": "120", **environment},
    )


def document(result: Result) -> tuple[str, Any]:
    """Return the kind and the content of the one JSON document on standard output."""
    found = json.loads(result.stdout)
    assert list(found) == ["format", "kind", "version", "content"]
    version = 2 if found["kind"] in ("signatures", "measurement") else 1
    assert (found["format"], found["version"]) == ("sigmascope", version)
    return found["kind"], found["content"]


FORKER = """
import json, os, signal, sys
import sigmascope.cli, sigmascope.tables, sigmascope.runs

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
    else:
        answer = os.fork()
        if not answer:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for stream, path in zip((1, 2), order["streams"]):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            try:
                sigmascope.cli.main(order["arguments"], prog_name="sigmascope")
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code)
            os._exit(99)
    print(answer, flush=True)
"""


@dataclass(frozen=True)
class Forked:
    """A command in a process of its own."""

    forker: Forker
    number: int
    folder: Path

    def send(self, signal: int) -> None:
        os.kill(self.number, signal)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code, or minus the signal, and what it printed."""
        code = self.forker.ask(wait=self.number)
        return code, *((self.folder / stream).read_text() for stream in ("stdout", "stderr"))


class Forker:
    """A process that has imported everything and forks itself for each command, which saves seconds
    each time.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )

    def ask(self, **order: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(self, folder: Path, *arguments: str | Path) -> Forked:
        """Start a command, with its output in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        streams = [str(folder / stream) for stream in ("stdout", "stderr")]
        return Forked(
            self, self.ask(arguments=[str(one) for one in arguments], streams=streams), folder
        )

    def close(self) -> None:
        self._process.communicate()


def started(*arguments: str | Path, cwd: Path | None = None, **more: Any) -> subprocess.Popen[str]:
    """Start a command as a process of its own, which hears SIGINT also where the tests run in the
    background.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "sigmascope", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **more},
        cwd=cwd,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
