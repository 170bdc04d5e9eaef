"""Sinkhorn, projection, regularisers, rounding and SoftSort: the published numbers, and laws."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.stitching.permutations import (
    norm_term,
    project,
    projected_gradient,
    round_permutation,
    sinkhorn,
    softsort,
    sort_permutation,
    sums_term,
)

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "symmetry_stitching.npz"))


def golden(key: str) -> Tensor:
    return torch.from_numpy(np.asarray(GOLDEN[key]))


def close(one: Tensor, two: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(one, two, atol=atol, rtol=0)


def drawn(size: int, seed: int = 0) -> Tensor:
    return torch.rand(
        size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


@pytest.mark.parametrize("name", ["sinkhorn", "sinkhorn_zero"])
@pytest.mark.parametrize("iterations", [1, 16, 100])
def test_sinkhorn_is_the_published_one(name: str, iterations: int) -> None:
    matrix = golden(f"{name}__A")
    before = matrix.clone()
    close(sinkhorn(matrix, iterations), golden(f"{name}__iters{iterations}"))
    assert torch.equal(matrix, before)


def test_sinkhorn_balances() -> None:
    balanced = sinkhorn(drawn(9), 200)
    close(balanced.sum(dim=0), torch.ones(9, dtype=torch.float64))
    close(balanced.sum(dim=1), torch.ones(9, dtype=torch.float64))
    assert (sinkhorn(drawn(9), 1).sum(dim=1) - 1).abs().max() > 1e-3
    # The limit is D A E: ratios of ratios stay.
    one, two = drawn(9), balanced
    cross = one[0, 0] * one[1, 1] / (one[0, 1] * one[1, 0])
    close(two[0, 0] * two[1, 1] / (two[0, 1] * two[1, 0]), cross, atol=1e-9)


def test_sinkhorn_without_iterations_copies() -> None:
    matrix = drawn(3)
    assert sinkhorn(matrix, 0) is not matrix
    assert torch.equal(sinkhorn(matrix, 0), matrix)


@pytest.mark.parametrize(
    "matrix", [torch.ones(2, 3), torch.tensor([[-1.0]]), torch.tensor([[torch.nan]]), torch.ones(2)]
)
def test_sinkhorn_refuses(matrix: Tensor) -> None:
    with pytest.raises(sg.InputError, match=r"matrix must|finite"):
        sinkhorn(matrix)


def test_sinkhorn_refuses_negative_iterations() -> None:
    with pytest.raises(sg.OptionError, match="iterations must be a whole number >= 0, got -1"):
        sinkhorn(torch.ones(1, 1), -1)


def test_projection_is_the_published_one() -> None:
    close(project(golden("birkhoff__pert_perms")), golden("birkhoff__projected_perms"))


def test_projection_revives_zero_rows_and_columns() -> None:
    matrix = drawn(6)
    matrix[2] = -1
    matrix[:, 4] = 0
    found = project(matrix)
    assert (found.sum(dim=0) - 1).abs().max() < 1e-12
    assert (found.sum(dim=1) - 1).abs().max() < 1e-2
    assert (found[2] > 0).any()
    assert (found[:, 4] > 0).any()
    dead = sinkhorn(matrix.clamp_min(0), 16)  # what would happen otherwise
    assert dead[2].sum() == 0


def test_projection_keeps_the_polytope() -> None:
    inside = sinkhorn(drawn(5), 500)
    close(project(inside), inside, atol=1e-9)


def test_regularisers_are_the_published_ones() -> None:
    matrix = golden("birkhoff__pert_perms")
    terms = [norm_term(matrix, 0.1, weighing) for weighing in ("norm", "rms", "scaled")]
    close(
        torch.stack([*terms, terms[0] + sums_term(matrix, 0.01)]),
        golden("birkhoff__regularization"),
    )


def test_the_norm_is_largest_at_permutations() -> None:
    corner = torch.eye(5, dtype=torch.float64)[[3, 1, 0, 2, 4]]
    assert float(norm_term(corner, 1.0)) == pytest.approx(-(5**0.5))
    assert float(norm_term(torch.full((5, 5), 0.2), 1.0)) == pytest.approx(-1)
    assert all(norm_term(sinkhorn(drawn(5, seed), 100), 1.0) > -(5**0.5) for seed in range(5))


def test_projected_gradients_are_the_published_ones() -> None:
    for name, square in (("perms", True), ("scalars", False)):
        value, gradient = golden(f"birkhoff__weight_{name}"), golden(f"birkhoff__grad_{name}")
        close(
            projected_gradient(value, gradient, doubly_stochastic=square),
            golden(f"birkhoff__pgd_grad_{name}"),
            atol=1e-9,
        )


def test_rounding_is_the_published_one() -> None:
    matrix = golden("birkhoff__weight_perms")
    assert torch.equal(round_permutation(matrix), golden("birkhoff__P_hungarian"))
    weights = golden("birkhoff__monotone_v")
    assert torch.equal(
        round_permutation(matrix, "monotone", weights=weights), golden("birkhoff__P_monotone")
    )


@pytest.mark.parametrize("seed", range(5))
def test_rounding_gives_the_best_permutation(seed: int) -> None:
    matrix = sinkhorn(drawn(5, seed), 100)
    rounded = round_permutation(matrix)
    assert torch.equal(rounded.sum(dim=0), torch.ones(5, dtype=torch.float64))
    assert torch.equal(rounded.sum(dim=1), torch.ones(5, dtype=torch.float64))
    best = max(float(matrix[range(5), list(order)].sum()) for order in permutations(range(5)))
    assert float((matrix * rounded).sum()) == pytest.approx(best)


def test_a_planted_permutation_is_recovered_from_noise() -> None:
    corner = torch.eye(30, dtype=torch.float64)[
        torch.randperm(30, generator=torch.Generator().manual_seed(1))
    ]
    assert torch.equal(round_permutation(project(corner + 0.3 * drawn(30))), corner)
    assert not torch.equal(round_permutation(project(drawn(30))), corner)


def test_rounding_refuses() -> None:
    with pytest.raises(sg.InputError, match=r"must be square|not finite"):
        round_permutation(torch.full((2, 2), torch.nan))
    with pytest.raises(sg.InputError, match="needs weights"):
        round_permutation(torch.eye(2), "monotone")
    with pytest.raises(sg.OptionError, match="method='greedy' is not a valid choice"):
        round_permutation(torch.eye(2), "greedy")


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("weighing", ["softmax", "inverse"])
def test_softsort_is_the_published_one(temperature: float, weighing: str) -> None:
    scores = golden("softsort__s").flatten()
    for normalised in (0, 1):
        key = f"softsort__tau{temperature}_norm{normalised}_exp{int(weighing == 'inverse')}"
        close(
            softsort(scores, temperature / (len(scores) if normalised else 1), weighing),
            golden(key),
        )


def test_softsort_hardens_to_the_order() -> None:
    scores = torch.tensor([0.3, -1.0, 2.0, 0.5])
    assert torch.equal(sort_permutation(scores) @ scores, scores.sort(descending=True).values)
    torch.testing.assert_close(softsort(scores, 1e-4), sort_permutation(scores))
    ties = sort_permutation(torch.tensor([1.0, 1.0, 1.0]))
    assert torch.equal(ties, torch.eye(3))
    assert torch.equal(softsort(scores, 1.0).sum(dim=1), torch.ones(4))


def test_softsort_refuses() -> None:
    with pytest.raises(sg.OptionError, match="temperature must be a number > 0"):
        softsort(torch.ones(3), 0.0)
    with pytest.raises(sg.InputError, match=r"scores must be a vector .* got the shape \(2, 2\)"):
        softsort(torch.ones(2, 2))
