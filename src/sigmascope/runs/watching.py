"""A survey as its directory shows it: how far it is, who measures what, and what failed."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from sigmascope.errors import FileFormatError
from sigmascope.runs.folder import files_of
from sigmascope.runs.listing import Listing, State
from sigmascope.runs.outcome import Failure, read_record
from sigmascope.runs.started import left_behind
from sigmascope.runs.tally import in_words

RECENT = 50  # networks that the rate is taken from, those that were finished last


@dataclass(frozen=True)
class View:
    """How far a survey is.

    Attributes:
        counts: how many networks are in each state.
        running: network -> the process that measures it.
        failed: network -> why.
        command: tries the first network that failed alone; "" if there is none.
        rate: networks per second, of those that were finished last; 0 if unknown: while
            none is running, and before each process has finished more than one.
    """

    counts: dict[State, int]
    running: dict[str, str]
    failed: dict[str, str]
    command: str
    rate: float

    @property
    def left(self) -> float | None:
        """Seconds until all have ended, at this rate; None if unknown."""
        left = self.counts["open"] + self.counts["running"]
        if not left:
            return 0.0
        return left / self.rate if self.rate else None

    def __str__(self) -> str:
        total = sum(self.counts.values())
        parts = [f"{self.counts['finished']}/{total} done"]
        parts += [
            f"{self.counts[state]} {state}" for state in ("running", "failed") if self.counts[state]
        ]
        if self.counts["open"]:
            parts.append(f"{self.counts['open']} to measure")
        if self.left and self.rate:
            parts.append(f"{60 * self.rate:.3g} a minute")
            parts.append(f"about {in_words(self.left)} left")
        return ", ".join(parts)


def view(listing: Listing) -> View:
    """Return how far a survey is; only the directory is read."""
    running, failed, command, counts = {}, {}, "", listing.counts()
    for name in listing.names("running"):
        mark = left_behind(files_of(listing.folder, name).started)
        if mark:
            running[name] = f"process {mark.process} on {mark.host}"
    for name in listing.names("failed"):
        path = files_of(listing.folder, name).failure
        try:
            failure = read_record(Failure, path) if path else None
        except (OSError, FileFormatError):  # it is tried again by now, or was damaged
            failure = None
        failed[name] = failure.message if failure else "it failed"
        command = command or (failure.command if failure else "")
    return View(counts, running, failed, command, _rate(listing, counts["running"]))


def _rate(listing: Listing, running: int) -> float:
    """Return networks per second from the times of the files that were written last.

    All times are of one file system; none is compared with the clock of this machine.
    """
    times = []
    with os.scandir(listing.folder) as entries:
        for entry in entries:
            if entry.name.endswith(".facts.json"):
                with suppress(OSError):  # it is being replaced
                    times.append(entry.stat().st_mtime)
    if not running:
        return 0.0
    turns = 2 * running + 1  # those that begin together also end together
    recent = sorted(times)[-max(RECENT, 2 * turns) :]
    passed = recent[-1] - recent[0] if len(recent) >= turns else 0.0
    return (len(recent) - 1) / passed if passed > 0 else 0.0
