"""Maps and distances between Gaussians against the textbook formulas with matrix square roots."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

import sigmascope as sg
from sigmascope.maths.covariance import ESTIMATORS, Covariance, estimate
from sigmascope.maths.gaussians import GaussianMap, _factor_root, _factor_square, factor

Array = np.ndarray
SHAPES = [(30, 5), (6, 6), (5, 12), (9, 1), (2, 3)]


def centered(n: int, d: int, seed: int = 0) -> torch.Tensor:
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x - x.mean(dim=0)


def map_of(found: GaussianMap) -> torch.Tensor:
    """A = W Zᵀ, symmetric."""
    product = found.whiten @ found.color.mT
    return (product + product.mT) / 2


def spread(x: torch.Tensor, method: str = "unbiased", eps: float = 1e-3) -> Covariance:
    return estimate(x, width=x.shape[1], method=method, eps=torch.tensor(eps, dtype=torch.float64))


def textbook_map(source: Array, target: Array) -> Array:
    root = sqrtm(source)
    inverse = np.linalg.inv(root)
    return inverse @ sqrtm(root @ target @ root) @ inverse


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_map_carries_one_gaussian_to_the_other(shape: tuple[int, int], method: str) -> None:
    x, y = centered(*shape), torch.relu(centered(*shape, seed=1))
    source, target = spread(x, method), spread(y - y.mean(dim=0), method)
    found = factor(x, y - y.mean(dim=0), source, target)
    matrix = map_of(found)
    torch.testing.assert_close(
        matrix @ source.matrix() @ matrix, target.matrix(), atol=1e-10, rtol=1e-9
    )
    assert torch.equal(matrix, matrix.mT)
    assert float(torch.linalg.eigvalsh(matrix)[0]) > 0
    np.testing.assert_allclose(
        matrix, textbook_map(source.matrix().numpy(), target.matrix().numpy()), atol=1e-9, rtol=1e-8
    )
    torch.testing.assert_close(found.apply(x, source, target), x @ matrix, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_routes_agree(shape: tuple[int, int], method: str) -> None:
    x, y = centered(*shape), centered(*shape, seed=1)
    source, target = spread(x, method), spread(y, method)
    square, root = (
        _factor_square(source.matrix(), target.matrix()),
        _factor_root(x, y, source, target),
    )
    torch.testing.assert_close(map_of(square), map_of(root), atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(
        square.stretch.sort().values, root.stretch.sort().values, atol=1e-10, rtol=1e-8
    )


@pytest.mark.parametrize("route", ["square", "root"])
def test_factors_whiten_and_color(route: str) -> None:
    x, y = centered(12, 4), centered(12, 4, seed=1)
    source, target = spread(x), spread(y)
    found: GaussianMap = (
        _factor_square(source.matrix(), target.matrix())
        if route == "square"
        else _factor_root(x, y, source, target)
    )
    identity = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(
        found.whiten.mT @ source.matrix() @ found.whiten, identity, atol=1e-11, rtol=0
    )
    torch.testing.assert_close(
        found.color @ found.color.mT, target.matrix(), atol=1e-11, rtol=1e-10
    )
    torch.testing.assert_close(found.whiten * found.stretch, found.color, atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("eps", [1e-12, 1e-20, 0.0])
def test_ill_conditioned_map_still_carries_the_covariance(eps: float) -> None:
    """Rank one, beyond what products of covariances can resolve: computed without them."""
    x = centered(12, 1) * torch.tensor([1.0, 2, 3], dtype=torch.float64)
    y = x**3 - (x**3).mean(dim=0)
    source, target = spread(x, eps=eps), spread(y, eps=eps)
    matrix = map_of(factor(x, y, source, target))
    torch.testing.assert_close(
        matrix @ source.matrix() @ matrix, target.matrix(), atol=1e-7, rtol=1e-7
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_affine_map(estimator: str) -> None:
    x = 5 + 2 * centered(40, 4).numpy()
    y = np.exp(x / 4) - 3
    best = sg.affine_map(x, y, covariance=estimator, eps=1e-6)
    moments = [
        spread(torch.from_numpy(sample - sample.mean(0)), estimator, 1e-6).matrix().numpy()
        for sample in (x, y)
    ]
    np.testing.assert_allclose(best.matrix, textbook_map(*moments), atol=1e-9)
    np.testing.assert_allclose(best.shift, y.mean(0) - best.matrix @ x.mean(0), atol=1e-12)
    np.testing.assert_allclose(best(x), x @ best.matrix + best.shift, atol=1e-12)
    np.testing.assert_array_equal(best.matrix, best.matrix.T)
    tensors = sg.affine_map(
        torch.from_numpy(x), torch.from_numpy(y), covariance=estimator, eps=1e-6
    )
    assert isinstance(tensors.matrix, torch.Tensor)
    np.testing.assert_allclose(tensors.matrix, best.matrix, atol=1e-14)
    np.testing.assert_allclose(
        sg.affinity(x, y, covariance=estimator).w2, sg.w2_exact(best(x), y), rtol=1e-7
    )


def test_affine_map_has_a_gradient() -> None:
    x, y = (centered(7, 3, seed).requires_grad_() for seed in (0, 1))
    for part in ("matrix", "shift"):
        assert torch.autograd.gradcheck(
            lambda a, b, part=part: getattr(sg.affine_map(a, b), part), (x, y), atol=1e-6
        )


def moments(x: Array) -> tuple[Array, Array]:
    return x.mean(0), np.cov(x.T, bias=True).reshape(x.shape[1], x.shape[1])


def textbook_w2(mean_x: Array, covariance_x: Array, mean_y: Array, covariance_y: Array) -> float:
    root = sqrtm(covariance_x)
    overlap = np.trace(sqrtm(root @ covariance_y @ root)).real
    return math.sqrt(
        ((mean_x - mean_y) ** 2).sum()
        + np.trace(covariance_x)
        + np.trace(covariance_y)
        - 2 * overlap
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_w2_gaussian_is_the_textbook_formula(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (
        moments(rng.standard_normal((60, d)) + 1),
        moments(rng.standard_normal((60, d)) * np.linspace(0.5, 3, d)),
    )
    distance = sg.w2_gaussian(*first, *second)
    assert distance == pytest.approx(textbook_w2(*first, *second), rel=1e-9)
    assert distance == pytest.approx(sg.w2_gaussian(*second, *first), rel=1e-12)
    assert type(distance) is float


def test_w2_gaussian_in_one_dimension() -> None:
    for mean, first, second in [(0, 4, 9), (3, 1, 1), (-2, 0, 4), (1, 0, 0)]:
        distance = sg.w2_gaussian(
            np.zeros(1),
            np.array([[float(first)]]),
            np.array([float(mean)]),
            np.array([[float(second)]]),
        )
        assert distance == pytest.approx(
            math.hypot(mean, math.sqrt(first) - math.sqrt(second)), rel=1e-12
        )


def test_w2_gaussian_of_commuting_covariances() -> None:
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    first, second = np.array([1.0, 2, 3, 4]), np.array([0.0, 5, 1, 9])
    distance = sg.w2_gaussian(
        np.zeros(4), basis * first @ basis.T, np.zeros(4), basis * second @ basis.T
    )
    assert distance == pytest.approx(np.linalg.norm(np.sqrt(first) - np.sqrt(second)), rel=1e-7)


def test_w2_gaussian_of_equal_gaussians_is_zero() -> None:
    mean, covariance = moments(centered(30, 4).numpy())
    assert sg.w2_gaussian(mean, covariance, mean, covariance) == pytest.approx(0, abs=1e-7)
    assert sg.w2_gaussian(mean, covariance, mean + 1, covariance) == pytest.approx(2, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gaussians_are_never_farther_apart_than_their_samples(seed: int) -> None:
    """Gelbrich's bound, with equality where one sample is a positive definite affine image of the
    other.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((25, 3)), rng.standard_exponential((25, 3))
    assert sg.w2_gaussian(*moments(x), *moments(y)) < sg.w2_exact(x, y)
    root = rng.standard_normal((3, 3))
    image = x @ (root @ root.T + np.eye(3)) + 1
    assert sg.w2_gaussian(*moments(x), *moments(image)) == pytest.approx(
        sg.w2_exact(x, image), rel=1e-9
    )


def test_w2_gaussian_of_tensors_has_a_gradient() -> None:
    (mean_x, root_x), (mean_y, root_y) = (
        (centered(5, 4, s)[0].requires_grad_(), centered(4, 4, s).requires_grad_()) for s in (0, 1)
    )

    def distance(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
    ) -> torch.Tensor:
        identity = torch.eye(4, dtype=torch.float64)
        return sg.w2_gaussian(a, b @ b.mT + identity, c, d @ d.mT + 2 * identity)

    assert torch.autograd.gradcheck(distance, (mean_x, root_x, mean_y, root_y), atol=1e-6)


def test_an_affine_map_checks_its_points() -> None:
    x = np.random.default_rng(0).standard_normal((20, 3))
    mapping = sg.affine_map(x, 2 * x + 1)
    assert np.allclose(mapping(x.astype(np.float32)), mapping(x), atol=1e-6)
    with pytest.raises(sg.InputError, match=r"2 columns and the map 3\. Pass equal numbers"):
        mapping(x[:, :2])
    with pytest.raises(sg.InputTypeError, match="of different kinds or on different devices"):
        mapping(torch.from_numpy(x))


def test_the_distance_of_gaussians_has_a_gradient_everywhere() -> None:
    zero, one = (
        torch.zeros(3, dtype=torch.float64),
        torch.eye(3, dtype=torch.float64, requires_grad=True),
    )
    sg.w2_gaussian(zero, one, zero, 4 * torch.eye(3, dtype=torch.float64)).backward()
    assert one.grad is not None
    # d sqrt(Σ(2-√s)²) / ds at s = 1
    assert torch.allclose(one.grad, -torch.eye(3, dtype=torch.float64) / (2 * 3**0.5))


def test_the_distance_of_close_gaussians_does_not_cancel() -> None:
    close = sg.w2_gaussian(np.zeros(2), np.eye(2), np.zeros(2), (1 + 1e-9) * np.eye(2))
    assert close == pytest.approx(2**0.5 * 5e-10, rel=1e-5)
