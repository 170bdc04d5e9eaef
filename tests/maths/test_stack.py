"""Many pairs at once: the same numbers as one by one, and the cases that are handed back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sigmascope.maths.affine_fit import fit
from sigmascope.maths.covariance import ESTIMATORS
from sigmascope.maths.gpu import padding, potentials
from sigmascope.maths.gpu.stack import fit_stack

SHAPES = [
    (40, 3),
    (40, 16),
    (40, 39),
    (40, 80),
    (40, 81),
    (40, 300),
    (25, 16),
    (25, 600),
    (40, 16),
    (2, 5),
    (64, 16),
    (100, 16),
]


def pair(n: int, d: int, seed: int = 0, rank: int | None = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * n + d + seed)
    rank = rank or d
    x = torch.randn(n, rank, generator=generator, dtype=torch.float64) @ torch.randn(
        rank, d, generator=generator, dtype=torch.float64
    )
    x = x / math.sqrt(rank) + 0.1 * torch.randn(n, d, generator=generator, dtype=torch.float64) + 3
    return x, torch.relu(x - 3)


@pytest.mark.parametrize("covariance", ESTIMATORS)
def test_a_mixed_stack_equals_one_by_one(covariance: str) -> None:
    pairs = [pair(n, d, seed) for seed, (n, d) in enumerate(SHAPES)]
    for found, (x, y) in zip(fit_stack(pairs, covariance=covariance, eps=1e-3), pairs, strict=True):
        single = fit(x, y, covariance=covariance, eps=1e-3, coupling="optimal")
        if x.shape[1] > 2 * len(x) and float(single.score) > 0.99:
            assert found is None  # too near to 1 for the reduced coordinates
            continue
        assert found is not None
        assert float(found.score) == pytest.approx(float(single.score), abs=1e-10)
        assert float(found.w2) == pytest.approx(float(single.w2), rel=1e-9)
        assert float(found.bound) == pytest.approx(float(single.bound), rel=1e-12)
        assert found.shrinkage_x == pytest.approx(single.shrinkage_x, abs=1e-12)
        assert found.shrinkage_y == pytest.approx(single.shrinkage_y, abs=1e-12)
        assert found.variance == pytest.approx(single.variance, rel=1e-12)


def test_padding_does_not_change_a_score() -> None:
    narrow, wide = pair(60, 5), pair(60, 200)
    alone = fit_stack([narrow], covariance="ledoit-wolf", eps=1e-6)[0]
    padded = fit_stack([narrow, wide], covariance="ledoit-wolf", eps=1e-6)[0]
    assert alone is not None
    assert padded is not None
    assert float(padded.score) == pytest.approx(float(alone.score), abs=1e-12)


def test_every_kind_of_proof_is_reached() -> None:
    easy, hard = (pair(64, 60)[0], torch.tanh(0.1 * pair(64, 60)[0])), pair(128, 16, rank=1)
    between = [pair(128, d, seed) for d in (4, 8, 12) for seed in range(6)]
    found = fit_stack([easy, hard, *between], covariance="unbiased", eps=1e-6)
    assert {one.certified for one in found if one is not None} == {
        "diagonal",
        "potentials",
        "solver",
    }


def test_more_rounds_on_the_host_than_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [pair(128, d, seed) for d in (4, 8, 12) for seed in range(6)]
    expected = [
        one.score for one in fit_stack(pairs, covariance="unbiased", eps=1e-6) if one is not None
    ]
    monkeypatch.setattr(potentials, "ROUNDS", 1)
    scores = [
        one.score for one in fit_stack(pairs, covariance="unbiased", eps=1e-6) if one is not None
    ]
    assert torch.allclose(torch.stack(scores), torch.stack(expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_bad_values_are_handed_back_and_spare_the_others(bad: float) -> None:
    x, y = pair(30, 6)
    broken = x.clone()
    broken[3, 2] = bad
    first, second, third = fit_stack(
        [(broken, y), (x, y), (x, broken)], covariance="ledoit-wolf", eps=1e-6
    )
    assert first is None
    assert third is None
    assert second is not None
    assert math.isfinite(float(second.score))


def test_what_needs_care_is_handed_back() -> None:
    x, y = pair(30, 6)
    thin = x @ torch.from_numpy(np.diag([1e9, 1, 1, 1, 1, 1.0]))
    assert fit_stack(
        [(x, 0 * y), (thin, y), (1e-5 * x, 1e-5 * y)], covariance="unbiased", eps=1e-6
    ) == [None, None, None]


def test_half_types_and_no_pairs() -> None:
    x, y = pair(30, 6)
    halves = [
        (x.to(dtype), y.to(dtype)) for dtype in (torch.float16, torch.bfloat16, torch.float32)
    ]
    for found, (a, b) in zip(fit_stack(halves, covariance="biased", eps=1e-6), halves, strict=True):
        single = fit(a.double(), b.double(), covariance="biased", eps=1e-6, coupling="optimal")
        assert found is not None
        assert float(found.score) == pytest.approx(float(single.score), abs=1e-12)
    assert fit_stack([], covariance="biased", eps=1e-6) == []


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [pair(n, d, seed) for seed, (n, d) in enumerate(SHAPES)]
    whole = fit_stack(pairs, covariance="unbiased", eps=1e-3)
    monkeypatch.setattr(padding, "PORTION", 1)
    for one, other in zip(fit_stack(pairs, covariance="unbiased", eps=1e-3), whole, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert float(one.score) == pytest.approx(float(other.score), abs=1e-12)


def test_a_variance_that_equals_eps_is_handed_back() -> None:
    x, y = pair(30, 6)
    eps = float((y - y.mean(dim=0)).square().mean())
    assert fit_stack([(x, y)], covariance="biased", eps=eps) == [None]
    assert fit_stack([(x, y)], covariance="biased", eps=0.99 * eps) != [None]
