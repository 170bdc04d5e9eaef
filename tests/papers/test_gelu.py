"""ξ(λ) against golden values, the closed form that Stein's lemma gives, and its limits."""

from __future__ import annotations

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from scipy import optimize

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope_papers.theory.gelu import gelu_asymptotic_slope, gelu_xi

GOLDEN = np.load(Path(__file__).resolve().parents[1] / "golden" / "symmetry_groups.npz")


def closed_form(scale: float) -> float:
    """λ √(J(λ, λ) - 2 J(λ, 1) + J(1, 1)) with J(a, b) = E[X² (Φ(aX) - ½)(Φ(bX) - ½)], in 50 digits,
    since it cancels.
    """
    with mpmath.workdps(50):
        lam = mpmath.mpf(scale)

        def J(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
            angle = mpmath.asin(a * b / mpmath.sqrt((1 + a * a) * (1 + b * b)))
            return (
                angle + a * b / mpmath.sqrt(1 + a * a + b * b) * (1 / (1 + a * a) + 1 / (1 + b * b))
            ) / (2 * mpmath.pi)

        return float(lam * mpmath.sqrt(J(lam, lam) - 2 * J(lam, 1) + J(1, 1)))


@pytest.mark.parametrize(
    ("lam", "xi"),
    [
        (0.1, 0.0352204),
        (0.25, 0.0649638),
        (0.5, 0.0687345),
        (1.5, 0.0900382),
        (2, 0.1766985),
        (10, 1.2611391),
    ],
)
def test_printed_values(lam: float, xi: float) -> None:
    assert gelu_xi(lam) == pytest.approx(xi, abs=5e-8)


def test_local_maximum() -> None:
    found = optimize.minimize_scalar(
        lambda lam: -gelu_xi(float(lam)),
        bounds=(0.1, 0.9),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.x == pytest.approx(0.3888348, abs=1e-7)
    assert -found.fun == pytest.approx(0.0725675, abs=5e-8)


def test_golden() -> None:
    lam = GOLDEN["gelu__lambda"]
    np.testing.assert_allclose(gelu_xi(lam), GOLDEN["gelu__xi"], atol=1e-9)
    sampled = gelu_xi(lam, "monte-carlo", samples=GOLDEN["gelu__mc_samples"])
    np.testing.assert_allclose(sampled, GOLDEN["gelu__mc_xi"], atol=1e-12)
    assert gelu_asymptotic_slope() == pytest.approx(
        float(GOLDEN["gelu__asymptotic_slope"]), abs=1e-10
    )


@pytest.mark.parametrize(
    "lam", [1e-9, 1e-3, 0.1, 0.5, 0.9, 1.1, 2.0, 5.0, 8.5, 10.0, 30.0, 1e3, 1e8, 1e200]
)
def test_quadrature_is_exact(lam: float) -> None:
    assert gelu_xi(lam) == pytest.approx(closed_form(lam), rel=1e-13)


@pytest.mark.parametrize("step", [1e-2, 1e-4, 1e-6, -1e-4])
def test_quadrature_near_one(step: float) -> None:
    assert gelu_xi(1 + step) == pytest.approx(closed_form(1 + step), abs=1e-16)


def test_zero_at_one_only() -> None:
    assert gelu_xi(1.0) == 0
    lam = torch.tensor([0.01, 0.5, 0.99, 1.01, 2.0], dtype=torch.float64)
    assert bool((gelu_xi(lam) > 0).all())


def test_slope() -> None:
    assert gelu_asymptotic_slope() == pytest.approx(0.1267538539, abs=5e-11)
    assert gelu_xi(1e9) / 1e9 == pytest.approx(gelu_asymptotic_slope(), rel=1e-12)
    ratios = [gelu_xi(lam) / lam for lam in (1.5, 3.0, 10.0, 100.0)]
    assert ratios == sorted(ratios)
    assert ratios[-1] < gelu_asymptotic_slope()


def test_slope_is_its_expectation() -> None:
    with mpmath.workdps(30):
        squared = mpmath.quad(
            lambda x: 2 * x**2 * (1 - mpmath.ncdf(x)) ** 2 * mpmath.npdf(x), [0, 1, 4, 20]
        )
        assert gelu_asymptotic_slope() == pytest.approx(float(mpmath.sqrt(squared)), rel=1e-14)


def test_is_the_distance_of_two_functions() -> None:
    """The definition itself, with torch's GELU."""
    x = torch.linspace(-12, 12, 48_001, dtype=torch.float64)
    density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    gelu = torch.nn.functional.gelu
    for lam in (0.3, 1.7, 4.0):
        squared = torch.trapezoid((gelu(lam * x) - lam * gelu(x)).square() * density, x)
        assert gelu_xi(lam) == pytest.approx(math.sqrt(squared), rel=1e-7)


def test_monte_carlo_approaches_quadrature() -> None:
    lam = torch.tensor([0.2, 0.5, 1.0, 2.0], dtype=torch.float64)
    exact = gelu_xi(lam)
    sampled = gelu_xi(lam, "monte-carlo", seed=0)
    torch.testing.assert_close(sampled, exact, atol=0, rtol=0.02)
    assert not torch.equal(sampled, exact)
    assert torch.equal(sampled, gelu_xi(lam, "monte-carlo", seed=0))
    # one sample for every λ
    assert torch.equal(sampled[:1], gelu_xi(lam[:1], "monte-carlo", seed=0))
    assert not torch.equal(sampled, gelu_xi(lam, "monte-carlo", seed=1))
    assert gelu_xi(0.5, "monte-carlo", samples=10, seed=0) != pytest.approx(gelu_xi(0.5), rel=0.02)


def test_grid_of_the_paper() -> None:
    lam = np.linspace(1e-9, 2, 1000)
    values = gelu_xi(lam)
    assert isinstance(values, np.ndarray)
    assert values.shape == (1000,)
    np.testing.assert_allclose(
        values[::333], [closed_form(value) for value in lam[::333]], rtol=1e-12, atol=1e-16
    )


def test_kinds_stay_as_they_come() -> None:
    assert type(gelu_xi(2)) is float
    assert type(gelu_xi(np.float64(2))) is float
    tensor = gelu_xi(torch.full((2, 3), 2.0))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.shape == (2, 3)
    assert tensor.dtype == torch.float32
    assert gelu_xi(torch.tensor([2])).dtype == torch.float64


@pytest.mark.parametrize("lam", [0.0, -1.0, math.nan, math.inf])
def test_refuses_scales(lam: float) -> None:
    with pytest.raises(InputError, match="finite and > 0"):
        gelu_xi(lam)
    with pytest.raises(InputError, match="finite and > 0"):
        gelu_xi(torch.tensor([1.0, lam]))


def test_refuses_other_arguments() -> None:
    with pytest.raises(OptionError, match="Did you mean 'quadrature'"):
        gelu_xi(1.0, "quadratur")
    with pytest.raises(InputTypeError, match="must be a number"):
        gelu_xi("two")  # type: ignore[type-var]
    with pytest.raises(InputTypeError, match="must be a number"):
        gelu_xi([1.0, 2.0])  # type: ignore[type-var]
    with pytest.raises(OptionError, match="whole number >= 1, got 0"):
        gelu_xi(1.0, "monte-carlo", samples=0)
