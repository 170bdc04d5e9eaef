"""`check_activation`: good activations pass, and of each bad one the right thing is said."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture import activations
from sigmascope.testing import check_activation


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_registered_functions", {})
    monkeypatch.setattr(activations, "_registered_classes", {})


def failed(activation: Any, x: Tensor | None = None) -> dict[str, str]:
    found = check_activation(activation, x, backend="eager")
    return {one.question: one.detail for one in found.verdicts if one.passed is False}


def squared_relu(x: Tensor) -> Tensor:
    return torch.relu(x) ** 2


class Bump(nn.Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return x.neg_().exp_() if self.inplace else torch.exp(-x)


GOOD = [torch.relu, F.gelu, F.silu, nn.SiLU(), nn.ReLU6, nn.Hardswish(inplace=True), nn.RReLU()]


@pytest.mark.parametrize("activation", GOOD, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_activations_of_torch_pass(activation: Any) -> None:
    if isinstance(activation, nn.Hardswish):
        assert failed(activation) == {}
        assert activation.inplace
    else:
        assert failed(activation) == {}


def test_a_registered_function_and_a_registered_class_pass() -> None:
    assert failed(sg.register_activation(squared_relu)) == {}
    assert failed(sg.register_activation(Bump)) == {}


def test_one_that_is_not_registered_is_not_seen_as_one() -> None:
    remedy = "register it with sigmascope.register_activation"
    assert failed(lambda x: torch.relu(torch.tanh(x))) == {
        "seen exactly once": f"seen as tanh, relu; {remedy}"
    }
    assert failed(torch.erf) == {"seen exactly once": f"not seen; {remedy}"}


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    "mish": lambda x: torch.tanh(F.softplus(x)) * x,
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_one_that_is_written_as_a_formula_is_seen_as_what_it_is(kind: str) -> None:
    found = check_activation(FORMULAS[kind], backend="eager")
    assert found.ok
    assert found["seen exactly once"].detail == f"as {kind}"


def wrong_in_place(x: Tensor, inplace: bool = False) -> Tensor:
    return x.clamp_(min=0.5) if inplace else x.clamp(min=0)


BAD: dict[str, tuple[Callable[..., Any], str, str]] = {
    "mixing": (lambda x: x - x.mean(0), "pointwise", "an output depends on several inputs"),
    "softmax": (lambda x: x.softmax(-1), "pointwise", "an output depends on several inputs"),
    "shape": (lambda x: x[:, :4], "keeps the shape", "[16, 8] becomes [16, 4]"),
    "tuple": (lambda x: (x, x), "keeps the shape", "returns a tuple, not a tensor"),
    "type": (lambda x: x.double(), "keeps the shape", "torch.float32 becomes torch.float64"),
    "noise": (lambda x: x + torch.rand_like(x), "deterministic", "two calls differ"),
    "draws": (lambda x: x + 0 * torch.rand_like(x), "deterministic", "draws random numbers"),
    "overwrites": (lambda x: x.mul_(2), "the same in place", "overwrites its input"),
    "in place": (wrong_in_place, "the same in place", "differs by"),
    "error": (lambda x: x @ x, "keeps the shape", "raised RuntimeError: mat1 and mat2"),
    "precision": (
        lambda x: x * (1 if torch.is_autocast_enabled("cpu") else 2),
        "the same under autocast",
        "differs by",
    ),
    "compiled": (
        lambda x: x * (1 if torch.compiler.is_compiling() else 2),
        "the same under compile",
        "differs by",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said(case: str) -> None:
    activation, question, detail = BAD[case]
    assert failed(sg.register_activation(activation, "bad"))[question].startswith(detail)


def test_it_prints_itself() -> None:
    found = check_activation(lambda x: torch.relu(x) - 0.1, backend="eager")
    assert repr(found).splitlines() == [
        "<lambda>: nothing is wrong",
        "",
        "keeps the shape          yes",
        "pointwise                yes",
        "deterministic            yes",
        "the same in place        –    no option `inplace`",
        "the same under autocast  yes",
        "seen exactly once        yes  as relu",
        "the same under compile   yes",
    ]
    assert found.ok
    assert found["seen exactly once"].detail == "as relu"
    assert "something is wrong" in repr(check_activation(torch.erf, backend="eager"))


def test_without_a_compiler_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    verdict = check_activation(torch.relu)["the same under compile"]
    assert (verdict.passed, verdict.detail) == (None, "no C++ compiler found")


def test_nothing_changes() -> None:
    module, x = nn.PReLU().train(), torch.randn(4, 3)
    before, states = x.clone(), (torch.get_rng_state(), random.getstate())
    assert failed(module, x) == {}
    assert torch.equal(x, before)
    assert module.training
    assert torch.equal(torch.get_rng_state(), states[0])


def test_what_is_no_function() -> None:
    with pytest.raises(sg.InputTypeError, match=r"activation is a int\. Pass a function"):
        check_activation(3)  # type: ignore[arg-type]
