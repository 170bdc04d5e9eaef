"""Differences of statistics of population scores between sites or networks, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.jackknife import (
    Statistic,
    group_count,
    half_width,
    remainder,
    replicates,
    variance,
)
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature, Site


@dataclass(frozen=True)
class Contrast:
    """A number of two networks, and its difference.

    Attributes:
        name: of the site or the statistic.
        a, b: the number of each.
        difference: a - b.
        stderr: its standard error.
        low, high: its 95 % interval.
        reason: why there is no difference, or no interval.
    """

    name: str
    a: float
    b: float
    difference: float
    stderr: float
    low: float
    high: float
    reason: str = ""

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def same_samples(a: Signature, b: Signature) -> bool:
    """Return whether two networks were measured on the same samples, in the same order."""
    return a.data == b.data


def contrast(
    name: str, a: Sequence[Site], b: Sequence[Site], statistic: Statistic, paired: bool
) -> Contrast:
    """Return the statistic of the sites of a minus that of b; paired: on the same samples."""
    one, other = (float(statistic(_scores(sites))) for sites in (a, b))
    squared, degrees = _uncertainty(a, b, statistic, paired)
    half, gap = half_width(squared, degrees), one - other
    return Contrast(name, one, other, gap, math.sqrt(squared), gap - half, gap + half)


def _uncertainty(
    a: Sequence[Site], b: Sequence[Site], statistic: Statistic, paired: bool
) -> tuple[float, float]:
    """Return the variance of the difference of a statistic, and its degrees of freedom."""
    counts = [group_count(a), group_count(b)]
    if min(counts) < 2:
        return math.nan, math.nan
    if paired:
        counts = [min(counts)] * 2
    without = [
        statistic(replicates(sites, count)) for sites, count in zip((a, b), counts, strict=True)
    ]
    rest = [remainder(sites, statistic) for sites in (a, b)]
    if paired:  # the remainders have the same sign: both are of the bias of the same samples
        return float(variance(without[0] - without[1])) + (rest[0] - rest[1]) ** 2, counts[0] - 1
    parts = [float(variance(values)) + left**2 for values, left in zip(without, rest, strict=True)]
    weights = [part**2 / (count - 1) for part, count in zip(parts, counts, strict=True)]
    # Welch and Satterthwaite
    return sum(parts), sum(parts) ** 2 / sum(weights) if any(weights) else min(counts) - 1


def lowest(
    candidates: Sequence[Sequence[Site]],
    statistic: Statistic,
    paired: Callable[[int, int], bool] = lambda one, other: True,
) -> list[int]:
    """Return the candidate with the lowest statistic, then those it is tied with.

    Two are tied if the 95 % interval of their difference includes 0.

    Args:
        candidates: sites with population scores, of each.
        statistic: of their scores, along the last axis.
        paired: whether two candidates, by number, were measured on the same samples.
    """
    values = [float(statistic(_scores(sites))) for sites in candidates]
    first = int(np.argmin(values))
    tied = []
    for number, sites in enumerate(candidates):
        gap = contrast("", sites, candidates[first], statistic, paired(number, first))
        if number != first and gap.low <= 0:
            tied.append(number)
    return [first, *sorted(tied, key=values.__getitem__)]


def _scores(sites: Sequence[Site]) -> Curve:
    return np.array([site.population for site in sites], dtype=np.float64)
