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
from sigmascope.maths.samples import rounding_of

ZERO = torch.tensor([0])
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


@pytest.mark.parametrize(
    ("covariance", "eps"), [*((name, 1e-3) for name in ESTIMATORS), ("ledoit-wolf", None)]
)
def test_a_mixed_stack_equals_one_by_one(covariance: str, eps: float | None) -> None:
    pairs = [pair(n, d, seed) for seed, (n, d) in enumerate(SHAPES)]
    for found, (x, y) in zip(fit_stack(pairs, covariance=covariance, eps=eps), pairs, strict=True):
        single = fit(x, y, covariance=covariance, eps=eps, coupling="optimal")
        if x.shape[1] > 2 * len(x) and float(single.score) > 0.99:
            assert found is None  # too near to 1 for the reduced coordinates
            continue
        assert found is not None
        assert float(found.score) == pytest.approx(float(single.score), abs=1e-10)
        assert float(found.w2) == pytest.approx(float(single.w2), rel=1e-9)
        assert float(found.bound) == pytest.approx(float(single.bound), rel=1e-12)
        assert found.shrinkage_x == pytest.approx(single.shrinkage_x, abs=1e-12)
        assert found.shrinkage_y == pytest.approx(single.shrinkage_y, abs=1e-12)


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
    far = x * torch.where(torch.arange(30)[:, None] == 0, 1e8, 1)
    noise = (1e8 + 8 * torch.sign(x - 3)).float()
    pairs = [(x, 0 * y), (0 * x, y), (x, noise), (far, far.flip(0))]
    assert fit_stack([(thin, y), *pairs], covariance="unbiased", eps=1e-6) == [None] * 5
    assert fit_stack(pairs, covariance="ledoit-wolf", eps=None) == [None] * 4


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


def test_neither_scales_nor_constant_columns_change_a_score() -> None:
    pairs = [pair(n, d, seed) for seed, (n, d) in enumerate(SHAPES) if d > 5]
    for scale_x, scale_y in ((1e-30, 1e-30), (1e30, 1e30), (1e-30, 1e30), (3.0, 1e-9)):
        scaled = [(scale_x * x, scale_y * y) for x, y in pairs]
        masked = [(x.index_fill(1, ZERO, -1e30), y.index_fill(1, ZERO, 1e30)) for x, y in scaled]
        plain = [(x.index_fill(1, ZERO, 0), y.index_fill(1, ZERO, 0)) for x, y in pairs]
        for some, others in ((scaled, pairs), (masked, plain)):
            found = fit_stack(some, covariance="ledoit-wolf", eps=None)
            expected = fit_stack(others, covariance="ledoit-wolf", eps=None)
            assert sum(one is not None for one in found) > 6
            for one, other in zip(found, expected, strict=True):
                assert (one is None) == (other is None)
                if one is not None and other is not None:
                    assert float(one.score) == pytest.approx(float(other.score), abs=1e-9)


def test_precision_of_the_data_decides_what_is_noise() -> None:
    x, y = pair(30, 6)
    noisy, still = y.clone(), y.index_fill(1, ZERO, 0)
    noisy[:, 0] = 1e8 + 16 * torch.sign(x[:, 0] - 3)  # two steps of float32
    options = {"covariance": "ledoit-wolf", "eps": None}
    single, double, expected = (
        float(fit_stack([(x, sample)], **options)[0].score)
        for sample in (noisy.float(), noisy, still.float())
    )
    assert single == pytest.approx(expected, abs=1e-9)
    assert abs(double - expected) > 0.01  # there it is a huge signal
    said = [(rounding_of(torch.float32),) * 2]
    told = fit_stack([(x, noisy.float().double())], rounding=said, **options)[0]
    assert float(told.score) == pytest.approx(expected, abs=1e-9)


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [pair(n, d, seed) for seed, (n, d) in enumerate(SHAPES)]
    whole = fit_stack(pairs, covariance="unbiased", eps=1e-3)
    monkeypatch.setattr(padding, "PORTION", 1)
    for one, other in zip(fit_stack(pairs, covariance="unbiased", eps=1e-3), whole, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert float(one.score) == pytest.approx(float(other.score), abs=1e-12)


def test_a_variance_that_equals_eps_is_handed_back_if_that_counts() -> None:
    x, y = pair(30, 6)
    eps = float((y - y.mean(dim=0)).square().mean())
    published = {"covariance": "biased", "degenerate": "published"}
    assert fit_stack([(x, y)], eps=eps, **published) == [None]
    assert fit_stack([(x, y)], eps=0.99 * eps, **published) != [None]
    assert fit_stack([(x, y)], eps=eps, covariance="biased") != [None]
