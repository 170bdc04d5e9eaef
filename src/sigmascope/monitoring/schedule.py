"""When processes that hold shards of a network measure it: all in the same step."""

from __future__ import annotations

import math
import time

from sigmascope.measure.ranks import Ranks


class SharedSchedule:
    """Lets the clock of the first process say when a measurement is due in all of them.

    They talk about it rarely: in the first step after a measurement, which tells how long a step
    takes, and in the one in which the time should have come.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self.begin()

    def begin(self) -> None:
        """Begin to wait for the next measurement."""
        self._since, self._steps, self._ask = time.perf_counter(), 0, 1

    def is_due(self, when: float) -> bool:
        """Return whether to measure after this step; `when` is due on the clock of this process."""
        self._steps += 1
        if self._steps < self._ask:
            return False
        now = time.perf_counter()
        left, each = when - now, (now - self._since) / self._steps
        self._ranks.meet()
        steps = self._ranks.first_of(0 if left <= 0 else max(1, math.ceil(left / max(each, 1e-6))))
        self._ranks.part()
        self._ask = self._steps + steps
        return steps == 0
