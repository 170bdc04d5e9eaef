"""Where the score lies: its limits, what it is blind to, and how it behaves when samples are few or
outputs small.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import hadamard

import sigmascope as sg

Array = np.ndarray
ESTIMATORS = ("ledoit-wolf", "unbiased", "biased")


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gaussian(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def plain(x: Array, y: Array, **options: float | str) -> float:
    return sg.affinity(x, y, covariance="unbiased", **options).score


@pytest.mark.parametrize(
    ("d", "unbiased", "shrunk"),
    [(8, 0.617, 0.611), (128, 0.709, 0.622), (512, 0.853, 0.634), (1024, 0.895, 0.641)],
)
def test_wide_relu(d: int, unbiased: float, shrunk: float) -> None:
    """The plain estimator climbs to 1 with the width; the shrunk one stays at its plateau."""
    x = gaussian(128, d)
    assert plain(x, relu(x)) == pytest.approx(unbiased, abs=0.02)
    assert sg.affinity(x, relu(x)).score == pytest.approx(shrunk, abs=0.02)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("d", [1, 2, 3, 16, 100])
def test_two_rows_are_always_affine(d: int, estimator: str) -> None:
    x, y = gaussian(2, d), gaussian(2, d, seed=1)
    assert sg.affinity(x, y, covariance=estimator, eps=1e-12).score == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
def test_two_rows_with_orthogonal_differences_are_half_affine(estimator: str) -> None:
    x, y = np.zeros((2, 4)), np.zeros((2, 4))
    x[0, 0], y[0, 1] = 1.0, 2.0
    assert sg.affinity(x, y, covariance=estimator, eps=1e-12).score == pytest.approx(
        expected_half(estimator), abs=1e-4
    )


def expected_half(estimator: str) -> float:
    # Nothing of x reaches the direction of y: the distance is the biased standard deviation of y,
    # the bound sqrt(2 tr).
    return 1 - math.sqrt((1.0 if estimator == "ledoit-wolf" else 0.5) / 2)


def test_heavy_tails_bring_the_shrunk_score_below_zero() -> None:
    x = np.random.RandomState(530).standard_t(2, (64, 128))
    assert sg.affinity(x, x**2).score == pytest.approx(-0.135, abs=5e-4)
    assert 0 < plain(x, x**2) < 0.05


@pytest.mark.parametrize(
    "function",
    [relu, np.tanh, np.exp, lambda x: x**3, lambda x: x**5],
    ids=["relu", "tanh", "exp", "x^3", "x^5"],
)
def test_increasing_functions_keep_the_shrunk_score_inside(function: object) -> None:
    for n, d in [(8, 30), (64, 64), (200, 3)]:
        x = gaussian(n, d)
        assert 0.05 < sg.affinity(x, function(x)).score < 1


def test_only_the_laws_enter() -> None:
    x = gaussian(64, 8)
    y = relu(x)
    order = np.random.default_rng(1).permutation(64)
    assert plain(x, y[order]) == pytest.approx(plain(x, y), abs=1e-12)
    paired, mixed = plain(x, y, coupling="paired"), plain(x, y[order], coupling="paired")
    assert mixed < plain(x, y) - 0.2
    assert paired == pytest.approx(plain(x, y), abs=1e-12)


def test_independent_clouds_do_not_score_zero() -> None:
    scores = [plain(gaussian(n, 8, seed=1), gaussian(n, 8, seed=2)) for n in (16, 64, 512)]
    assert scores == sorted(scores)
    assert scores[1] == pytest.approx(0.46, abs=0.03)


def test_linear_maps_that_are_not_positive_are_penalized() -> None:
    x = gaussian(64, 8)
    turn = np.linalg.qr(gaussian(8, 8, seed=1))[0]
    assert plain(x, -x) == pytest.approx(0.44, abs=0.04)
    assert plain(x, x @ turn) == pytest.approx(0.48, abs=0.04)
    assert plain(x, x @ turn) < 0.9 < 1 - 1e-9 < plain(x, x, eps=0)
    many = gaussian(1000, 1)
    assert plain(many, -many) > 0.9  # a symmetric law in one dimension hides the sign


def test_shrinkage_does_not_commute_with_linear_maps() -> None:
    x = gaussian(64, 8)
    slopes = np.linspace(0.1, 3, 8)
    assert plain(x, x * slopes) == pytest.approx(1, abs=1e-4)
    assert sg.affinity(x, x * slopes).score == pytest.approx(0.877, abs=0.03)
    assert sg.affinity(x, 3 * x).score == pytest.approx(1, abs=1e-5)
    few, root = gaussian(20, 40), gaussian(40, 40, seed=1)
    assert sg.affinity(few, few @ (root @ root.T / 40)).score == pytest.approx(0.69, abs=0.05)


# Slope of a linear map -> the score that the published code gives its tiny output, with eps = 1e-6.
# The published code was run with a slope of 1e-3, whose variance is eps up to rounding.
TINY = {1e-4: 0.932, 0.999e-3: 0.509, 1.2e-3: 0.828, 3e-3: 0.961, 1e-2: 0.996}


def score_of_white(slope: float, eps: float, *, degenerate: bool) -> float:
    """White data reduce it to three numbers: the variance of y, that of x, and eps."""
    reached = 0 if degenerate else math.sqrt((slope**2 + eps) / (1 + eps))
    return 1 - abs(reached - slope) / math.sqrt(2 * (slope**2 + eps))


@pytest.mark.parametrize("slope", TINY)
def test_tiny_linear_outputs(slope: float) -> None:
    x = gaussian(64, 8)
    # exactly white
    x = (x - x.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, bias=True))).T
    options = {"covariance": "biased", "eps": 1e-6}
    result = sg.affinity(x, slope * x, degenerate="published", **options)
    assert result.score == pytest.approx(TINY[slope], abs=0.02)
    assert result.degenerate == (slope < 1e-3)
    expected = score_of_white(slope, 1e-6, degenerate=result.degenerate)
    assert result.score == pytest.approx(expected, abs=1e-9)
    # without the published guard, and without an absolute eps
    mapped = sg.affinity(x, slope * x, **options)
    assert mapped.score == pytest.approx(score_of_white(slope, 1e-6, degenerate=False), abs=1e-9)
    assert sg.affinity(x, slope * x).score == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("ratio", "degenerate"), [(1 - 2**-30, False), (1, True), (1 + 2**-30, True)]
)
def test_variance_at_the_threshold(ratio: float, degenerate: bool) -> None:
    """Signs and powers of two: every sum is exact, in whatever order a processor adds them up."""
    x = hadamard(16)[:, 1:9].astype(float)
    slope, eps = 2.0**-10, 2.0**-20 * ratio
    result = sg.affinity(x, slope * x, covariance="biased", eps=eps, degenerate="published")
    assert result.degenerate == degenerate
    expected = score_of_white(slope, eps, degenerate=degenerate)
    assert result.score == pytest.approx(expected, abs=1e-12)
    mapped = sg.affinity(x, slope * x, covariance="biased", eps=eps)
    assert not mapped.degenerate
    assert mapped.score == pytest.approx(score_of_white(slope, eps, degenerate=False), abs=1e-12)


def test_dead_output_is_one_only_where_that_is_asked_for() -> None:
    x = gaussian(3, 1)
    assert sg.affinity(x, np.zeros_like(x), degenerate="published").score == 1
    assert math.isnan(sg.affinity(x, np.zeros_like(x)).score)


def test_certificate_names_how_the_coupling_was_proved() -> None:
    x = gaussian(64, 8)
    wide = gaussian(64, 200)
    assert sg.affinity(wide, relu(wide)).certified == "diagonal"
    assert sg.affinity(x, gaussian(64, 8, seed=1)).certified == "solver"
    assert sg.affinity(x[:, :1], x[:, 1:2]).certified == "sorting"
    assert sg.affinity(x, x[:50]).certified == "network simplex"
    assert sg.affinity(x, x, coupling="paired").certified == "paired"
    assert sg.affinity(x, np.ones_like(x)).certified == "none"


def test_result_prints_what_is_needed_to_trust_it() -> None:
    x = gaussian(64, 200)
    shown = repr(sg.affinity(x, relu(x)))
    assert shown.startswith("Affinity(score=0.6")
    assert shown.endswith("n=64, dim=200, covariance='ledoit-wolf', certified='diagonal')")
    dead = repr(sg.affinity(x, 0 * x))
    assert "score=nan" in dead
    assert dead.endswith("reason='the output is constant up to rounding')")


def test_options_are_keywords_and_results_are_frozen() -> None:
    x = gaussian(8, 2)
    with pytest.raises(TypeError, match="positional"):
        sg.affinity(x, x, "unbiased")
    with pytest.raises(AttributeError, match="cannot assign"):
        sg.affinity(x, x).score = 0.0


def test_no_pairs_give_no_results() -> None:
    assert sg.affinities([]) == []
    assert len(sg.affinities((x, x) for x in [gaussian(8, 2), gaussian(9, 3)])) == 2
