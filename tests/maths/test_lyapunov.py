"""The equation of Lyapunov, and the gradient of the paired score, by matrix products alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sigmascope.maths.gpu.lyapunov import solve_lyapunov
from sigmascope.maths.paired_score import (
    covariances_of,
    score_and_gradient,
    score_and_gradient_by_products,
)


@pytest.mark.parametrize("smallest", [0.5, 1e-3, 1e-8])
def test_the_solution_solves_the_equation(smallest: float) -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(3, 9, 9, generator=generator, dtype=torch.float64)).Q
    values = torch.logspace(torch.tensor(smallest).log10().item(), 0, 9, dtype=torch.float64)
    matrices = (basis * values) @ basis.mT
    right = torch.randn(3, 9, 9, generator=generator, dtype=torch.float64)
    right = right + right.mT
    found = solve_lyapunov(matrices, right, smallest=smallest)
    left = matrices @ found + found @ matrices
    torch.testing.assert_close(left, right, rtol=0, atol=1e-14 / smallest + 1e-12)


def covariances(n: int, d: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(d, d, generator=generator, dtype=torch.float64)
    x = torch.randn(3, n, d, generator=generator, dtype=torch.float64) @ mixing
    x[1] *= 1e-3
    x[2, :, 0] = 5.0
    z = torch.cat([x, x.relu()], dim=2)
    z[2, :, -1] = 0
    return covariances_of(torch.full((3,), float(n)).double(), z.sum(dim=1), z.mT @ z)


@pytest.mark.parametrize("relative", [1e-6, 1e-3])
@pytest.mark.parametrize(("n", "d"), [(60, 4), (60, 1), (90, 24), (20, 24)])
def test_products_give_what_the_decomposition_gives(n: int, d: int, relative: float) -> None:
    found = covariances(n, d)
    scores, gradients = score_and_gradient(*found, eps=None, relative=relative)
    others, products = score_and_gradient_by_products(*found, relative=relative)
    torch.testing.assert_close(others, scores, rtol=0, atol=1e-7, equal_nan=True)
    # what matters is the gradient to samples, which have the variances of the covariances
    spread = torch.cat([one.diagonal(dim1=1, dim2=2) for one in found[:2]], dim=1).sqrt()
    units = spread[:, :, None] * spread[:, None, :]
    known = ~torch.isnan(scores)
    difference = ((gradients - products) * units).abs().amax(dim=(1, 2))
    whole = (gradients * units).abs().amax(dim=(1, 2))
    tolerance = 1e-5 if n > d else 1e-3  # directions without variance are ruled by eps
    assert (difference <= tolerance * whole)[known].all()
    assert known.tolist() == [True, True, d > 1]


def test_what_does_not_vary_has_no_score_and_does_not_disturb_others() -> None:
    x, y, cross = covariances(60, 4)
    y[1], cross[1] = 0, 0
    scores, _ = score_and_gradient(x, y, cross, eps=None)
    others, gradients = score_and_gradient_by_products(x, y, cross)
    assert torch.isnan(others).tolist() == [False, True, False]
    torch.testing.assert_close(others[[0, 2]], scores[[0, 2]])
    assert gradients[[0, 2]].isfinite().all()
