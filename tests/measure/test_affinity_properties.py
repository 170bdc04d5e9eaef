"""What holds of every affinity score: bounds, invariances, and indifference to how the numbers are
stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import sigmascope as sg

pytestmark = pytest.mark.slow

Array = np.ndarray
Pair = tuple[Array, Array]
ESTIMATORS = ("ledoit-wolf", "unbiased", "biased")
# Between the score and its bound, or between two ways to write one pair, lies only the rounding of
# float64. It enters with the condition of the roots of the covariances, about 1e3 with 1e-6 of the
# variance on their diagonals, and comes out below this.
ROUNDING = 1e-9

LAWS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(2, (n, d)).clip(-50, 50),
    "ties": lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
    "rank one": lambda rng, n, d: rng.standard_normal((n, 1)) * rng.standard_normal(d),
    "repeated rows": lambda rng, n, d: rng.standard_normal((n, d))[rng.integers(0, n, n)],
    "constant columns": lambda rng, n, d: rng.standard_normal((n, d)) * rng.integers(0, 2, d),
    "unequal scales": lambda rng, n, d: rng.standard_normal((n, d)) * np.logspace(-2, 2, d),
}

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "square": np.square,
    "cube": lambda x: x**3,
    "minus": np.negative,
    "step": lambda x: (x > 0).astype(float),
    "abs": np.abs,
}


def examples(count: int) -> Callable:
    return settings(max_examples=count)


def drawn(laws: list[str] | None = None) -> st.SearchStrategy[Pair]:
    """Samples of a law and what a function, or an independent draw, makes of them."""

    def make(law: str, name: str, n: int, d: int, seed: int) -> Pair:
        rng = np.random.default_rng(seed)
        x = LAWS[law](rng, n, d)
        return x, LAWS[law](rng, n, d) if name == "independent" else FUNCTIONS[name](x)

    names = st.sampled_from([*FUNCTIONS, "independent"])
    return st.builds(
        make,
        st.sampled_from(laws or list(LAWS)),
        names,
        st.integers(2, 24),
        st.integers(1, 12),
        st.integers(0, 2**32),
    )


@st.composite
def written(draw: st.DrawFn) -> Pair:
    """Small samples whose numbers hypothesis chooses, not always of one size."""
    d = draw(st.integers(1, 4))
    elements = st.floats(-100, 100, width=32, allow_subnormal=False)
    n, m = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    return draw(hnp.arrays(np.float64, (n, d), elements=elements)), draw(
        hnp.arrays(np.float64, (m, d), elements=elements)
    )


pairs = st.one_of(drawn(), written())


@examples(400)
@given(
    pairs,
    st.sampled_from(ESTIMATORS),
    st.sampled_from(["optimal", "paired"]),
    st.sampled_from([None, 0.0, 1e-6, 1e-2]),
)
def test_score_is_at_most_one_and_explains_itself(
    pair: Pair, estimator: str, coupling: str, eps: float | None
) -> None:
    if coupling == "paired":
        pair = tuple(sample[: min(map(len, pair))] for sample in pair)
    result = sg.affinity(*pair, covariance=estimator, coupling=coupling, eps=eps)
    assert math.isnan(result.score) == bool(result.reason) == result.degenerate
    assert result.certified != "no"
    assert result.degenerate or result.score <= 1
    assert result.degenerate or result.score == pytest.approx(
        1 - result.w2 / result.bound, abs=1e-12
    )
    assert math.isnan(float(result)) if result.reason else float(result) == result.score
    assert (result.n, result.dim, result.covariance) == (*pair[0].shape, estimator)
    published = sg.affinity(
        *pair, covariance=estimator, coupling=coupling, eps=eps, degenerate="published"
    )
    assert published.score <= 1
    assert published.reason == ""
    assert published.degenerate or published.score == result.score
    assert published.degenerate or not result.degenerate


@examples(400)
@given(pairs, st.sampled_from([None, 0.0, 1e-6, 1e-2]))
def test_plain_estimators_score_at_least_zero(pair: Pair, eps: float | None) -> None:
    kept = [1 - 1 / len(sample) for sample in pair]
    for estimator, least in (("biased", 0.0), ("unbiased", 1 - math.sqrt(sum(kept) / 2))):
        result = sg.affinity(*pair, covariance=estimator, eps=eps)
        assert result.degenerate or result.score >= least - ROUNDING
        assert result.shrinkage_x == result.shrinkage_y == 0


@examples(300)
@given(pairs)
def test_shrinkage_bounds_the_score_from_below(pair: Pair) -> None:
    result = sg.affinity(*pair, covariance="ledoit-wolf")
    assert 0 <= result.shrinkage_x <= 1
    assert 0 <= result.shrinkage_y <= 1
    kept = 1 - result.shrinkage_x
    least = 1 - math.sqrt((1 + 1 / kept) / 2) if kept > 0 else -math.inf
    assert result.degenerate or result.score >= least - ROUNDING


@examples(300)
@given(drawn(), st.sampled_from(ESTIMATORS))
def test_pairing_rows_never_beats_the_optimum(pair: Pair, estimator: str) -> None:
    optimal = sg.affinity(*pair, covariance=estimator)
    paired = sg.affinity(*pair, covariance=estimator, coupling="paired")
    assert paired.degenerate == optimal.degenerate
    assert optimal.degenerate or paired.score <= optimal.score + ROUNDING


@examples(200)
@given(st.integers(1, 10), st.integers(1, 30), st.integers(0, 2**32))
def test_positive_definite_maps_score_one(d: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3 * d + more, d))
    root = rng.standard_normal((d, d))
    slope, shift = root @ root.T + 0.1 * np.eye(d), rng.standard_normal(d)
    result = sg.affinity(x, x @ slope + shift, covariance="unbiased", eps=0)
    assert result.score == pytest.approx(1, abs=ROUNDING)
    best = sg.affine_map(x, x @ slope + shift, covariance="unbiased", eps=0)
    np.testing.assert_allclose(best.matrix, slope, atol=1e-8 * np.abs(slope).max())


def same(first: sg.Affinity, second: sg.Affinity, tolerance: float = ROUNDING) -> bool:
    if first.degenerate or second.degenerate:
        return first.degenerate == second.degenerate
    return abs(float(first) - float(second)) <= tolerance


@examples(200)
@given(drawn(), st.sampled_from(ESTIMATORS), st.floats(-100, 100), st.floats(-100, 100))
def test_translation_changes_nothing(
    pair: Pair, estimator: str, shift_x: float, shift_y: float
) -> None:
    (x, y), still = pair, sg.affinity(*pair, covariance=estimator)
    # in units of the data, so that adding them costs the same digits at every scale
    further, higher = x + shift_x * np.abs(x).max(), y + shift_y * np.abs(y).max()
    assert same(sg.affinity(further, y, covariance=estimator), still)
    assert same(sg.affinity(x, higher, covariance=estimator), still)


@examples(200)
@given(drawn(), st.sampled_from(ESTIMATORS), st.integers(0, 2**32))
def test_common_change_of_basis_changes_nothing(pair: Pair, estimator: str, seed: int) -> None:
    x, y = pair
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((x.shape[1], x.shape[1])))[0]
    still = sg.affinity(x, y, covariance=estimator)
    # what a sum of constants leaves when they cancel is rounding, of any relative size
    assume(not still.degenerate)
    assert same(sg.affinity(x @ basis, y @ basis, covariance=estimator), still)


@examples(200)
@given(drawn(), st.sampled_from(ESTIMATORS), st.integers(0, 2**32))
def test_order_of_rows_changes_nothing(pair: Pair, estimator: str, seed: int) -> None:
    x, y = pair
    order = np.random.default_rng(seed).permutation(len(y))
    still = sg.affinity(x, y, covariance=estimator)
    assert same(sg.affinity(x, y[order], covariance=estimator), still)


@examples(200)
@given(drawn(), st.sampled_from(ESTIMATORS), st.floats(-8, 8))
def test_common_scale_changes_nothing_if_eps_follows(
    pair: Pair, estimator: str, exponent: float
) -> None:
    (x, y), scale = pair, 10**exponent
    still = sg.affinity(x, y, covariance=estimator, eps=1e-6)
    assert same(sg.affinity(scale * x, scale * y, covariance=estimator, eps=1e-6 * scale**2), still)


@examples(200)
@given(drawn(), st.sampled_from(ESTIMATORS), st.floats(-30, 30), st.floats(-30, 30))
def test_scales_change_nothing(
    pair: Pair, estimator: str, exponent_x: float, exponent_y: float
) -> None:
    (x, y), still = pair, sg.affinity(*pair, covariance=estimator)
    scaled = sg.affinity(10**exponent_x * x, 10**exponent_y * y, covariance=estimator)
    assert same(scaled, still)
    assert scaled.certified == still.certified or "none" not in (scaled.certified, still.certified)


@examples(200)
@given(drawn(["gaussian"]), st.sampled_from(ESTIMATORS), st.floats(-8, 8))
def test_scale_of_the_output_changes_nothing_without_eps(
    pair: Pair, estimator: str, exponent: float
) -> None:
    x, y = pair
    still = sg.affinity(x, y, covariance=estimator, eps=0)
    assert same(sg.affinity(x, 10**exponent * y, covariance=estimator, eps=0), still)


@examples(100)
@given(st.lists(pairs, max_size=6), st.sampled_from(ESTIMATORS), st.booleans())
def test_many_pairs_score_as_one_by_one(many: list[Pair], estimator: str, as_tensors: bool) -> None:
    if as_tensors:
        many = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in many]
    together = sg.affinities(many, covariance=estimator)
    assert len(together) == len(many)
    for result, pair in zip(together, many, strict=True):
        alone = sg.affinity(*pair, covariance=estimator)
        assert same(result, alone, tolerance=1e-12)
        assert type(result.score) is type(alone.score)


# Ways to store the numbers of a matrix that hold them exactly, once they are representable in
# bfloat16 and float16.
STORAGE: dict[str, Callable[[Array], Array | torch.Tensor]] = {
    "fortran": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed rows": lambda x: x[::-1].copy()[::-1],
    "reversed columns": lambda x: x[:, ::-1].copy()[:, ::-1],
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "torch": torch.from_numpy,
    "torch transposed": lambda x: torch.from_numpy(x.T.copy()).T,
    "torch every second column": lambda x: torch.from_numpy(np.repeat(x, 2, axis=1))[:, ::2],
    "torch float32": lambda x: torch.from_numpy(x).float(),
    "torch float16": lambda x: torch.from_numpy(x).half(),
    "torch bfloat16": lambda x: torch.from_numpy(x).bfloat16(),
    "torch parameter": lambda x: torch.nn.Parameter(torch.from_numpy(x)),
}


@examples(300)
@given(drawn(), st.sampled_from(ESTIMATORS), st.sampled_from(list(STORAGE)))
def test_storage_changes_nothing(pair: Pair, estimator: str, storage: str) -> None:
    x, y = (
        torch.from_numpy(sample.clip(-1000, 1000)).bfloat16().half().double().numpy()
        for sample in pair
    )
    stored = STORAGE[storage](x), STORAGE[storage](y)
    # as published, without regard to the precision that a type stands for
    options = {"covariance": estimator, "eps": 1e-6, "degenerate": "published"}
    assert same(sg.affinity(*stored, **options), sg.affinity(x, y, **options), tolerance=1e-12)
