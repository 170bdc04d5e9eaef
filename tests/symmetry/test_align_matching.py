"""The assignment of channels: the optimum of SciPy's solver on the whole matrix, however found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from sigmascope.symmetry.aligning import matching
from sigmascope.symmetry.aligning.matching import assigned


def products(kind: str, seed: int, n: int = 60) -> Tensor:
    """Return costs as `align` has them: minus inner products, of channels of different kinds."""
    source = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, n, 30, generator=source, dtype=torch.float64)
    if kind == "line":  # many pairings cost almost the same
        x, y = x[:, :1] + 1e-3 * x[:, 1:2], y[:, :1] + 1e-3 * y[:, 1:2]
    if kind == "dead":
        x[: n // 2], y[n // 3 :] = 0, 0
    if kind == "planted":
        y = x[torch.randperm(n, generator=source)]
    return y.square().sum(dim=1) - 2 * x @ y.T


@pytest.fixture(params=["short", "long", "whole"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Solve by a shortlist that is too short, by one that suffices, or the whole matrix."""
    lengths = {"short": 1, "long": 25, "whole": 40}
    monkeypatch.setattr(matching, "SHORTLIST", lengths[request.param])
    monkeypatch.setattr(matching, "DENSE", 1024 if request.param == "whole" else 0)
    return str(request.param)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["noise", "line", "dead", "planted"])
def test_it_is_the_optimum_of_the_whole_matrix(kind: str, seed: int, way: str) -> None:
    cost = products(kind, seed)
    match = assigned(cost)
    rows, columns = linear_sum_assignment(cost.numpy())
    assert sorted(match.tolist()) == list(range(len(cost)))
    best = cost.numpy()[rows, columns].sum()
    own = float(cost[torch.arange(len(cost)), match].sum())
    assert own == pytest.approx(best, rel=1e-12, abs=1e-12 * float(cost.abs().max()))
    if kind == "noise":  # there is one optimum
        assert match.tolist() == columns.tolist()


def test_a_shortlist_proves_its_optimum_or_says_that_it_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cost = products("noise", 0).numpy()
    _, columns = linear_sum_assignment(cost)
    found = []
    for length in (1, 2, 25):
        monkeypatch.setattr(matching, "SHORTLIST", length)
        one = matching._shortlisted(cost)
        found.append(one is not None)
        if one is not None:
            np.testing.assert_array_equal(one, columns)
    assert not found[0]
    assert found[-1]


def test_costs_that_are_not_finite_are_assigned_too() -> None:
    cost = torch.tensor([[torch.nan, 1.0], [2.0, torch.inf]])
    assert sorted(assigned(cost).tolist()) == [0, 1]
    assert assigned(torch.tensor([[torch.inf, 1.0], [2.0, torch.inf]])).tolist() == [1, 0]
