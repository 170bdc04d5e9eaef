"""Covariance estimates against scikit-learn, NumPy and a loop that spells out the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf as reference

import sigmascope as sg
from sigmascope.maths.covariance import ESTIMATORS, estimate

Array = np.ndarray
SHAPES = [(2, 1), (2, 2), (2, 9), (3, 5), (10, 3), (7, 30), (40, 40), (300, 4), (50, 1)]
LAWS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "heavy tails": lambda rng, shape: rng.standard_t(2, shape),
    "unequal": lambda rng, shape: 3 + rng.standard_normal(shape) * np.logspace(-2, 2, shape[1]),
    "rank one": lambda rng, shape: (
        rng.standard_normal((shape[0], 1)) * rng.standard_normal(shape[1])
    ),
    "dead columns": lambda rng, shape: (
        rng.standard_normal(shape) * (np.arange(1, shape[1] + 1) % 2)
    ),
}


def sample(law: str, shape: tuple[int, int]) -> Array:
    return LAWS[law](np.random.default_rng(sum(shape)), shape)


def by_definition(x: Array) -> tuple[Array, float]:
    """Ledoit and Wolf's estimate, one observation at a time."""
    n, d = x.shape
    centered = x - x.mean(0)
    biased = centered.T @ centered / n
    target = np.trace(biased) / d * np.eye(d)
    distance = ((biased - target) ** 2).sum()
    noise = sum(((np.outer(row, row) - biased) ** 2).sum() for row in centered) / n**2
    shrinkage = min(noise, distance) / distance if distance > 0 and d > 1 else 0.0
    return (1 - shrinkage) * biased + shrinkage * target, shrinkage


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ledoit_wolf(shape: tuple[int, int], law: str) -> None:
    x = sample(law, shape)
    covariance, shrinkage = sg.ledoit_wolf(x)
    scale = np.abs(x).max() ** 2
    for expected_covariance, expected_shrinkage in (by_definition(x), reference(x)):
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-9, atol=1e-12 * scale)
        assert shrinkage == pytest.approx(expected_shrinkage, abs=1e-9)
    assert np.trace(covariance) == pytest.approx(x.var(axis=0).sum(), rel=1e-12, abs=1e-12 * scale)
    assert type(shrinkage) is float


def test_shrinkage_takes_every_value_from_none_to_full() -> None:
    line, cloud = sample("rank one", (300, 4)), sample("gaussian", (10, 40))
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert sg.ledoit_wolf(line)[1] < 0.05
    assert sg.ledoit_wolf(cloud)[1] > 0.7
    # already a multiple of the identity: nothing to draw it to
    assert sg.ledoit_wolf(corners)[1] == 0
    assert sg.ledoit_wolf(np.concatenate([corners, 2 * np.eye(2), -2 * np.eye(2)]))[1] in (0, 1)


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1])
def test_constant_data_have_no_covariance(value: float) -> None:
    covariance, shrinkage = sg.ledoit_wolf(np.full((6, 3), value))
    np.testing.assert_allclose(covariance, 0, atol=1e-20)
    assert 0 <= shrinkage <= 1


@pytest.mark.parametrize("exponent", [-100, -13, -6, 0, 6, 60])
def test_covariance_follows_the_scale(exponent: int) -> None:
    x = sample("gaussian", (10, 3))
    covariance, shrinkage = sg.ledoit_wolf(x)
    scaled, same = sg.ledoit_wolf(10.0**exponent * x)
    np.testing.assert_allclose(scaled, 10.0 ** (2 * exponent) * covariance, rtol=1e-9)
    assert same == pytest.approx(shrinkage, abs=1e-9)


def test_far_from_the_origin() -> None:
    x = sample("gaussian", (50, 4))
    covariance, shrinkage = sg.ledoit_wolf(x)
    shifted, same = sg.ledoit_wolf(x + 1e6)
    np.testing.assert_allclose(shifted, covariance, atol=1e-8)
    assert same == pytest.approx(shrinkage, abs=1e-8)


def test_ledoit_wolf_of_tensors() -> None:
    x = torch.from_numpy(sample("gaussian", (7, 4))).requires_grad_()
    covariance, shrinkage = sg.ledoit_wolf(x)
    assert (covariance.shape, covariance.dtype, shrinkage.ndim) == ((4, 4), torch.float64, 0)
    np.testing.assert_allclose(
        covariance.detach().numpy(), sg.ledoit_wolf(x.detach().numpy())[0], atol=1e-15
    )
    assert torch.autograd.gradcheck(lambda a: sg.ledoit_wolf(a), (x,), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("shape", [(5, 3), (4, 9), (6, 1)], ids=str)
def test_estimate_is_a_weighted_scatter_over_a_floor(shape: tuple[int, int], method: str) -> None:
    d = shape[1]
    x = sample("gaussian", shape)
    found = estimate(
        torch.from_numpy(x - x.mean(0)),
        width=d,
        method=method,
        eps=torch.tensor(0.01, dtype=torch.float64),
    )
    expected = (
        by_definition(x)[0]
        if method == "ledoit-wolf"
        else np.cov(x.T, bias=method == "biased").reshape(d, d)
    )
    expected = expected + 0.01 * np.eye(d)
    np.testing.assert_allclose(found.matrix().numpy(), expected, atol=1e-12)
    assert float(found.trace) == pytest.approx(np.trace(expected), rel=1e-12)
    assert float(found.condition()) >= np.linalg.cond(expected) * (1 - 1e-9)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_estimate_in_fewer_coordinates_knows_the_others(method: str) -> None:
    """The trace and the shrinkage count the columns that are zero and were left out."""
    x = sample("gaussian", (12, 4))
    x = torch.from_numpy(x - x.mean(0))
    eps = torch.tensor(0.01, dtype=torch.float64)
    full = estimate(
        torch.cat([x, torch.zeros(12, 5, dtype=torch.float64)], dim=1),
        width=9,
        method=method,
        eps=eps,
    )
    short = estimate(x, width=9, method=method, eps=eps)
    for name in ("trace", "shrinkage", "weight", "floor"):
        assert float(getattr(short, name)) == pytest.approx(float(getattr(full, name)), rel=1e-12)
    torch.testing.assert_close(short.matrix(), full.matrix()[:4, :4], atol=1e-14, rtol=0)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_estimate_of_a_stack_is_that_of_each(method: str) -> None:
    stack = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eps = torch.tensor([0.0, 1e-6, 1.0], dtype=torch.float64)
    together = estimate(stack, width=5, method=method, eps=eps)
    for k, one in enumerate(stack):
        alone = estimate(one, width=5, method=method, eps=eps[k])
        torch.testing.assert_close(together.matrix()[k], alone.matrix(), atol=1e-14, rtol=1e-12)
        torch.testing.assert_close(together.trace[k], alone.trace)
