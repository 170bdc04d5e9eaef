"""Permutation tests against enumeration, closed forms and scikit-learn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

from sigmascope_papers.chance import (
    adjusted_rand,
    correlation_p,
    group_gap,
    neighbor_share,
    numbered,
    p_value,
    shuffles,
    silhouette,
)

LINE = np.abs(np.subtract.outer([0.0, 1.0, 10.0, 11.0, 20.0], [0.0, 1.0, 10.0, 11.0, 20.0]))
PAIRS = numbered(["a", "a", "b", "b", "c"])


def test_few_things_have_all_their_orders_and_many_have_random_ones() -> None:
    assert sorted(map(tuple, shuffles(4))) == sorted(itertools.permutations(range(4)))
    drawn = shuffles(12, draws=50, seed=1)
    assert drawn.shape == (51, 12)
    assert drawn[0].tolist() == list(range(12))
    assert (np.sort(drawn, axis=1) == np.arange(12)).all()
    assert len({tuple(row) for row in drawn}) > 45
    assert np.array_equal(drawn, shuffles(12, draws=50, seed=1))


def test_the_p_value_is_the_share_of_orders() -> None:
    """Two pairs and a single: of the 5! orders, 2 · 2 · 2 keep the pairs."""
    assert p_value(lambda labels: group_gap(LINE, labels), PAIRS) == pytest.approx(8 / 120)
    assert p_value(lambda labels: 0.0, PAIRS) == 1


def test_p_values_of_chance_are_uniform() -> None:
    generator = np.random.default_rng(0)
    found = [
        correlation_p(generator.normal(size=(6, 12)), generator.normal(size=12), draws=99)[1]
        for _ in range(200)
    ]
    assert np.mean(np.array(found) <= 0.05) < 0.1
    assert np.mean(found) == pytest.approx(0.5, abs=0.08)


def test_the_best_of_several_is_paid_for() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(6, 9)), generator.normal(size=9)
    r, p = correlation_p(x, y)
    assert r == pytest.approx([np.corrcoef(row, y)[0, 1] for row in x])
    best = int(np.abs(r).argmax())
    assert p > correlation_p(x[best : best + 1], y)[1]
    assert correlation_p(np.vstack([x, 3 - 2 * y]), y)[1] == pytest.approx(1 / 10_001)


def test_exact_p_of_four_points() -> None:
    y = np.array([0.0, 1.0, 2.0, 4.0])
    r, p = correlation_p(y[None], y)
    assert r == pytest.approx([1])
    assert p == pytest.approx(1 / 24)


def test_groups_on_a_line() -> None:
    assert group_gap(LINE, PAIRS) == pytest.approx(np.mean([10, 11, 20, 9, 10, 19, 10, 9]) - 1)
    assert neighbor_share(LINE, PAIRS) == 1
    assert neighbor_share(LINE, numbered(list("abacc"))) == pytest.approx(1 / 4)
    assert math.isnan(group_gap(LINE, numbered(list("abcde"))))
    assert math.isnan(group_gap(LINE, numbered(list("aaaaa"))))
    assert math.isnan(neighbor_share(LINE, numbered(list("abcde"))))


def test_silhouette_and_rand_index_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(2)
    points = generator.normal(size=(30, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    for seed in range(5):
        one, other = np.random.default_rng(seed).integers(0, 4, (2, 30))
        one[:4] = range(4)
        assert silhouette(apart, one) == pytest.approx(
            silhouette_score(apart, one, metric="precomputed")
        )
        assert adjusted_rand(one, other) == pytest.approx(adjusted_rand_score(one, other))
    alone = np.array([0] * 29 + [1])
    assert silhouette(apart, alone) == pytest.approx(
        silhouette_score(apart, alone, metric="precomputed")
    )
    assert adjusted_rand(PAIRS, PAIRS) == 1
