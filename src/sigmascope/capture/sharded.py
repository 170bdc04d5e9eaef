"""Networks whose weights are spread over processes: shards of `fully_shard`, tensor parallelism.

`torch.distributed.fsdp.fully_shard` (FSDP2) keeps a shard of each parameter in each process and
gathers the whole ones while a module runs, so that activations are ordinary tensors: such a network
is measured by all processes together. With tensor parallelism each process computes some of the
channels only, and there is no score of what it sees.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from sigmascope.capture.walk import modules_of
from sigmascope.errors import NetworkError

FSDP = "FSDPModule"  # the class that `fully_shard` adds to that of a module
_WRAPPERS = frozenset(
    ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", FSDP, "ScriptModule")
)
LEFT_OPEN = (
    "The forward pass of a network in shards broke off, and this version of torch has no "
    "reset_iter_state to end it: build the network again from a checkpoint before it trains on."
)
# set by `distribute_module`, and so by all styles of `parallelize_module`
DISTRIBUTED = "_distribute_module_applied"


def wrapper_of(module: nn.Module) -> str:
    """Return the name of the wrapper of torch that a module is or derives from; empty for none.

    >>> wrapper_of(nn.DataParallel(nn.ReLU())), wrapper_of(nn.ReLU())
    ('DataParallel', '')
    """
    return _wrapper(type(module).__mro__)


@lru_cache(maxsize=512)
def _wrapper(bases: tuple[type, ...]) -> str:
    ours = (base.__name__ for base in bases if base.__module__.startswith("torch."))
    return next((name for name in ours if name in _WRAPPERS), "")


def original_class(module: nn.Module) -> type:
    """Return the class of a module as it was before `fully_shard`, which derives another from it.

    >>> original_class(nn.ReLU())
    <class 'torch.nn.modules.activation.ReLU'>
    """
    kind = type(module)
    if _wrapper(kind.__mro__) != FSDP:
        return kind
    return next(base for base in kind.__bases__ if _wrapper(base.__mro__) != FSDP)


def is_distributed(tensor: Tensor | None) -> bool:
    """Return whether a tensor is a DTensor; without importing it, which takes long."""
    return type(tensor).__name__ == "DTensor"


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with all its values; of a DTensor all processes must ask together."""
    gathered: Any = tensor
    return gathered.full_tensor() if is_distributed(tensor) else tensor


def sharded_parts(network: nn.Module) -> dict[nn.Module, list[nn.Parameter | None]]:
    """Return the modules that `fully_shard` was applied to, each with the parameters it gathers."""
    owners: dict[str, nn.Module | None] = {}
    parts: dict[nn.Module, list[nn.Parameter | None]] = {}
    if "torch.distributed.fsdp" not in sys.modules:
        return parts
    for path, module in modules_of(network):  # parents come first
        parent = owners.get(path.rpartition(".")[0]) if path else None
        owner = owners[path] = module if wrapper_of(module) == FSDP else parent
        if owner is not None:
            parts.setdefault(owner, []).extend(module._parameters.values())
    return parts


@contextmanager
def shards_kept(network: nn.Module) -> Iterator[None]:
    """Hold shards again at the end where shards were held before.

    The outermost module keeps the gathered weights after a forward pass, until a backward pass has
    used them. None comes after a measurement, and a step of the optimizer, which changes the
    shards, would leave the gathered weights as they were.
    """
    parts = sharded_parts(network)
    held = [part for part, own in parts.items() if any(map(is_distributed, own))]
    try:
        yield
    except BaseException as error:
        if not _end_pass([*parts]):
            error.add_note(LEFT_OPEN)
        raise
    finally:
        for part in held:
            part.reshard()  # type: ignore[operator]


def _end_pass(parts: list[nn.Module]) -> bool:
    """Let a pass that broke off be over; return whether this version of torch can."""
    inside = {one for part in parts for one in part.modules() if one is not part}
    outermost = [part for part in parts if part not in inside]
    for part in outermost:
        if not hasattr(part, "reset_iter_state"):
            return False
        with suppress(RuntimeError):  # a part of a larger network that is in shards
            part.reset_iter_state()  # type: ignore[operator]
    return True


def refuse_tensor_parallel(modules: list[tuple[str, nn.Module]]) -> None:
    """Raise where a process computes a part of the channels.

    Raises:
        NetworkError: a module is tensor parallel.
    """
    if "torch.distributed.tensor" not in sys.modules:
        return
    sharded = [f"{path}." if path else "" for path, one in modules if wrapper_of(one) == FSDP]
    for path, module in modules:
        spread = DISTRIBUTED in vars(module) or (
            any(map(is_distributed, module._parameters.values()))
            and not f"{path}.".startswith(tuple(sharded))
        )
        if spread:
            where = f"The part {path!r} of the network" if path else "The network"
            raise NetworkError(
                f"{where} is tensor parallel (DTensor, parallelize_module): each process computes "
                "some of the channels only, and a score needs all of them. Gather the weights into "
                "a full state dict (torch.distributed.checkpoint.state_dict.get_model_state_dict "
                "with full_state_dict=True) and load them into a network that is not parallelized."
            )
