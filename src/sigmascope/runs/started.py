"""The mark of a network that is being measured, which names it if the process dies."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sigmascope.errors import FileFormatError
from sigmascope.runs.outcome import Failure, told_failure
from sigmascope.store import decode, encode, read_json, write_json

KIND, VERSION = "started", 1


@dataclass(frozen=True)
class Started:
    """Who began to measure a network.

    Attributes:
        name: the network.
        host, process: the process that began.
        ended: how many processes have ended while they measured it.
    """

    name: str
    host: str
    process: int
    ended: int

    def __str__(self) -> str:
        times = "" if self.ended == 0 else f", as {self.ended} before it"
        return f"process {self.process} on {self.host} ended while it measured {self.name}{times}"


@contextmanager
def under_way(mark: Path | None, name: str) -> Iterator[None]:
    """Mark a network, which is claimed, while the block lasts; only a dying process leaves it.

    What an earlier process has left is told by a warning, before the block begins.
    """
    if mark is None:
        yield
        return
    left = left_behind(mark)
    ended = left.ended + 1 if left else 0
    host = socket.gethostname().encode(errors="backslashreplace").decode()
    write_json(mark, KIND, VERSION, encode(Started(name, host, os.getpid(), ended)))
    try:
        if left:
            warnings.warn(
                f"{left}. It is measured again; if that ends this process too, measure it in a "
                f"process of its own with --isolate, or leave it out with --skip {name}",
                UserWarning,
                stacklevel=2,
            )
        yield
    finally:
        with suppress(OSError):
            mark.unlink()


def left_behind(mark: Path | None) -> Started | None:
    """Return the mark of a network that is claimed: of a process that has died."""
    if mark is None:
        return None
    try:
        return decode(Started, read_json(mark, KIND, VERSION), f"{mark}: content")
    except (OSError, FileFormatError):  # that it is not readable matters to nobody
        return None


def death_of(left: Started) -> Failure:
    """Return the death of the process that left a mark as a failure of the network."""
    return told_failure(left.name, "Crash", f"{left}.", "")
