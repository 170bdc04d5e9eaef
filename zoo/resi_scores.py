"""How well a measure of similarity passes a test."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from sigmascope_papers.symmetry.similarity_tests import Scores


class Node(NamedTuple):
    """A representation: the degree of its group, the number of the network, the layer."""

    degree: int
    seed: int
    layer: int


Pair = tuple[Node, Node]
Values = Mapping[Pair, float]  # by pairs, in one of both orders
Score = Callable[[Values, Values], float]  # of similarities and of what is known of the pairs


def auprc(values: Values, known: Values) -> float:
    """Return the average precision of similarity as a sign that two networks are of one group.

    Pairs of equal similarity enter together.

    >>> pairs = [(Node(0, 0, 0), Node(0, n, 0)) for n in range(1, 4)]
    >>> same = dict(zip(pairs, (1.0, 0.0, 1.0)))
    >>> round(auprc(dict(zip(pairs, (0.9, 0.8, 0.7))), same), 3)  # (1/1 + 2/3) / 2
    0.833
    """
    similar = np.array([values[pair] for pair in values])
    same = np.array([known[pair] for pair in values], bool)
    if np.isnan(similar).any() or not same.any():
        return math.nan
    total, before = 0.0, 0
    for level in sorted(set(similar), reverse=True):
        above = similar >= level
        found = int(same[above].sum())
        total += (found - before) / same.sum() * found / above.sum()
        before = found
    return float(total)


def group_conformity(values: Values, known: Values) -> float:
    """Return the share of triples in which a network is more like one of its group than one of
    another. Ties count half; NaN if no two are of one group.
    """
    inside: dict[Node, list[float]] = defaultdict(list)
    outside: dict[Node, list[float]] = defaultdict(list)
    for pair, value in values.items():
        for node in pair:
            (inside if known[pair] else outside)[node].append(value)
    parts = [
        _in_order(np.array(inside[node])[:, None], np.array(outside[node])[None, :])
        for node in inside
    ]
    return float(np.concatenate([part.ravel() for part in parts]).mean()) if parts else math.nan


def _in_order(larger: np.ndarray, smaller: np.ndarray) -> np.ndarray:
    """Return 1 where the order is right, 1/2 for ties, 0 where it is wrong, NaN for NaN."""
    return np.heaviside(larger - smaller, 0.5)


def dissimilarity_correlation(values: Values, known: Values) -> float:
    """Return Spearman's correlation of dissimilarity with a difference; NaN if one is constant."""
    similar, differences = (np.array([one[pair] for pair in values]) for one in (values, known))
    if np.isnan(similar).any() or np.ptp(similar) == 0 or np.ptp(differences) == 0:
        return math.nan
    return float(-spearmanr(similar, differences).statistic)


def nested_conformity(values: Values, known: Values) -> float:
    """Return the share of nested pairs of layers of one network of which the inner two are more
    alike. Ties count half.

    >>> layers = [Node(0, 0, layer) for layer in range(3)]
    >>> nested_conformity(dict(zip(combinations(layers, 2), (0.9, 0.5, 0.4))), {})
    0.5
    """
    orders = []
    for (a, b), outer in values.items():
        for i, j in combinations(range(a.layer, b.layer + 1), 2):
            if (i, j) != (a.layer, b.layer):
                inner = values[a._replace(layer=i), b._replace(layer=j)]
                orders.append(float(_in_order(np.array(inner), np.array(outer))))
    return float(np.mean(orders))


def layer_correlation(values: Values, known: Values) -> float:
    """Return the mean over the networks of `dissimilarity_correlation` with the layers between."""
    networks: dict[int, dict[Pair, float]] = defaultdict(dict)
    for pair, value in values.items():
        networks[pair[0].seed][pair] = value
    return float(np.mean([dissimilarity_correlation(own, known) for own in networks.values()]))


class Test(NamedTuple):
    """A test: its ranked score, a second one, and what each compares the similarities with."""

    score: Score
    second: Score
    score_name: str
    second_name: str
    known: str
    second_known: str


_DESIGN = Test(auprc, group_conformity, "AUPRC", "conformity", "same", "same")
TESTS: dict[str, Test] = {
    **dict.fromkeys(("label", "shortcut", "augmentation"), _DESIGN),
    "monotonicity": Test(
        nested_conformity, layer_correlation, "conformity", "Spearman", "layers", "layers"
    ),
    "accuracy": Test(
        dissimilarity_correlation, dissimilarity_correlation, "Spearman", "", "accuracy", ""
    ),
    "output": Test(
        dissimilarity_correlation,
        dissimilarity_correlation,
        "Spearman, disagreement",
        "Spearman, JSD",
        "disagreement",
        "jsd",
    ),
}


def without(values: Values, seed: int) -> dict[Pair, float]:
    """Leave out all networks of one number."""
    return {
        pair: value for pair, value in values.items() if seed not in {node.seed for node in pair}
    }


def seeds_of(values: Values) -> list[int]:
    return sorted({node.seed for pair in values for node in pair})


def scored(score: Score, values: Values, known: Values) -> Scores:
    left = {str(seed): score(without(values, seed), known) for seed in seeds_of(values)}
    return Scores(score(values, known), left)
