"""Capacities on a grid against brute force, golden values and the claim that is made with them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from sigmascope.errors import InputError, OptionError
from sigmascope_papers.theory.capacity import capacity_logs

GOLDEN = np.load(Path(__file__).resolve().parents[1] / "golden" / "symmetry_groups.npz")


@pytest.mark.parametrize(("n", "r", "difference"), [(64, 1, -898.3), (512, 4, -57651.3)])
def test_printed_differences(n: int, r: int, difference: float) -> None:
    assert capacity_logs(n, r, M=1, eps=1e-7).difference == pytest.approx(difference, abs=0.05)


@pytest.mark.parametrize(
    "row", GOLDEN["capacity__table"], ids=lambda row: f"n={row[0]:g}-r={row[1]:g}"
)
def test_golden(row: np.ndarray) -> None:
    found = capacity_logs(int(row[0]), int(row[1]), float(row[2]), float(row[3]))
    np.testing.assert_allclose(found[:2], row[4:], atol=1e-6, rtol=0)
    log_group, log_matrices, difference = found
    assert difference == log_group - log_matrices


@pytest.mark.parametrize("n", [1, 2, 3])
def test_counts_the_group_on_a_grid(n: int) -> None:
    """Permutations times positive grid points: as many matrices as the logarithm says."""
    grid = [0.5, 1.0, 1.5, 2.0]  # spacing ½ on (0, 2]
    matrices = {
        tuple(scales[j] if order[i] == j else 0.0 for i in range(n) for j in range(n))
        for order in itertools.permutations(range(n))
        for scales in itertools.product(grid, repeat=n)
    }
    assert capacity_logs(n, 1, M=2, eps=0.5).log_group == pytest.approx(
        math.log(len(matrices)), rel=1e-14
    )


@pytest.mark.parametrize("n", [2, 7])
def test_full_rank_has_a_dimension_for_every_entry(n: int) -> None:
    assert capacity_logs(n, n, M=1, eps=0.25).log_matrices == pytest.approx(
        n * n * math.log(8), rel=1e-14
    )


@pytest.mark.parametrize("n", [2, 16, 512, 4096])
def test_the_group_is_the_smaller_family(n: int) -> None:
    differences = [
        capacity_logs(n, r, M=1, eps=1e-3 / n).difference for r in sorted({1, 2, n // 2, n})
    ]
    assert max(differences) < 0
    assert differences == sorted(differences, reverse=True)


def test_a_coarse_grid_turns_the_claim_around() -> None:
    assert capacity_logs(64, 1, M=1, eps=0.5).difference > 0
    assert capacity_logs(1, 1, M=1, eps=1e-7).difference == pytest.approx(-math.log(2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((4, 5, 1.0, 0.1), InputError, "at most n=4"),
        ((4, 0, 1.0, 0.1), OptionError, ">= 1"),
        ((0, 1, 1.0, 0.1), OptionError, ">= 1"),
        ((4.0, 1, 1.0, 0.1), OptionError, "whole number"),
        ((4, 1, 1.0, 0.0), InputError, "expected a grid"),
        ((4, 1, 1.0, 2.0), InputError, "expected a grid"),
        ((4, 1, math.inf, 0.1), InputError, "expected a grid"),
        ((4, 1, math.nan, 0.1), InputError, "expected a grid"),
    ],
)
def test_refuses(
    arguments: tuple[int, int, float, float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        capacity_logs(*arguments)
