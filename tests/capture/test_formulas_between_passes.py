"""Formulas from batch to batch and from one measurement to the next."""

from __future__ import annotations

from typing import Any

import pytest
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


class Sloped(nn.Module):
    """Computes the slope of its gate from a parameter, in every pass."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.raw = nn.Linear(8, 8), nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        beta = 2 * self.raw.exp() - 1
        y = self.first(x)
        return y * torch.sigmoid(beta * y)


def test_a_constant_that_is_computed_from_a_parameter() -> None:
    model = Sloped()
    assert [site.kind for site in sites(model)] == ["silu"]
    for change in ("fill_", "step", "data"):
        with torch.no_grad():
            if change == "fill_":
                model.raw.fill_(0.3009)  # 2 exp(0.3009) - 1 = 1.702
                expected = "quick_gelu"
            elif change == "step":
                optimizer = torch.optim.SGD([model.raw], lr=1.0)
                model.raw.grad = torch.tensor(0.5)
                optimizer.step()
                expected = "elementwise"
            else:
                model.raw.data = torch.zeros(())
                expected = "silu"
        assert [site.kind for site in sites(model)] == [expected]


def test_what_did_not_change_is_not_worked_out_again() -> None:
    model, runs = Sloped(), 0

    def forward(net: nn.Module, batch: Tensor) -> Any:
        nonlocal runs
        runs += 1
        return net(batch)

    for _ in range(3):
        sites(model, [X, X], forward=forward)
    assert runs == 3 + 2 + 2


def test_a_pass_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.capture.following.LIMIT", 20)

    class Long(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            x = self.first(x)
            x = x * torch.sigmoid(x)
            for _ in range(40):
                x = x + 0.1
            x = self.last(x)
            return x * torch.sigmoid(x)

    runs = 0

    def forward(net: nn.Module, batch: Tensor) -> Any:
        nonlocal runs
        runs += 1
        return net(batch)

    found = sg.signature(Long(), [X, X + 1, X], forward=forward, progress=False)
    assert [site.kind for site in found.sites] == ["silu", "sigmoid"]
    assert [note for note in found.coverage.notes if "torch functions in a pass" in note]
    assert runs == 4
    short = sg.signature(Net(erf_gelu), X, progress=False)
    assert not [note for note in short.coverage.notes if "torch functions in a pass" in note]
