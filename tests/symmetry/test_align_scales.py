"""The best scale of a pair of channels: against a dense search, in every case of freedom."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sigmascope.symmetry.aligning import scales
from sigmascope.symmetry.aligning.scales import Term, best_scales

GRID = torch.linspace(-9, 9, 200_001, dtype=torch.float64).exp()


def terms(exponents: tuple[int, ...], seed: int, spread: float, odd: bool = True) -> list[Term]:
    """Made-up weights of five pairs for each power of the scale."""
    source = torch.Generator().manual_seed(seed)
    found = []
    for exponent in exponents:
        x, y = torch.randn(2, 5, 3, generator=source, dtype=torch.float64)
        x = x * spread
        alpha, beta, norm = y.square().sum(1), (x * y).sum(1), x.square().sum(1)
        found.append(Term(exponent, odd, alpha, beta, norm))
    return found


def value(terms: list[Term], d: Tensor) -> Tensor:
    """The squared distance without its constant, (grid, pairs)."""
    total = torch.zeros(len(d), 5, dtype=torch.float64)
    for term in terms:
        power = d.abs() ** term.exponent
        power = power * d.sign() if term.odd else power
        total += term.alpha * power[:, None] ** 2 - 2 * term.beta * power[:, None]
    return total


@pytest.mark.parametrize("exponents", [(1, -1), (1, -2), (2, -1, 1)])
@pytest.mark.parametrize("spread", [0.1, 1.0, 12.0])
@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("odd", [True, False])
def test_no_scale_on_a_fine_grid_is_better(
    exponents: tuple[int, ...], spread: float, sign: bool, odd: bool
) -> None:
    own = terms(exponents, seed=len(exponents), spread=spread, odd=odd)
    d, found = best_scales(own, magnitude=True, sign=sign)
    grid = torch.cat([GRID, -GRID]) if sign else GRID
    best = value(own, grid).min(dim=0).values
    size = sum(term.norm + term.alpha for term in own)
    assert bool((found <= best + 1e-12 * size).all())
    assert bool((found >= best - 1e-6 * size).all())  # and it is not below what a scale reaches
    torch.testing.assert_close(value(own, d).diagonal(), found)
    assert bool((d > 0).all()) or sign


def test_of_two_local_minima_the_lower_one_is_taken() -> None:
    """Large targets on both sides: t near b and t near 1/c are both local minima."""
    one = torch.ones(5, dtype=torch.float64)
    betas = torch.tensor([9.0, 3.0, 8.0, 7.9, 20.0], dtype=torch.float64)
    others = torch.tensor([3.0, 9.0, 7.9, 8.0, 19.0], dtype=torch.float64)
    own = [Term(1, True, one, betas, one), Term(-1, True, one, others, one)]
    d, found = best_scales(own, magnitude=True, sign=False)
    torch.testing.assert_close(found, value(own, GRID).min(dim=0).values, rtol=1e-6, atol=0)
    assert (d > 1).tolist() == [True, False, True, False, True]


def test_signs_alone() -> None:
    own = terms((1, -1), seed=3, spread=1.0)
    d, found = best_scales(own, magnitude=False, sign=True)
    both = value(own, torch.tensor([1.0, -1.0], dtype=torch.float64))
    torch.testing.assert_close(found, both.min(dim=0).values)
    assert set(d.tolist()) <= {1.0, -1.0}


def test_no_freedom_leaves_one() -> None:
    own = terms((1,), seed=4, spread=1.0)
    d, found = best_scales(own, magnitude=False, sign=False)
    assert d.tolist() == [1.0] * 5
    torch.testing.assert_close(found, value(own, torch.ones(1).double())[0])


def test_a_channel_of_zeros_gets_a_finite_scale() -> None:
    zero, one = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    for up, down in ((zero, one), (one, zero), (zero, zero)):
        own = [Term(1, True, up, up / 2, one), Term(-1, True, down, down / 2, one)]
        d, found = best_scales(own, magnitude=True, sign=False)
        assert bool((d > 0).all() and d.isfinite().all() and found.isfinite().all())


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 100.0])
def test_the_root_is_the_largest_of_the_quartic(size: float) -> None:
    source = torch.Generator().manual_seed(0)
    b, c = size * torch.randn(2, 100, generator=source, dtype=torch.float64)
    found = scales._root(b.view(10, 10), c.view(10, 10)).flatten()
    for own, x, y in zip(found.tolist(), b.tolist(), c.tolist(), strict=True):
        roots = np.roots([1, -x, 0, y, -1])
        real = roots[(np.abs(roots.imag) < 1e-7 * np.abs(roots)) & (roots.real > 0)].real
        assert own == pytest.approx(real.max(), rel=1e-9)


@pytest.mark.parametrize("exponents", [(1, -1), (1,), (1, -2), (0, 1, -1)])
@pytest.mark.parametrize("sign", [False, True])
def test_many_pairs_are_solved_in_portions(
    monkeypatch: pytest.MonkeyPatch, exponents: tuple[int, ...], sign: bool
) -> None:
    """Rows at a time, with a last portion that is smaller, silent channels, one term per shape."""
    source, own = torch.Generator().manual_seed(7), []
    for exponent in exponents:
        x, y = torch.randn(2, 7, 4, generator=source, dtype=torch.float64)
        x[2], y[3] = 0, 0
        alpha = y.square().sum(1)
        alpha = alpha if exponent == 1 else alpha.expand(7, 7)  # as where others multiply it
        own.append(Term(exponent, True, alpha, x @ y.T, x.square().sum(1)[:, None]))
    whole = best_scales(own, magnitude=True, sign=sign)
    rows = [best_scales(_row(own, j), magnitude=True, sign=sign) for j in range(7)]
    monkeypatch.setattr(scales, "PORTION", 21)
    calls: list[int] = []
    plain = scales._best_of

    def counted(part: list[Term], **how: bool) -> tuple[Tensor, Tensor]:
        calls.append(len(part[0].beta))
        return plain(part, **how)

    monkeypatch.setattr(scales, "_best_of", counted)
    found = best_scales(own, magnitude=True, sign=sign)
    assert calls == [3, 3, 1]
    for one, other, single in zip(found, whole, zip(*rows, strict=True), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(one, torch.stack(single), rtol=1e-9, atol=1e-9)


def _row(terms: list[Term], j: int) -> list[Term]:
    """The pairs of one channel, in a list of their own."""
    found = []
    for one in terms:
        alpha = one.alpha if one.alpha.ndim == 1 else one.alpha[j]
        found.append(Term(one.exponent, one.odd, alpha, one.beta[j], one.norm[j].expand(7)))
    return found
