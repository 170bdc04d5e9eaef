"""An estimate with its interval, by leaving out one group of samples at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval.

    Attributes:
        value: the estimate; NaN only with a `reason`.
        low, high: its interval; NaN without one.
        reason: why there is no value, or no interval.

    >>> Estimate(0.43, 0.42, 0.45).value, Estimate(reason="too few samples").reason
    (0.43, 'too few samples')
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""

    def __float__(self) -> float:
        return self.value


Statistic = Callable[..., Tensor]
"""A number (0-d) from sums, each without its axis of groups."""


def jackknifed(statistic: Statistic, *sums: Tensor, counts: Tensor) -> Estimate:
    r"""Return a function of sums over all groups, with the interval of the grouped jackknife.

    The samples of one group may depend on each other, those of two groups may not. With
    $v_g$ the value without group g of G, the variance is
    $\frac{G - 1}{G} \sum_g (v_g - \bar v)^2$, and the interval has G - 1 degrees of freedom.

    Args:
        statistic: of the sums over groups.
        sums: (G, ...) each.
        counts: (G,), the rows of each group; empty groups do not count.

    Raises:
        InputError: no group has rows.

    >>> values, ones = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3)
    >>> mean = jackknifed(lambda total, count: total / count, values, ones, counts=ones)
    >>> round(mean.value, 3), round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    filled = counts > 0
    groups = int(filled.sum())
    if not groups:
        raise InputError("there are no rows to estimate from. Pass more samples.")
    kept = [one[filled] for one in sums]
    totals = [one.sum(dim=0) for one in kept]
    if not all(bool(one.isfinite().all()) for one in totals):
        return Estimate(reason="the inputs or outputs are not finite")
    value = float(statistic(*totals))
    if math.isnan(value):
        return Estimate(reason="the outputs are constant")
    if groups < 2:
        return Estimate(value, reason="an interval needs at least 2 groups of samples")
    without = torch.stack(
        [
            statistic(*(total - one[group] for total, one in zip(totals, kept, strict=True)))
            for group in range(groups)
        ]
    )
    variance = float((without - without.mean()).square().sum()) * (groups - 1) / groups
    half = _quantile(groups - 1) * math.sqrt(variance)
    if not math.isfinite(half):
        return Estimate(value, reason="without one of the groups the outputs are constant")
    return Estimate(value, value - half, value + half)


def _quantile(degrees: int) -> float:
    """Return Student's t of the interval."""
    from scipy.special import stdtrit  # deferred: SciPy takes time to import

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
