"""Whatever a loader yields, as the arguments of a network: on its device, in its type."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.errors import InputError, InputTypeError

__all__ = [
    "Batch",
    "Forward",
    "batch_size",
    "batches_of",
    "fingerprint",
    "fingerprint_of_batch",
    "place_of",
    "to_model",
    "run_forward",
    "tensors_in",
]

Forward: TypeAlias = Callable[[nn.Module, Any], object]
"""A function of the network and a batch that runs the network."""

LABELS = ("label", "label_ids", "labels", "target", "targets")


@dataclass(frozen=True)
class Batch:
    """What one item of a loader holds.

    Attributes:
        content: the item, its tensors where the network is.
        size: the number of samples; 0 where the item does not show it.
        masks: part of the network, "" or "decoder" -> (n, t), which of its tokens are real, where
            the item says so.
        fingerprint: a digest of the tensors' shapes and of some of their values.
    """

    content: Any
    size: int
    masks: dict[str, Tensor]
    fingerprint: str


def place_of(model: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return the device and the floating type of a network's first parameter or buffer."""
    first = next(chain(model.parameters(), model.buffers()), None)
    floating = (
        tensor.dtype
        for tensor in chain(model.parameters(), model.buffers())
        if tensor.dtype.is_floating_point
    )
    return torch.device("cpu") if first is None else first.device, next(floating, None)


def batches_of(batches: object) -> Iterable[object]:
    """Return something to iterate over: a tensor, a mapping, a named tuple, or a pair of inputs and
    labels is one batch.

    Raises:
        InputTypeError: nothing to iterate over.
    """
    if isinstance(batches, (Tensor, np.ndarray, Mapping)) or _is_inputs_and_labels(batches):
        return [batches]
    if isinstance(batches, (str, bytes)) or not isinstance(batches, Iterable):
        raise InputTypeError(
            f"batches is a {type(batches).__name__}. Pass a DataLoader, a list of batches, "
            "or one batch as a tensor or a dict."
        )
    return batches


def _is_inputs_and_labels(items: object) -> bool:
    """Tell a tuple or list (inputs, labels, ...) from a list of batches, which have as many axes
    and are all of one kind.
    """
    if isinstance(items, tuple) and hasattr(items, "_fields"):
        return True
    if not isinstance(items, (tuple, list)) or not all(
        isinstance(one, (Tensor, np.ndarray)) for one in items
    ):
        return False
    tensors = list(tensors_in(items))
    return len({(tensor.ndim, tensor.dtype.is_floating_point) for tensor in tensors}) > 1


def to_model(item: object, model: nn.Module, *, batch_axis: int) -> Batch:
    """Move what a loader yields to the network."""
    device, dtype = place_of(model)
    if torch.is_autocast_enabled(device.type):
        dtype = None
    content = _moved(item, device, dtype)
    return Batch(content, batch_size(item, batch_axis), _masks(content), fingerprint_of_batch(item))


def _masks(content: object) -> dict[str, Tensor]:
    """Find out which tokens are real, of the network as a whole and, where it has one, of its decoder."""
    if not isinstance(content, Mapping):
        return {}
    masks = {"": content.get("attention_mask"), "decoder": content.get("decoder_attention_mask")}
    ids = content.get("decoder_input_ids")
    if masks["decoder"] is None and isinstance(ids, Tensor):
        masks["decoder"] = torch.ones_like(ids)
    return {
        part: mask.bool()
        for part, mask in masks.items()
        if isinstance(mask, Tensor) and mask.ndim == 2
    }


def batch_size(item: object, batch_axis: int) -> int:
    """Return the number of samples in what a loader yields, or 0 where no tensor in it tells."""
    first = next((tensor for tensor in tensors_in(item) if tensor.ndim > batch_axis), None)
    return 0 if first is None else first.shape[batch_axis]


def fingerprint_of_batch(item: object) -> str:
    """Digest what a loader yields."""
    return fingerprint(tensors_in(item))


def _moved(value: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        return value.to(device, dtype if value.dtype.is_floating_point else None, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(one, device, dtype) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(one, device, dtype) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(one, device, dtype) for one in value)
    if callable(getattr(value, "to", None)):  # a batch of another library, such as a graph
        return value.to(device)
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors, and arrays as tensors, in what a loader yields."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        yield torch.from_numpy(np.ascontiguousarray(value))
    elif isinstance(value, (Mapping, tuple, list)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(one)


def run_forward(model: nn.Module, content: Any) -> object:
    """Run the network on a batch: a tensor, the first of a tuple (inputs, labels, ...), or a
    mapping of arguments by name.

    Raises:
        InputError: a mapping without any argument of the network.
    """
    if isinstance(content, Mapping):
        return model(**_accepted(model, content))
    if next(tensors_in(content), None) is None:
        raise InputError(
            f"a batch of type {type(content).__name__} holds no tensor. Yield tensors, "
            "tuples (inputs, labels) or dicts of "
            "tensors, or pass forward=lambda model, batch: model(...)."
        )
    return model(content[0] if isinstance(content, (tuple, list)) else content)


def _accepted(model: nn.Module, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that the network takes; labels are left out, since they would only add a loss."""
    entries = {key: value for key, value in content.items() if key not in LABELS}
    parameters = inspect.signature(model.forward).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return entries
    names = {parameter.name for parameter in parameters}
    accepted = {key: value for key, value in entries.items() if key in names}
    if not accepted:
        raise InputError(
            f"a batch with the keys {', '.join(map(str, content))} has none of the network's "
            f"arguments {', '.join(names)}. "
            "Pass forward=lambda model, batch: model(...)."
        )
    return accepted


def fingerprint(tensors: Iterable[Tensor], *, values_each: int = 4096) -> str:
    """Digest the shapes and types of tensors, and about so many evenly spaced values of each.

    >>> fingerprint([torch.zeros(2, 3)]) == fingerprint([torch.zeros(3, 2)])
    False
    """
    digest = hashlib.sha256()
    values: dict[tuple[torch.dtype, torch.device], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        if tensor.numel() and tensor.layout == torch.strided and not tensor.is_meta:
            # Views only: an accelerator is asked once for each type of number.
            chosen = tensor.detach().flatten()[:: _step(tensor.numel(), values_each)]
            values[tensor.dtype, tensor.device].append(chosen)
    for some in values.values():
        together = torch.cat(some).cpu()
        exact = torch.view_as_real(together) if together.is_complex() else together.double()
        digest.update(exact.numpy().tobytes())
    return digest.hexdigest()[:32]


def _step(count: int, wanted: int) -> int:
    """Return a step that gives about so many values, from all rows and columns of whatever shape."""
    step = max(1, count // wanted)
    while math.gcd(step, count) > 1:
        step -= 1
    return step
