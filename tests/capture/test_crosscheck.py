"""The check below the recorder: it finds what the recorder cannot see, and changes nothing."""

from __future__ import annotations

import gc
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import sigmascope as sg
from sigmascope.capture import activations, crosscheck
from sigmascope.capture.activations import register_activation

X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
JIT = "torch.jit.script or other code outside Python"


def scripted(function: Any) -> Any:
    with pytest.warns((DeprecationWarning, FutureWarning), match=r"torch\.jit\.script"):
        return torch.jit.script(function)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias) * torch.tanh(x)


def one_gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


class Calls(nn.Module):
    """A linear layer, and a function of its output."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.act, self.function = nn.Linear(4, 4), nn.SELU(), function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.act(self.function(self.layer(x)))
        return result


def notes(network: nn.Module, batch: Tensor = X, **options: Any) -> list[str]:
    found = sg.signature(network, batch, progress=False, **options).coverage.notes
    told = ("not seen", "not checked", "hides")
    return [note for note in found if any(words in note for words in told)]


class Doubled(nn.ReLU):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * F.relu(x)


def test_activations_in_compiled_code_are_counted() -> None:
    compiled = scripted(bias_gelu)
    network = Calls(lambda x: compiled(compiled(x, x), x))
    expected = [f"2 gelu, 2 tanh computed inside {JIT} were not seen"]
    assert notes(network) == expected
    assert notes(network) == expected  # known from the first time
    assert notes(network, activations=["gelu", "selu"]) == [
        f"2 gelu computed inside {JIT} were not seen"
    ]
    assert [site.kind for site in sg.signature(network, X, progress=False)] == ["selu"]


def test_nothing_seen_names_what_was_computed() -> None:
    compiled = scripted(bias_gelu)
    network = Calls(lambda x: compiled(x, x))
    network.act = nn.Identity()
    with pytest.raises(
        sg.NoActivationError, match=rf"Note that 1 gelu, 1 tanh computed inside {JIT} "
    ):
        sg.signature(network, X)


POINTWISE = {
    "relu": F.relu,
    "relu6": F.relu6,
    "layer": nn.Hardswish(),
    "method": lambda x: x.tanh().sigmoid_(),
    "operator": lambda x: torch.ops.aten.gelu(x),
    "celu": F.celu,
    "prelu": nn.PReLU(),
    "logsigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "threshold": lambda x: F.threshold(x, 0.0, 1.0),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "own forward": Doubled(),
    "pooled": nn.Mish(),
}


@pytest.mark.parametrize("case", POINTWISE)
def test_what_is_seen_is_not_reported(case: str) -> None:
    pool = (lambda x: torch.tanh(x)) if case == "pooled" else "channels"
    assert notes(Calls(POINTWISE[case]), pool=pool) == []


def test_a_subclass_of_relu_with_a_forward_of_its_own_is_seen() -> None:
    found = sg.signature(Calls(Doubled()), X, progress=False)
    assert [(site.path, site.kind) for site in found] == [("function", "relu"), ("act", "selu")]


WRITTEN_OUT = "write the attention out (in transformers, attn_implementation='eager')"


def attend(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x[None], x[None], x[None])[0]


def test_softmax_inside_attention_is_named_where_softmax_is_asked_for() -> None:
    expected = "1 softmax computed inside scaled_dot_product_attention was not seen"
    assert notes(Calls(attend), activations="all") == [f"{expected}; {WRITTEN_OUT}"]


def test_an_attention_that_hides_its_softmax_has_a_hint() -> None:
    assert notes(Calls(attend)) == [
        f"scaled_dot_product_attention hides 1 softmax; to measure it, {WRITTEN_OUT}, and pass "
        "activations='all'"
    ]
    own = Calls(lambda x: torch.softmax(x @ x.T, -1) @ x)
    assert notes(own) == notes(own, activations="all") == []


@pytest.mark.parametrize("training", [False, True])
def test_the_attention_layer_of_torch_has_the_hint_too(training: bool) -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            return self.attention(x[None], x[None], x[None], need_weights=training)[0][0].relu()

    for one in (Attends(), Attends().requires_grad_(False)):  # the second may take another path
        (note,) = notes(one)
        assert note.startswith("nn.MultiheadAttention hides 1 softmax; to measure it, ")


def test_gates_of_a_function_are_named() -> None:
    layer = nn.LSTM(4, 4)

    def gated(x: Tensor) -> Tensor:
        cell = nn.GRUCell(4, 4)
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        return torch.gru_cell(x, x, *weights) + layer(x)[0]

    found = notes(Calls(gated))
    assert any("sigmoid, 1 tanh computed inside gru_cell" in note for note in found)


def test_what_a_registered_activation_calls_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(activations, "_registered_functions", {})
    compiled = scripted(bias_gelu)
    own = register_activation(lambda x: compiled(x, x), "own")
    network = Calls(own)
    assert notes(network) == []
    assert [site.kind for site in sg.signature(network, X, progress=False)] == ["own", "selu"]


def test_modules_in_other_threads_are_named() -> None:
    act = nn.Tanh()

    def parallel(x: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(act, x).result()

    network = Calls(parallel)
    network.other = act
    (note,) = notes(network)
    assert note.startswith("1 module ran in another thread, where activations are not seen (other)")


def test_outputs_scores_and_randomness_do_not_change() -> None:
    compiled = scripted(bias_gelu)
    network = Calls(lambda x: F.dropout(compiled(x, x), 0.3))
    outputs = []
    network.register_forward_hook(lambda _, __, output: outputs.append(output.clone()))
    before = torch.get_rng_state()
    first, second = (sg.signature(network, [X, X], progress=False) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(torch.cat(outputs[:2]), torch.cat(outputs[2:]))
    assert first == second
    assert torch._C._len_torch_dispatch_stack() == 0
    assert activations.own_modes == 0


def test_an_error_of_the_network_leaves_no_mode() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ZeroDivisionError("of the network")

    network = Calls(fails)
    with pytest.raises(ZeroDivisionError, match=r"^of the network$"):
        sg.signature(network, X)
    assert torch._C._len_torch_dispatch_stack() == activations.own_modes == 0
    assert network not in crosscheck._checked


class Other(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_where_operators_cannot_be_counted_the_coverage_says_so() -> None:
    class Kind(Tensor):
        pass

    start = "whether all activations were seen was not checked: "
    with Other():
        assert notes(Calls(F.relu)) == [f"{start}another dispatch mode is active"]
    network = Calls(F.relu)
    network.register_buffer("odd", torch.zeros(2).as_subclass(Kind))
    assert notes(network) == [f"{start}tensors are of the class Kind"]


def test_a_network_that_was_changed_is_checked_again() -> None:
    network = Calls(scripted(one_gelu))
    assert len(notes(network)) == 1
    network.function, network.other = F.gelu, nn.Identity()
    assert notes(network) == []


class Switched(Calls):
    """Runs its function if a flag is set, which is not to be seen in its modules."""

    options = types.SimpleNamespace(compiled=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return torch.tanh(self.function(x) if self.options.compiled else F.gelu(x))


def test_a_network_that_takes_another_path_is_checked_again() -> None:
    network = Switched(scripted(one_gelu))
    network.options = types.SimpleNamespace(compiled=False)
    assert notes(network) == []
    network.options.compiled = True
    assert notes(network) == [f"1 gelu computed inside {JIT} was not seen"]


def test_a_batch_that_cannot_be_checked_says_nothing_of_the_next() -> None:
    network = Calls(scripted(one_gelu))
    rows = torch.nested.nested_tensor([X[:3], X[3:]], layout=torch.jagged)
    network.forward = lambda x: F.selu(network.layer(x))  # type: ignore[method-assign]
    assert notes(network, batch=rows) == [
        "whether all activations were seen was not checked: tensors are nested"
    ]
    del network.forward
    assert notes(network) == [f"1 gelu computed inside {JIT} was not seen"]


def erf_gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


def clamped(x: Tensor) -> Tensor:
    return torch.clamp(x, min=0.0)


def larger(x: Tensor) -> Tensor:
    return torch.maximum(x, 0.1 * x)


@pytest.mark.parametrize(
    ("function", "operator"), [(erf_gelu, "erf"), (clamped, "clamp"), (larger, "maximum")]
)
def test_formulas_in_compiled_code_are_named(function: Any, operator: str) -> None:
    assert notes(Calls(scripted(function))) == [f"1 {operator} computed inside {JIT} was not seen"]
    assert notes(Calls(function)) == []


def test_every_measurement_checks_once_without_keeping_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    init = crosscheck._Counting.__init__
    monkeypatch.setattr(
        crosscheck._Counting, "__init__", lambda self, one: (made.append(0), init(self, one))[1]
    )
    network = Calls(F.relu)
    for _ in range(2):
        sg.signature(network, [X, X], progress=False)
    assert len(made) == 2
    reference = weakref.ref(network)
    del network
    gc.collect()
    assert reference() is None
