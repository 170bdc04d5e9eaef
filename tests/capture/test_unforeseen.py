"""Whatever a network calls, and however it calls it, watching never makes it fail."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import get_testing_overrides

from sigmascope import signature
from sigmascope.capture.following import Following
from sigmascope.capture.recording import recording

# They change more than their tensor, or the process that runs the tests.
APART = {"share_memory_", "set_", "backward", "register_hook", "__reduce_ex__", "__setstate__"}
APART |= {
    "__cuda_array_interface__",
    "__dlpack__",
    "cuda",
    "xpu",
    "ipu",
    "mtia",
    "hpu",
    "pin_memory",
}


def _forms(x: Tensor) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments beside the tensor itself, in the forms in which people write them."""
    one, minus, zero = np.int64(1), -1, np.int32(0)
    dims: list[Any] = [1, minus, one, np.int64(-2)]
    forms: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {})]
    forms += [((dim,), {}) for dim in dims]
    forms += [((), {name: dim}) for name in ("dim", "axis") for dim in dims]
    forms += [((2, one), {}), ((one, 2), {}), ((minus, zero), {}), ((), {"dim0": 0, "dim1": one})]
    forms += [((zero, 2, one), {}), (((0, 2, one),), {}), (([0, 2, 1],), {}), ((one, 0, 2), {})]
    forms += [((), {"dims": (0, 2, 1)}), ((), {"dims": (zero, one, 2)}), ((), {"dims": (one,)})]
    forms += [((x.clone(),), {}), ((), {"other": x.clone()}), ((x.clone(), one), {}), ((0.5,), {})]
    forms += [((one, x.clone().long().abs()), {}), ((1, torch.tensor([0, 1])), {})]
    forms += [((), {"dim": one, "index": torch.tensor([1, 0])}), ((one, 0, 1), {}), ((0, 1), {})]
    forms += [((one, True), {}), ((), {"dim": one, "keepdim": np.bool_(True)})]
    forms += [((), {"dim": (1, one), "keepdim": True}), ((), {"source": one, "destination": zero})]
    forms += [((np.int64(2), one, 3, 4), {}), ((), {"repeats": one, "dim": one}), ((-1, 4), {})]
    forms += [((), {"min": zero}), ((), {"max": 1.0}), ((x > 0, 1.0), {}), ((x > 0,), {})]
    return forms


METHODS = sorted(
    {
        name
        for function in get_testing_overrides()
        if (name := getattr(function, "__name__", "")) in vars(torch._C.TensorBase) | vars(Tensor)
        and name not in APART
        and not name.startswith("__set__")
    }
)


class OneCall(nn.Module):
    """A linear layer, the call to try, and an activation of what it returned."""

    name: str
    form: tuple[tuple[Any, ...], dict[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> None:
        args, kwargs = self.form
        y = getattr(self.layer(x), self.name)(*args, **kwargs)
        for tensor in y if isinstance(y, (list, tuple)) else [y]:
            if isinstance(tensor, Tensor) and tensor.dtype.is_floating_point:
                torch.relu(tensor)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


def _accepted(network: OneCall, x: Tensor) -> bool:
    try:
        network(x)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("part", range(4))
def test_no_form_of_a_call_fails_while_it_is_watched(part: int) -> None:
    torch.manual_seed(0)
    x, network, tried = torch.arange(24.0).reshape(2, 3, 4) % 5 - 2, OneCall(), 0
    for network.name in METHODS[part::4]:
        for network.form in _forms(x):
            if _accepted(network, x):
                with recording(network, lambda call, x: None):
                    network(x)
                tried += 1
    assert tried > 300


def _numbers(network: nn.Module, x: Tensor, **options: Any) -> list[object]:
    torch.manual_seed(0)
    return [
        (site.kind, site.shape, site.channel_axis, site.score)
        for site in signature(network, x, progress=False, **options)
    ]


MOVES: dict[str, Callable[[Tensor, Callable[[int], Any]], Tensor]] = {
    "permute": lambda x, number: x.permute(number(0), number(2), number(1)),
    "permuted by a list": lambda x, number: torch.permute(x, [number(0), number(2), number(1)]),
    "movedim": lambda x, number: x.movedim(number(1), number(-1)),
    "mean": lambda x, number: x.mean(number(1)),
    "sum by name": lambda x, number: x.sum(dim=(number(1),)),
    "stack": lambda x, number: torch.stack([x, x], dim=number(1)),
    "index": lambda x, number: x[:, number(1), : number(3)],
    "reshape": lambda x, number: x.reshape(number(40), number(-1)),
}


class Moved(nn.Module):
    """A linear layer, a function, an activation."""

    def __init__(self, move: Callable[..., Tensor], number: Callable[[int], Any]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.move, self.number = nn.Linear(4, 4), move, number

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.move(self.layer(x), self.number))


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_integers_of_numpy_mean_what_integers_mean(move: Callable[..., Tensor]) -> None:
    x = torch.randn(40, 3, 4, generator=torch.Generator().manual_seed(0))
    plain = _numbers(Moved(move, int), [x, x])
    assert plain == _numbers(Moved(move, np.int64), [x, x])
    assert all(np.isfinite(score) for *_, score in plain)


class Residual(nn.Module):
    """Two activations behind a product that is not understood, and one behind their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.mul(self.first(x), 2)
        return torch.sigmoid(torch.tanh(self.second(torch.relu(y))) + x)


def test_a_function_that_is_not_understood_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    work_out = Following._work_out

    def failing(self: Following, call: Any, outputs: Any) -> Any:
        if call.name == "mul":
            raise ZeroDivisionError("no such thing.")
        return work_out(self, call, outputs)

    x, network = torch.randn(64, 4), Residual()
    expected = network(x)
    monkeypatch.setattr(Following, "_work_out", failing)
    found = signature(network, [x, x], progress=False)
    assert torch.equal(network(x), expected)
    relu, tanh, sigmoid = found.sites
    assert "where mul put the samples and channels was not understood" in relu.reason
    assert "ZeroDivisionError: no such thing)" in relu.reason
    assert "sample_axis=" in relu.reason
    assert tanh.reason == relu.reason
    assert np.isfinite(sigmoid.score)  # the samples are known from x, which was added


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_listed_with_a_reason(layout: torch.layout) -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    rows = [torch.randn(2 + number % 3, 4) for number in range(6)]
    found = signature(network, torch.nested.nested_tensor(rows, layout=layout), progress=False)
    (skipped,) = found.coverage.skipped
    assert skipped.reason.startswith("a nested tensor")
    assert found.samples == 6


def test_what_comes_out_of_a_nested_tensor_is_listed_with_a_reason() -> None:
    class Padded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            nested = torch.nested.nested_tensor([row[:2] for row in torch.relu(x)])
            return torch.tanh(torch.nested.to_padded_tensor(torch.relu(nested), 0.0))

    found = signature(Padded(), torch.randn(40, 3, 4), progress=False)
    assert [site.kind for site in found] == ["relu", "tanh"]
    assert found.sites[1].reason.startswith("computed from a nested tensor")
    assert "sample_axis={pattern: axis}" in found.sites[1].reason
    assert [skipped.kind for skipped in found.coverage.skipped] == ["relu"]


def test_a_tensor_that_cannot_be_read_is_listed_with_a_reason() -> None:
    from sigmascope.capture.pooling import Pooling

    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
    matrix = Pooling.matrix

    def failing(self: Pooling, tensor: Tensor, axes: Any) -> Tensor:
        if tensor.min() >= 0:  # what ReLU returned
            raise ZeroDivisionError("odd")
        return matrix(self, tensor, axes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pooling, "matrix", failing)
        found = signature(network, torch.randn(64, 4), progress=False)
    assert "reading it raised ZeroDivisionError: odd" in found["1"].reason
    assert np.isfinite(found["3"].score)
