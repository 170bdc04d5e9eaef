"""The score against closed forms, brute force over all permutations, and the published values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from sklearn.covariance import ledoit_wolf

import sigmascope as sg

Array = np.ndarray
ESTIMATORS = ("ledoit-wolf", "unbiased", "biased")


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gaussian(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def covariance_of(x: Array, estimator: str, eps: float) -> Array:
    if estimator == "ledoit-wolf":
        return ledoit_wolf(x)[0] + eps * np.eye(x.shape[1])
    return np.cov(x.T, bias=estimator == "biased").reshape(x.shape[1], -1) + eps * np.eye(
        x.shape[1]
    )


def best_by_trying_all(cost: Array) -> float:
    orders = np.array(list(itertools.permutations(range(len(cost)))))
    return cost[np.arange(len(cost)), orders].mean(axis=1).min()


def best_by_scipy(cost: Array) -> float:
    return cost[linear_sum_assignment(cost)].mean()


def by_definition(
    x: Array, y: Array, estimator: str, eps: float, best: Callable[[Array], float]
) -> float:
    """The score as it is defined, dense and slow: matrix square roots and every distance."""
    first, second = covariance_of(x, estimator, eps), covariance_of(y, estimator, eps)
    root = sqrtm(second)
    matrix = root @ np.linalg.inv(sqrtm(root @ first @ root)) @ root
    mapped = (x - x.mean(0)) @ matrix + y.mean(0)
    cost = ((mapped[:, None] - y[None]) ** 2).sum(-1)
    return 1 - math.sqrt(best(cost) / (2 * np.trace(second)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_brute_force_over_all_permutations(n: int, d: int, estimator: str) -> None:
    for seed, function in enumerate([np.abs, np.tanh, np.negative, np.square]):
        x = gaussian(n, d, seed)
        for y in (function(x), gaussian(n, d, seed + 100)):
            score = sg.affinity(x, y, covariance=estimator, eps=1e-3).score
            assert score == pytest.approx(
                by_definition(x, y, estimator, 1e-3, best_by_trying_all), abs=1e-9
            )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "shape", [(40, 10), (20, 38), (20, 40), (20, 49), (20, 50), (20, 51), (16, 120)], ids=str
)
def test_reduction_to_the_joint_span_changes_nothing(
    shape: tuple[int, int], estimator: str
) -> None:
    # Columns far beyond twice the rows never enter the arithmetic; the dense formula keeps them
    # all.
    x = gaussian(*shape) * np.linspace(0.5, 2, shape[1])
    score = sg.affinity(x, relu(x), covariance=estimator, eps=1e-4).score
    assert score == pytest.approx(
        by_definition(x, relu(x), estimator, 1e-4, best_by_scipy), abs=1e-9
    )


def midpoints(low: float, high: float, n: int) -> Array:
    return low + (high - low) * (np.arange(n)[:, None] + 0.5) / n


def relu_uniform(a: float, b: float) -> tuple[float, float, float, float]:
    """Variance of the output, slope and shift of the map, squared distance, X uniform on [b, a]
    (the paper, appendix A.2).
    """
    variance = a**3 * (a - 4 * b) / (12 * (a - b) ** 2)
    slope = math.sqrt(a**3 * (a - 4 * b)) / (a - b) ** 2
    shift = a / (2 * (a - b)) * (a - (a + b) / (a - b) * math.sqrt(a * (a - 4 * b)))
    w2_squared = (
        a**3
        / (6 * (a - b) ** 2)
        * ((a - 4 * b) + math.sqrt(a * (a - 4 * b)) * (3 * b - a) / (a - b))
    )
    return variance, slope, shift, w2_squared


def relu_uniform_score(a: float, b: float) -> float:
    return 1 - math.sqrt(1 - (a - 3 * b) / (a - b) * math.sqrt(a / (a - 4 * b)))


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, -1), (3, -1), (1, -3), (0.05, -4), (4.5, -0.5), (4, -1), (1, -4), (1e-3, -2e-3)],
)
def test_relu_on_a_uniform_input(a: float, b: float) -> None:
    variance, slope, shift, w2_squared = relu_uniform(a, b)
    assert 1 - math.sqrt(w2_squared / (2 * variance)) == pytest.approx(
        relu_uniform_score(a, b), abs=1e-12
    )
    x = midpoints(b, a, 40_000)
    result = sg.affinity(x, relu(x), covariance="biased", eps=0)
    best = sg.affine_map(x, relu(x), covariance="biased", eps=0)
    assert result.score == pytest.approx(relu_uniform_score(a, b), abs=1e-6)
    assert result.w2**2 == pytest.approx(w2_squared, rel=1e-5)
    assert result.bound**2 / 2 == pytest.approx(variance, rel=1e-5)
    assert best.matrix.item() == pytest.approx(slope, rel=1e-5)
    assert best.shift.item() == pytest.approx(shift, abs=1e-5 * (a - b))


def test_relu_on_a_uniform_input_that_is_nearly_dead() -> None:
    for a in (1e-2, 1e-3):
        x = midpoints(-1, a, 400_000)
        assert sg.affinity(x, relu(x), covariance="biased", eps=0).score == pytest.approx(
            0.75 * math.sqrt(a), rel=0.06
        )
    dead = sg.affinity(midpoints(-1, 0, 100), relu(midpoints(-1, 0, 100)))
    assert (dead.degenerate, math.isnan(float(dead))) == (True, True)


@pytest.mark.parametrize(
    ("mean", "std", "rounded"), [(0, 1, 0.6211), (-1, 2, 0.4972), (1, 1, 0.8291), (-2, 1, 0.1642)]
)
def test_relu_on_a_gaussian_input(mean: float, std: float, rounded: float) -> None:
    below, density = norm.cdf(mean / std), norm.pdf(mean / std)
    first = mean * below + std * density
    variance = (mean**2 + std**2) * below + mean * std * density - first**2
    expected = 1 - math.sqrt(max(0, 1 - std * below / math.sqrt(variance)))
    x = norm.ppf(midpoints(0, 1, 400_000), mean, std)
    assert sg.affinity(x, relu(x), covariance="biased", eps=0).score == pytest.approx(
        expected, abs=1e-5
    )
    assert expected == pytest.approx(rounded, abs=1e-4)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_increasing_functions_of_one_variable(n: int, eps: float) -> None:
    for function in (np.tanh, np.exp, lambda x: x**3, lambda x: np.maximum(x, 0.1 * x)):
        x = gaussian(n, 1, seed=n)
        y = function(x)
        (s_x, s_xy), (_, s_y) = np.cov(x[:, 0], y[:, 0], bias=True)
        scale = n / (n - 1)
        slope = math.sqrt((scale * s_y + eps) / (scale * s_x + eps))
        w2_squared = max(0, slope**2 * s_x + s_y - 2 * slope * s_xy)
        result = sg.affinity(x, y, covariance="unbiased", eps=eps, degenerate="published")
        if not result.degenerate:
            assert result.w2**2 == pytest.approx(w2_squared, abs=1e-12 * s_y)
            assert result.score == pytest.approx(
                1 - math.sqrt(w2_squared / (2 * (scale * s_y + eps))), abs=1e-7
            )


def test_independent_coordinates() -> None:
    # A full grid: the sample covariances are exactly diagonal, and the best map acts on each
    # coordinate by itself.
    x = np.stack(
        np.meshgrid(np.linspace(-1, 2, 12), np.linspace(-3, 3, 11), np.linspace(0, 1, 3)), -1
    ).reshape(-1, 3)
    y = np.stack([relu(x[:, 0]), np.tanh(x[:, 1]), np.exp(3 * x[:, 2])], axis=1)
    variance = y.var(axis=0)
    correlation = np.array([np.corrcoef(x[:, k], y[:, k])[0, 1] for k in range(3)])
    expected = 1 - math.sqrt((variance * (1 - correlation)).sum() / variance.sum())
    assert sg.affinity(x, y, covariance="biased", eps=0).score == pytest.approx(expected, abs=1e-10)


POWERS = {1: 1.0, 3: 0.71121, 5: 0.57672, 11: 0.39946, 21: 0.28892, 41: 0.20484}


@pytest.mark.parametrize("power", POWERS)
def test_figure_2c(power: int) -> None:
    x = np.linspace(-1, 1, 1000)[:, None]
    assert sg.affinity(x, x**power, covariance="unbiased", eps=1e-6).score == pytest.approx(
        POWERS[power], abs=1e-5
    )
    # On [-1, 1] itself the correlation of x and x^k is sqrt(3 (2k + 1)) / (k + 2).
    population = 1 - math.sqrt(1 - math.sqrt(3 * (2 * power + 1)) / (power + 2))
    assert POWERS[power] == pytest.approx(population, abs=2e-3)


def test_figures_2b_and_2a() -> None:
    generator = np.random.RandomState(987)
    functions = [relu, np.tanh, lambda x: 1 / (1 + np.exp(-x))]
    for function, printed in zip(functions, [0.48742, 0.66975, 0.77486], strict=True):
        x = generator.normal(-1, 2, (1000, 1))
        assert sg.affinity(x, function(x), covariance="unbiased", eps=1e-6).score == pytest.approx(
            printed, abs=1e-5
        )
    scores = []
    for mean in np.linspace(-4, 4, 20):
        x = generator.uniform(mean - 2, mean + 2, (1000, 1))
        scores.append(sg.affinity(x, relu(x), covariance="unbiased", eps=1e-6).score)
    for index, printed in {5: 0.13387674, 8: 0.52627778, 11: 0.79208457, 13: 0.94012433}.items():
        assert scores[index] == pytest.approx(printed, abs=1e-5)  # printed from float32
    assert all(math.isnan(score) for score in scores[:5])
    assert scores[5:15] == sorted(scores[5:15])
    assert scores[15:] == pytest.approx([1] * 5, abs=1e-12)
