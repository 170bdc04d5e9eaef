"""Networks that hide their calls are refused with the remedy; the others are left as they were."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.guard import (
    is_replicated,
    plain_path,
    preserve_state,
    randomness_kept,
    unwrapped,
)
from sigmascope.errors import InputTypeError, NetworkError


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def scripted() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated
        return torch.jit.script(network())


def traced() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):
        return torch.jit.trace(network(), torch.randn(2, 4))


def stand_in(name: str, module: str) -> Callable[[], nn.Module]:
    """A subclass, as users write it, of a class that looks like a wrapper which needs several
    processes.
    """

    def build() -> nn.Module:
        wrapper = type(name, (nn.Module,), {"__module__": module})
        return type("Own", (wrapper,), {"__module__": "mine"})()

    return build


HIDING = {
    "scripted": (scripted, "is a ScriptModule, which is TorchScript.*Pass the original nn.Module"),
    "traced": (traced, "is a ScriptModule, which is TorchScript.*Pass the original nn.Module"),
    "parallel": (
        stand_in("DataParallel", "torch.nn.parallel.data_parallel"),
        "is a DataParallel, which .*threads.*model.module",
    ),
    "distributed": (
        stand_in("DistributedDataParallel", "torch.nn.parallel.distributed"),
        "is a DistributedDataParallel, which .*several processes.*model.module",
    ),
    "sharded": (
        stand_in("FullyShardedDataParallel", "torch.distributed.fsdp.fully_sharded_data_parallel"),
        "is a FullyShardedDataParallel, which .*shards.*fully_shard.*state dict.*unwrapped network",
    ),
    "sharded by function": (
        stand_in("FSDPModule", "torch.distributed.fsdp._fully_shard._fully_shard"),
        "is a FSDPModule, which .*shards.*only sg.signature.*full state dict",
    ),
}


@pytest.mark.parametrize(("build", "message"), HIDING.values(), ids=HIDING)
def test_what_hides_its_calls_is_refused(build: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(NetworkError, match=f"^The network {message}"):
        unwrapped(build())
    with pytest.raises(NetworkError, match=f"^The part '1.0' of the network {message}"):
        unwrapped(nn.Sequential(nn.ReLU(), nn.Sequential(build())))


def test_the_classes_that_are_refused_exist() -> None:
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    for wrapper in (
        FullyShardedDataParallel,
        FSDPModule,
        nn.parallel.DistributedDataParallel,
        nn.DataParallel,
    ):
        assert any(
            wrapper.__name__ == pattern.split()[2].rstrip(",") for _, pattern in HIDING.values()
        )
        assert wrapper.__module__.startswith("torch.")


def test_a_network_inside_data_parallel_wrappers_is_itself() -> None:
    model = network()
    assert unwrapped(nn.DataParallel(model)) is model
    assert unwrapped(nn.DataParallel(torch.compile(model, backend="eager"))) is model
    distributed = stand_in("DistributedDataParallel", "torch.nn.parallel.distributed")()
    distributed.module = model
    assert unwrapped(distributed) is model
    assert is_replicated(torch.compile(distributed, backend="eager"))
    assert not is_replicated(nn.DataParallel(model))
    with pytest.raises(NetworkError, match="The part '0' of the network is a DataParallel"):
        unwrapped(nn.Sequential(nn.DataParallel(model)))


def test_copies_in_threads_cannot_be_recorded() -> None:
    model = nn.DataParallel(network())
    seen = []
    with sg.recording(model, lambda call, x: seen.append(call.path)):
        model(torch.zeros(2, 4))
    assert seen == ["1"]
    model.device_ids = [0, 1]
    with (
        pytest.raises(NetworkError, match="copies of the network in threads"),
        sg.recording(model, lambda call, x: None),
    ):
        pass
    with pytest.raises(NetworkError, match="copies of the network in threads"):
        sg.AffinityPenalty(model)
    assert len(sg.signature(model, torch.randn(64, 4)).sites) == 1  # of the network inside


def test_shards_are_for_those_who_ask() -> None:
    model = stand_in("FSDPModule", "torch.distributed.fsdp._fully_shard._fully_shard")()
    assert unwrapped(model, sharded=True) is model


def test_a_class_of_somebody_else_with_such_a_name_is_not_refused() -> None:
    model = stand_in("DataParallel", "mine.parallel")()
    assert unwrapped(model) is model


@pytest.mark.parametrize("model", [nn.ReLU, torch.zeros(3), {"weight": 1}, torch.relu, None])
def test_what_is_no_network(model: object) -> None:
    with pytest.raises(
        InputTypeError, match=re.escape(f"model is a {type(model).__name__}, not a torch.nn.Module")
    ):
        unwrapped(model)


def test_a_plain_network_is_itself() -> None:
    model = network()
    assert unwrapped(model) is model


@pytest.mark.slow
def test_a_compiled_network_is_its_original() -> None:
    model = network()
    assert unwrapped(torch.compile(model, backend="eager")) is model
    nested = nn.Sequential(torch.compile(model, backend="eager"))
    assert unwrapped(nested) is nested
    assert {plain_path(path) for path, _ in nested.named_modules()} == {"", "0", "0.0", "0.1"}


def test_a_compiled_network_does_not_hide_what_is_refused() -> None:
    with pytest.raises(NetworkError, match="The part '0' of the network is a DataParallel"):
        unwrapped(torch.compile(nn.Sequential(nn.DataParallel(network())), backend="eager"))


@pytest.mark.parametrize(
    ("path", "plain"),
    [("", ""), ("_orig_mod", ""), ("a._orig_mod.b", "a.b"), ("a._orig_mod", "a"), ("a.b", "a.b")],
)
def test_plain_path(path: str, plain: str) -> None:
    assert plain_path(path) == plain


class Stubborn(nn.Module):
    """Refuses to be switched by its methods, draws random numbers and counts its calls."""

    mean: Tensor
    replaced: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.frozen = nn.BatchNorm1d(4), nn.BatchNorm1d(4).eval()
        self.drop = nn.Dropout()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("replaced", torch.zeros(4))
        self.register_buffer("empty", None)
        self.frozen.weight.requires_grad_(False)

    def train(self, mode: bool = True) -> Stubborn:
        raise AssertionError("train was called")

    def forward(self, x: Tensor, fail: type[BaseException] | None = None) -> Tensor:
        x = (
            self.drop(self.frozen(self.norm(x)))
            + random.random()
            + np.random.rand()
            + torch.rand(1)
        )
        self.mean += x.mean(0)
        self.replaced = self.replaced + x.mean(0)
        if fail:
            raise fail("here")
        return x


def state(model: nn.Module) -> dict[str, object]:
    flags = {f"{name}:training": module.training for name, module in model.named_modules()}
    grads = {
        f"{name}:grad": parameter.requires_grad for name, parameter in model.named_parameters()
    }
    return {
        **flags,
        **grads,
        **{name: value.tolist() for name, value in model.state_dict().items()},
    }


def random_state() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state()
    return (random.getstate(), name, keys.tolist(), *rest, torch.get_rng_state().tolist())


@pytest.mark.parametrize("fail", [None, ValueError, KeyboardInterrupt])
def test_a_network_in_training_is_left_as_it_was(fail: type[BaseException] | None) -> None:
    model = Stubborn()
    buffers = dict(model.named_buffers())
    before, rng = state(model), random_state()
    try:
        with preserve_state(model, mode="as-is"):
            assert model.training
            assert not model.frozen.training
            assert not torch.is_grad_enabled()
            model(torch.randn(8, 4), fail)
            model(torch.randn(8, 4), fail)
    except (ValueError, KeyboardInterrupt) as error:
        assert type(error) is fail  # noqa: PT017 - what matters comes after it
    assert state(model) == before
    assert random_state() == rng
    assert torch.is_grad_enabled()
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())


def test_without_the_guard_it_is_not() -> None:
    model = Stubborn()
    before, rng = state(model), random_state()
    model(torch.randn(8, 4))
    assert state(model) != before
    assert random_state() != rng


@pytest.mark.parametrize("fail", [None, ValueError, KeyboardInterrupt])
def test_evaluation_mode(fail: type[BaseException] | None) -> None:
    model = nn.Sequential(
        nn.BatchNorm1d(4), nn.Dropout(), nn.Sequential(nn.Dropout().eval(), nn.Linear(4, 4))
    )
    x = torch.randn(8, 4)
    before, rng = state(model), random_state()
    try:
        with preserve_state(model, mode="eval"):
            assert not any(module.training for module in model.modules())
            assert torch.equal(model(x), model(x))
            if fail:
                raise fail
    except (ValueError, KeyboardInterrupt) as error:
        assert type(error) is fail  # noqa: PT017
    assert state(model) == before
    assert random_state() == rng
    assert any(module.training for module in model.modules())


def test_methods_that_switch_modes_are_not_called() -> None:
    model = Stubborn()
    with pytest.raises(AssertionError, match="train was called"):
        model.eval()  # the control
    with preserve_state(model, mode="eval"):
        assert not model.training


@pytest.mark.parametrize("enabled", [True, False])
def test_the_switch_for_gradients_is_put_back(enabled: bool) -> None:
    with torch.set_grad_enabled(enabled):
        with preserve_state(network(), mode="eval"):
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled() is enabled


@pytest.mark.parametrize("fail", [None, ValueError, KeyboardInterrupt])
def test_randomness_is_kept(fail: type[BaseException] | None) -> None:
    before = random_state()
    try:
        with randomness_kept():
            torch.manual_seed(1)
            np.random.seed(1)
            random.seed(1)
            assert random_state() != before
            if fail:
                raise fail
    except (ValueError, KeyboardInterrupt) as error:
        assert type(error) is fail  # noqa: PT017
    assert random_state() == before
