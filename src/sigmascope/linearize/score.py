"""The affinity score of an activation call in a ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """The affinity score of an activation call with its 95 % interval.

    NaN, with a `reason`, where there is none. With `blocks`, too few samples for all channels at
    once: the mean of the scores of so many blocks of channels.
    """

    score: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""
    blocks: int = 1
