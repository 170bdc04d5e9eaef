"""Running a network and showing the features of its activation calls while they exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import left_as_it_was, randomness_kept, unwrapped
from sigmascope.capture.pooling import Axes, NotSamplesError, Pooling, UnreadableError
from sigmascope.capture.record import Call, Finish, Recorder, recording
from sigmascope.errors import InputError, NoActivationError
from sigmascope.measure.batches import batches_of, placed, run_forward, tensors_in
from sigmascope.symmetry.options import Watching

__all__ = ["Copies", "Sink", "Tap", "check_found", "items_of", "tapped"]

Sink: TypeAlias = Callable[[str, Tensor], None]
"""Is shown the name of a site and its features (n, c, ...), which the network may overwrite afterwards."""


@contextmanager
def tapped(model: nn.Module, watching: Watching) -> Iterator[Tap]:
    """Give a `Tap` for a network, in evaluation mode; the network is as it was when the context ends."""
    network = unwrapped(model)
    with left_as_it_was(network, mode="eval"):
        tap = Tap(network, watching)
        with recording(network, tap.observe, activations=watching.activations) as recorder:
            recorder.stop()
            tap.recorder = recorder
            yield tap


class Tap:
    """Runs a network, batch by batch.

    Attributes:
        failures: site -> why its features could not be read.
    """

    def __init__(self, network: nn.Module, watching: Watching) -> None:
        self.failures: dict[str, str] = {}
        self.recorder: Recorder | None = None
        self._network = network
        self._watching = watching
        self._pooling: Pooling | None = None
        self._sink: Sink | None = None

    def run(self, item: object, sink: Sink) -> int:
        """Run the network on a batch, show the features of each activation call, and return the number of samples.

        Raises:
            InputError: the batch has tokens that its mask hides, or no samples that could be counted.
        """
        watching = self._watching
        batch = placed(item, self._network, batch_axis=watching.batch_axis)
        if any(not bool(mask.all()) for mask in batch.masks.values()):
            raise InputError("the attention_mask hides some tokens. Compare networks on sequences of one length, unpadded.")
        if not batch.size or self.recorder is None:
            raise InputError("the number of samples in a batch cannot be told. Yield tensors, tuples or dicts of tensors.")
        self._sink = sink
        self._pooling = Pooling(
            "channels",
            "batch",
            watching.channel_axis,
            watching.batch_axis,
            size=batch.size,
            masks={},
            limit=2,
            generator=torch.Generator(),
        )
        with randomness_kept():
            torch.manual_seed(watching.seed)
            with self.recorder.forward_pass(tensors_in(batch.content), batch_axis=watching.batch_axis, size=batch.size):
                (watching.forward or run_forward)(self._network, batch.content)
        return batch.size

    def observe(self, call: Call, x: Tensor) -> Finish | None:
        """See `capture.record.Observer`."""
        name = (call.path or "(network)") + (f"#{call.number}" if call.number else "")
        if self._pooling is None or not x.dtype.is_floating_point or x.layout != torch.strided:
            return None
        try:
            axes = self._pooling.axes(call, x)
        except NotSamplesError:
            return None
        except UnreadableError as error:
            self.failures[name] = str(error)
            return None
        shape = x.shape

        def finish(y: Tensor) -> None:
            if y.shape != shape:
                self.failures[name] = f"its output {list(y.shape)} has another shape than its input {list(shape)}"
            elif self._sink is not None:
                self._sink(name, _features(y.detach(), axes))

        return finish


class Copies:
    """Keeps the features of a batch, in memory that the next batch uses again.

    The network's own tensors are not held: it may overwrite them after it has shown them.

    Attributes:
        sites: site -> its features (n, c, ...).
    """

    def __init__(self) -> None:
        self.sites: dict[str, Tensor] = {}
        self._memory: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Forget the batch before."""
        self.sites = {}

    def keep(self, site: str, features: Tensor) -> None:
        """See `Sink`."""
        memory = self._memory.get(site)
        if memory is None or len(memory) < features.numel() or (memory.dtype, memory.device) != _kind(features):
            memory = self._memory[site] = torch.empty(features.numel(), dtype=features.dtype, device=features.device)
        self.sites[site] = memory[: features.numel()].view(features.shape).copy_(features)


def _kind(tensor: Tensor) -> tuple[torch.dtype, torch.device]:
    return tensor.dtype, tensor.device


def _features(tensor: Tensor, axes: Axes) -> Tensor:
    """Return a view (n, c, ...) with at least one axis of positions."""
    ordered = axes.ordered(tensor)  # (n, outer, inner, ..., c)
    positions = ordered[:, 0] if axes.outer == 1 else ordered.flatten(1, 2)
    positions = positions[:, 0] if axes.outer == axes.inner == 1 and positions.ndim > 3 else positions
    return positions.movedim(-1, 1)


def items_of(batches: Any, watching: Watching) -> Iterator[object]:
    """Return the batches to run, in the order of a loader with this seed.

    Raises:
        InputTypeError: nothing to iterate over.
    """
    found = batches_of(batches)
    torch.manual_seed(watching.seed)
    return iter(islice(found, watching.max_batches))


def check_found(sites: Collection[str], tap: Tap, name: str) -> None:
    """Raise unless a network has shown features.

    Raises:
        NoActivationError: it has not; the message says why.
    """
    if not sites:
        why = next(iter(tap.failures.values()), "it made no activation call that could be seen")
        raise NoActivationError(f"{name} has no features to compare: {why}.")
