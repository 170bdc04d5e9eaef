"""Networks that can be watched, and their state, restored after a measurement."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from sigmascope.capture.walk import modules_of
from sigmascope.errors import InputTypeError, NetworkError

# Base class -> why its calls cannot be watched: they run in other threads, in other processes, or
# without Python.
WRAPPERS = {
    "DataParallel": "runs copies of the network in threads. Pass the network inside: model.module.",
    "DistributedDataParallel": "runs in several processes. Pass the network inside: model.module.",
    "FullyShardedDataParallel": "holds the weights in shards. Gather them "
    "(FSDP.summon_full_params or a full state dict) and load them into an unwrapped network.",
    "FSDPModule": "holds the weights in shards. Gather them into a full state dict and load them "
    "into an unwrapped network.",
    "ScriptModule": "is TorchScript, which runs without Python. Pass the original nn.Module, "
    "before torch.jit.script or trace.",
}
COMPILED = "_orig_mod"


def unwrapped(model: object) -> nn.Module:
    """Return the network to watch: the eager original of a compiled one, or itself."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(
            f"model is a {type(model).__name__}, not a torch.nn.Module. Pass the network "
            "itself, not its class, its outputs or its state dict."
        )
    while COMPILED in model._modules:
        model = model.get_submodule(COMPILED)
    for path, module in modules_of(model):
        if any(
            isinstance(parameter, nn.parameter.UninitializedParameter)
            for parameter in module._parameters.values()
            if type(parameter) is not nn.Parameter  # of which it takes long to ask
        ):
            raise NetworkError(
                f"the layer {plain_path(path)!r} has no weights yet. Run the network once on a "
                "batch first."
            )
        wrapper = _wrapper(type(module).__mro__)
        if wrapper:
            where = f"The part {plain_path(path)!r} of the network" if path else "The network"
            raise NetworkError(f"{where} is a {wrapper}, which {WRAPPERS[wrapper]}")
    return model


@functools.lru_cache(maxsize=512)
def _wrapper(bases: tuple[type, ...]) -> str:
    """Return the name in `WRAPPERS` of one of the bases of a class; empty for none."""
    ours = (base.__name__ for base in bases if base.__module__.startswith("torch."))
    return next((name for name in ours if name in WRAPPERS), "")


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
    """
    modules = [module for _, module in modules_of(model)]
    flags = [module.training for module in modules]
    buffers = []
    if mode == "as-is":
        buffers = [
            (module, name, buffer, buffer.clone())
            for module in modules
            if module.training
            for name, buffer in module.named_buffers(recurse=False)
        ]
    with ExitStack() as stack:
        stack.callback(_restore, modules, flags, buffers)
        stack.enter_context(torch.no_grad())
        # otherwise nothing is compiled, and importing the compiler takes a second
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(randomness_kept())
        if mode == "eval":
            for module in modules:
                if module.training:
                    module.training = False
        yield


def _restore(
    modules: list[nn.Module],
    flags: list[bool],
    buffers: list[tuple[nn.Module, str, torch.Tensor, torch.Tensor]],
) -> None:
    for module, flag in zip(modules, flags, strict=True):
        if module.training is not flag:  # setting it takes long
            module.training = flag
    with torch.no_grad():
        for module, name, buffer, value in buffers:
            # also where the network has replaced the tensor
            module._buffers[name] = buffer.copy_(value)


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Restore the random states of torch, NumPy and Python afterwards."""
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else []
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
