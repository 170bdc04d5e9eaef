"""How many digits of the score are right: against 60 digits of mpmath."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import sigmascope as sg

Array = np.ndarray


def exact(x: Array, y: Array, estimator: str, eps: str | None = None) -> float:
    """The score by its definition in 60 digits. Only the permutation is found in float64; its cost
    is exact.
    """
    with mp.workdps(60):
        first, second = (_centered(sample) for sample in (x, y))
        source, target = (_covariance(sample, estimator, eps) for sample in (first, second))
        inverse = _of_eigenvalues(source, lambda value: 1 / mp.sqrt(value))
        root = _of_eigenvalues(source, mp.sqrt)
        mapped = first * inverse * _of_eigenvalues(root * target * root, mp.sqrt) * inverse

        def squared(i: int, j: int) -> mp.mpf:
            return mp.fsum((mapped[i, k] - second[j, k]) ** 2 for k in range(x.shape[1]))

        n = len(x)
        rows, columns = linear_sum_assignment(
            [[float(squared(i, j)) for j in range(n)] for i in range(n)]
        )
        w2_squared = (
            mp.fsum(squared(int(i), int(j)) for i, j in zip(rows, columns, strict=True)) / n
        )
        return float(1 - mp.sqrt(w2_squared / (2 * _trace(target))))


def _centered(sample: Array) -> mp.matrix:
    means = [sum(map(Fraction, column)) / len(column) for column in sample.T.tolist()]
    rows = [
        [Fraction(value) - mean for value, mean in zip(row, means, strict=True)]
        for row in sample.tolist()
    ]
    return mp.matrix(
        [[mp.mpf(value.numerator) / value.denominator for value in row] for row in rows]
    )


def _covariance(centered: mp.matrix, estimator: str, eps: str | None) -> mp.matrix:
    estimate = _estimate(centered, estimator)
    mean = _trace(estimate) / centered.cols
    return estimate + (mean / 10**6 if eps is None else mp.mpf(eps)) * mp.eye(centered.cols)


def _estimate(centered: mp.matrix, estimator: str) -> mp.matrix:
    n, d = centered.rows, centered.cols
    scatter = centered.T * centered
    if estimator == "unbiased":
        return scatter / (n - 1)
    biased = scatter / n
    target = _trace(biased) / d * mp.eye(d)
    norms = [mp.fsum(centered[i, k] ** 2 for k in range(d)) ** 2 for i in range(n)]
    noise = (mp.fsum(norms) / n - _squares(biased)) / n
    distance = _squares(biased - target)
    shrinkage = min(noise, distance) / distance if distance > 0 and d > 1 else mp.mpf(0)
    return (1 - shrinkage) * biased + shrinkage * target


def _trace(matrix: mp.matrix) -> mp.mpf:
    return mp.fsum(matrix[k, k] for k in range(matrix.rows))


def _squares(matrix: mp.matrix) -> mp.mpf:
    return mp.fsum(value**2 for value in matrix)


def _of_eigenvalues(matrix: mp.matrix, function: Callable[[mp.mpf], mp.mpf]) -> mp.matrix:
    values, vectors = mp.eigsy((matrix + matrix.T) / 2)
    return vectors * mp.diag([function(max(value, mp.mpf(0))) for value in values]) * vectors.T


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": lambda x: np.abs(x).max() * np.tanh(x / np.abs(x).max()),
    "cube": lambda x: (x / np.abs(x).max()) ** 3,
}


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
@pytest.mark.parametrize("noise", [0, 1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize(("rank", "n", "d"), [(2, 9, 5), (1, 7, 3), (2, 5, 9)])
@pytest.mark.parametrize("scale", [1, 1e2, 1e4, 1e6])
def test_nearly_rank_deficient(
    scale: float, rank: int, n: int, d: int, noise: float, estimator: str
) -> None:
    rng = np.random.default_rng(n)
    x = scale * (
        rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
        + noise * rng.standard_normal((n, d))
    )
    y = list(FUNCTIONS.values())[round(math.log10(scale)) % 3](x)
    for eps in (None, 1e-6):
        score = sg.affinity(x, y, covariance=estimator, eps=eps).score
        assert score == pytest.approx(exact(x, y, estimator, eps and str(eps)), abs=1e-7)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", [(8, 3), (5, 8), (3, 2), (9, 1), (2, 5)], ids=str)
def test_in_general_position(shape: tuple[int, int], function: str) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    y = FUNCTIONS[function](x)
    for estimator, eps in itertools.product(("unbiased", "ledoit-wolf"), (None, 1e-6)):
        score = sg.affinity(x, y, covariance=estimator, eps=eps).score
        assert score == pytest.approx(exact(x, y, estimator, eps and str(eps)), abs=1e-12)


def deficient() -> dict[str, Array]:
    """Samples of whole numbers, so that their dependence is exact."""
    rng = np.random.default_rng(2)
    base = rng.integers(-5, 6, (8, 4)).astype(float)
    return {
        "duplicated rows": base[[0, 0, 1, 2, 2, 2, 3, 4]],
        "duplicated columns": base[:, [0, 0, 1, 1]],
        "constant column": base * [1, 0, 1, 1] + [0, 3, 0, 0],
        "only one column": base * [0, 0, 1, 0],
        "rank one": base[:, :1] * [1, 2, -3, 1],
        "rank two": base[:, :2] @ rng.integers(-2, 3, (2, 4)),
    }


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
@pytest.mark.parametrize("case", deficient())
def test_exactly_rank_deficient(case: str, estimator: str) -> None:
    x = deficient()[case]
    y = np.maximum(x, 0)
    result = sg.affinity(x, y, covariance=estimator)
    assert result.score == pytest.approx(exact(x, y, estimator), abs=1e-10)
    assert 0 <= result.score <= 1


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
@pytest.mark.parametrize("case", deficient())
def test_exactly_rank_deficient_without_eps(case: str, estimator: str) -> None:
    """What rounding leaves in directions without variance is magnified by all that eps does not
    hold down.
    """
    x = deficient()[case]
    y = np.maximum(x, 0)
    score = sg.affinity(x, y, covariance=estimator, eps=0).score
    assert score == pytest.approx(exact(x, y, estimator, eps="1e-40"), abs=2e-5)


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8, 1e12])
def test_far_from_the_origin(offset: float, estimator: str) -> None:
    # so that adding the offset loses nothing
    x = np.round(np.random.default_rng(3).standard_normal((64, 3)) * 1024) / 1024
    y = np.maximum(x, 0)
    near = sg.affinity(x, y, covariance=estimator).score
    assert sg.affinity(x + offset, y - offset, covariance=estimator).score == pytest.approx(
        near, abs=1e-10
    )
    assert sg.affinity(x + offset, x - offset, covariance=estimator).score == pytest.approx(
        1, abs=1e-10
    )


@pytest.mark.parametrize("estimator", ["unbiased", "ledoit-wolf"])
@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e-8, 1e8, 1e30, 1e138])
def test_any_scale_without_eps(scale: float, estimator: str) -> None:
    x = np.random.default_rng(4).standard_normal((12, 3))
    y = np.maximum(x, 0)
    expected = exact(x, y, estimator, eps="1e-40")
    for first, second in ((scale, scale), (1, scale), (scale, 1)):
        score = sg.affinity(first * x, second * y, covariance=estimator, eps=0).score
        assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-200, 1e-300])
def test_outputs_whose_squares_underflow(scale: float) -> None:
    x = np.random.default_rng(4).standard_normal((12, 3))
    y = np.maximum(x, 0)
    for eps in (None, 0):
        expected = sg.affinity(x, y, eps=eps).score
        assert sg.affinity(x, scale * y, eps=eps).score == pytest.approx(expected, abs=1e-9)
        assert sg.affinity(scale * x, y, eps=eps).score == pytest.approx(expected, abs=1e-9)
    # the covariance of y is eps alone, the map has slope sqrt(eps) and nothing reaches the bound
    tiny = sg.affinity(x, scale * y, covariance="biased", eps=1e-6)
    assert tiny.score == pytest.approx(1 - math.sqrt(1 / 2), abs=1e-5)
