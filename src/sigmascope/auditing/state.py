"""Everything of a network that watching it must leave as it was, and outputs to the bit."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def leaves(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of outputs of any form, in order."""
    if isinstance(value, Tensor):
        yield from value.unbind() if value.is_nested else (value,)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))


def digest(tensor: Tensor) -> str:
    """Return a digest of shape, type and every bit of a tensor."""
    plain = tensor.detach().cpu()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    content = plain.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    text = hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    text.update(content.numpy().tobytes())
    return text.hexdigest()


def same_bits(first: Any, second: Any) -> bool:
    """Return whether two outputs have the same tensors, to the bit."""
    pair = [list(map(digest, leaves(one))) for one in (first, second)]
    return pair[0] == pair[1]


HOOKS = [name for name in vars(nn.Module()) if "hooks" in name]


def state_of(network: nn.Module) -> dict[str, object]:
    """Return the state of a network: what it is of -> a value to compare."""
    state: dict[str, object] = {"random numbers": _randomness()}
    for path, module in network.named_modules():
        where = path or "(network)"
        state[f"{where}: training"] = module.training
        state[f"{where}: attributes"] = frozenset(vars(module))
        state[f"{where}: hooks"] = tuple(
            tuple(map(id, getattr(module, name).values()))
            for name in HOOKS
            if hasattr(getattr(module, name), "values")
        )
    named = [*network.named_parameters(), *network.named_buffers()]
    state |= {f"{name}: values": digest(tensor) for name, tensor in named if not tensor.is_meta}
    return state


def _randomness() -> tuple[object, ...]:
    return digest(torch.get_rng_state()), random.getstate(), repr(np.random.get_state(legacy=False))


def differences(before: dict[str, object], after: dict[str, object]) -> set[str]:
    """Return what differs between two states."""
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def seeded(run: Callable[[], Any], seed: int = 0) -> Any:
    """Return what a function returns with random numbers that are always the same."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return run()
