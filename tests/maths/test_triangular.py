"""Inverses of triangular matrices by blocks."""

from __future__ import annotations

import pytest
import torch

from sigmascope.maths.gpu.triangular import inverse_of_lower


@pytest.mark.parametrize("size", [1, 3, 64, 65, 128, 130, 192, 256, 509])
def test_inverses_are_those_of_a_solve(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    samples = torch.randn(3, 2 * size, size, generator=generator, dtype=torch.float64)
    lower = torch.linalg.cholesky(samples.mT @ samples)
    # what is above the diagonal must not matter
    found = inverse_of_lower(lower + torch.full((size, size), 7.0).double().triu(1))
    torch.testing.assert_close(found, torch.linalg.inv(lower), rtol=1e-9, atol=1e-11)
    assert float(found.triu(1).abs().max()) == 0
