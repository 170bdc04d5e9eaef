"""A network as it is: which ones hide their calls, and everything put back as it was after a
measurement.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from sigmascope.errors import InputTypeError, NetworkError

__all__ = ["preserve_state", "plain_path", "randomness_kept", "unwrapped"]

# Wrappers whose calls happen in other threads, in other processes, or without Python, by the name
# of a class among the bases.
WRAPPERS = {
    "DataParallel": "runs copies of the network in threads. Pass the network inside: model.module.",
    "DistributedDataParallel": "is for training in several processes. Pass the network inside: model.module.",
    "FullyShardedDataParallel": "holds the weights in shards. Gather them (FSDP.summon_full_params or a full state dict) "
    "and "
    "load them into an unwrapped network.",
    "FSDPModule": "holds the weights in shards. Gather them into a full state dict and load them into an "
    "unwrapped network.",
    "ScriptModule": "is TorchScript, which runs without Python. Pass the original nn.Module, before "
    "torch.jit.script or trace.",
}
COMPILED = "_orig_mod"


def unwrapped(model: object) -> nn.Module:
    """Return the network to be measured: the eager original of a compiled one, otherwise the
    network itself.

    Raises:
        InputTypeError: not an `nn.Module`.
        NetworkError: a network, or a part of it, that hides its calls.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(
            f"model is a {type(model).__name__}, not a torch.nn.Module. Pass the network "
            "itself, not its class, its outputs or "
            "its state dict."
        )
    while COMPILED in model._modules:
        model = model.get_submodule(COMPILED)
    for path, module in model.named_modules():
        if any(
            isinstance(parameter, nn.parameter.UninitializedParameter)
            for parameter in module.parameters(recurse=False)
        ):
            raise NetworkError(
                f"the layer {plain_path(path)!r} has no weights yet. Run the network once on "
                "a batch first."
            )
        for base in type(module).__mro__:
            if base.__name__ in WRAPPERS and base.__module__.startswith("torch."):
                where = f"The part {plain_path(path)!r} of the network" if path else "The network"
                raise NetworkError(f"{where} is a {base.__name__}, which {WRAPPERS[base.__name__]}")
    return model


def plain_path(path: str) -> str:
    """Return the path of a module without the traces of `torch.compile`.

    >>> plain_path("block._orig_mod.act")
    'block.act'
    """
    return ".".join(part for part in path.split(".") if part != COMPILED)


@contextmanager
def preserve_state(model: nn.Module, *, mode: str) -> Iterator[None]:
    """Run in evaluation mode (mode "eval") or as the network is ("as-is"), without gradients; put
    everything back afterwards.

    Flags are set one by one: `train` and `eval` may be overridden and do more. Running statistics
    that a network in training mode updates are put back too.
    """
    modules = list(model.modules())
    flags = [module.training for module in modules]
    buffers = []
    if mode == "as-is":
        trained = [module for module in modules if module.training]
        buffers = [
            (module, *named, named[1].clone())
            for module in trained
            for named in module.named_buffers(recurse=False)
        ]
    with ExitStack() as stack:
        stack.callback(_put_back, modules, flags, buffers)
        stack.enter_context(torch.no_grad())
        # otherwise nothing is compiled, and importing the compiler takes a second
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(randomness_kept())
        if mode == "eval":
            for module in modules:
                module.training = False
        yield


def _put_back(
    modules: list[nn.Module],
    flags: list[bool],
    buffers: list[tuple[nn.Module, str, torch.Tensor, torch.Tensor]],
) -> None:
    for module, flag in zip(modules, flags, strict=True):
        module.training = flag
    with torch.no_grad():
        for module, name, buffer, value in buffers:
            # also where the network has put another tensor in its place
            module._buffers[name] = buffer.copy_(value)


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Put the random states of torch, NumPy and Python back as they were."""
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else []
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
