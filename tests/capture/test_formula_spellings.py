"""The many ways to write an activation, and what looks like one and is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from tests.capture.written import Net, X, sites

Function = Callable[[Tensor], Tensor]


def set_where(x: Tensor) -> Tensor:
    x[x < 0] = 0
    return x


def multiplied_where(x: Tensor) -> Tensor:
    x[x < 0] *= 0.1
    return x


def set_in_a_copy(x: Tensor) -> Tensor:
    y = x.clone()
    y[x < 0] = 0
    return y


def set_to_selected(x: Tensor) -> Tensor:
    mask = x < 0
    x[mask] = 0.1 * x[mask]
    return x


def copied_where(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[x > 0] = x[x > 0]
    return y


def scattered(x: Tensor) -> Tensor:
    mask = x < 0
    return x.masked_scatter(mask, 0.1 * x.masked_select(mask))


def in_place(x: Tensor) -> Tensor:
    return x.clone().sigmoid_().mul_(x)


def into_another(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    torch.clamp(x, min=0, out=y)
    return y


def summed_up(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y.addcmul_(x, torch.sigmoid(x))
    return y


def in_double(x: Tensor) -> Tensor:
    return (x.double() * torch.sigmoid(x.double())).to(x.dtype)


def in_a_view(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x.reshape(-1, 4, 4)).reshape(x.shape)


def transposed(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x.t()).t().contiguous()


def of_two_transposes(x: Tensor) -> Tensor:
    return (x.t() * torch.sigmoid(x.t())).t()


def in_heads(x: Tensor) -> Tensor:
    heads = x.view(-1, 4, 4).transpose(1, 2)
    return x * torch.sigmoid(heads).transpose(1, 2).reshape(x.shape)


def with_an_axis(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x[:, None]).squeeze(1)


def leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)


def squared(x: Tensor) -> Tensor:
    return F.relu(x) ** 2


# Kind, the formula, the function that computes the same.
KNOWN: dict[str, tuple[str, Function, Function]] = {
    "h[h < 0] = 0": ("relu", set_where, F.relu),
    "in a copy": ("relu", set_in_a_copy, F.relu),
    "h[h < 0] *= 0.1": ("leaky_relu", multiplied_where, leaky),
    "h[m] = 0.1 * h[m]": ("leaky_relu", set_to_selected, leaky),
    "y[m] = h[m]": ("relu", copied_where, F.relu),
    "masked_scatter": ("leaky_relu", scattered, leaky),
    "masked_fill": ("relu", lambda x: x.masked_fill(x < 0, 0), F.relu),
    "masked_fill_": ("relu", lambda x: x.masked_fill_(x < 0, 0.0), F.relu),
    "index_put": ("relu", lambda x: x.index_put((x < 0,), torch.tensor(0.0)), F.relu),
    "h * (h > 0)": ("relu", lambda x: x * (x > 0), F.relu),
    "(h > 0) * h": ("relu", lambda x: (x > 0) * x, F.relu),
    "type_as": ("relu", lambda x: x * x.gt(0).type_as(x), F.relu),
    "sign": ("relu", lambda x: x * (torch.sign(x) + 1) / 2, F.relu),
    "where, 0 first": ("relu", lambda x: torch.where(x < 0, 0.0, x), F.relu),
    "where, 0 < x": ("relu", lambda x: torch.where(x > 0, x, 0.0), F.relu),
    "where, a tensor": ("relu", lambda x: torch.where(x < 0, torch.tensor(0.0), x), F.relu),
    "where, not": ("relu", lambda x: torch.where(~(x > 0), 0.0, x), F.relu),
    "max, by name": ("relu", lambda x: torch.max(x, other=torch.zeros_like(x)), F.relu),
    "(x + abs) / 2": ("relu", lambda x: (x + x.abs()) / 2, F.relu),
    "out=": ("relu", into_another, F.relu),
    "clamp(0, 1)": ("hardtanh", lambda x: x.clamp(0, 1), lambda x: F.hardtanh(x, 0, 1)),
    "clamp(-1, 1)": ("hardtanh", lambda x: x.clamp(-1, 1), F.hardtanh),
    "clamp_(-2, 2)": ("hardtanh", lambda x: x.clamp_(-2, 2), lambda x: F.hardtanh(x, -2, 2)),
    "clamp twice": ("hardtanh", lambda x: x.clamp(min=-1).clamp(max=1), F.hardtanh),
    "clamp(0, 6)": ("relu6", lambda x: x.clamp(0, 6), F.relu6),
    "softsign": ("softsign", lambda x: x / (1 + x.abs()), F.softsign),
    "elu by exp": ("elu", lambda x: torch.where(x > 0, x, x.exp() - 1), F.elu),
    "elu by expm1": ("elu", lambda x: torch.where(x > 0, x, torch.expm1(x)), F.elu),
    "elu by clamp": ("elu", lambda x: x.clamp(min=0) + (x.exp() - 1).clamp(max=0), F.elu),
    "log1p(exp)": ("softplus", lambda x: torch.log1p(torch.exp(x)), F.softplus),
    "log(1 + exp)": ("softplus", lambda x: torch.log(1 + torch.exp(x)), F.softplus),
    "logaddexp": ("softplus", lambda x: torch.logaddexp(x, torch.zeros_like(x)), F.softplus),
    "stable softplus": (
        "softplus",
        lambda x: F.relu(x) + torch.log1p(torch.exp(-x.abs())),
        F.softplus,
    ),
    "a view inside": ("silu", in_a_view, F.silu),
    "a transpose inside": ("silu", transposed, F.silu),
    "two transposes": ("silu", of_two_transposes, F.silu),
    "heads inside": ("silu", in_heads, F.silu),
    "an axis inside": ("silu", with_an_axis, F.silu),
    "addcmul": ("silu", lambda x: torch.addcmul(torch.zeros_like(x), x, x.sigmoid()), F.silu),
    "addcmul_": ("silu", summed_up, F.silu),
    "addcdiv": ("silu", lambda x: torch.addcdiv(torch.zeros_like(x), x, 1 + (-x).exp()), F.silu),
    "lerp": ("silu", lambda x: torch.lerp(torch.zeros_like(x), x, x.sigmoid()), F.silu),
    "sigmoid_().mul_": ("silu", in_place, F.silu),
    "casts": ("silu", in_double, F.silu),
    "pow(relu)": ("relu_squared", lambda x: torch.pow(torch.relu(x), 2), squared),
    "square_": ("relu_squared", lambda x: torch.relu(x).square_(), squared),
    "relu * relu": ("relu_squared", lambda x: torch.relu(x) * torch.relu(x), squared),
    "mish": ("mish", lambda x: x * torch.tanh(torch.log1p(torch.exp(x))), F.mish),
    "normal distribution": ("gelu", lambda x: x * torch.special.ndtr(x), F.gelu),
    "erfc": ("gelu", lambda x: 0.5 * x * torch.erfc(-x * 2**-0.5), F.gelu),
    "sigmoid by exp": ("sigmoid", lambda x: torch.exp(x) / (1 + torch.exp(x)), torch.sigmoid),
    "sigmoid by a power": ("sigmoid", lambda x: 1 / (1 + math.e ** (-x)), torch.sigmoid),
    "log of sigmoid": ("logsigmoid", lambda x: -torch.log(1 + torch.exp(-x)), F.logsigmoid),
    "hardswish": ("hardswish", lambda x: x * (x + 3).clamp(0, 6) / 6, F.hardswish),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_spelling_is_one_activation_of_its_kind(name: str) -> None:
    kind, written, same = KNOWN[name]
    model = Net(written)
    (site,) = sites(model)
    assert (site.kind, bool(site.formula)) == (kind, True)
    with torch.no_grad():
        x = model.first(X)
        y = same(x)
    assert site.score == pytest.approx(float(sg.affinity(x, y).score), abs=1e-4)


class Autocast(nn.Module):
    """A network in lower precision, with casts between its functions."""

    def __init__(self, written: Function) -> None:
        super().__init__()
        self.net = Net(written)

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x)


def test_a_change_of_sign_belongs_to_what_it_turns_upright() -> None:
    begins: dict[str, Function] = {
        "sigmoid": lambda x: 2 / (1 + torch.exp(-2 * x)) - 1,
        "logsigmoid": lambda x: -torch.log(1 + torch.exp(-x)),
        "relu": lambda x: x.clamp(max=0),
    }
    for kind, written in begins.items():
        (site,) = sites(Net(written))
        with torch.no_grad():
            x = Net(written).first(X)
            y = written(x)
        assert site.kind == kind
        assert site.score == pytest.approx(float(sg.affinity(x, y).score), abs=1e-4)
    turned = sites(Net(lambda x: (-2 * x).clamp(min=0)))
    assert [(site.kind, site.formula) for site in turned] == [("relu", "clamp(x, 0)")]


@pytest.mark.parametrize("name", KNOWN)
def test_a_spelling_under_autocast(name: str) -> None:
    kind, written, _ = KNOWN[name]
    assert [site.kind for site in sites(Autocast(written))] == [kind]


# Formulas that no table knows, and how they are written out.
ELEMENTWISE: dict[str, tuple[Function, str]] = {
    "abs": (torch.abs, "abs(x)"),
    "abs method": (lambda x: 2 * x.abs(), "abs(x)"),
    "square": (torch.square, "square(x)"),
    "power": (lambda x: x**2, "x ** 2"),
    "product": (lambda x: x * x, "x * x"),
    "cube": (lambda x: x**3, "x ** 3"),
    "cos": (torch.cos, "cos(x)"),
    "atan": (torch.atan, "atan(x)"),
    "erf": (torch.erf, "erf(x)"),
    "a bump": (lambda x: torch.exp(-(x**2)), "exp((-(x ** 2)))"),
    "logarithm of abs": (lambda x: torch.log1p(x.abs()), "log1p(abs(x))"),
    "root with sign": (lambda x: x.sign() * x.abs().sqrt(), "sign(x) * sqrt(abs(x))"),
    "a step": (lambda x: (x > 0).float(), "float((x > 0))"),
    "relu cubed": (lambda x: F.relu(x) ** 3, "relu(x) ** 3"),
    "squareplus": (lambda x: (x + torch.sqrt(x * x + 4)) / 2, "x + sqrt(((x * x) + 4))"),
    "swish": (lambda x: x * torch.sigmoid(2 * x), "x * sigmoid((x * 2))"),
    "another slope": (
        lambda x: torch.where(x > 0, x, 0.5 * (x.exp() - 1)),
        "where((x > 0), x, ((exp(x) - 1) * 0.5))",
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_formula_without_a_name_between_two_layers(name: str) -> None:
    written, text = ELEMENTWISE[name]
    (site,) = sites(Net(written))
    assert (site.kind, site.formula) == ("elementwise", text)


# Neither a known activation nor certainly none: the coverage says so.
UNCLEAR: dict[str, tuple[Function, str]] = {
    "exponential": (torch.exp, "exp(x)"),
    "limits of pixels": (lambda x: x.clamp(0, 640), "clamp(x, 0, 640)"),
    "logarithm": (lambda x: torch.log(x.clamp(min=1e-3)), "log(clamp(x, 0.001))"),
    "squares that are added": (lambda x: x.roll(1, 0) + x**2, "x ** 2"),
    "bounded probabilities": (lambda x: x.softmax(-1).clamp(1e-6, 1), "clamp(x, 1e-06, 1)"),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_is_not_clear_is_listed(name: str) -> None:
    written, text = UNCLEAR[name]
    found = sg.signature(Net(lambda x: F.relu(written(x).roll(1, 0))), X, progress=False)
    straight = sg.signature(nn.Sequential(Net(written), nn.ReLU()), X, progress=False)
    assert [site.kind for site in (*found.sites, *straight.sites)] == ["relu", "relu"]
    (note,) = [note for note in straight.coverage.notes if "not taken for activations" in note]
    assert f"{text} in " in note


def test_without_fusing_nothing_is_looked_for() -> None:
    found = sg.signature(nn.Sequential(Net(torch.exp), nn.ReLU()), X, progress=False, fuse=False)
    assert not [note for note in found.coverage.notes if "taken for" in note]


def test_an_error_names_what_was_not_clear() -> None:
    with pytest.raises(sg.NoActivationError, match=r"exp\(x\) in the network"):
        sg.signature(Net(torch.exp), X, progress=False)
