"""Tests for the alignment of channels: brute force over permutations, random rotations, closed
forms.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sigmascope.maths.procrustes import align_by_permutation, align_by_rotation


def sums(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return cross-Gram and squared norms of features (c, k)."""
    return x @ y.T, (x**2).sum(axis=1), (y**2).sum(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_no_permutation_is_better(seed: int) -> None:
    x, y = np.random.default_rng(seed).standard_normal((2, 4, 30))
    unit_x, unit_y = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y))
    best = min(
        ((unit_x[list(order)] - unit_y) ** 2).sum() for order in itertools.permutations(range(4))
    )
    found = align_by_permutation(*sums(x, y))
    assert found.squared == pytest.approx(best, abs=1e-12)
    assert ((found.matrix @ unit_x - unit_y) ** 2).sum() == pytest.approx(best, abs=1e-12)


def test_narrower_side_gets_zero_channels_and_dead_ones_cost_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((2, 30))
    y = np.stack([3 * x[1], np.zeros(30), x[0]])
    found = align_by_permutation(*sums(x, y))
    assert found.squared == pytest.approx(0, abs=1e-12)
    assert found.matrix.shape == (3, 3)
    assert (found.matrix[2, 0], found.matrix[0, 1]) == (1, 1)


@pytest.mark.parametrize("seed", range(3))
def test_no_rotation_is_better_and_the_one_found_does_it(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, y = generator.standard_normal((2, 5, 40))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    found = align_by_rotation(*sums(x, y))
    np.testing.assert_allclose(found.matrix @ found.matrix.T, np.eye(5), atol=1e-12)
    assert ((found.matrix @ x - y) ** 2).sum() == pytest.approx(found.squared, abs=1e-12)
    for _ in range(200):
        other = np.linalg.qr(generator.standard_normal((5, 5)))[0]
        assert ((other @ x - y) ** 2).sum() >= found.squared - 1e-12


def test_planted_rotation_is_found_and_a_permutation_is_not_enough() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((5, 60))
    planted = np.linalg.qr(generator.standard_normal((5, 5)))[0]
    found = align_by_rotation(*sums(x, 2.5 * planted @ x))
    np.testing.assert_allclose(found.matrix, planted, atol=1e-7)
    assert found.squared < 1e-12
    assert align_by_permutation(*sums(x, planted @ x)).squared > 0.5


def test_rounding_never_makes_a_square_negative() -> None:
    for seed in range(50):
        x = np.random.default_rng(seed).standard_normal((7, 11)) * 0.1
        for align in (align_by_permutation, align_by_rotation):
            assert align(*sums(x, x)).squared >= 0
