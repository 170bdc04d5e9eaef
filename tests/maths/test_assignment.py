"""Assignments are optimal, and what is called a proof is one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import ot
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from sigmascope.maths import assignment
from sigmascope.maths.assignment import assign, solve
from sigmascope.maths.certificate import prove

# each crosses another threshold: cold, smoothed, in parts, in parts of parts
SIZES = (129, 257, 300, 601)


def squared_distances(x, y):
    return ((x[:, None] - y) ** 2).sum(axis=2)


def thin_cloud(n, seed=0, rank=1):
    """Points near a line or plane against their positive parts, turned: hard, and the identity is
    far from optimal.
    """
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, rank)) @ random.standard_normal(
        (rank, 8)
    ) + 0.05 * random.standard_normal((n, 8))
    y = np.maximum(x, 0)[:, ::-1]
    return squared_distances(x - x.mean(axis=0), y - y.mean(axis=0))


def small_shift(n, seed=0):
    """Points against themselves, slightly moved: the identity is optimal at sight."""
    x = np.random.default_rng(seed).standard_normal((n, 8))
    return squared_distances(x, x + 0.01)


def uniform(n, seed=0):
    return np.random.default_rng(seed).random((n, n))


def tied(n, seed=0):
    return np.random.default_rng(seed).integers(0, 3, (n, n)).astype(float)


def two_values(n, seed=0):
    return (np.random.default_rng(seed).random((n, n)) < 0.5).astype(float)


def duplicated(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n // 2 + 1, 4)).repeat(2, axis=0)[:n]
    return squared_distances(x, np.tanh(2 * x[::-1]))


def mostly_one_point(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, 4))
    x[n // 4 :] = 0
    return squared_distances(x, np.roll(x, 7, axis=0) + 1)


def negative(n, seed=0):
    return -thin_cloud(n, seed, rank=2)


def one_cheap_column(n, seed=0):
    cost = uniform(n, seed)
    cost[:, 3] -= 100
    return cost


def steep(n, seed=0):
    """Every row ranks the columns alike, so that potentials range over the whole matrix."""
    return np.outer(np.arange(n, dtype=float), np.arange(n, dtype=float)) + 1e-3 * uniform(n, seed)


FAMILIES = [
    thin_cloud,
    small_shift,
    uniform,
    tied,
    two_values,
    duplicated,
    mostly_one_point,
    negative,
    one_cheap_column,
    steep,
]


def check_proof(cost, found):
    """Permutation, dual feasibility and complementary slackness, from scratch."""
    n, rounding = len(cost), 1e-13 * max(abs(cost).max(), 1e-300)
    assert sorted(found.columns) == list(range(n))
    excess = cost - found.row_potentials[:, None] - found.column_potentials
    assert excess.min() >= -rounding
    assert abs(excess[np.arange(n), found.columns]).max() <= rounding


def total(cost, columns):
    return cost[np.arange(len(cost)), columns].sum()


@settings(max_examples=150)
@given(
    st.integers(1, 6).flatmap(
        lambda n: arrays(np.float64, (n, n), elements=st.integers(-3, 3).map(float))
    )
)
def test_small_integers_against_all_permutations(cost):
    found = assign(cost)
    assert found.certified != "no"
    check_proof(cost, found)
    assert total(cost, found.columns) == min(
        total(cost, list(p)) for p in permutations(range(len(cost)))
    )


@settings(max_examples=100)
@given(
    st.integers(1, 6).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.floats(-1e6, 1e6)))
)
def test_small_floats_against_all_permutations(cost):
    found = assign(cost)
    assert found.certified != "no"
    check_proof(cost, found)
    best = min(total(cost, list(p)) for p in permutations(range(len(cost))))
    assert total(cost, found.columns) == pytest.approx(
        best, rel=0, abs=1e-12 * max(abs(cost).max(), 1e-300)
    )


@pytest.mark.parametrize("seed", range(3))
def test_seven_points_against_all_permutations(seed):
    cost = thin_cloud(7, seed)
    best = min(total(cost, list(p)) for p in permutations(range(7)))
    assert total(cost, assign(cost).columns) == pytest.approx(best, rel=1e-13)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_and_proved(family, n):
    cost = family(n)
    found = assign(cost)
    assert found.certified in {"diagonal", "potentials", "solver"}
    check_proof(cost, found)
    reference = cost[linear_sum_assignment(cost)].sum()
    scale = abs(cost).max() * n
    assert total(cost, found.columns) == pytest.approx(reference, rel=0, abs=1e-14 * scale)
    assert found.row_potentials.sum() + found.column_potentials.sum() == pytest.approx(
        reference, rel=0, abs=1e-13 * scale
    )


@pytest.mark.parametrize("family", [thin_cloud, small_shift, uniform, duplicated])
def test_agrees_with_an_independent_solver(family):
    cost = family(300)
    assert total(cost, assign(cost).columns) / 300 == pytest.approx(
        ot.emd2([], [], cost, numItermax=10**7), rel=1e-10
    )


@settings(max_examples=25)
@given(st.sampled_from(FAMILIES), st.integers(1, 90), st.integers(0, 10**6))
def test_any_size_and_seed(family, n, seed):
    cost = family(max(n, 4), seed)
    found = assign(cost)
    assert found.certified != "no"
    check_proof(cost, found)
    assert total(cost, found.columns) == pytest.approx(
        cost[linear_sum_assignment(cost)].sum(), rel=1e-12, abs=1e-9
    )


@pytest.mark.parametrize("n", [1, 2, 3, 300])
@pytest.mark.parametrize("value", [0.0, -2.0, 7.5])
def test_constant(n, value):
    found = assign(np.full((n, n), value))
    assert found.certified == "diagonal"
    check_proof(np.full((n, n), value), found)


def test_stage_diagonal_by_rows_and_by_columns():
    # One cheap row: the minima of the other columns leave the diagonal, those of the rows do not,
    # and vice versa.
    cost = 1 + uniform(40)
    np.fill_diagonal(cost, 0.5)
    cost[0] -= 0.9
    assert assign(cost).certified == assign(cost.T).certified == "diagonal"
    assert not assign(cost).column_potentials.any()
    assert not assign(cost.T).row_potentials.any()
    check_proof(cost, assign(cost))
    check_proof(cost.T, assign(cost.T))


@pytest.mark.parametrize("n", [40, 300, 600])
def test_stage_potentials(n):
    # An optimal assignment moved to the diagonal, where neither rows nor columns have their minima.
    cost = thin_cloud(n)
    cost = np.ascontiguousarray(cost[:, linear_sum_assignment(cost)[1]])
    found = assign(cost)
    assert found.certified == "potentials"
    assert (found.columns == np.arange(n)).all()
    check_proof(cost, found)


def test_stage_solver_works_in_parts(monkeypatch):
    sizes = []

    def record(cost, *, tolerance):
        sizes.append(len(cost))
        return solve(cost, tolerance=tolerance)

    monkeypatch.setattr(assignment, "solve", record)
    monkeypatch.setattr(assignment, "COLD", 8)
    monkeypatch.setattr(assignment, "WHOLE", 16)
    cost = thin_cloud(259)
    found = assign(cost)
    assert found.certified == "solver"
    assert sizes[:3] == [259, 65, 17]
    check_proof(cost, found)


@pytest.mark.parametrize("family", [thin_cloud, uniform, tied])
@pytest.mark.parametrize("n", [5, 60, 300])
@pytest.mark.parametrize("margin", [0.0, 0.1, 100.0])
def test_a_wrong_permutation_has_no_proof(family, n, margin):
    cost = family(n)
    columns = linear_sum_assignment(cost)[1]
    nothing = np.array([], dtype=int)
    assert prove(cost, columns, nothing, margin=margin, tolerance=1e-12) is not None
    first, second = next(
        (i, j) for i in range(n) for j in range(i) if exchange_costs(cost, columns, i, j) > 1e-6
    )
    columns[[first, second]] = columns[[second, first]]
    assert prove(cost, columns, nothing, margin=margin, tolerance=1e-12) is None


def exchange_costs(cost, columns, i, j):
    return cost[i, columns[j]] + cost[j, columns[i]] - cost[i, columns[i]] - cost[j, columns[j]]


def test_a_failed_proof_is_told(monkeypatch):
    monkeypatch.setattr(
        assignment, "linear_sum_assignment", lambda cost: (None, np.arange(len(cost)))
    )
    assert assign(thin_cloud(20)).certified == "no"


@pytest.mark.parametrize("guess", ["zero", "noise", "huge"])
def test_guessed_potentials_only_influence_speed(monkeypatch, guess):
    noise = np.random.default_rng(1).standard_normal(300)
    guesses = {"zero": 0 * noise, "noise": noise, "huge": 100 * noise}
    monkeypatch.setattr(assignment, "_near_potentials", lambda cost, tolerance: guesses[guess])
    cost = thin_cloud(300)
    found = assign(cost)
    assert found.certified == "solver"
    check_proof(cost, found)


@pytest.mark.parametrize("n", [50, 300])
def test_permuting_rows_permutes_columns(n):
    cost, order = thin_cloud(n), np.random.default_rng(5).permutation(n)
    assert (assign(cost[order]).columns == assign(cost).columns[order]).all()
    assert (assign(np.asfortranarray(cost)).columns == assign(cost).columns).all()


def test_shifting_rows_and_columns_moves_only_the_potentials():
    cost, shift = thin_cloud(200), np.random.default_rng(6).standard_normal((2, 200))
    moved = assign(cost + shift[0][:, None] + shift[1])
    assert (moved.columns == assign(cost).columns).all()
    check_proof(cost + shift[0][:, None] + shift[1], moved)


def test_cost_is_left_alone():
    cost = thin_cloud(300)
    before = cost.copy()
    assign(cost)
    assert (cost == before).all()
