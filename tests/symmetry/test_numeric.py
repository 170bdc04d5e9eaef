"""Groups of arbitrary activations by numbers: what the tests accept, what they refuse, and why they
look where they look.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import (
    Monomial,
    group,
    infer_scalars,
    is_intertwiner,
    sigma_identity_invertible,
)
from sigmascope.symmetry.numeric import numeric_phi

Sigma = Callable[[torch.Tensor], torch.Tensor]


def step(zero: float, one: float) -> Sigma:
    """A line through (0, σ(0)) and (1, σ(1))."""
    return lambda x: zero + (one - zero) * x


@settings(max_examples=200)
@given(zero=st.integers(-4, 4), one=st.integers(-4, 4), n=st.integers(1, 6))
def test_eigenvalues_of_the_identity(zero: int, one: int, n: int) -> None:
    """Lemma E.7 against the eigenvalues of the matrix; small whole numbers, so that every case of
    the lemma occurs.
    """
    matrix = torch.full((n, n), float(zero), dtype=torch.float64).fill_diagonal_(float(one))
    values = torch.linalg.eigvalsh(matrix)
    expected = sorted([one - zero] * (n - 1) + [one + (n - 1) * zero])
    torch.testing.assert_close(
        values, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0
    )
    assert sigma_identity_invertible(step(zero, one), n) == bool(values.abs().min() > 1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 64])
@pytest.mark.parametrize(
    "name", ["relu", "sigmoid", "gaussian", "softplus", "logsigmoid", "tanh", "power"]
)
def test_activations_have_a_unique_phi(name: str, n: int) -> None:
    sigma = group(name).sigma
    assert sigma_identity_invertible(sigma, n)
    identity = torch.eye(n, dtype=torch.float64)
    torch.testing.assert_close(numeric_phi(identity, sigma), identity, atol=1e-12, rtol=0)
    A = torch.randn(n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    dense = torch.linalg.solve(sigma(identity), sigma(A), left=False)
    torch.testing.assert_close(numeric_phi(A, sigma), dense, atol=1e-10, rtol=1e-10)


def test_lemma_fails_where_it_must() -> None:
    assert not sigma_identity_invertible(torch.ones_like, 2)
    # the repeated eigenvalue is repeated n - 1 = 0 times
    assert sigma_identity_invertible(torch.ones_like, 1)
    assert not sigma_identity_invertible(torch.zeros_like, 1)
    assert not sigma_identity_invertible(step(1.0, -2.0), 3)  # σ(1) = -(n - 1) σ(0)
    assert sigma_identity_invertible(step(1.0, -2.0), 4)
    assert not sigma_identity_invertible(step(1.0, 1.0 + 1e-14), 3)
    assert sigma_identity_invertible(step(1.0, 1.0 + 1e-14), 3, tol=0)
    # small, but not cancelled
    assert sigma_identity_invertible(lambda x: 1e-200 * torch.relu(x), 3)
    with pytest.raises(OptionError, match="n must be a whole number >= 1, got 0"):
        sigma_identity_invertible(torch.relu, 0)


def test_phi_that_is_not_determined() -> None:
    shrink: Sigma = lambda x: torch.nn.functional.hardshrink(x, 2.0)  # noqa: E731
    with pytest.raises(InputError, match=r"no inverse for n = 2.*Rescale the argument"):
        is_intertwiner(torch.eye(2), shrink)
    assert is_intertwiner(-torch.eye(2), lambda x: shrink(3 * x))  # the remedy of the message
    assert not is_intertwiner(2 * torch.eye(2), lambda x: shrink(3 * x))


def test_example_of_the_specification() -> None:
    A = torch.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=torch.float64)
    assert is_intertwiner(A, torch.relu)
    assert torch.equal(numeric_phi(A, torch.relu), A)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_points_of_one_scale_accept_too_much(n: int) -> None:
    """ReLU6 looks homogeneous below its kink; several scales see it."""
    A = 0.5 * torch.eye(n, dtype=torch.float64)
    assert is_intertwiner(A, torch.nn.functional.relu6, scales=(0.1,))
    assert not is_intertwiner(A, torch.nn.functional.relu6)


def test_coordinates_are_measured_one_by_one() -> None:
    """A channel of small scale must not hide behind a large one."""
    A = torch.diag(torch.tensor([1e6, 1.0, -1e-6], dtype=torch.float64))
    assert not is_intertwiner(A, lambda x: torch.where(x > 0, x, 0.5 * x))
    assert is_intertwiner(A.abs(), lambda x: torch.where(x > 0, x, 0.5 * x))


@pytest.mark.parametrize("kind", ["float32", "float64", "numpy", "monomial", "long"])
def test_kinds_of_matrices(kind: str) -> None:
    element = Monomial([2, 0, 1], [1.0, 3.0, 2.0])
    dense = element.matrix()
    forms = {
        "float32": dense.float(),
        "float64": dense,
        "numpy": dense.numpy(),
        "monomial": element,
        "long": dense.long(),
    }
    assert is_intertwiner(forms[kind], torch.relu)
    assert not is_intertwiner(forms[kind], torch.tanh)
    assert numeric_phi(forms[kind], torch.relu).dtype == (
        torch.float32 if kind == "float32" else torch.float64
    )


def test_float32_has_a_tolerance_of_its_own() -> None:
    cube = group("power", degree=3)
    A = cube.sample(6, 0).float()
    assert is_intertwiner(A, cube.sigma)
    assert not is_intertwiner(A, cube.sigma, rtol=1e-12)
    assert not is_intertwiner(1.01 * torch.eye(3), torch.nn.functional.softplus)


def test_singular_matrices_do_not_intertwine() -> None:
    assert not is_intertwiner(torch.zeros(2, 2), torch.relu)
    assert not is_intertwiner(torch.ones(2, 2), torch.relu)
    assert not is_intertwiner(-torch.eye(2), torch.relu)  # φ would be zero


def test_points_follow_the_generator() -> None:
    seen = []

    def watched(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return torch.relu(x)

    for generator in (0, 0, 1):
        is_intertwiner(torch.eye(2), watched, generator=generator, n_points=7, scales=(1.0, 2.0))
    drawn = [x for x in seen if x.shape == (2, 14)][::2]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert bool((drawn[0] > 0).any())
    assert bool((drawn[0] < 0).any())


def test_sigma_may_work_in_place() -> None:
    A = torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64)
    kept = A.clone()
    assert is_intertwiner(A, torch.relu_)
    assert infer_scalars(torch.relu_).kind == "positive"
    assert torch.equal(A, kept)


@pytest.mark.parametrize(
    ("sigma", "kind"),
    [
        (torch.relu, "positive"),
        (lambda x: torch.where(x > 0, x, 0.2 * x), "positive"),
        (torch.abs, "nonzero"),
        (lambda x: x**5, "nonzero"),
        (lambda x: x.abs().sqrt(), "nonzero"),
        (lambda x: torch.relu(x) ** 1.5, "positive"),
        (torch.sin, "signs"),
        (torch.cos, "signs"),
        (torch.sigmoid, "one"),
        (torch.exp, "one"),
        (lambda x: x + 1, "one"),
        (lambda x: 3 * x, "linear"),
        (lambda x: torch.relu(x) - torch.relu(-x), "linear"),
        (lambda x: torch.clamp(x, max=31.0), "one"),
    ],
)
def test_inferred_kinds(sigma: Sigma, kind: str) -> None:
    assert infer_scalars(sigma).kind == kind


def test_inferred_images() -> None:
    found = infer_scalars(lambda x: x**3, lambdas=(1.0, 2.0))
    assert found.admitted == (-2.0, -1.0, 1.0, 2.0)
    assert found.images == pytest.approx((-8, -1, 1, 8), rel=1e-12)
    assert infer_scalars(torch.cos).images == pytest.approx((1, 1), rel=1e-12)


def test_a_discrete_group_is_none_of_the_named_ones() -> None:
    """x (2 + sin(2π log₂|x|)) admits the powers of two and nothing else."""

    def ladder(x: torch.Tensor) -> torch.Tensor:
        size = x.abs().clamp_min(1e-300)
        return x * (2 + torch.sin(2 * math.pi * torch.log2(size)))

    found = infer_scalars(ladder)
    assert found.kind == "other"
    assert found.admitted == (-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0)
    assert found.images == pytest.approx(found.admitted, rel=1e-9)


def test_refuses_activations() -> None:
    with pytest.raises(InputError, match="constant"):
        infer_scalars(torch.ones_like)
    with pytest.raises(InputError, match=r"σ\(-32\) is nan"):
        infer_scalars(torch.log)
    with pytest.raises(InputError, match=r"σ\(0\) is -inf"):
        sigma_identity_invertible(torch.log, 2)
    with pytest.raises(InputTypeError, match=r"shape \(\) for a tensor"):
        infer_scalars(torch.sum)
    with pytest.raises(InputTypeError, match="returns a float for a tensor"):
        infer_scalars(lambda x: 1.0)  # type: ignore[arg-type,return-value]
    for lambdas in [(1.0,), (2.0, 3.0), (1.0, -2.0), (1.0, 0.0), (1.0, math.inf)]:
        with pytest.raises(InputError, match="lambdas must be positive numbers"):
            infer_scalars(torch.relu, lambdas=lambdas)
