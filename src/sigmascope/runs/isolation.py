"""A child process that measures networks in turn, and is replaced when one of them ends it."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from sigmascope import errors
from sigmascope.errors import OptionError
from sigmascope.runs.outcome import Failure, Outcome, told_failure
from sigmascope.store import decode

if TYPE_CHECKING:
    import torch

    from sigmascope.runs.network import NetworkRun

MODULE = "sigmascope.runs.worker"
TAIL = 16_000  # bytes of what a process that died has printed
MOST = 64 * 2**20  # bytes that a network may print before they are dropped
GLANCE = 0.2  # seconds between two looks at a process that is silent

Message = dict[str, Any]


@dataclass(frozen=True)
class Isolation:
    """How networks are measured in a child process.

    Attributes:
        time_limit: seconds that one network may take; None for any time. The start of the child,
            once, does not count.

    >>> import torch
    >>> import sigmascope as sg
    >>> from sigmascope.runs import Isolation, Selection, measure_runs, request_for
    """

    time_limit: float | None = None

    def __post_init__(self) -> None:
        limit = self.time_limit
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise OptionError(f"time_limit must be > 0 seconds, got {limit}.")


class Worker:
    """A child process that measures the networks of a directory, started when it is needed.

    It writes what it measures into the directory, and says here only how it went. Nothing that a
    network does can reach this process: it may crash, exit, hang or print.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device | str,
        *,
        resume: bool = True,
        time_limit: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._arguments = [str(folder), str(device), str(resume)]
        self._device = str(device)
        self._limit = time_limit
        self._environment = dict(environment or {})
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child; the next network gets a new one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def outcome(self, network: NetworkRun) -> Outcome:
        """Return what becomes of a network in the child."""
        if kept := network.kept():
            return kept
        start = time.perf_counter()
        try:
            reply = self._measured(network.name)
        except BaseException:  # it was stopped here: the network did not end the child
            self.close()
            network.settle(None)
            raise
        if isinstance(reply, Failure):
            reply = network.failed(reply)
            network.settle(reply.failure)
        elif reply.failure is not None:
            reply = network.failed(self._with_output(reply.failure))
            network.settle(reply.failure)
        elif reply.state in ("measured", "kept"):
            reply = replace(network.written(), state=reply.state)
        # an error of an accelerator may spoil all that follows it in the same process
        if (
            reply.failure
            and not self._device.startswith("cpu")
            and not hasattr(errors, reply.failure.error)
        ):
            self.close()
        return replace(reply, seconds=time.perf_counter() - start)

    def _with_output(self, failure: Failure) -> Failure:
        """Return a failure of a network with what it has printed, below its traceback."""
        printed = self._process.printed().strip() if self._process else ""
        if not printed:
            return failure
        both = f"{failure.traceback.rstrip()}\n\nIt has printed:\n{printed}\n"
        return told_failure(failure.name, failure.error, failure.message, both)

    def _measured(self, name: str) -> Outcome | Failure:
        """Return what the child says of a network, without its signature; or how it ended."""
        if self._process is None:
            self._process = _Process(self._arguments, self._environment)
        reply = self._process.ask(name, self._limit)
        if "state" in reply:
            failure = decode(Failure | None, reply["failure"], name)  # type: ignore[arg-type]
            return Outcome(name, reply["state"], failure=failure)
        told, kind = _ending(reply["ended"]), "Crash"
        if reply.get("late"):
            kind = "TimeLimit"
            told = f"took longer than the time limit, {self._limit:g} s, and was ended"
        printed = self._process.printed()
        if not self._process.is_alive:
            self.close()
        return told_failure(name, kind, f"the process that measured it {told}.", printed)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", which the system sends when memory runs out" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"


class _Process:
    """The child: orders go to its input, messages come from its output, the rest is kept aside."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        # appended to, so that what was printed can be dropped at any time
        self._printed: IO[bytes] = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115
        self._process = subprocess.Popen(
            # -P: what lies in the working directory is no package
            [sys.executable, "-P", "-m", MODULE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
            start_new_session=True,  # Ctrl-C is heard here, and all of its children can be ended
        )
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._number: int | None = None  # of the process that measures, as far as it is known

    @property
    def is_alive(self) -> bool:
        """Whether it can take another order."""
        return self._process.poll() is None

    def ask(self, name: str, limit: float | None) -> Message:
        """Return what becomes of a network: its outcome, or how the process ended."""
        while self._number is None:
            started = self._next(math.inf)
            if "ended" in started:
                return started
            self._number = started.get("number")
        self._printed.truncate(0)
        try:
            self._send({"name": name})
            reply = self._reply(name, math.inf if limit is None else time.monotonic() + limit)
        except TimeoutError:
            self._kill(self._number)
            reply = self._reply(None, math.inf) | {"late": True}
        except BrokenPipeError:
            reply = self._reply(None, math.inf)
        if "ended" in reply:
            self._kill(self._number)  # what it has started
            self._number = None
        return reply

    def _reply(self, name: str | None, until: float) -> Message:
        """Return what is said of this network, or how the process ended, and nothing else.

        A network may have copied the process, so that its answer comes twice; or it comes too late.
        """
        while True:
            reply = self._next(until)
            if "ended" in reply or (name is not None and reply.get("name") == name):
                return reply

    def printed(self) -> str:
        """Return the last lines that were printed."""
        size = os.fstat(self._printed.fileno()).st_size
        self._printed.seek(max(0, size - TAIL))
        lines = self._printed.read(TAIL).decode(errors="replace").splitlines()
        # which follows the calls that led to a crash, and is longer
        return "\n".join(line for line in lines if not line.startswith("Extension modules:"))

    def end(self) -> None:
        """End the process and all that it has started."""
        for number in (self._number, self._process.pid):
            self._kill(number)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._printed):
            if stream:
                with suppress(OSError, ValueError):
                    stream.close()

    def _send(self, order: Message) -> None:
        if self._process.stdin:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _next(self, until: float) -> Message:
        """Return the next message; a TimeoutError when it is later than that."""
        while (left := until - time.monotonic()) > 0:
            ended = self._process.poll()  # first: what it has said by then is in the pipe
            try:
                message = self._messages.get(timeout=min(GLANCE, left))
            except queue.Empty:
                if ended is not None:  # a process that it has started keeps its output open
                    return {"ended": ended}
                if os.fstat(self._printed.fileno()).st_size > MOST:
                    self._printed.truncate(0)
                continue
            return {"ended": self._process.wait()} if message is None else message
        raise TimeoutError

    def _read(self) -> None:
        output = self._process.stdout
        with suppress(OSError, ValueError):
            for line in output or ():
                with suppress(ValueError, RecursionError):
                    message = json.loads(line)
                    if isinstance(message, dict):  # and nothing that a network has written there
                        self._messages.put(message)
        self._messages.put(None)

    def _kill(self, number: int | None) -> None:
        if sys.platform == "win32":
            self._process.kill()
        elif number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(number, signal.SIGKILL)
