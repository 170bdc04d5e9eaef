"""Networks that can be watched, and their state, restored after a measurement."""

from __future__ import annotations

import copy
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import torch
from torch import nn

from sigmascope.capture.ending import ending
from sigmascope.capture.gate import Gate
from sigmascope.capture.sharded import FSDP, refuse_tensor_parallel, wrapper_of
from sigmascope.capture.turns import one_at_a_time
from sigmascope.capture.walk import modules_of
from sigmascope.errors import InputTypeError, NetworkError

# Base class -> why its calls cannot be watched: they run in other threads, in other processes, or
# without Python.
WRAPPERS = {
    "DataParallel": "runs copies of the network in threads. Pass the network inside: model.module.",
    "DistributedDataParallel": "runs in several processes. Pass the network inside: model.module.",
    "FullyShardedDataParallel": "holds the weights in shards, in flat tensors. Shard the network "
    "with torch.distributed.fsdp.fully_shard instead, which sg.signature and sg.Monitor measure, "
    "or gather the weights (FSDP.summon_full_params or a full state dict) and load them into an "
    "unwrapped network.",
    FSDP: "holds the weights in shards, which only sg.signature, sg.Monitor and sg.AffinityPenalty "
    "handle. Gather them into a full state dict and load them into an unwrapped network.",
    "ScriptModule": "is TorchScript, which runs without Python. Pass the original nn.Module, "
    "before torch.jit.script or trace.",
}
# These call the network that they hold. It is measured alone, since calling them is a matter of all
# processes, or of threads.
DATA_PARALLEL = ("DataParallel", "DistributedDataParallel")
COMPILED = "_orig_mod"


def unwrapped(model: object, *, sharded: bool = False) -> nn.Module:
    """Return the network to watch: that inside data-parallel wrappers and torch.compile, or itself.

    Args:
        model: the network.
        sharded: whether it may hold its weights in shards of `fully_shard`.

    Raises:
        InputTypeError: it is not a network.
        NetworkError: its calls cannot be watched.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(
            f"model is a {type(model).__name__}, not a torch.nn.Module. Pass the network "
            "itself, not its class, its outputs or its state dict."
        )
    while (within := _next_within(model)) is not None:
        model = within
    modules = modules_of(model)
    for path, module in modules:
        if any(
            isinstance(parameter, nn.parameter.UninitializedParameter)
            for parameter in module._parameters.values()
            if type(parameter) is not nn.Parameter  # of which it takes long to ask
        ):
            raise NetworkError(
                f"the layer {plain_path(path)!r} has no weights yet. Run the network once on a "
                "batch first."
            )
        wrapper = wrapper_of(module)
        if wrapper in WRAPPERS and not (sharded and wrapper == FSDP):
            where = f"The part {plain_path(path)!r} of the network" if path else "The network"
            raise NetworkError(f"{where} is a {wrapper}, which {WRAPPERS[wrapper]}")
    refuse_tensor_parallel(modules)
    return model


def called_within(model: nn.Module) -> nn.Module:
    """Return the network that runs when a data-parallel wrapper is called, or the model itself.

    Raises:
        NetworkError: copies of it run in threads.
    """
    while isinstance(model, nn.Module) and wrapper_of(model) in DATA_PARALLEL:
        if (
            len(getattr(model, "device_ids", None) or ()) > 1
            and wrapper_of(model) == "DataParallel"
        ):
            raise NetworkError(f"The network is a DataParallel, which {WRAPPERS['DataParallel']}")
        inside = model._modules.get("module")
        if inside is None:
            break
        model = inside
    return model


def is_replicated(model: nn.Module) -> bool:
    """Return whether a network is inside DistributedDataParallel: the same in all processes."""
    while (within := _next_within(model)) is not None:
        if wrapper_of(model) == "DistributedDataParallel":
            return True
        model = within
    return False


def _next_within(model: nn.Module) -> nn.Module | None:
    """Return the network inside a wrapper that it can be measured without."""
    if COMPILED in model._modules:
        return model._modules[COMPILED]
    return model._modules.get("module") if wrapper_of(model) in DATA_PARALLEL else None


def plain_path(path: str) -> str:
    """Return the path of a module without the parts that `torch.compile` adds.

    >>> plain_path("block._orig_mod.act")
    'block.act'
    """
    if COMPILED not in path:
        return path
    return ".".join(part for part in path.split(".") if part != COMPILED)


@contextmanager
def preserve_state(model: nn.Module, *, mode: str) -> Iterator[None]:
    """Run without gradients, in evaluation mode ("eval") or unchanged ("as-is"); restore all state.

    Flags are set one by one, since `train` and `eval` may be overridden and do more. Running
    statistics that a network in training mode updates are restored too.

    One thread at a time is inside of such a context, see `one_at_a_time`. Where the network is in
    training mode, other threads that call it, or switch its mode, wait until its state is restored;
    where it is in evaluation mode, nothing of it changes, and they go on.

    Raises:
        NetworkError: the weights changed, while other threads were running.
    """
    with one_at_a_time(f"measures {type(model).__name__}"), ending() as last:
        stack = ExitStack()  # closed also where its own end is interrupted
        last.append(stack.close)
        # otherwise nothing is compiled, and importing the compiler takes a second
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        modules = stack.enter_context(flags_kept(model))
        steps = stack.enter_context(ending())
        steps.append(partial(torch._C._set_grad_enabled, torch.is_grad_enabled()))
        torch._C._set_grad_enabled(False)
        if mode == "as-is":
            _keep_buffers(modules, steps)
        else:
            for module in modules:
                if module.training:  # setting it takes long
                    module.training = False
        versions = _versions(modules)
        with randomness_kept():
            yield
        if threading.active_count() > 1 and _versions(modules) != versions:
            raise NetworkError(
                f"the weights of {type(model).__name__} changed while it was measured. If another "
                "thread trains it, measure a copy, copy.deepcopy(model), or in the same thread."
            )


@contextmanager
def flags_kept(model: nn.Module, *, gated: bool = False) -> Iterator[list[nn.Module]]:
    """Yield the modules of a network; restore their training modes afterwards.

    Other threads that run the network wait, see `Gate`, if it is in training mode or `gated`.
    """
    with one_at_a_time(f"measures {type(model).__name__}"), ending() as steps:
        modules = [module for _, module in modules_of(model)]
        if gated or any(module.training for module in modules):
            gate = Gate(modules)
            steps.append(gate.open)
            gate.close()
        flags = [module.training for module in modules]

        def restore() -> None:
            for module, flag in zip(modules, flags, strict=True):
                if module.training is not flag:  # setting it takes long
                    module.training = flag

        steps.append(restore)
        yield modules


def _keep_buffers(modules: list[nn.Module], steps: list[Callable[[], object]]) -> None:
    """Restore the buffers of modules in training mode at the end, before gradients are."""
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in modules
        if module.training
        for name, buffer in module.named_buffers(recurse=False)
    ]

    def restore() -> None:
        for module, name, buffer, value in buffers:
            # also where the network has replaced the tensor
            module._buffers[name] = buffer.copy_(value)

    steps.append(restore)


def _versions(modules: list[nn.Module]) -> list[int]:
    """Return how often each parameter was changed in place."""
    parameters = (one for module in modules for one in module._parameters.values())
    return [one._version for one in parameters if one is not None and not one.is_inference()]


def copied(model: nn.Module) -> nn.Module:
    """Return a copy of the network to watch, of a moment in which no thread measures it.

    Raises:
        NetworkError: it holds a tensor that was computed from its parameters.
    """
    with one_at_a_time(f"copies {type(model).__name__}"):
        network = unwrapped(model)
        try:
            return copy.deepcopy(network)
        except RuntimeError as error:
            computed = next(_computed(network), None)
            if computed is None:
                raise
            raise NetworkError(
                f"the network cannot be copied: {computed} was computed from parameters, as "
                "pruning and the old weight_norm do. Make it a parameter first, by "
                "torch.nn.utils.prune.remove or torch.nn.utils.remove_weight_norm."
            ) from error


def _computed(network: nn.Module) -> Iterator[str]:
    """Yield the names of tensors that a network holds and that have a history."""
    for path, module in network.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                yield f"{path}.{name}".lstrip(".")


@contextmanager
def without_gradients() -> Iterator[None]:
    """Run without gradients; after a Ctrl-C at the end of `torch.no_grad()` they may stay off."""
    with ending() as steps:
        steps.append(partial(torch._C._set_grad_enabled, torch.is_grad_enabled()))
        torch._C._set_grad_enabled(False)
        yield


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Restore the random states of torch, NumPy and Python afterwards.

    These are the same for all threads, so that one at a time is inside, see `one_at_a_time`.
    """
    with one_at_a_time("draws random numbers"), ending() as steps:
        steps += [
            partial(random.setstate, random.getstate()),
            partial(np.random.set_state, np.random.get_state()),
            partial(torch.set_rng_state, torch.get_rng_state()),
        ]
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for device in range(torch.cuda.device_count()):
                drawn = torch.cuda.get_rng_state(device)
                steps.append(partial(torch.cuda.set_rng_state, drawn, device))
        yield
