"""The table of activations: every spelling torch has for them, and what users add."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture import activations
from sigmascope.capture.activations import (
    FAMILIES,
    GATED,
    POINTWISE,
    SOFTMAX,
    chosen_kinds,
    kind_of_function,
    kind_of_layer,
    kind_of_module,
    known_activations,
    register_activation,
)
from sigmascope.capture.recording import recording
from sigmascope.errors import InputTypeError, OptionError


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_registered_functions", {})
    monkeypatch.setattr(activations, "_registered_classes", {})


class Calling(nn.Module):
    """A network that is one function."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def kinds_of(function: Callable[[Tensor], object], choice: str = "all") -> list[str]:
    """The kinds seen when a network calls the function on a tensor of (3, 4)."""
    seen: list[str] = []
    model = Calling(function)
    with (
        torch.no_grad(),
        recording(model, lambda call, x: seen.append(call.kind), activations=choice),
    ):
        model(torch.linspace(-2, 2, 12).reshape(3, 4))
    return seen


aten = torch.ops.aten
weight = torch.tensor([0.25])
SPELLINGS: dict[str, list[Callable[[Tensor], object]]] = {
    "celu": [
        F.celu,
        torch.celu,
        torch.celu_,
        lambda x: F.celu(x, inplace=True),
        nn.CELU(),
        aten.celu,
    ],
    "elu": [
        F.elu,
        F.elu_,
        lambda x: F.elu(x, inplace=True),
        nn.ELU(inplace=True),
        aten.elu.default,
    ],
    "gelu": [F.gelu, lambda x: F.gelu(x, approximate="tanh"), nn.GELU(), aten.gelu],
    "hardshrink": [F.hardshrink, torch.hardshrink, Tensor.hardshrink, nn.Hardshrink()],
    "hardsigmoid": [
        F.hardsigmoid,
        lambda x: F.hardsigmoid(x, inplace=True),
        nn.Hardsigmoid(),
        aten.hardsigmoid_,
    ],
    "hardswish": [
        F.hardswish,
        lambda x: F.hardswish(x, inplace=True),
        nn.Hardswish(inplace=True),
        aten.hardswish.default,
    ],
    "hardtanh": [F.hardtanh, F.hardtanh_, nn.Hardtanh(), nn.Hardtanh(0, 5), aten.hardtanh],
    "leaky_relu": [F.leaky_relu, F.leaky_relu_, nn.LeakyReLU(inplace=True), aten.leaky_relu],
    "logsigmoid": [F.logsigmoid, nn.LogSigmoid()],
    "mish": [F.mish, lambda x: F.mish(x, inplace=True), nn.Mish(inplace=True), aten.mish],
    "prelu": [
        lambda x: F.prelu(x, weight),
        lambda x: torch.prelu(weight=weight, input=x),
        nn.PReLU(),
    ],
    "relu": [
        F.relu,
        F.relu_,
        torch.relu,
        torch.relu_,
        Tensor.relu,
        Tensor.relu_,
        nn.ReLU(),
        nn.ReLU(inplace=True),
    ],
    "relu6": [
        F.relu6,
        lambda x: F.relu6(x, inplace=True),
        nn.ReLU6(inplace=True),
        nn.Hardtanh(0, 6),
    ],
    "rrelu": [F.rrelu, F.rrelu_, torch.rrelu, nn.RReLU(), nn.RReLU(inplace=True)],
    "selu": [F.selu, torch.selu, torch.selu_, nn.SELU(inplace=True)],
    "sigmoid": [
        F.sigmoid,
        torch.sigmoid,
        torch.sigmoid_,
        Tensor.sigmoid_,
        nn.Sigmoid(),
        torch.special.expit,
        aten.sigmoid,
    ],
    "silu": [
        F.silu,
        lambda x: F.silu(x, inplace=True),
        nn.SiLU(),
        nn.SiLU(inplace=True),
        aten.silu_.default,
    ],
    "softplus": [F.softplus, nn.Softplus(beta=2), aten.softplus],
    "softshrink": [F.softshrink, nn.Softshrink()],
    "softsign": [F.softsign, nn.Softsign()],
    "tanh": [
        F.tanh,
        torch.tanh,
        torch.tanh_,
        Tensor.tanh,
        Tensor.tanh_,
        nn.Tanh(),
        lambda x: torch.tanh(x, out=x),
    ],
    "tanhshrink": [F.tanhshrink, nn.Tanhshrink()],
    "threshold": [
        lambda x: F.threshold(x, 0.1, 0),
        lambda x: F.threshold_(x, 0.1, 0),
        nn.Threshold(0.1, 0, inplace=True),
    ],
    "glu": [F.glu, nn.GLU(), aten.glu],
    "softmax": [
        lambda x: F.softmax(x, 1),
        lambda x: x.softmax(-1),
        lambda x: torch.softmax(dim=1, input=x),
        lambda x: torch.special.softmax(x, 1),
        lambda x: aten._softmax(x, 1, False),
        nn.Softmax(1),
    ],
    "log_softmax": [
        lambda x: F.log_softmax(x, 1),
        lambda x: torch.special.log_softmax(x, 1),
        nn.LogSoftmax(1),
    ],
    "softmin": [lambda x: F.softmin(x, 1), nn.Softmin(1)],
    "gumbel_softmax": [F.gumbel_softmax],
}
KWARGS = {
    "relu": [
        lambda x: F.relu(input=x),
        lambda x: torch.relu(input=x),
        lambda x: F.relu(inplace=True, input=x),
    ],
    "silu": [lambda x: F.silu(inplace=False, input=x)],
    "sigmoid": [lambda x: torch.sigmoid(input=x)],
    "relu6": [
        lambda x: F.hardtanh(x, max_val=6.0, min_val=0.0),
        lambda x: aten.hardtanh.default(x, 0.0, 6.0),
    ],
}


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        pytest.param(kind, function, id=f"{kind}-{number}")
        for kind in {**SPELLINGS, **KWARGS}
        for number, function in enumerate([*SPELLINGS.get(kind, []), *KWARGS.get(kind, [])])
    ],
)
def test_every_spelling_is_seen_once(kind: str, function: Callable[[Tensor], object]) -> None:
    assert kinds_of(function) == [kind]


def test_the_spellings_cover_the_table() -> None:
    assert set(SPELLINGS) == {*POINTWISE, *SOFTMAX, *GATED}


@pytest.mark.parametrize(
    "function",
    [
        torch.abs,
        torch.exp,
        lambda x: x + 1,
        lambda x: x.clamp(min=0),
        F.normalize,
        F.dropout,
        torch.square,
        lambda x: x.T,
    ],
)
def test_other_functions_are_not_seen(function: Callable[[Tensor], object]) -> None:
    assert kinds_of(function) == []


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("pointwise", ["silu", "glu"]),
        ("softmax", ["softmax", "glu"]),
        ("all", ["silu", "softmax", "glu"]),
        (["silu", "softmax"], ["silu", "softmax", "glu"]),
        ("relu", ["glu"]),
        ([], ["glu"]),
    ],
)
def test_choice(choice: str, expected: list[str]) -> None:
    assert kinds_of(lambda x: F.glu(F.softmax(F.silu(x), 1)), choice) == expected


def test_softmax_is_off_by_default() -> None:
    assert not chosen_kinds("pointwise") & set(SOFTMAX)
    assert set(SOFTMAX) <= chosen_kinds("all")


@pytest.mark.parametrize("choice", ["rleu", ["relu", "rleu"]])
def test_unknown_choice_names_the_known_ones(choice: str) -> None:
    with pytest.raises(
        OptionError,
        match=r"'rleu' is not a valid.*pointwise, softmax, gated.*relu6.*register_activation",
    ):
        chosen_kinds(choice)


def test_a_choice_of_a_wrong_type() -> None:
    with pytest.raises(OptionError, match=r"activations must be .*got 3"):
        chosen_kinds(3)  # type: ignore[arg-type]


def test_families_are_disjoint() -> None:
    kinds = [kind for family in FAMILIES.values() for kind in family]
    assert len(kinds) == len(set(kinds))


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class Snake(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) + torch.sin(x) ** 2


class LongSnake(Snake):
    """A subclass of a registered class."""


def test_a_class_known_by_name_is_one_call() -> None:
    assert kind_of_module(QuickGELU()) == "quick_gelu"
    assert kinds_of(QuickGELU()) == ["quick_gelu"]


def test_a_registered_class_is_one_call() -> None:
    assert kinds_of(Snake()) == ["relu"]  # the control
    assert register_activation(Snake) is Snake
    assert kinds_of(Snake()) == kinds_of(LongSnake()) == ["Snake"]
    register_activation(LongSnake, "long")
    assert kinds_of(LongSnake()) == ["long"]


def test_a_registered_class_inside_another_is_not_counted() -> None:
    register_activation(Snake)

    @register_activation
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Snake()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(torch.tanh(x))

    assert kinds_of(Twice()) == ["Twice"]
    assert kinds_of(nn.Sequential(Twice(), Snake(), nn.ReLU())) == ["Twice", "Snake", "relu"]


def test_a_registered_class_that_was_not_chosen_hides_its_inside() -> None:
    register_activation(Snake)
    assert kinds_of(Snake(), "relu") == []


def test_a_registered_python_function_is_one_call() -> None:
    def snake(x: Tensor, a: float = 1.0) -> Tensor:
        return torch.relu(x) + torch.sin(a * x)

    assert kinds_of(snake) == ["relu"]  # the control
    visible = register_activation(snake)
    assert kinds_of(visible) == ["snake"]
    assert kinds_of(lambda x: visible(a=2.0, x=x)) == ["snake"]
    x = torch.randn(3)
    assert torch.equal(visible(x, 2.0), snake(x, 2.0))
    assert kinds_of(snake) == ["relu"], "only the wrapper is known"


def test_modules_inside_a_registered_function_are_not_counted() -> None:
    layer = QuickGELU()

    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer
            self.function = register_activation(lambda x: layer(x), "held")

        def forward(self, x: Tensor) -> Tensor:
            return self.function(x)

    assert kinds_of(Holding()) == ["held"]


@pytest.mark.parametrize(
    "target", [torch.sin, torch.ops.aten.sin, torch.ops.aten.sin.default, Tensor.sin_]
)
def test_a_registered_function_of_torch_is_known_by_its_name(target: Callable[..., Tensor]) -> None:
    assert register_activation(target, "sine") is target
    for spelling in (
        torch.sin,
        Tensor.sin,
        Tensor.sin_,
        torch.ops.aten.sin,
        torch.ops.aten.sin.default,
    ):
        assert kinds_of(spelling) == ["sine"]
    assert kinds_of(torch.cos) == []


def test_a_known_function_can_be_renamed() -> None:
    register_activation(F.relu, "rectifier")
    assert kinds_of(torch.relu_) == ["rectifier"]


def test_registered_kinds_are_listed_and_can_be_chosen() -> None:
    with pytest.raises(OptionError, match="'Snake' is not a valid choice"):
        chosen_kinds("Snake")
    register_activation(Snake)
    assert known_activations()["pointwise"][-1] == "Snake"
    assert "Snake" in chosen_kinds("pointwise") & chosen_kinds("Snake") & chosen_kinds("all")


@pytest.mark.parametrize("target", [nn.ReLU(), 3, "relu", int, None])
def test_what_cannot_be_registered(target: object) -> None:
    with pytest.raises(
        InputTypeError, match=r"cannot be registered as an activation\. Pass a module class"
    ):
        register_activation(target)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nn.ReLU(), "relu"),
        (nn.ReLU6(), "relu6"),
        (nn.LogSigmoid(), "logsigmoid"),
        (nn.GLU(), "glu"),
        (nn.Softmax(1), "softmax"),
        (nn.LogSoftmax(1), "log_softmax"),
        (QuickGELU(), "quick_gelu"),
        (nn.Linear(1, 1), None),
        (nn.MultiheadAttention(2, 1), None),
        (nn.Sequential(nn.ReLU()), None),
    ],
)
def test_kind_of_layer(module: nn.Module, kind: str | None) -> None:
    assert kind_of_layer(module) == kind


def test_kind_of_function_of_what_is_none() -> None:
    assert kind_of_function(len, (), {}) is None
    assert kind_of_function(object(), (), {}) is None
