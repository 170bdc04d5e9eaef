"""The batches of a loader as the inputs of a network, on its device and in its dtype."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.capture.nested import are_samples
from sigmascope.capture.sharded import is_distributed, whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.graphs import graphs_in, is_graph, tensors_of_graph

Forward: TypeAlias = Callable[[nn.Module, Any], object]
"""Runs a network on a batch."""

LABELS = ("label", "label_ids", "labels", "target", "targets")


@dataclass(frozen=True)
class Batch:
    """One item of a loader, moved to a network.

    Attributes:
        content: the item, its tensors on the device of the network.
        size: the number of samples; 0 where no tensor tells.
        masks: part of the network, "" or "decoder" -> (n, t), which of its tokens are not padding.
        sketch: the shapes of its tensors and some of their values.
        graphs: of a batch of graphs, number of rows -> (rows,), the graph of each node, edge or
            graph.
        digest: of all of its values; empty where nobody asks for it.
    """

    content: Any
    size: int
    masks: dict[str, Tensor]
    sketch: Sketch
    graphs: dict[int, Tensor] = field(default_factory=dict)
    digest: str = ""


class Sketch:
    """The shapes and dtypes of tensors, and evenly spaced values of each, to tell data apart.

    Attributes:
        waits: whether the values are on an accelerator, so that `digest` has to wait for them.
    """

    def __init__(self, tensors: Iterable[Tensor], *, values_each: int = 4096) -> None:
        self._shapes = ""
        values: dict[tuple[torch.dtype, torch.device], list[Tensor]] = defaultdict(list)
        for tensor in chain.from_iterable(map(_strided, tensors)):
            self._shapes += f"{tuple(tensor.shape)}{tensor.dtype}"
            if tensor.numel() and tensor.layout == torch.strided and not tensor.is_meta:
                complete = whole(tensor.detach())
                chosen = complete.flatten()[:: _step(tensor.numel(), values_each)]
                # of weights in shards only these are kept, not all that were gathered
                chosen = chosen.clone() if is_distributed(tensor) else chosen
                values[chosen.dtype, chosen.device].append(chosen)
        # Values are copied from an accelerator once for each dtype.
        self._values = [torch.cat(of_dtype) for of_dtype in values.values()]
        self.waits = any(not one.is_cpu for one in self._values)

    def digest(self) -> str:
        """Return a digest of shapes, dtypes and values."""
        digest = hashlib.sha256(self._shapes.encode())
        for values in self._values:
            together = values.cpu()
            exact = torch.view_as_real(together) if together.is_complex() else together.double()
            digest.update(exact.numpy().tobytes())
        return digest.hexdigest()[:32]


def _strided(tensor: Tensor) -> Iterable[Tensor]:
    """Return the tensors in a nested tensor, which has no shape of its own; of others itself."""
    return tensor.unbind() if tensor.is_nested else (tensor,)


def place_of(model: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return the device and the first floating dtype of a network's parameters and buffers."""
    tensors = chain(model.parameters(), model.buffers())  # as few as it takes, for every batch
    first = next(tensors, None)
    if first is None:
        return torch.device("cpu"), None
    floating = (one.dtype for one in chain([first], tensors) if one.dtype.is_floating_point)
    return first.device, next(floating, None)


def batches_of(batches: object) -> Iterable[object]:
    """Return an iterable of batches; a tensor, a mapping or a pair (inputs, labels) is one."""
    if isinstance(batches, (Tensor, np.ndarray, Mapping)) or _is_inputs_and_labels(batches):
        return [batches]
    if is_graph(batches):
        return [batches]
    if isinstance(batches, (str, bytes)) or not isinstance(batches, Iterable):
        raise InputTypeError(
            f"batches is a {type(batches).__name__}. Pass a DataLoader, a list of batches, "
            "or one batch as a tensor or a dict."
        )
    return batches


def _is_inputs_and_labels(items: object) -> bool:
    """Return whether this is a tuple or list (inputs, labels, ...) and not a list of batches.

    Batches all have the same number of axes and are all of one kind; matrices have the same number
    of columns, and images the same number of channels. So two tensors of one shape are two batches.

    >>> _is_inputs_and_labels((torch.zeros(64, 8), torch.zeros(64, 3)))
    True
    """
    if isinstance(items, tuple) and hasattr(items, "_fields"):
        return True
    if isinstance(items, tuple) and len(items) > 1 and samples_in(items) is not None:
        return samples_in(items[1:]) is None  # images and targets, not two lists of images
    if not isinstance(items, (tuple, list)):
        return False
    if not all(isinstance(item, (Tensor, np.ndarray)) for item in items):
        return False
    tensors = [*tensors_in(items)]
    kinds = {(tensor.ndim, tensor.dtype.is_floating_point) for tensor in tensors}
    return len(kinds) > 1 or _are_inputs_and_targets(tensors)


def _are_inputs_and_targets(tensors: list[Tensor]) -> bool:
    """Return whether two tensors of as many samples cannot both be inputs of one network."""
    if len(tensors) != 2 or len({tensor.shape[:1] for tensor in tensors}) != 1:
        return False
    # with three axes, the second may be that of tokens, of which batches have any number
    are_clear = all(one.ndim in (2, 4, 5) and one.dtype.is_floating_point for one in tensors)
    return are_clear and tensors[0].shape[1] != tensors[1].shape[1]


def to_model(item: object, model: nn.Module, *, batch_axis: int) -> Batch:
    """Return an item of a loader on the device and in the dtype of a network."""
    device, dtype = place_of(model)
    if torch.is_autocast_enabled(device.type):
        dtype = None
    content = _moved(item, device, dtype)
    size, graphs = batch_size(item, batch_axis), graphs_in(item)
    return Batch(content, size, _masks(content), sketch_of_batch(item), graphs)


def _masks(content: object) -> dict[str, Tensor]:
    """Return which tokens are not padding, of the network and, where it has one, of its decoder."""
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
    """Return the number of samples in an item of a loader, or 0 where no tensor tells."""
    samples = samples_in(item)
    if samples is not None:
        return len(samples)
    graphs = graphs_in(item)
    if graphs:
        return 1 + max(int(rows.max()) for rows in graphs.values())
    first = next((tensor for tensor in tensors_in(item) if tensor.ndim > batch_axis), None)
    return 0 if first is None else first.size(batch_axis)


def samples_in(item: object) -> list[Tensor] | None:
    """Return the single samples of which an item of a loader has a list, such as images.

    None where it has none. The list is the first entry of the item or, if it has more than two
    floating tensors with three axes each and nothing else, the item itself.

    >>> image = torch.zeros(3, 8, 8)
    >>> len(samples_in(([image, image], ["cat", "dog"]))), len(samples_in([image] * 3))
    (2, 3)
    >>> samples_in([image, image]), samples_in((torch.zeros(5, 3), torch.zeros(5)))
    (None, None)
    """
    if not isinstance(item, (list, tuple)) or not item:
        return None
    if is_list_of_images(item):
        return list(tensors_in(item))
    labels = item[1] if len(item) > 1 else None
    first = list(map(_as_tensor, item[0])) if isinstance(item[0], (list, tuple)) else None
    return first if first and are_samples(first, _as_tensor(labels)) else None


def is_list_of_images(item: object) -> bool:
    """Return whether an item is a list of more than two floating tensors with three axes each."""
    if type(item) is not list or len(item) < 3:
        return False
    return all(
        isinstance(value, Tensor) and value.ndim == 3 and value.dtype.is_floating_point
        for value in map(_as_tensor, item)
    )


def _as_tensor(value: Any) -> Any:
    return next(tensors_in(value), value) if isinstance(value, np.ndarray) else value


def inputs_of(content: Any) -> list[Tensor | list[Tensor]]:
    """Return what holds the samples of a batch: tensors, or a list of single samples."""
    samples = samples_in(content)
    if samples is None:
        return [] if graphs_in(content) else [*tensors_in(content)]
    return [samples]


def fingerprint_of_batch(item: object) -> str:
    """Return a digest of an item of a loader."""
    return sketch_of_batch(item).digest()


def sketch_of_batch(item: object) -> Sketch:
    """Return what tells an item of a loader from others."""
    return Sketch(tensors_in(item))


def _moved(value: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        return value.to(device, dtype if value.dtype.is_floating_point else None, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(item, device, dtype) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(item, device, dtype) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(item, device, dtype) for item in value)
    if callable(getattr(value, "to", None)):  # a batch of another library, such as a graph
        return value.to(device)
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors, and arrays as tensors, in an item of a loader."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        yield torch.from_numpy(np.ascontiguousarray(value))
    elif isinstance(value, (Mapping, tuple, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)
    elif is_graph(value):
        yield from tensors_of_graph(value)


def run_forward(model: nn.Module, content: Any) -> object:
    """Return the outputs for a batch: a tensor, a tuple (inputs, ...) or a mapping of arguments."""
    given = arguments_of(model, content)
    return model(**given) if isinstance(given, Mapping) else model(*given)


def arguments_of(model: nn.Module, content: Any) -> tuple[Any, ...] | Mapping[str, Any]:
    """Return the arguments that a network gets for a batch, in order or by name."""
    if isinstance(content, Mapping):
        return _accepted(model, content)
    if next(tensors_in(content), None) is None:
        raise InputError(
            f"a batch of type {type(content).__name__} holds no tensor. Yield tensors, tuples "
            "(inputs, labels) or dicts of tensors, or pass forward=lambda model, batch: model(...)."
        )
    if not isinstance(content, (tuple, list)) or is_list_of_images(content):
        return (content,)
    labels = any(name in LABELS for name in _needed(model)[1:2])
    return tuple(content[: 2 if labels else 1])


def _needed(model: nn.Module) -> list[str]:
    """Return the arguments without which a network does not run."""
    parameters = inspect.signature(model.forward).parameters.values()
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in open_ended
    ]


def _accepted(model: nn.Module, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that the network accepts.

    Labels would only add a loss, and are left out unless the network cannot run without them.
    """
    needed = _needed(model)
    entries = {key: value for key, value in content.items() if key not in LABELS or key in needed}
    parameters = inspect.signature(model.forward).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return entries
    names = {parameter.name for parameter in parameters}
    accepted = {key: value for key, value in entries.items() if key in names}
    if not accepted:
        raise InputError(
            f"a batch with the keys {', '.join(map(str, content))} has none of the network's "
            f"arguments {', '.join(names)}. Pass forward=lambda model, batch: model(...)."
        )
    return accepted


def fingerprint(tensors: Iterable[Tensor], *, values_each: int = 4096) -> str:
    """Return a digest of the shapes and dtypes of tensors, and of evenly spaced values of each.

    >>> fingerprint([torch.zeros(2, 3)]) == fingerprint([torch.zeros(3, 2)])
    False
    """
    return Sketch(tensors, values_each=values_each).digest()


def _step(count: int, wanted: int) -> int:
    """Return a step that gives about `wanted` values, from all rows and columns of any shape."""
    step = max(1, count // wanted)
    while math.gcd(step, count) > 1:
        step -= 1
    return step
