"""The mark of a network that is being measured, which names it if the process dies.

Locks tell processes of one machine apart, and machines where the file system carries locks from one
to the other. Not all do, so a mark also has a pulse: its time changes while somebody is at work.
Times are only ever compared with earlier ones of the same file, never with a clock, since the
clocks of machines differ.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sigmascope.errors import FileFormatError, SigmascopeError
from sigmascope.runs.outcome import Failure, told_failure
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.store.leftovers import is_process_alive, process_table

KIND, VERSION = "started", 1
BEAT = 15.0  # seconds between two beats
SILENCE = 90.0  # seconds without a beat, after which nobody is at work; network file systems lag
SETTLED = 2.0  # seconds after which a mark that was created has its content, as a rule


class MarkedError(SigmascopeError):
    """Another process measures this network."""


@dataclass(frozen=True)
class Started:
    """Who began to measure a network.

    Attributes:
        name: the network.
        host, process: the process that began.
        ended: how many processes have ended while they measured it.
        table: stands for the processes among which its number means something; "" if it is known
            to have ended.
    """

    name: str
    host: str
    process: int
    ended: int
    table: str = field(default="", metadata={"later": True})

    def __str__(self) -> str:
        times = "" if self.ended == 0 else f", as {self.ended} before it"
        return f"process {self.process} on {self.host} ended while it measured {self.name}{times}"

    @property
    def has_died(self) -> bool:
        """Whether the process is seen to have ended, from the machine and container that it was in.

        Of one of another machine, or whose number is in use, nothing is seen.
        """
        is_here = self.table == process_table()
        return not self.table or (is_here and not is_process_alive(self.process))

    @property
    def has_surely_ended(self) -> bool:
        """Whether the process has ended, as far as that can be told at once, its lock being free.

        A process of another machine, or one whose number is in use, may be at work where a file
        system has no locks: only its pulse can tell.
        """
        is_this_one = self.table == process_table() and self.process == os.getpid()
        return self.has_died or is_this_one


@contextmanager
def under_way(mark: Path | None, name: str) -> Iterator[None]:
    """Mark a network, which is claimed, while the block lasts; only a dying process leaves it.

    What an earlier process has left is told by a warning, before the block begins.

    Raises:
        MarkedError: another process was faster, where the file system has no locks.
    """
    if mark is None:
        yield
        return
    left = left_behind(mark)
    if left is None and not _is_first(mark):
        raise MarkedError(f"another process has begun to measure {name} at the same time.")
    ended = left.ended + 1 if left else 0
    host = socket.gethostname().encode(errors="backslashreplace").decode()
    _write(mark, Started(name, host, os.getpid(), ended, process_table()))
    over = threading.Event()
    threading.Thread(target=_beat, args=(mark, over), daemon=True).start()
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
        over.set()
        with suppress(OSError):
            mark.unlink()


def _is_first(mark: Path) -> bool:
    """Create an empty mark; return whether no other process has one, also without any lock."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        time.sleep(SETTLED)  # until the other one has written who it is, if it lives
        return left_behind(mark) is None
    return True


def left_behind(mark: Path | None) -> Started | None:
    """Return the mark of a network that is claimed: of a process that has died, or lacks a lock."""
    if mark is None:
        return None
    try:
        return decode(Started, read_json(mark, KIND, VERSION), f"{mark}: content")
    except (OSError, FileFormatError):  # that it is not readable matters to nobody
        return None


def is_dead(mark: Path) -> bool:
    """Return whether the process that a mark names is seen to have ended; its lock is not asked."""
    left = left_behind(mark)
    return left is not None and left.has_died


def death_of(left: Started) -> Failure:
    """Return the death of the process that left a mark as a failure of the network."""
    return told_failure(left.name, "Crash", f"{left}.", "")


class Pulses:
    """The pulses of marks, as this process has felt them so far."""

    def __init__(self) -> None:
        self._felt: dict[Path, tuple[tuple[int, int], float, bool]] = {}

    def has_stopped(self, mark: Path) -> bool:
        """Return whether a mark has not changed for so long that nobody can be at work."""
        beat, now = _pulse(mark), time.monotonic()
        last, since, beats = self._felt.get(mark, (None, now, False))
        if beat != last:
            self._felt[mark] = (beat, now, last is not None)
            return False
        self._felt[mark] = (beat, since, beats)
        return now - since >= SILENCE

    def is_felt(self, mark: Path) -> bool:
        """Return whether a mark has changed, so that somebody is at work."""
        return self._felt.get(mark, (None, 0.0, False))[2]


def declare_ended(mark: Path) -> None:
    """Note, of a network that is claimed, that the process that left this mark has ended."""
    left = left_behind(mark)
    if left:
        _write(mark, replace(left, table=""))


def _write(mark: Path, started: Started) -> None:
    write_json(mark, KIND, VERSION, encode(started))


def _beat(mark: Path, over: threading.Event) -> None:
    while not over.wait(BEAT):
        try:
            os.utime(mark)
        except FileNotFoundError:  # it is gone, or the directory is
            return
        except OSError:  # a file system that does not answer now may do so at the next beat
            continue


def _pulse(mark: Path) -> tuple[int, int]:
    """Return what changes with every beat; it is opened, since attributes may be remembered."""
    try:
        with mark.open("rb") as file:
            found = os.fstat(file.fileno())
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns
