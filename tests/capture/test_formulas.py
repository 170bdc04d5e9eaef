"""Activations that are written as formulas: recognized, bounded and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.elementwise import GRID, kind_of_values
from tests.capture.written import Net, Written, X, erf_gelu, sites, tanh_gelu

# Kind, the formula, the function that computes the same.
FORMULAS: list[tuple[str, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    ("gelu", erf_gelu, F.gelu),
    ("gelu", tanh_gelu, lambda x: F.gelu(x, approximate="tanh")),
    ("silu", lambda x: x * torch.sigmoid(x), F.silu),
    ("silu", lambda x: torch.sigmoid(x) * x, F.silu),
    ("silu", lambda x: x.mul_(torch.sigmoid(x)), F.silu),
    ("silu", lambda x: x / (1 + torch.exp(-x)), F.silu),
    ("relu", lambda x: x.clamp(min=0), F.relu),
    ("relu", lambda x: x.clamp_(min=0), F.relu),
    ("relu", lambda x: torch.clamp_min(x, 0), F.relu),
    ("relu", lambda x: torch.maximum(x, torch.zeros_like(x)), F.relu),
    ("relu", lambda x: torch.max(x, torch.tensor(0.0)), F.relu),
    ("relu", lambda x: torch.where(x > 0, x, 0.0), F.relu),
    ("relu", lambda x: x.where(x > 0, torch.zeros_like(x)), F.relu),
    ("relu", lambda x: x * (x > 0), F.relu),
    ("relu", lambda x: x * (x > 0).float(), F.relu),
    ("leaky_relu", lambda x: torch.where(x > 0, x, 0.2 * x), lambda x: F.leaky_relu(x, 0.2)),
    ("leaky_relu", lambda x: torch.maximum(x, 0.1 * x), lambda x: F.leaky_relu(x, 0.1)),
    ("relu_squared", lambda x: F.relu(x) ** 2, lambda x: x.clamp(min=0) ** 2),
    ("relu_squared", lambda x: torch.square(F.relu(x)), lambda x: x.clamp(min=0) ** 2),
    ("hardswish", lambda x: x * F.relu6(x + 3) / 6, F.hardswish),
    ("sigmoid", lambda x: 1 / (1 + torch.exp(-x)), torch.sigmoid),
    ("sigmoid", lambda x: (1 + (-x).exp()).reciprocal(), torch.sigmoid),
    ("mish", lambda x: x * torch.tanh(F.softplus(x)), F.mish),
    ("softsign", lambda x: x / (1 + x.abs()), F.softsign),
    ("tanhshrink", lambda x: x - (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), F.tanhshrink),
    ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), lambda x: x * torch.sigmoid(1.702 * x)),
    ("sin", torch.sin, torch.sin),
    ("sin", lambda x: torch.sin(3 * x + 1), torch.sin),
]


@pytest.mark.parametrize(("kind", "formula", "same"), FORMULAS)
def test_a_formula_is_one_activation(
    kind: str, formula: Callable[[Tensor], Tensor], same: Callable[[Tensor], Tensor]
) -> None:
    model = Net(formula)
    (site,) = sites(model)
    assert (site.kind, bool(site.formula)) == (kind, True)
    again = sites(model)
    assert [one.score for one in again] == [site.score]
    if kind != "sin":  # whose input is scaled first
        with torch.no_grad():
            x = model.first(X)
        assert site.score == pytest.approx(float(sg.affinity(x, same(x)).score), abs=1e-5)


NEITHER: dict[str, Callable[[Tensor], Tensor]] = {
    "affine": lambda x: (0.5 * x + 1) * 2 - x,
    "a norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "squares in a norm": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
    "a standard score": lambda x: (x - x.mean(0)) / ((x - x.mean(0)) ** 2).mean(0).sqrt(),
    "far bounds": lambda x: x.clamp(-1e4, 1e4),
    "bounds of pixels": lambda x: x.clamp(0, 640),
    "exponentials": torch.exp,
    "a softmax by hand": lambda x: (
        torch.exp(x - x.amax(-1, keepdim=True)) / x.exp().sum(-1)[:, None]
    ),
    "a sum with itself": lambda x: x + x,
    "noise": lambda x: x * (torch.rand_like(x) > 0.5) / 0.5,
}


@pytest.mark.parametrize("name", NEITHER)
def test_what_is_no_activation(name: str) -> None:
    assert sites(Net(NEITHER[name])) == []


def gated(x: Tensor) -> Tensor:
    value, gate = x.chunk(2, dim=-1)
    return value * torch.sigmoid(gate)


PARTS: list[tuple[str, Callable[[Tensor], Tensor], list[str]]] = [
    ("two in a row", lambda x: torch.tanh(F.dropout(F.relu(x), 0.1, False)), ["relu", "tanh"]),
    ("a residual connection", lambda x: x + F.relu(x), ["relu"]),
    ("a scaled one", lambda x: 0.5 * x + 2 * F.relu(x), ["relu"]),
    ("two branches", lambda x: F.gelu(x) + F.silu(x), ["gelu", "silu"]),
    ("a soft cap", lambda x: 5 * torch.tanh(x / 5), ["tanh"]),
    ("bounds first", lambda x: torch.tanh(x.clamp(-50, 50)), ["tanh"]),
    ("one that is dead", lambda x: torch.tanh(x + F.relu(-1 - x.abs())), ["relu", "tanh"]),
    ("nothing to do", lambda x: torch.abs(F.relu(x)), ["relu"]),
    ("softmax", lambda x: x * x.softmax(-1), []),
]


@pytest.mark.parametrize(("name", "between", "kinds"), PARTS)
def test_activations_with_a_name_stay_apart(
    name: str, between: Callable[[Tensor], Tensor], kinds: list[str]
) -> None:
    assert [site.kind for site in sites(Net(between))] == kinds


def test_a_gate_is_not_merged_with_what_it_multiplies() -> None:
    (site,) = sites(Net(gated, 8))
    assert (site.kind, site.formula, site.dim) == ("sigmoid", "", 8)


def test_the_border_is_what_mixes_elements() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            y = self.layer(x)
            return y * torch.sigmoid(self.layer(y))

    assert [(site.kind, site.formula) for site in sites(Attention())] == [("sigmoid", "")]


def test_an_unknown_formula_is_elementwise_and_written_out() -> None:
    (site,) = sites(Net(lambda x: x + torch.sin(x) ** 2))
    assert (site.kind, site.formula) == ("elementwise", "x + (sin(x) ** 2)")


AROUND: list[tuple[Callable[[Tensor], Tensor], list[str]]] = [
    (lambda x: x + x * torch.sigmoid(x), ["silu"]),
    (lambda x: x + F.relu(x) ** 2, ["relu_squared"]),
    (lambda x: 2 * x - erf_gelu(x), ["gelu"]),
]


@pytest.mark.parametrize(("between", "kinds"), AROUND)
def test_a_residual_connection_around_a_formula(
    between: Callable[[Tensor], Tensor], kinds: list[str]
) -> None:
    assert [site.kind for site in sites(Net(between))] == kinds


def test_a_part_that_feeds_something_else_is_a_site_too() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act = nn.Linear(8, 8), nn.ReLU()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            y = self.act(self.first(x))
            return self.one(y) + self.two(y**2)

    assert sorted(site.kind for site in sites(Both())) == ["relu", "relu_squared"]


def test_a_module_inside_a_formula_has_run() -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act, self.idle = nn.Linear(8, 8), nn.Sigmoid(), nn.Sigmoid()

        def forward(self, x: Tensor) -> Any:
            y = self.first(x)
            return y * self.act(y)

    assert sg.signature(Inside(), X).coverage.never_called == ("idle",)


def test_by_name_and_in_any_order() -> None:
    (site,) = sites(Net(lambda x: torch.maximum(other=torch.zeros_like(x), input=x)))
    (same,) = sites(Net(F.relu))
    assert site.score == same.score


def test_layers_that_overwrite_their_input_leave_the_grid_alone() -> None:
    before = GRID.clone()
    act = nn.ReLU(inplace=True)
    assert [site.kind for site in sites(Net(lambda x: act(x) ** 2))] == ["relu_squared"]

    def multiplied(x: Tensor) -> Tensor:
        x *= torch.sigmoid(x)
        return x

    assert [site.kind for site in sites(Net(multiplied))] == ["silu"]
    assert torch.equal(GRID, before)


def test_outside_of_the_network_nothing_is_a_site() -> None:
    def forward(model: nn.Module, batch: Tensor) -> Any:
        y = model(batch)
        return y * torch.sigmoid(y)

    assert [site.kind for site in sites(Net(F.relu), forward=forward)] == ["relu"]
    model = Net(F.relu)
    model.register_forward_hook(lambda module, args, y: y * torch.sigmoid(y))
    assert [site.kind for site in sites(model)] == ["relu"]


def test_nothing_is_noted_that_was_seen() -> None:
    model = Net(lambda x: x * torch.sigmoid(x))
    assert not [note for note in sg.signature(model, X).coverage.notes if "seen" in note]


def test_a_slope_of_each_channel_is_no_known_activation() -> None:
    class Slopes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.slope = nn.Linear(8, 4), nn.Parameter(torch.tensor([1.0, -1, 1, -1]))

        def forward(self, x: Tensor) -> Any:
            y = self.first(x)
            return torch.where(y > 0, y, self.slope * y)

    (site,) = sites(Slopes())
    assert (site.kind, site.formula) == ("elementwise", "where((x > 0), x, (x * a))")


def test_many_formulas_take_little_time_and_text() -> None:
    def nested(x: Tensor) -> Tensor:
        for _ in range(40):
            x = x * (2 - torch.sin(x) * x)
        return x

    (site,) = sites(Net(nested))[:1]
    assert len(site.formula) < 500


def test_parts_on_request() -> None:
    model = Net(tanh_gelu)
    assert [site.kind for site in sites(model, fuse=False)] == ["tanh"]
    assert [site.kind for site in sites(model)] == ["gelu"]
    assert [site.kind for site in sites(model, fuse=False)] == ["tanh"]


def test_only_kinds_that_were_asked_for() -> None:
    model = Net(lambda x: torch.tanh(x * torch.sigmoid(x)))
    assert [site.kind for site in sites(model, activations=["tanh"])] == ["tanh"]
    assert [site.kind for site in sites(model, activations=["silu"])] == ["silu"]


def test_a_class_that_contains_a_formula_is_the_site() -> None:
    model = nn.Sequential(nn.Linear(8, 16), Written(), nn.Linear(16, 16), Written(), nn.ReLU())
    assert [(site.path, site.kind) for site in sites(model)] == [
        ("1", "gelu"),
        ("3", "gelu"),
        ("4", "relu"),
    ]


def test_calls_of_one_module_are_counted() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.act = nn.Linear(8, 8), Written()

        def forward(self, x: Tensor) -> Any:
            return F.relu(self.act(self.layer(self.act(self.layer(x)))))

    names = [(site.path, site.call) for site in sites(Twice())]
    assert names == [("act", 0), ("act", 1), ("", 0)]


def test_a_function_and_its_inverse_are_no_activation() -> None:
    """As where a detector refines boxes: they are no leaky ReLU whose slopes are the same."""

    def refined(x: Tensor) -> Tensor:
        share = torch.sigmoid(x)
        return torch.log(share.clamp(min=1e-5) / (1 - share).clamp(min=1e-5))

    values = refined(GRID)
    assert kind_of_values(values) is None
    assert kind_of_values(torch.where(GRID > 0, GRID, 0.99 * GRID)) == "leaky_relu"
