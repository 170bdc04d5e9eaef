"""Networks that keep state or overwrite their input: one pass a batch is all that is left of."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture import repeating
from tests.capture.written import X


class Stateful(nn.Module):
    """A layer and a formula, and something that it remembers."""

    def __init__(self, remember: Callable[[Any, Tensor], None]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.remember = nn.Linear(8, 16), nn.Linear(16, 4), remember
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("slots", torch.zeros(8, 16))
        self.scale = nn.Parameter(torch.ones(16))
        self.calls, self.cache, self.by_name = 0, [], {}
        self.table: Tensor | None = None
        self.kept = torch.zeros(16)
        self.counter = Counter()

    def forward(self, x: Tensor) -> Any:
        y = self.first(x) * self.scale
        self.remember(self, y)
        y = y + self.mean + self.slots[0] + self.kept + 0.1 * (self.calls + self.counter.calls)
        return self.last(y * torch.sigmoid(y))


class Counter:
    """An object that is no module."""

    def __init__(self) -> None:
        self.calls = 0


def replace_mean(net: Any, y: Tensor) -> None:
    net.mean = 0.9 * net.mean + 0.1 * y.mean(0)


def write_slot(net: Any, y: Tensor) -> None:
    net.slots[int(net.count)] = y.mean(0)
    net.slots[0] += 0.5
    net.count += 1


def grow(net: Any, y: Tensor) -> None:
    net.calls += 1
    net.cache.append(y.mean())
    net.by_name.setdefault("steps", []).append(net.calls)
    net.counter.calls += 1


def make_once(net: Any, y: Tensor) -> None:
    if net.table is None:
        net.table = torch.arange(16.0)
    net.table.add_(1)


def write_data(net: Any, y: Tensor) -> None:
    net.scale.data = net.scale.data * 0.9


REMEMBERED: dict[str, Callable[[Any, Tensor], None]] = {
    "a counter": lambda net, y: net.count.add_(1),
    "a running mean": lambda net, y: net.mean.lerp_(y.mean(0), 0.1),
    "a buffer that is replaced": replace_mean,
    "rows of a buffer": write_slot,
    "a parameter": lambda net, y: net.scale.data.mul_(0.9),
    "the data of a parameter": write_data,
    "a tensor that is an attribute": lambda net, y: net.kept.add_(0.1),
    "plain attributes": grow,
    "a table": make_once,
}


def state_of(net: Any) -> list[Any]:
    tensors = [*net.state_dict().values(), net.kept]
    plain = [net.calls, len(net.cache), net.by_name, net.counter.calls]
    return [*tensors, *net.cache, *([] if net.table is None else [net.table]), plain]


def are_same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a, b) if isinstance(a, Tensor) else a == b
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", REMEMBERED)
def test_state_is_that_of_one_pass_a_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # with others, a change of a parameter could be theirs, and is refused
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    net = Stateful(REMEMBERED[name]).eval()
    plain = copy.deepcopy(net)
    before = state_of(copy.deepcopy(net))
    batches = [X, X + 0.5, X - 0.5]
    sg.signature(plain, batches, fuse=False, progress=False)
    found = sg.signature(net, batches, progress=False)
    assert [site.kind for site in found.sites] == ["silu"]
    assert are_same(state_of(net), state_of(plain))
    assert not are_same(state_of(net), before)


def test_scores_are_those_of_the_state_at_that_batch() -> None:
    batches = [X, X + 0.5]
    net = Stateful(lambda net, y: net.mean.add_(1.0)).eval()
    written = Stateful(lambda net, y: net.mean.add_(1.0)).eval()
    register = copy.deepcopy(written)
    register.forward = lambda x: register.last(hidden(register, x))
    first = [site.score for site in sg.signature(net, batches, progress=False).sites]
    known = [site.score for site in sg.signature(register, batches, progress=False).sites]
    assert first == pytest.approx(known, abs=1e-6)


def hidden(net: Any, x: Tensor) -> Tensor:
    """The same network with an activation of torch."""
    y = net.first(x) * net.scale
    net.remember(net, y)
    return nn.functional.silu(y + net.mean + net.slots[0] + net.kept)


class Overwriting(nn.Module):
    """Standardizes its input in place, as some pipelines do."""

    def __init__(self, *, through_view: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.through_view = nn.Linear(8, 16), through_view

    def forward(self, x: Tensor) -> Any:
        (x[:, :4] if self.through_view else x).sub_(0.25).mul_(2)
        y = self.first(x)
        return y * torch.sigmoid(y)


@pytest.mark.parametrize("through_view", [False, True])
def test_an_input_that_is_overwritten(through_view: bool) -> None:
    inputs = []
    for fuse in (True, False):
        batches = [X.clone(), X.clone() + 1]
        net = Overwriting(through_view=through_view)
        sg.signature(net, batches, progress=False, fuse=fuse)
        inputs.append(batches)
    assert all(torch.equal(a, b) for a, b in zip(*inputs, strict=True))
    assert not torch.equal(inputs[0][0], X)


def runs_of(net: nn.Module, batches: list[Tensor]) -> int:
    runs = 0

    def forward(model: nn.Module, batch: Tensor) -> Any:
        nonlocal runs
        runs += 1
        return model(batch)

    sg.signature(net, batches, forward=forward, progress=False)
    return runs


def test_a_network_is_run_again_on_the_first_batch_only() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 16)

        def forward(self, x: Tensor) -> Any:
            y = self.first(x)
            return y * torch.sigmoid(y)

    net = Plain()
    assert runs_of(net, [X, X + 1, X + 2]) == 4
    assert runs_of(net, [X, X + 1, X + 2]) == 3
    assert runs_of(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), [X, X]) == 2


class Masked(nn.Module):
    """Selects elements, so that shapes differ from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        y[y < 0] *= 0.1
        return self.last(y)


def test_shapes_that_depend_on_the_data_do_not_make_formulas_new() -> None:
    net = Masked()
    batches = [X, X + 0.5, X - 0.5, X + 1]
    assert runs_of(net, batches) == 5
    (site,) = sg.signature(net, batches, progress=False).sites
    assert (site.kind, site.batches) == ("leaky_relu", 4)


def test_nothing_is_copied_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    kept = repeating.State

    def counted(*args: Any, **kwargs: Any) -> object:
        made.append(args)
        return kept(*args, **kwargs)

    monkeypatch.setattr("sigmascope.capture.repeating.State", counted)
    net = Masked()
    for _ in range(2):
        sg.signature(net, [X, X, X], progress=False)
    assert len(made) == 1
    sg.signature(Stateful(REMEMBERED["a counter"]).eval(), [X, X, X], progress=False)
    assert [len(modules) for modules, _ in made[1:]] == [3, 1, 1]
