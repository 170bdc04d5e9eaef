"""How far a survey is: networks done, running, failed, the rate, and the time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sigmascope.runs.listing import marks_in
from sigmascope.runs.outcome import Outcome

# unit, its seconds; the unit below, and its seconds
UNITS = (("day", 86_400, 3_600, "h"), ("h", 3_600, 60, "min"), ("min", 60, 1, "s"))


@dataclass
class Tally:
    """What has become of the networks of a survey so far.

    Attributes:
        total: the networks of this survey.
        folder: whose marks say how many are running, on whatever machine.
        clock: of seconds that only grow.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> names = ["sigmascope/resnet20", "sigmascope/resnet21"]
    >>> request = request_for(names, Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tally = Tally(2, Path(folder))
    ...     for outcome in measure_runs(request, folder):
    ...         tally.count(outcome)
    ...     tally.done, tally.failed, tally.running
    (1, 1, 0)
    """

    total: int
    folder: Path
    clock: Callable[[], float] = time.monotonic
    _states: Counter[str] = field(default_factory=Counter)
    _begin: float | None = None

    def count(self, outcome: Outcome) -> None:
        """Count what became of a network."""
        if self._begin is None:
            self._begin = self.clock()
        self._states[outcome.state] += 1

    def begin(self) -> None:
        """Start the clock: from here on, networks are measured."""
        self._begin = self.clock()

    @property
    def done(self) -> int:
        """The networks that have a signature."""
        return self._states["measured"] + self._states["kept"]

    @property
    def failed(self) -> int:
        """The networks that failed."""
        return self._states["failed"]

    @property
    def running(self) -> int:
        """The networks that a process measures now, on whatever machine."""
        return sum(1 for _ in marks_in(self.folder))

    @property
    def rate(self) -> float:
        """Networks that have ended per second, since the clock was started; 0 if unknown."""
        ended = self._states["measured"] + self._states["failed"]
        elapsed = self.clock() - self._begin if self._begin is not None else 0.0
        return ended / elapsed if ended and elapsed > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds until all have ended, at this rate; None if unknown."""
        open_ones = self.total - sum(self._states.values())
        if not open_ones:
            return 0.0
        return open_ones / self.rate if self.rate else None

    def __str__(self) -> str:
        parts = [f"{self.done}/{self.total} done", f"{self.running} running"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.rate:
            parts.append(f"{60 * self.rate:.3g} a minute")
        if self.left:
            parts.append(f"about {in_words(self.left)} left")
        return ", ".join(parts)


def in_words(seconds: float) -> str:
    """Return a time in its two largest units.

    >>> in_words(0.4), in_words(75), in_words(7_300), in_words(200_000)
    ('1 s', '1 min 15 s', '2 h 1 min', '2 days 7 h')
    """
    left = max(1, round(seconds))
    for unit, size, within, part in UNITS:
        if left >= size:
            count, rest = divmod(left, size)
            few = rest // within
            shown = f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
            return f"{shown} {few} {part}" if few else shown
    return f"{left} s"
