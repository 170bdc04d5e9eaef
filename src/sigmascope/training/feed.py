"""Samples on a device in batches, and the split into those to train on and those held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.training.data import AUGMENTATIONS, Samples, StitchData

Place: TypeAlias = tuple[torch.device, torch.dtype | None]


class Batch(NamedTuple):
    """The places (n,) of some samples in the data, their inputs (n, …) and labels (n,)."""

    places: Tensor
    inputs: Tensor
    labels: Tensor


class Feed:
    """Samples on a device, prepared and augmented as `data` says, in batches.

    `dtype` is that of the prepared inputs, `chosen` the places of the samples to use; all if None.
    """

    def __init__(
        self,
        samples: Samples,
        data: StitchData,
        device: torch.device,
        dtype: torch.dtype | None,
        chosen: Tensor | None = None,
    ) -> None:
        self.inputs, self.labels = samples[0].to(device), samples[1].to(device).long()
        self.chosen = (torch.arange(len(self.labels)) if chosen is None else chosen).to(device)
        self._data, self._dtype = data, dtype

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield all samples in order, not augmented."""
        for places in torch.split(self.chosen, size):
            yield Batch(places, self._prepared(places), self.labels[places])

    def shuffled(self, size: int, seed: int, *, limit: int | None = None) -> Iterator[Batch]:
        """Yield full batches, at most `limit`, shuffled and augmented; drop an incomplete one."""
        device = self.chosen.device
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        shuffled = self.chosen[order.to(device)]
        augment = AUGMENTATIONS[self._data.augment]
        generator = torch.Generator(device).manual_seed(seed)
        size = min(size, len(self))
        for number in range(self.steps(size, limit)):
            places = shuffled[number * size : (number + 1) * size]
            inputs = self._prepared(places)
            inputs = inputs if augment is None else augment(inputs, generator)
            yield Batch(places, inputs, self.labels[places])

    def steps(self, size: int, limit: int | None = None) -> int:
        """Return the number of full batches."""
        return min(len(self) // min(size, len(self)), limit or len(self))

    def _prepared(self, places: Tensor) -> Tensor:
        inputs = self.inputs[places]
        inputs = inputs if self._data.prepare is None else self._data.prepare(inputs)
        cast = self._dtype is not None and inputs.is_floating_point()
        return inputs.to(self._dtype) if cast else inputs


class Feeds(NamedTuple):
    """The samples of a training.

    Attributes:
        train: those to train on.
        chosen: those on which the best epoch is selected: held out, or the test samples.
        test: those to test on.
        everything: all training samples, held out or not.
    """

    train: Feed
    chosen: Feed
    test: Feed
    everything: Feed

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of samples trained on, selected on and tested on."""
        return len(self.train), len(self.chosen), len(self.test)


def feeds_of(data: StitchData, settings: Any, seed: int, place: Place) -> Feeds:
    """Return the samples of a training, split as `settings.select_on` and `.validation` say."""
    train = data.train[0].to(place[0]), data.train[1].to(place[0])
    everything, test = Feed(train, data, *place), Feed(data.test, data, *place)
    if settings.select_on == "test":
        return Feeds(everything, test, test, everything)
    kept, held_out = split_samples(len(everything), settings.validation, seed)
    chosen = Feed(train, data, *place, held_out)
    return Feeds(Feed(train, data, *place, kept), chosen, test, everything)


def split_samples(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the places of the samples to train on, and of a random share to hold out.

    >>> train, held_out = split_samples(10, 0.2, 0)
    >>> len(train), len(held_out), set(train.tolist()) & set(held_out.tolist())
    (8, 2, set())
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held_out = round(count * share)
    if not 0 < held_out < count:
        raise InputError(
            f"holding out a share of {share} of {count} samples leaves one part empty. Pass more "
            "samples or another share."
        )
    return order[held_out:].sort().values, order[:held_out].sort().values
