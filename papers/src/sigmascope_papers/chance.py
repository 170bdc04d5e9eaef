"""What chance would give: permutation tests of groups, correlations and trends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Labels = np.ndarray[Any, np.dtype[np.int64]]
DRAWS = 10_000
SAME = 1e-12  # statistics that differ by the rounding of their sums are equal


def numbered(names: Sequence[str]) -> Labels:
    """Number labels in the order in which they first occur.

    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.int64)


def shuffles(count: int, *, draws: int = DRAWS, seed: int = 0) -> Labels:
    """Return all orders of so many things (p, count), or random ones; the identity is the first.

    >>> shuffles(2).tolist(), shuffles(9, draws=5).shape
    ([[0, 1], [1, 0]], (6, 9))
    """
    if math.factorial(count) <= draws:
        orders = list(itertools.permutations(range(count)))
        return np.array(orders, dtype=np.int64).reshape(-1, count)
    random = np.random.default_rng(seed).permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
    return np.vstack([np.arange(count), random])


def p_value(
    statistic: Callable[[Labels], float], labels: Labels, *, draws: int = DRAWS, seed: int = 0
) -> float:
    """Return the share of orders of the labels (k,), own included, of no smaller a statistic."""
    orders = shuffles(len(labels), draws=draws, seed=seed)
    found = np.array([statistic(labels[order]) for order in orders])
    return float((found >= found[0] - SAME).mean())


def correlation_p(
    predictors: Array, target: Array, *, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, float]:
    """Correlate each of several predictors (k, n) with a target (n,), and judge the best of them.

    Returns Pearson's r (k,), and the share of orders of the target with as large a largest |r|.
    """
    known = predictors - predictors.mean(axis=1, keepdims=True)
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    wanted = (target - target.mean()) / np.linalg.norm(target - target.mean())
    found = known @ wanted[shuffles(len(target), draws=draws, seed=seed)].T
    largest = np.abs(found).max(axis=0)
    return found[:, 0], float((largest >= largest[0] - SAME).mean())


def group_gap(matrix: Array, labels: Labels) -> float:
    """Return the mean distance between groups less that within; NaN if there is no such pair."""
    same = labels[:, None] == labels
    within, between = same & ~np.eye(len(labels), dtype=bool), ~same
    if not within.any() or not between.any():
        return math.nan
    return float(matrix[between].mean() - matrix[within].mean())


def neighbor_share(matrix: Array, labels: Labels) -> float:
    """Return the share of things, if their group has others, whose nearest neighbor is in it."""
    nearest = np.where(np.eye(len(labels), dtype=bool), np.inf, matrix).argmin(axis=1)
    several = np.bincount(labels)[labels] > 1
    return float((labels[nearest] == labels)[several].mean()) if several.any() else math.nan


def silhouette(matrix: Array, labels: Labels) -> float:
    """Return the mean silhouette: 1 at best, 0 for a group of one."""
    member = np.eye(int(labels.max()) + 1)[labels]
    sums, counts = matrix @ member, member.sum(axis=0)
    own = counts[labels]
    inside = sums[np.arange(len(labels)), labels] / np.maximum(own - 1, 1)
    outside = np.where(member > 0, np.inf, sums / counts).min(axis=1)
    nearer = (outside - inside) / np.maximum(np.maximum(inside, outside), SAME)
    return float(np.where(own > 1, nearer, 0).mean())


def adjusted_rand(one: Labels, other: Labels) -> float:
    """Return the agreement of two groupings (Hubert and Arabie): 1 if equal, 0 by chance.

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one, other), 1)
    counts = table, table.sum(axis=1), table.sum(axis=0), np.array([float(len(one))])
    both, first, second, all_pairs = (float((n * (n - 1) / 2).sum()) for n in counts)
    expected, largest = first * second / all_pairs, (first + second) / 2
    return 1.0 if largest == expected else (both - expected) / (largest - expected)


def trend(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return Kendall's tau-b with places, and the share of all orders that rise as much or more.

    >>> trend([2012, 2014, 2014, 2015], [0.1, 0.3, 0.2, 0.4])[0]
    0.9128709291752769
    """
    x, y = np.array(places, dtype=np.float64), np.array(values, dtype=np.float64)
    one, other = np.triu_indices(len(x), 1)
    steps = np.sign(x[other] - x[one])
    orders = np.array(list(itertools.permutations(range(len(x)))))  # the identity first
    sums = np.sign(y[orders[:, other]] - y[orders[:, one]]) @ steps
    pairs = np.sqrt(np.count_nonzero(steps) * np.count_nonzero(y[other] - y[one]))
    return float(sums[0] / pairs) if pairs else 0.0, float((sums >= sums[0]).mean())
