"""Standard errors of functions of population scores, by leaving out one group of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature, Site

CONFIDENCE = 0.95

Statistic = Callable[[Curve], Any]


# The statistics of vectors (..., k) along their last axis.
ALONG: dict[str, Statistic] = {
    "min": partial(np.min, axis=-1),
    "median": partial(np.median, axis=-1),
    "max": partial(np.max, axis=-1),
    "mean": partial(np.mean, axis=-1),
    "std": partial(np.std, axis=-1),
    "spread": partial(np.ptp, axis=-1),
    "iqr": lambda scores: np.subtract(*np.percentile(scores, [75, 25], axis=-1)),
}


def coarsened(influence: Sequence[float], groups: int) -> Curve:
    """Return the shares (groups,) of coarser groups: those of equal number modulo `groups` add up.

    >>> coarsened((1.0, 2.0, 3.0, -6.0), 2)
    array([ 4., -4.])
    """
    shares = np.asarray(influence, dtype=np.float64).reshape(-1, groups)
    return np.array(shares.sum(axis=0))


def group_count(sites: Sequence[Site]) -> int:
    """Return the number of groups that all sites can be brought to; 0 if one of them has none."""
    return min((len(site.influence) for site in sites), default=0)


def replicates(sites: Sequence[Site], groups: int) -> Curve:
    r"""Return the scores (groups, k) that the k sites have without each group of samples.

    $s - D_g \, G / (G - 1)$, with the share $D_g$ of group g in the deviation of the score s.
    """
    shares = [coarsened(site.influence, groups) for site in sites]
    scores = np.array([site.population for site in sites], dtype=np.float64)
    return scores - np.transpose(shares) * (groups / (groups - 1))


def variance(values: Curve) -> Any:
    r"""Return the jackknife variance of a statistic from its values (G, ...) without each group.

    $\frac{G - 1}{G} \sum_g (v_g - \bar v)^2$.
    """
    groups = len(values)
    return np.square(values - values.mean(axis=0)).sum(axis=0) * ((groups - 1) / groups)


def remainder(sites: Sequence[Site], statistic: Statistic) -> float:
    """Return what the standard errors of sites have beyond the influence of groups, in a statistic.

    It is what the removal of the bias leaves open, which all sites share: the statistic if every
    score were that much higher, minus the statistic.
    """
    scores = np.array([site.population for site in sites], dtype=np.float64)
    linear = [
        np.square(site.influence).sum() * (len(site.influence) / (len(site.influence) - 1))
        for site in sites
    ]
    squared = np.square([site.stderr for site in sites]) - linear
    return float(statistic(scores + np.sqrt(squared.clip(0))) - statistic(scores))


def half_width(variance: float, degrees: float) -> float:
    """Return half the width of the 95 % interval, by Student's t; NaN without degrees of freedom.

    >>> round(half_width(1.0, 7), 3)
    2.365
    """
    from scipy.special import stdtrit  # deferred: SciPy takes time to import

    if not degrees > 0:
        return math.nan
    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2) * math.sqrt(variance))


def statistic_half_widths(signature: Signature) -> dict[str, float]:
    """Return half the width of the 95 % interval of each statistic of the population scores."""
    sites = [site for site in signature.counted if math.isfinite(site.population)]
    groups = group_count(sites)
    if groups < 2:
        return dict.fromkeys(ALONG, math.nan)
    without = replicates(sites, groups)
    return {
        name: half_width(
            float(variance(statistic(without))) + remainder(sites, statistic) ** 2, groups - 1
        )
        for name, statistic in ALONG.items()
    }
