"""How many batches a plan reads, for its progress bar."""

from __future__ import annotations

from sigmascope.linearize.budgets import Budget
from sigmascope.linearize.criteria import CRITERIA
from sigmascope.linearize.data import Data
from sigmascope.linearize.rounds import Settings
from sigmascope.measure.progress import steps_of

PASSES = {"affinity": 1, "pooled": 1, "gradient": 1, "oracle": 1}
"""Criterion -> how often it reads the batches; "oracle" once more for each call."""


def batches_to_read(data: Data, settings: Settings, budget: Budget, calls: int) -> int | None:
    """Return how many batches are read to rank calls; None where it depends on what is found.

    Batches of a budget of loss do not count, nor those that wide calls need.
    """
    steps = steps_of(data.items, None)
    rounds = _rounds(budget, calls, settings)
    if steps is None or rounds is None or settings.by not in CRITERIA:
        return None
    passes = rounds * (1 + PASSES.get(settings.by, 0))
    if settings.by == "oracle":
        passes += sum(calls - number * settings.step for number in range(rounds))
    return steps * (passes + (settings.scores and settings.by != "affinity"))


def _rounds(budget: Budget, calls: int, settings: Settings) -> int | None:
    if not settings.iterative:
        return 1
    if not isinstance(budget, int | float):
        return None
    count = max(1, int(budget * calls)) if isinstance(budget, float) else budget
    return -(-count // settings.step)
