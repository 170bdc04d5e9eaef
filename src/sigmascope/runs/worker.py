"""The process that `isolation` starts: `python -m sigmascope.runs.worker FOLDER DEVICE RESUME`.

It imports everything once. Where the system can fork, a copy of it measures networks in turn; when
a network ends the copy, the next one is there at once. Elsewhere it measures itself.

Orders are lines of JSON on its input: {"name": ...}. It answers on what was its output: a number
when a process is ready, the outcome of each network, and how a process has ended.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from sigmascope.runs.one import measure_one
from sigmascope.store import encode

FORKS = sys.platform == "linux"
GLANCE = 200  # milliseconds between two looks at the copy
# What every measurement imports, some seconds of work: once, and not in every copy.
SHARED = ("torch._dynamo", "scipy.stats", "safetensors.torch", "filelock")


def main(folder: str, device: str, resume: str) -> None:
    """Measure what is ordered until the input is closed."""
    orders, answers = _own_streams()
    _outlast_warnings()
    faulthandler.enable()  # a crash says where it was
    for module in SHARED:
        import_module(module)

    def measure() -> None:
        _answer(answers, {"number": os.getpid()})
        _watch(orders)
        _outlast_warnings()
        for name in _names(orders):
            outcome = measure_one(folder, name, device=device, resume=resume == "True")
            # the rest is in the directory; a failure is not, if the disk is full
            failure = encode(outcome.failure)
            _answer(answers, {"name": name, "state": outcome.state, "failure": failure})

    while FORKS and not _is_closed(orders):
        child = os.fork()
        if not child:
            _end_after(measure)
        _answer(answers, {"ended": _waited_for(child, orders)})
    if not FORKS:
        measure()


def _waited_for(child: int, orders: int) -> int:
    """Return how the copy has ended; end it, and this process, when the one that orders has gone.

    The copy watches too. But code that holds the lock of the interpreter stops its threads.
    """
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if _closing(orders).poll(GLANCE):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # and what it has started
            os._exit(1)


def _outlast_warnings() -> None:
    """Stay when SIGTERM is heard: a scheduler sends it before it ends a job, to all processes.

    Then it is not the network that failed. Its measurement goes on for as long as the job does, and
    ends with the process that orders, which decides what the signal means.
    """
    own = os.getpid()

    def ignore(number: int, _: object) -> None:
        if os.getpid() != own:  # a copy that the network has made, which is ended as usual
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ignore)


def _end_after(measure: Callable[[], None]) -> NoReturn:
    """Run the copy, in a group of its own, and leave nothing of it to the original."""
    os.setsid()
    code = 1
    try:
        measure()
        code = 0
    except BaseException:  # such as a KeyboardInterrupt that a network raises
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _own_streams() -> tuple[int, int]:
    """Return the input and the output, which networks no longer have: they print to stderr."""
    orders, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return orders, answers


def _answer(answers: int, message: dict[str, object]) -> None:
    # a line of its own, whatever a network has written there
    data = b"\n" + json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]


def _names(orders: int) -> Iterator[str]:
    """Yield names as they are ordered; a new copy begins with a whole line."""
    line = b""
    while piece := os.read(orders, 1 << 16):
        line += piece
        while b"\n" in line:
            first, _, line = line.partition(b"\n")
            yield json.loads(first)["name"]


def _watch(orders: int) -> None:
    """End this process, whatever it does, when the one that orders has gone."""
    if hasattr(select, "poll"):
        threading.Thread(target=_end_when_closed, args=(orders,), daemon=True).start()


def _end_when_closed(orders: int) -> None:
    _closing(orders).poll()
    os._exit(1)


def _is_closed(orders: int) -> bool:
    return bool(_closing(orders).poll(0))


def _closing(orders: int) -> select.poll:
    poll = select.poll()
    poll.register(orders, 0)  # the end is always told, data are not
    return poll


if __name__ == "__main__":
    main(*sys.argv[1:])
