"""The polar factor by polynomials: what they do to an interval, and the factor against a singular
value decomposition.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sigmascope.maths.gpu.polar import polar_factor, polynomials

SMALLEST = [0.9, 0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 2.0**-22]


@pytest.mark.parametrize("smallest", SMALLEST)
def test_polynomials_carry_the_interval_to_one(smallest: float) -> None:
    values = np.concatenate([np.geomspace(smallest, 1, 20_001), np.linspace(smallest, 1, 20_001)])
    for linear, cubic, quintic in polynomials(smallest):
        values = linear * values + cubic * values**3 + quintic * values**5
    assert np.abs(values - 1).max() < 1e-13


def test_polynomials_need_few_steps() -> None:
    assert [len(polynomials(smallest)) for smallest in (0.5, 1e-2, 1e-4, 1e-6)] == [4, 6, 10, 13]


def test_a_value_below_the_interval_is_not_carried_to_one() -> None:
    value = 1e-9
    for linear, cubic, quintic in polynomials(1e-3):
        value = linear * value + cubic * value**3 + quintic * value**5
    assert value < 0.1


@pytest.mark.parametrize("smallest", SMALLEST[1:])
@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_polar_factor_is_that_of_the_decomposition(size: int, smallest: float) -> None:
    generator = torch.Generator().manual_seed(size)
    left, right = (
        torch.linalg.qr(torch.randn(3, size, size, generator=generator, dtype=torch.float64)).Q
        for _ in range(2)
    )
    stretch = torch.linspace(float(np.log(smallest)), 0, size, dtype=torch.float64).exp()
    factor = polar_factor((left * stretch) @ right.mT, smallest=smallest)
    assert torch.allclose(factor, left @ right.mT, rtol=0, atol=1e-15 / smallest + 1e-14)
    assert torch.allclose(
        factor.mT @ factor, torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-13
    )
