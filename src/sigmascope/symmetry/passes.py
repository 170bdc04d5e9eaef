"""Running a network and showing the features of its activation calls while they exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks

from sigmascope.capture.activations import kind_of_layer
from sigmascope.capture.guard import plain_path, preserve_state, randomness_kept, unwrapped
from sigmascope.capture.layers import hooked
from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import Axes, NotSamplesError, UnreadableError
from sigmascope.capture.recording import recording
from sigmascope.errors import InputError, NoActivationError
from sigmascope.measure.batches import (
    Batch,
    batches_of,
    inputs_of,
    run_forward,
    tensors_in,
    to_model,
)
from sigmascope.measure.copies import copy_of
from sigmascope.symmetry.similarity_options import RunOptions

INCOMPLETE = "it is not called in every batch, or with features of another shape"

Sink: TypeAlias = Callable[[str, Tensor], None]
"""Takes the name of a site and its features (n, c, ...), which the network may overwrite later."""


@contextmanager
def tapped(model: nn.Module, options: RunOptions, name: str = "") -> Iterator[Tap]:
    """Yield a `Tap` of a network in evaluation mode; the network's state is restored at the end."""
    network = unwrapped(model)
    with preserve_state(network, mode="eval"):
        yield Tap(network, options, name or type(model).__name__)


class _Site(NamedTuple):
    """What the recorder found out about one activation call."""

    name: str
    axes: Axes
    shape: torch.Size


Route: TypeAlias = dict[tuple[str, int], _Site]
"""(path, number of the call) -> the site."""


class Tap:
    """Runs a network, batch by batch, and shows the features of its activations.

    The first batch is recorded: the evidence for the axes of every tensor is followed from function
    to function. Where all activations turn out to be modules, forward hooks on these alone see the
    next batches, as long as inputs have the same shapes. That costs next to no time.

    Attributes:
        name: of the network.
        failures: site -> why its features could not be read.
    """

    def __init__(self, network: nn.Module, options: RunOptions, name: str) -> None:
        self.name = name
        self.failures: dict[str, str] = {}
        self._network = network
        self._options = options
        self._modules = {plain_path(path): module for path, module in network.named_modules()}
        # of the batch that was recorded last
        self._inputs: list[tuple[torch.Size, torch.dtype]] = []
        self._route: Route = {}  # of that batch; empty where hooks would not see all of it

    def run(self, item: object, sink: Sink) -> int:
        """Run the network on a batch, show the features of each activation, count samples."""
        batch = to_model(copy_of(item), self._network, batch_axis=self._options.batch_axis)
        if any(not bool(mask.all()) for mask in batch.masks.values()):
            raise InputError(
                "the attention_mask hides some tokens. Pass sequences of one length, unpadded."
            )
        if not batch.size:
            raise InputError(
                "the number of samples in a batch is unknown. Yield tensors, tuples or dicts of "
                "tensors."
            )
        inputs = [(one.shape, one.dtype) for one in tensors_in(batch.content)]
        # Global hooks may change what the recorder sees, and later than ours: then record again.
        known = bool(self._route) and inputs == self._inputs and not _global_forward_hooks
        with randomness_kept(), self._hooked(sink) if known else self._recorded(batch, sink):
            torch.manual_seed(self._options.seed)
            (self._options.forward or run_forward)(self._network, batch.content)
        self._inputs = inputs
        return batch.size

    @contextmanager
    def _recorded(self, batch: Batch, sink: Sink) -> Iterator[None]:
        """Show the calls recorded inside the context, and note the route."""
        options, route = self._options, Route()
        observe = partial(self._observe, self._pooling(batch.size), route, sink)
        with (
            recording(self._network, observe, activations=options.activations) as recorder,
            recorder.forward_pass(
                inputs_of(batch.content), batch_axis=options.batch_axis, size=batch.size
            ),
        ):
            yield
        seen = all(kind_of_layer(self._modules[path]) is not None for path, _ in route)
        self._route = route if seen else {}

    def _observe(
        self, pooling: Pooling, route: Route, sink: Sink, call: Call, x: Tensor
    ) -> Finish | None:
        """See `capture.observer.Observer`."""
        name = call.name
        if not x.dtype.is_floating_point or x.layout != torch.strided:
            return None
        try:
            site = _Site(name, pooling.axes(call, x), x.shape)
        except NotSamplesError:
            return None
        except UnreadableError as error:
            self.failures[name] = str(error)
            return None
        route[call.path, call.number] = site

        def finish(y: Tensor) -> None:
            if y.shape != site.shape:
                shapes = f"{list(y.shape)} has another shape than its input {list(site.shape)}"
                self.failures[name] = f"its output {shapes}"
            else:
                sink(name, _features(y.detach(), site.axes))

        return finish

    def _pooling(self, size: int) -> Pooling:
        axes = self._options.channel_axis, self._options.batch_axis
        return Pooling("channels", "batch", *axes, size=size, masks={})

    @contextmanager
    def _hooked(self, sink: Sink) -> Iterator[None]:
        """Show the outputs of the modules of the route, if they have the shapes recorded."""
        calls: Counter[str] = Counter()

        def show(path: str, _: nn.Module, __: object, output: object) -> None:
            site = self._route.get((path, calls[path]))
            calls[path] += 1
            if site is not None and isinstance(output, Tensor) and output.shape == site.shape:
                sink(site.name, _features(output.detach(), site.axes))

        paths = dict.fromkeys(path for path, _ in self._route)
        # The first to see the output: what other hooks do to it happens outside.
        with hooked(((self._modules[path], partial(show, path)) for path in paths), prepend=True):
            yield


class Copies:
    """Copies of the features (n, c, ...) of a batch, by site, in memory that is used again.

    The network's own tensors are not kept: it may overwrite them later.
    """

    def __init__(self) -> None:
        self.sites: dict[str | int, Tensor] = {}
        self._memory: dict[str | int, Tensor] = {}

    def begin(self) -> None:
        """Forget the batch before."""
        self.sites = {}

    def keep(self, site: str | int, features: Tensor) -> None:
        """Copy the features (n, c, ...) of a site."""
        memory, size = self._memory.get(site), features.numel()
        kind = features.dtype, features.device
        if memory is None or len(memory) < size or (memory.dtype, memory.device) != kind:
            memory = self._memory[site] = features.new_empty(size)
        self.sites[site] = memory[:size].view(features.shape).copy_(features)


def _features(tensor: Tensor, axes: Axes) -> Tensor:
    """Return a view (n, c, ...) with at least one axis of positions."""
    ordered = axes.ordered(tensor)  # (n, outer, inner, ..., c)
    positions = ordered[:, 0] if axes.outer == 1 else ordered.flatten(1, 2)
    if axes.outer == axes.inner == 1 and positions.ndim > 3:
        positions = positions[:, 0]
    return positions.movedim(-1, 1)


def items_of(batches: Any, options: RunOptions) -> Iterator[object]:
    """Return the batches to run, in the order of a loader with this seed."""
    found = batches_of(batches)
    torch.manual_seed(options.seed)
    return iter(islice(found, options.max_batches))


def check_found(sites: Collection[str], tap: Tap) -> None:
    """Raise `NoActivationError`, with the reason, unless a network has shown features."""
    if not sites:
        why = next(iter(tap.failures.values()), "it made no activation call that could be seen")
        raise NoActivationError(f"{tap.name} has no features to compare: {why}.")
