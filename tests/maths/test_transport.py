"""Exact transport against POT, brute force, and the axioms of a metric."""

from __future__ import annotations

import itertools
import math

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import sigmascope as sg
from sigmascope.maths.transport import couple, pair_up, span_coordinates

Array = np.ndarray


def sample(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def by_pot(x: Array, y: Array) -> float:
    return math.sqrt(ot.emd2([], [], ((x[:, None] - y[None]) ** 2).sum(-1), numItermax=10**7))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "size",
    [
        (2, 2, 1),
        (30, 30, 1),
        (30, 30, 4),
        (12, 12, 60),
        (50, 80, 3),
        (7, 2, 5),
        (20, 33, 1),
        (6, 5, 40),
    ],
    ids=str,
)
def test_w2_exact_is_that_of_pot(size: tuple[int, int, int], seed: int) -> None:
    n, m, d = size
    x, y = sample(n, d, seed), 2 * sample(m, d, seed + 10) + 1
    distance = sg.w2_exact(x, y)
    assert distance == pytest.approx(by_pot(x, y), rel=1e-10)
    assert type(distance) is float


@pytest.mark.parametrize("d", [1, 2, 9])
@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_w2_exact_is_the_best_of_all_permutations(n: int, d: int) -> None:
    x, y = sample(n, d), sample(n, d, seed=1)
    orders = itertools.permutations(range(n))
    assert sg.w2_exact(x, y) == pytest.approx(
        math.sqrt(min(((x - y[list(order)]) ** 2).sum() for order in orders) / n), rel=1e-12
    )


def test_unequal_sizes_count_copies() -> None:
    """A sample and each of its rows twice are one measure."""
    x, y = sample(6, 3), sample(6, 3, seed=1)
    twice = np.repeat(y, 2, axis=0)
    assert sg.w2_exact(x, twice) == pytest.approx(sg.w2_exact(x, y), rel=1e-10)
    assert sg.w2_exact(y, twice) == pytest.approx(0, abs=1e-7)


def test_one_dimension_compares_quantiles() -> None:
    x, y = sample(101, 1), np.exp(sample(101, 1, seed=1))
    expected = np.sqrt(((np.sort(x, axis=0) - np.sort(y, axis=0)) ** 2).mean())
    assert sg.w2_exact(x, y) == pytest.approx(expected, rel=1e-12)


elements = st.floats(-100, 100, width=32, allow_subnormal=False)
triples = st.tuples(st.integers(2, 6), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.float64, shape, elements=elements) for _ in range(3)])
)


@settings(max_examples=300)
@given(triples)
def test_metric_axioms(triple: tuple[Array, Array, Array]) -> None:
    x, y, z = triple
    there, back, on, along = (
        sg.w2_exact(x, y),
        sg.w2_exact(y, x),
        sg.w2_exact(y, z),
        sg.w2_exact(x, z),
    )
    rounding = 1e-6  # the square root of the rounding of squares of 100
    assert there >= 0
    assert there == pytest.approx(back, abs=rounding)
    assert along <= there + on + rounding
    assert sg.w2_exact(x, x[::-1]) == pytest.approx(0, abs=rounding)


few_values = hnp.arrays(
    np.int64, st.tuples(st.just(3), st.integers(1, 2)), elements=st.integers(0, 1)
)


@settings(max_examples=200)
@given(
    few_values.flatmap(
        lambda x: st.tuples(st.just(x), hnp.arrays(np.int64, x.shape, elements=st.integers(0, 1)))
    )
)
def test_distance_is_zero_only_between_equal_samples(pair: tuple[Array, Array]) -> None:
    x, y = (sample.astype(float) for sample in pair)
    distance = sg.w2_exact(x, y)
    if sorted(x.tolist()) == sorted(y.tolist()):
        assert distance < 1e-15
    else:
        assert distance > 0.5  # at least one row moves by at least one


@settings(max_examples=200)
@given(triples, st.floats(-50, 50), st.floats(0.01, 100), st.randoms(use_true_random=False))
def test_moves_of_the_space(
    triple: tuple[Array, Array, Array], shift: float, scale: float, random: object
) -> None:
    x, y, z = triple
    distance = sg.w2_exact(x, y)
    apart = np.linalg.norm(x.mean(0) - y.mean(0))
    assert sg.w2_exact(x + shift, y + shift) == pytest.approx(distance, abs=1e-6)
    assert sg.w2_exact(scale * x, scale * y) == pytest.approx(
        scale * distance, rel=1e-9, abs=1e-6 * scale
    )
    order = random.sample(range(len(y)), len(y))
    assert sg.w2_exact(x, y[order]) == pytest.approx(distance, abs=1e-6)
    # The means alone cost what they are apart, and a pure translation costs nothing else.
    assert distance >= apart - 1e-6
    assert sg.w2_exact(x, x + z[0]) == pytest.approx(np.linalg.norm(z[0]), abs=1e-6)


def test_far_from_the_origin() -> None:
    x, y = sample(20, 3), sample(20, 3, seed=1)
    assert sg.w2_exact(x + 1e8, y + 1e8) == pytest.approx(sg.w2_exact(x, y), abs=1e-6)


def test_tiny_and_huge_samples() -> None:
    x, y = sample(20, 3), sample(20, 3, seed=1)
    for scale in (1e-138, 1e-100, 1e100, 1e138):
        assert sg.w2_exact(scale * x, scale * y) == pytest.approx(
            scale * sg.w2_exact(x, y), rel=1e-9, abs=0
        )


@pytest.mark.parametrize("size", [(6, 6, 3), (5, 5, 12), (7, 7, 1), (4, 6, 2)], ids=str)
def test_gradient(size: tuple[int, int, int]) -> None:
    n, m, d = size
    x, y = (
        torch.from_numpy(sample(n, d)).requires_grad_(),
        torch.from_numpy(sample(m, d, seed=1)).requires_grad_(),
    )
    assert torch.autograd.gradcheck(sg.w2_exact, (x, y), eps=1e-6, atol=1e-7)


def test_gradient_at_distance_zero_is_zero() -> None:
    x = torch.from_numpy(sample(6, 3)).requires_grad_()
    distance = sg.w2_exact(x, x.detach().clone())
    distance.backward()
    assert (float(distance.detach()), float(x.grad.abs().max())) == (0, 0)


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(
    "size", [(8, 8, 3), (4, 4, 30), (3, 5, 9), (3, 5, 10), (3, 5, 11), (2, 2, 8)], ids=str
)
def test_span_coordinates_keep_every_distance(size: tuple[int, int, int], tracked: bool) -> None:
    n, m, d = size
    x, y = (
        torch.from_numpy(sample(k, d, seed)).requires_grad_(tracked)
        for seed, k in enumerate((n, m))
    )
    a, b = (part.detach() for part in span_coordinates(x, y))
    assert a.shape[1] == b.shape[1] <= d
    assert a.shape[1] == n + m or d < 2 * (n + m)
    before, after = torch.cat([x, y]).detach(), torch.cat([a, b])
    torch.testing.assert_close(
        torch.cdist(after, after), torch.cdist(before, before), atol=1e-7, rtol=1e-9
    )
    torch.testing.assert_close(after @ after.mT, before @ before.mT, atol=1e-12, rtol=1e-12)


def test_couplings_say_how_they_were_proved() -> None:
    x, y = torch.from_numpy(sample(20, 3)), torch.from_numpy(sample(20, 3, seed=1))
    assert couple(x, x).certified == "diagonal"
    assert couple(x, y).certified == "solver"
    assert couple(x[:, :1], y[:, :1]).certified == "sorting"
    assert couple(x, y[:7]).certified == "network simplex"
    paired = pair_up(x, y)
    assert paired.certified == "paired"
    assert float(paired.w2_squared) == pytest.approx(float((x - y).square().sum() / 20))
    assert float(couple(x, y).w2_squared) < float(paired.w2_squared)


def test_couplings_count_the_rows_that_move() -> None:
    """To another point: rows that are equal may be exchanged."""
    x = torch.tensor([[0.0, 0.0], [5.0, 0.0], [9.0, 0.0], [2.0, 7.0]], dtype=torch.float64)
    for coordinates in (x, x[:, :1]):
        assert couple(coordinates, coordinates).moved == 0
        assert couple(coordinates, coordinates[[1, 0, 2, 3]]).moved == 2
        twins = coordinates[[0, 0, 2, 3]]
        assert couple(twins, twins[[1, 0, 2, 3]]).moved == 0
        assert couple(twins, twins[[2, 0, 1, 3]]).moved == 2
    assert pair_up(x, x[[1, 0, 2, 3]]).moved == 0


def test_a_far_point_does_not_blur_the_others() -> None:
    x, y = sample(60, 2), sample(60, 2, seed=1)
    x[-1] = y[-1] = (1e8, 0.0)
    near = sg.w2_exact(x[:-1], y[:-1])
    assert sg.w2_exact(x, y) == pytest.approx(near * (59 / 60) ** 0.5, rel=1e-6)
