"""Formulas from batch to batch and from one measurement to the next."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from tests.capture.written import Net, Written, X, erf_gelu, sites


class Cached(nn.Module):
    """Makes a table the first time, as for positions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.table = nn.Linear(8, 16), None

    def forward(self, x: Tensor) -> Any:
        if self.table is None:
            self.table = torch.arange(16.0).div(16).cos()
        y = self.first(x) + self.table
        return y * torch.sigmoid(y)


def test_a_table_that_is_made_once() -> None:
    assert [site.kind for site in sites(Cached())] == ["silu"]
    assert [site.kind for site in sites(Cached(), [X, X, X])] == ["silu"]


def test_numbers_that_differ_from_batch_to_batch() -> None:
    model = Net(lambda x: x * torch.sigmoid(x / x.abs().max().item()))
    batches = [X, 2 * X, X + 1]
    (site,) = sites(model, batches)
    assert (site.kind, site.batches) == ("elementwise", 3)


def test_a_way_that_depends_on_the_data() -> None:
    class Either(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            a, b = self.one(x), self.two(x)
            return a * torch.sigmoid(a if x.mean() > 0 else b)

    found = sites(Either(), [X.abs(), -X.abs(), X.abs()])
    assert sorted((site.kind, site.batches) for site in found) == [("sigmoid", 1), ("silu", 2)]


def test_a_parameter_that_has_changed_since() -> None:
    class Leaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.slope = nn.Linear(8, 8), nn.Parameter(torch.tensor(1.0))

        def forward(self, x: Tensor) -> Any:
            y = self.first(x)
            return torch.where(y > 0, y, self.slope * y)

    model = Leaky()
    assert sites(model) == []
    with torch.no_grad():
        model.slope.fill_(0.1)
    assert [site.kind for site in sites(model)] == ["leaky_relu"]


def test_outputs_state_and_randomness_are_untouched() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(), Written())
    model.train()
    mean = model[1].running_mean.clone()
    sg.signature(model, X, mode="as-is", progress=False)
    assert torch.equal(model[1].running_mean, mean)
    torch.manual_seed(3)
    expected = model(X)
    torch.manual_seed(3)
    sg.signature(model, X, mode="as-is", progress=False)
    assert torch.equal(model(X), expected)


def test_a_random_network_has_one_score_whether_or_not_it_was_known() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(), Written())
    model.train()
    first, second = (sites(model, mode="as-is")[0].score for _ in range(2))
    assert first == second


def test_batches_of_other_sizes_and_other_ways() -> None:
    class Ways(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            y = self.layer(x)
            return y * torch.sigmoid(y) if len(x) % 2 else F.relu(y)

    batches = [X[:33], X[:32], X[:33], X[:31]]
    found = sites(Ways(), batches, estimator="population")
    assert sorted((site.kind, site.population_n) for site in found) == [("relu", 32), ("silu", 97)]


def test_an_observer_sees_formulas_once_they_are_known() -> None:
    kinds: list[str] = []
    model = Net(erf_gelu)

    def observe(call: Any, x: Tensor) -> None:
        kinds.append(call.kind)

    for _ in range(2):
        with torch.no_grad(), sg.recording(model, observe):
            model(X)
    assert kinds == ["gelu"]
