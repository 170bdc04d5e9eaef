"""The score against values of an independent float64 implementation; see tests/golden/README.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm

import sigmascope as sg
from tests.golden_grid import ACTIVATIONS

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GRID = json.loads((GOLDEN / "affinity_grid.json").read_text())
VALUES = json.loads((GOLDEN / "affinity_values.json").read_text())
PAIRS = np.load(GOLDEN / "affinity_pairs.npz")
ESTIMATORS = ("unbiased", "ledoit-wolf")
TOLERANCE = 5e-6
EPS = 1e-6  # of all golden values


def draw(case: dict) -> np.ndarray:
    normal = np.random.RandomState(case["seed"]).standard_normal((case["n"], case["d"]))
    return (case["mean"] + case["std"] * normal).astype(np.float32)


def name_of(case: dict) -> str:
    return f"n{case['n']}-d{case['d']}-mean{case['mean']:g}-std{case['std']:g}"


def pair(name: str) -> tuple[np.ndarray, np.ndarray]:
    return PAIRS[f"{name}/x"], PAIRS[f"{name}/y"]


def test_the_golden_files_are_complete() -> None:
    assert GRID["activations"] == list(ACTIVATIONS)
    sizes = {(case["n"], case["d"]) for case in GRID["draws"]}
    assert sizes == {(n, d) for n in (64, 128, 256) for d in (1, 3, 16, 64, 300)}
    assert sum(len(case[estimator]) for case in GRID["draws"] for estimator in ESTIMATORS) == 1440
    assert len(VALUES["edge"]) == 35
    assert set(PAIRS.files) == {
        f"{name}/{side}" for name in (*VALUES["edge"], "steps") for side in "xy"
    }


@pytest.mark.parametrize("case", GRID["draws"], ids=name_of)
def test_grid(case: dict) -> None:
    x = draw(case)
    exact = x.astype(np.float64)
    assert math.isclose(exact.sum(), case["sum"], rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose((exact**2).sum(), case["sum_of_squares"], rel_tol=1e-9)
    before = torch.from_numpy(x)
    pairs = [(before, function(before)) for function in ACTIVATIONS.values()]
    off = {}
    for estimator in ESTIMATORS:
        results = sg.affinities(pairs, covariance=estimator, eps=EPS, degenerate="published")
        for activation, result, expected in zip(ACTIVATIONS, results, case[estimator], strict=True):
            if not abs(float(result) - expected) <= TOLERANCE:
                off[estimator, activation] = (float(result), expected)
    assert off == {}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", VALUES["edge"])
def test_edge(name: str, estimator: str) -> None:
    result = sg.affinity(*pair(name), covariance=estimator, eps=EPS, degenerate="published")
    assert result.score == pytest.approx(VALUES["edge"][name][estimator], abs=TOLERANCE)
    assert result.reason == ""


def test_edge_cases_without_variance_are_flagged() -> None:
    dead = {
        "tiny_n2_d1_relu",
        "const_output",
        "scaled_0.0001",
        "scaled_0.001",
        "all_dead_relu",
        "all_rows_equal",
    }
    results = {
        name: sg.affinity(*pair(name), eps=EPS, degenerate="published") for name in VALUES["edge"]
    }
    assert {name for name, result in results.items() if result.degenerate} == dead


@pytest.mark.parametrize("eps", [None, EPS])
def test_only_edge_cases_that_are_constant_have_no_score(eps: float | None) -> None:
    constant = {"tiny_n2_d1_relu", "const_output", "all_dead_relu", "all_rows_equal"}
    results = {name: sg.affinity(*pair(name), eps=eps) for name in VALUES["edge"]}
    assert {name for name, result in results.items() if result.degenerate} == constant
    assert {name for name, result in results.items() if math.isnan(float(result))} == constant


def test_edge_case_of_unequal_size_goes_through_the_network_simplex() -> None:
    x, y = pair("unequal_n")
    assert (len(x), len(y)) == (50, 80)
    assert sg.affinity(x, y).certified == "network simplex"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_steps(estimator: str) -> None:
    x, y = pair("steps")
    expected = VALUES["steps"][estimator]
    result = sg.affinity(x, y, covariance=estimator, eps=EPS)
    assert result.w2**2 == pytest.approx(expected["w2_squared"], abs=1e-6)
    assert result.bound**2 / 2 == pytest.approx(expected["trace"], abs=1e-6)
    assert result.score == pytest.approx(expected["score"], abs=1e-6)
    best = sg.affine_map(x, y, covariance=estimator, eps=EPS)
    np.testing.assert_allclose(best.matrix, expected["matrix"], atol=1e-6)
    np.testing.assert_allclose(best(x.astype(float)).mean(0), y.mean(0, dtype=float), atol=1e-9)


def relu_score_on_quantiles(quantile: Callable[[np.ndarray], np.ndarray], n: int) -> float:
    """The score on an even grid of quantiles, which approaches the population value."""
    x = quantile((np.arange(n) + 0.5) / n)[:, None]
    return sg.affinity(x, np.maximum(x, 0), covariance="biased", eps=0).score


@pytest.mark.parametrize(("upper", "lower", "expected"), VALUES["analytic"]["relu_uniform_ab"])
def test_relu_on_uniform_quantiles(upper: float, lower: float, expected: float) -> None:
    score = relu_score_on_quantiles(lambda level: lower + (upper - lower) * level, n=20_001)
    assert score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("mean", "std", "expected"), VALUES["analytic"]["relu_gauss_mean_std"])
def test_relu_on_gaussian_quantiles(mean: float, std: float, expected: float) -> None:
    # The tails beyond the last quantile are cut off, which costs more than the step of the grid
    # does.
    score = relu_score_on_quantiles(lambda level: norm.ppf(level, mean, std), n=400_001)
    assert score == pytest.approx(expected, abs=1e-5)
