"""Rank correlations over the blocks of a network, with bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from sigmascope_papers.chance import Array

DRAWS = 10_000


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"ρ {self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def correlation(one: Array, other: Array, *, draws: int = DRAWS, seed: int = 0) -> Correlation:
    """Return Spearman's correlation of two measures of the blocks, (k,) each.

    >>> str(correlation(np.arange(5.0), np.arange(5.0) ** 2))
    'ρ 1.00 [1.00, 1.00]'
    """
    drawn = drawn_correlations(one[None], other, draws=draws, seed=seed)[0]
    return Correlation(float(_spearman(one, other)), *_interval(drawn))


def difference(
    one: Array, rival: Array, target: Array, *, draws: int = DRAWS, seed: int = 0
) -> Correlation:
    """Return how much better one measure correlates with a target than its rival."""
    drawn = drawn_correlations(np.stack([one, rival]), target, draws=draws, seed=seed)
    value = _spearman(one, target) - _spearman(rival, target)
    return Correlation(float(value), *_interval(drawn[0] - drawn[1]))


def drawn_correlations(measures: Array, target: Array, *, draws: int, seed: int) -> Array:
    """Return the correlations (m, draws) of measures (m, k) on blocks drawn with replacement."""
    generator = np.random.default_rng(seed)
    chosen = generator.integers(len(target), size=(draws, len(target)))
    wanted = rankdata(target[chosen], axis=1)
    return np.stack([_correlations(rankdata(one[chosen], axis=1), wanted) for one in measures])


def _spearman(one: Array, other: Array) -> float:
    return float(_correlations(rankdata(one)[None], rankdata(other)[None])[0])


def _correlations(one: Array, other: Array) -> Array:
    one, other = (rows - rows.mean(axis=1, keepdims=True) for rows in (one, other))
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (one * other).sum(axis=1) / norms
    return found


def _interval(drawn: Array) -> tuple[float, float]:
    known = drawn[np.isfinite(drawn)]  # a draw of one block alone has no correlation
    if not len(known):  # a measure that is the same for all blocks
        return math.nan, math.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
