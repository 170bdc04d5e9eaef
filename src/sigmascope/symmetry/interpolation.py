"""Networks between two networks: weighted means of parameters, and statistics taken again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.capture.guard import copied, without_gradients
from sigmascope.capture.layers import hooked
from sigmascope.errors import InputError
from sigmascope.measure.batches import Batch, batches_of, run_forward, to_model
from sigmascope.measure.copies import copy_of, is_empty
from sigmascope.symmetry.wiring.network import Wiring

Statistics: TypeAlias = dict[str, tuple[Tensor, Tensor]]
"""Path of a module -> mean and standard deviation of each channel of its output."""

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def mean_network(networks: Sequence[nn.Module], weights: Sequence[float]) -> nn.Module:
    """Return a network with weighted means of all floating parameters and buffers."""
    merged = copied(networks[0])
    states = [{**dict(one.named_parameters()), **dict(one.named_buffers())} for one in networks]
    with without_gradients():
        for name, own in (*merged.named_parameters(), *merged.named_buffers()):
            if own.is_floating_point():
                total = torch.zeros_like(own, dtype=torch.float64)
                for state, weight in zip(states, weights, strict=True):
                    total += state[name].detach().double() * weight
                own.copy_(total)
    return merged


def has_batch_norm(network: nn.Module) -> bool:
    """Return whether a network keeps running statistics that can be taken again."""
    return bool(_norms(network))


def _norms(network: nn.Module) -> list[_BatchNorm]:
    modules = network.modules()
    norms = [module for module in modules if isinstance(module, _BatchNorm)]
    return [norm for norm in norms if norm.running_mean is not None]


def read_again(batches: Any) -> Iterable[Any]:
    """Return batches that are read several times.

    Raises:
        InputError: an iterator, which has nothing left after the first time.
    """
    found = batches_of(batches)
    if isinstance(found, Iterator):
        raise InputError(
            "batches is an iterator, which can be read once only. Pass a loader or a list."
        )
    return found


def reset_batch_norm(network: nn.Module, items: Iterable[Any]) -> None:
    """Take the statistics of all batch norms again, in place: means over batches by their sizes.

    A batch of one sample has no variance after layers without positions, so that it is left out
    beside larger ones.

    Args:
        network: changed in place, and in evaluation mode afterwards.
        items: batches; read again if all are of one sample.

    Raises:
        InputError: there is no batch, or none from which a variance can be taken.
    """
    norms = _norms(network)
    momenta = [norm.momentum for norm in norms]
    network.eval()  # dropout stays off
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
    try:
        if not _pass_by_size(network, norms, items, least=2):
            _pass_single(network, norms, items)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            norm.eval()


def _pass_by_size(
    network: nn.Module, norms: Sequence[_BatchNorm], items: Iterable[Any], *, least: int
) -> int:
    """Run the batches of at least so many samples; return how many samples they had."""
    samples = 0
    with without_gradients():
        for item in items:
            batch = batch_for(network, item)
            if batch is None:
                continue
            size = batch.size or least  # where no tensor tells it, batches count alike
            if size < least:
                continue
            samples += size
            for norm in norms:
                norm.momentum = size / samples
            run_forward(network, batch.content)
    return samples


def _pass_single(network: nn.Module, norms: Sequence[_BatchNorm], items: Iterable[Any]) -> None:
    """Run batches of one sample each, which have a variance where layers have positions."""
    try:
        samples = _pass_by_size(network, norms, items, least=1)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            "every batch has one sample, of which batch norm can take no variance. Pass batches "
            "of 2 samples or more."
        ) from error
    if not samples:
        raise InputError("batches is empty. Pass a loader or a list with at least one sample.")


def batch_for(network: nn.Module, item: Any) -> Batch | None:
    """Return a copy of a batch that a network may overwrite, or None for one without samples."""
    batch = to_model(copy_of(item), network, batch_axis=0)
    return None if is_empty(batch) else batch


def forward(network: nn.Module, item: Any) -> object:
    """Run a network on the inputs of a batch, on its device and in its dtype."""
    return run_forward(network, to_model(copy_of(item), network, batch_axis=0).content)


def layers_within(
    wiring: Wiring, network: nn.Module, kinds: tuple[type[nn.Module], ...] = LAYERS
) -> dict[str, int]:
    """Return path -> axis of the channels, of linear layers whose output is not the network's.

    Args:
        wiring: of the network.
        network: whose layers are meant.
        kinds: the classes of the layers, others than linear ones too.
    """
    lost = wiring.ties.places.lost[0]
    modules = dict(network.named_modules())
    found: dict[str, int] = {}
    for (path, _), channels in wiring.calls.items():
        fixed = (lost[wiring.ties.places.roots(channels.place)] > 0).any()
        if isinstance(modules.get(path), kinds) and not fixed:
            found.setdefault(path, channels.axis)
    return found


class _Sums:
    """Sums of the values of each channel, and of their squares."""

    def __init__(self) -> None:
        self.count, self.first, self.second = 0, torch.zeros(()), torch.zeros(())

    def add(self, values: Tensor, axis: int) -> None:
        rows = values.detach().movedim(axis, 0).flatten(1).double()
        self.count += rows.shape[1]
        self.first = self.first.to(rows) + rows.sum(dim=1)
        self.second = self.second.to(rows) + rows.square().sum(dim=1)

    def moments(self) -> tuple[Tensor, Tensor]:
        mean = self.first / self.count
        return mean, (self.second / self.count - mean.square()).clamp(min=0).sqrt()


@contextmanager
def _hooks(
    network: nn.Module, layers: Mapping[str, int], hook: Callable[..., Tensor | None]
) -> Iterator[None]:
    """Call `hook(path, axis, output)` at every layer; what it returns replaces the output."""
    modules = dict(network.named_modules())

    def called(path: str, axis: int, _: nn.Module, __: object, output: Tensor) -> Tensor | None:
        return hook(path, axis, output)

    with hooked((modules[path], partial(called, path, axis)) for path, axis in layers.items()):
        yield


def statistics_of(
    network: nn.Module, items: Iterable[Any], layers: Mapping[str, int]
) -> Statistics:
    """Return the mean and standard deviation of every channel of the layers."""
    sums: dict[str, _Sums] = {}

    def note(path: str, axis: int, output: Tensor) -> None:
        sums.setdefault(path, _Sums()).add(output, axis)

    network.eval()
    with without_gradients(), _hooks(network, layers, note):
        for item in items:
            forward(network, item)
    return {path: one.moments() for path, one in sums.items()}


def between(first: Statistics, second: Statistics, share: float) -> Statistics:
    """Return statistics between two: both means and standard deviations are interpolated."""
    return {
        path: (
            torch.lerp(first[path][0], second[path][0], share),
            torch.lerp(first[path][1], second[path][1], share),
        )
        for path in first
    }


@contextmanager
def repaired(
    network: nn.Module, items: Iterable[Any], layers: Mapping[str, int], target: Statistics
) -> Iterator[None]:
    """Give the channels of the layers the target statistics, inside the context.

    REPAIR (Jordan et al., 2022, arXiv:2211.08403) puts a batch norm behind every layer, with the
    statistics between those of the two networks. One pass sets their running statistics, during
    which each layer sees what the corrected layers before it return.
    """
    sums: dict[str, _Sums] = {}

    def fit(path: str, axis: int, output: Tensor) -> Tensor:
        batch = _Sums()
        batch.add(output, axis)
        sums.setdefault(path, _Sums()).add(output, axis)
        return _corrected(output, axis, batch.moments(), target[path])

    network.eval()
    with without_gradients(), _hooks(network, layers, fit):
        for item in items:
            forward(network, item)
    own = {path: one.moments() for path, one in sums.items()}

    def apply(path: str, axis: int, output: Tensor) -> Tensor:
        return _corrected(output, axis, own[path], target[path])

    with _hooks(network, layers, apply):
        yield


def _corrected(
    output: Tensor, axis: int, own: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]
) -> Tensor:
    (mean, std), (to_mean, to_std) = own, target
    floor = 1e-6 * std.max().clamp(min=1e-30)  # a channel that does not vary stays constant
    gain = torch.where(std > floor, to_std / std.clamp(min=1e-30), 0.0)
    shape = [1] * output.ndim
    shape[axis] = -1
    offset = to_mean - gain * mean
    return output * gain.to(output).view(shape) + offset.to(output).view(shape)
