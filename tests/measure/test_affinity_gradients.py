"""The score of tensors is differentiable, and what it is differentiable in is written down here."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

import sigmascope as sg
from sigmascope.maths import covariance

pytestmark = pytest.mark.slow

ESTIMATORS = ("ledoit-wolf", "unbiased", "biased")
# (rows, columns): more rows than columns, fewer, so few that the joint span is smaller than the
# space, one column.
SHAPES = {"d<n": (9, 3), "d>n": (5, 7), "d>2n-2": (4, 9), "d=1": (8, 1), "two rows": (2, 4)}


def sample(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A smooth, mildly non-linear pair in general position, so that no kink is near."""
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return x, torch.tanh(2 * x) + 0.3 * noise


def leaves(x: Tensor, y: Tensor, which: str) -> tuple[Tensor, Tensor]:
    return x.clone().requires_grad_("x" in which), y.clone().requires_grad_("y" in which)


@pytest.mark.parametrize("which", ["x", "y", "xy"])
@pytest.mark.parametrize("coupling", ["optimal", "paired"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_that_of_finite_differences(
    shape: str, estimator: str, coupling: str, which: str
) -> None:
    def score(x: Tensor, y: Tensor) -> Tensor:
        return sg.affinity(x, y, covariance=estimator, coupling=coupling, eps=1e-3).score

    assert gradcheck(score, leaves(*sample(*SHAPES[shape]), which), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_follows_the_share_of_the_variance(
    shape: str, estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance, "RELATIVE_EPS", 0.1)  # large enough to be seen

    def score(x: Tensor, y: Tensor) -> Tensor:
        return sg.affinity(x, y, covariance=estimator).score

    assert gradcheck(score, leaves(*sample(*SHAPES[shape]), "xy"), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gradient_at_constant_columns(estimator: str, eps: float | None) -> None:
    x, y = sample(9, 3)
    x[:, 1], y[:, 2] = 5, -7
    x, y = leaves(x, y, "xy")
    assert gradcheck(
        lambda a, b: sg.affinity(a, b, covariance=estimator, eps=eps).score,
        (x, y),
        eps=1e-7,
        atol=2e-4,
        rtol=1e-4,
    )
    sg.affinity(x, y, covariance=estimator, eps=eps).score.backward()
    assert x.grad[:, 1].abs().max() > 1e-2


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("coupling", ["optimal", "paired"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_at_a_constant_x_is_refused(shape: str, coupling: str, eps: float | None) -> None:
    _, y = sample(*SHAPES[shape])
    x, y = leaves(torch.full_like(y, 0.3), y, "xy")
    options = {"coupling": coupling, "eps": eps}
    result = sg.affinity(x, y, **options)
    assert not result.degenerate
    with pytest.raises(sg.GradientError, match=r"with respect to a constant x\. Detach x,"):
        result.score.backward()
    # negative control: the gradient with respect to y exists
    assert gradcheck(
        lambda b: sg.affinity(x.detach(), b, **options).score, (y,), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("attribute", ["w2", "bound"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_distance_and_bound_have_gradients_too(estimator: str, attribute: str) -> None:
    def value(x: Tensor, y: Tensor) -> Tensor:
        # The bound does not depend on x; the sum keeps it in the graph.
        return getattr(sg.affinity(x, y, covariance=estimator), attribute) + 0 * x.sum()

    assert gradcheck(value, leaves(*sample(9, 3), "xy"), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 7, 1), (3, 4, 9)], ids=str)
def test_gradient_through_unequal_sizes(shape: tuple[int, int, int], estimator: str) -> None:
    n, m, d = shape
    x, y = leaves(sample(n, d)[0], sample(m, d, seed=1)[1], "xy")
    assert gradcheck(
        lambda a, b: sg.affinity(a, b, covariance=estimator, eps=1e-3).score,
        (x, y),
        atol=1e-6,
        rtol=1e-5,
    )


def test_gradient_of_default_settings_on_a_layer() -> None:
    x, _ = sample(24, 10)
    weight = torch.eye(10, dtype=torch.float64).requires_grad_()
    assert gradcheck(
        lambda w: sg.affinity(x @ w, F.gelu(x @ w)).score, (weight,), eps=1e-6, atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(12, 3), (4, 10), (8, 1)], ids=str)
def test_gradient_is_finite_at_a_perfectly_affine_pair(
    shape: tuple[int, int], estimator: str
) -> None:
    for y in (lambda x: x, lambda x: 2 * x + 1):
        x = sample(*shape)[0].requires_grad_()
        result = sg.affinity(x, y(x), covariance=estimator, eps=0)
        result.score.backward()
        assert float(result) == pytest.approx(1, abs=1e-9)
        assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gradient_is_finite_with_equal_eigenvalues_and_dead_channels(estimator: str) -> None:
    # All eight corners of a cube: the covariance is a multiple of the identity, with one dead
    # channel besides.
    corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
    x = torch.cat([corners, torch.zeros(8, 1, dtype=torch.float64)], dim=1).requires_grad_()
    sg.affinity(x, F.relu(x), covariance=estimator).score.backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("degenerate", ["nan", "published"])
def test_gradient_is_finite_where_there_is_no_score(degenerate: str) -> None:
    x, y = leaves(sample(6, 3)[0], torch.ones(6, 3, dtype=torch.float64), "xy")
    result = sg.affinity(x, y, degenerate=degenerate)
    assert result.degenerate
    (torch.nan_to_num(result.score) + 0 * (x.sum() + y.sum())).backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(y.grad).all()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str
)
def test_gradient_has_the_type_of_its_leaf(dtype: torch.dtype) -> None:
    x, y = leaves(*(half.to(dtype) for half in sample(9, 3)), "xy")
    result = sg.affinity(x, y)
    result.score.backward()
    assert result.score.dtype == torch.float64
    assert (x.grad.dtype, y.grad.dtype) == (dtype, dtype)
    exact_x, exact_y = leaves(x.detach().double(), y.detach().double(), "xy")
    sg.affinity(exact_x, exact_y).score.backward()
    assert torch.equal(x.grad, exact_x.grad.to(dtype))
    assert torch.equal(y.grad, exact_y.grad.to(dtype))


@pytest.mark.parametrize(
    "shapes", [[(9, 3)] * 3, [(9, 3), (4, 9), (9, 3), (8, 1)]], ids=["one shape", "many shapes"]
)
def test_gradients_of_many_pairs_are_those_of_each(shapes: list[tuple[int, int]]) -> None:
    def gradients(together: bool) -> list[Tensor]:
        pairs = [leaves(*sample(*shape, seed=seed), "xy") for seed, shape in enumerate(shapes)]
        results = sg.affinities(pairs) if together else [sg.affinity(*pair) for pair in pairs]
        torch.stack([result.score for result in results]).sum().backward()
        return [leaf.grad for pair in pairs for leaf in pair]

    for joint, single in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(joint, single, atol=1e-12, rtol=1e-9)
        assert joint.abs().max() > 1e-6


def test_gradient_ascent_makes_an_activation_more_affine() -> None:
    x = sample(64, 4)[0]
    slope = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
    scores = []
    for _ in range(8):
        score = sg.affinity(x, torch.where(x > 0, x, slope * x)).score
        (gradient,) = torch.autograd.grad(score, slope)
        scores.append(float(score.detach()))
        with torch.no_grad():
            slope += 0.2 * gradient
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.1
    assert 0.05 < float(slope.detach()) < 1


def test_score_does_not_change_along_its_invariances() -> None:
    x, y = leaves(*sample(9, 3), "xy")
    sg.affinity(x, y, eps=0).score.backward()
    assert x.grad.sum(0).abs().max() < 1e-12  # translation of x
    assert y.grad.sum(0).abs().max() < 1e-12  # translation of y
    assert abs(float((x.grad * x.detach()).sum())) < 1e-12  # scale of x
    assert abs(float((y.grad * y.detach()).sum())) < 1e-12  # scale of y
    turn = x.detach().mT @ x.grad + y.detach().mT @ y.grad
    assert (turn - turn.mT).abs().max() < 1e-12  # a common rotation
    assert x.grad.abs().max() > 1e-3


def second_by_backward(x: Tensor, y: Tensor) -> None:
    (gradient,) = torch.autograd.grad(sg.affinity(x, y).score, x, create_graph=True)
    gradient.square().sum().backward()


def second_by_grad(x: Tensor, y: Tensor) -> None:
    (gradient,) = torch.autograd.grad(sg.affinity(x, y).score, x, create_graph=True)
    torch.autograd.grad(gradient.square().sum(), x)


@pytest.mark.parametrize("differentiate", [second_by_backward, second_by_grad])
def test_second_derivatives_are_refused(differentiate: Callable[[Tensor, Tensor], None]) -> None:
    with pytest.raises(sg.GradientError, match=r"first derivatives only\. Call backward"):
        differentiate(*leaves(*sample(9, 3), "xy"))


def test_kind_of_the_numbers_follows_the_input() -> None:
    x, y = sample(9, 3)
    arrays = sg.affinity(x.numpy(), y.numpy())
    tensors = sg.affinity(x, y)
    tracked = sg.affinity(*leaves(x, y, "x"))
    for name in ("score", "w2", "bound"):
        value = getattr(tensors, name)
        assert type(getattr(arrays, name)) is float
        assert (type(value), value.dtype, value.ndim, value.requires_grad) == (
            Tensor,
            torch.float64,
            0,
            False,
        )
        assert float(value) == pytest.approx(getattr(arrays, name), abs=1e-12)
        assert float(getattr(tracked, name).detach()) == pytest.approx(
            getattr(arrays, name), abs=1e-12
        )
    assert tracked.score.requires_grad
    for name in ("shrinkage_x", "shrinkage_y"):
        assert type(getattr(arrays, name)) is type(getattr(tracked, name)) is float
    assert float(tracked) == float(tracked.score.detach())
    with torch.no_grad():
        assert not sg.affinity(*leaves(x, y, "xy")).score.requires_grad


def test_input_is_left_alone() -> None:
    x, y = sample(9, 3)
    before = x.clone(), y.clone()
    sg.affinity(x, y)
    sg.affinity(x.numpy(), y.numpy())
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])
