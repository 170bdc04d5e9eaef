"""The data that a stitch is trained and judged on: tensors, moved once to where the networks are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError

__all__ = [
    "AUGMENTATIONS",
    "Feed",
    "Samples",
    "StitchData",
    "as_data",
    "check_labels",
    "divided",
    "read_data",
]

Samples: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (n, …) and labels (n,), whole numbers."""

SHIFT = 2


def flip_and_shift(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror half of the images (n, c, h, w) and shift all by up to two pixels; 0, their mean,
    comes in from outside.
    """
    n, _, height, width = images.shape
    flips = torch.rand(n, generator=generator, device=images.device) < 0.5
    images = torch.where(flips[:, None, None, None], images.flip(3), images)
    padded = F.pad(images, (SHIFT,) * 4)
    places = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=generator, device=images.device)
    rows, columns = (
        place + torch.arange(size, device=images.device)
        for place, size in zip(places, (height, width), strict=True)
    )
    samples = torch.arange(n, device=images.device)[:, None, None]
    # The sliced axis of channels goes last among indexed ones, so it is moved back.
    return (
        padded[samples, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
    )


AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor] | None] = {
    "none": None,
    "flip-shift": flip_and_shift,
}
"""Name -> function of prepared images and a generator."""


@dataclass(frozen=True, eq=False)
class StitchData:
    """Samples for training and for testing, as tensors.

    Attributes:
        train: inputs (n, …) and labels (n,).
        test: the same for the test.
        prepare: what makes a network's inputs of a batch, such as normalising bytes; by default
            they are taken as they are.
        augment: a row of `AUGMENTATIONS`, applied to prepared training inputs.

    Raises:
        InputError: shapes that do not belong together, or nothing at all.
        InputTypeError: no tensors.
    """

    train: Samples
    test: Samples
    prepare: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    augment: str = "none"

    def __post_init__(self) -> None:
        check_choice("augment", self.augment, AUGMENTATIONS)
        for name in ("train", "test"):
            pair = getattr(self, name)
            if (
                not isinstance(pair, tuple)
                or len(pair) != 2
                or not all(isinstance(one, Tensor) for one in pair)
            ):
                raise InputTypeError(
                    f"{name} is no pair of tensors (inputs, labels). Use read_data for loaders."
                )
            inputs, labels = pair
            if (
                labels.ndim != 1
                or labels.is_floating_point()
                or len(labels) != len(inputs)
                or not len(labels)
            ):
                raise InputError(
                    f"{name} has inputs {tuple(inputs.shape)} and labels "
                    f"{tuple(labels.shape)} of {labels.dtype}. "
                    "Pass (n, …) and whole numbers (n,) with n ≥ 1."
                )
        if self.augment != "none" and self.train[0].ndim != 4:
            raise InputError(
                f"augment={self.augment!r} needs images (n, c, h, w), not "
                f"{tuple(self.train[0].shape)}. Use 'none'."
            )


def as_data(data: object) -> StitchData:
    """Return data for stitching, from itself or from a pair (training, test) of loaders or samples;
    see `read_data`.

    Raises:
        InputTypeError: neither.
    """
    if isinstance(data, StitchData):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return read_data(data[0], data[1])
    raise InputTypeError(
        f"data is a {type(data).__name__}. Pass a pair (training, test) of loaders or of "
        "(inputs, labels), or a StitchData."
    )


def read_data(
    train: Any,
    test: Any,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    augment: str = "none",
) -> StitchData:
    """Read loaders once into memory; what a loader does at random is then done once, so leave
    augmenting to `augment`.

    Args:
        train: a loader or list of batches (inputs, labels), or one such pair of tensors or arrays.
        test: the same.
        prepare: see `StitchData`.
        augment: see `StitchData`.

    Raises:
        InputError, InputTypeError: no batches of inputs and labels.

    >>> x, y = torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    >>> read_data([(x[:4], y[:4]), (x[4:], y[4:])], (x, y)).train[0].shape
    torch.Size([6, 2])
    """
    return StitchData(_read(train, "train"), _read(test, "test"), prepare, augment)


def _read(batches: Any, name: str) -> Samples:
    if isinstance(batches, (tuple, list)) and len(batches) == 2 and _is_labels(batches[1]):
        batches = [batches]
    if isinstance(batches, (str, bytes)) or not isinstance(batches, Iterable):
        raise InputTypeError(
            f"{name} is a {type(batches).__name__}. Pass a loader or list of batches "
            "(inputs, labels)."
        )
    parts = []
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise InputTypeError(
                f"{name} yields a {type(batch).__name__}. Yield batches (inputs, labels)."
            )
        parts.append(tuple(torch.as_tensor(one) for one in batch[:2]))
    if not parts:
        raise InputError(f"{name} is empty. Pass at least one batch.")
    inputs, labels = (torch.cat(side) for side in zip(*parts, strict=True))
    return inputs, labels.long() if not labels.is_floating_point() else labels


def _is_labels(value: object) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) and value.ndim == 1


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise unless every label (n,) stands for one of the classes.

    Raises:
        InputError: naming the least and the largest label.
    """
    least, most = (int(one) for one in labels.long().aminmax())
    if least < 0 or most >= classes:
        raise InputError(
            f"labels go from {least} to {most}, and there are {classes} classes, from 0 to "
            f"{classes - 1}. Pass data of the "
            "task that the network was trained for."
        )


def divided(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Divide the numbers 0 … count - 1 at random into those to train on and those to choose by, a
    `share`; none is in both.

    Raises:
        InputError: too few for both.

    >>> train, held = divided(10, 0.2, 0)
    >>> len(train), len(held), set(train.tolist()) & set(held.tolist())
    (8, 2, set())
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held = round(count * share)
    if not 0 < held < count:
        raise InputError(
            f"a share of {share} of {count} samples leaves nothing on one side. Pass more "
            "data, or another share."
        )
    return order[held:].sort().values, order[:held].sort().values


class Feed:
    """Samples on a device, in batches.

    Args:
        samples: inputs and labels.
        data: how they are prepared and augmented.
        device: where the batches go; the samples themselves are kept there too.
        dtype: of the prepared inputs; None leaves them.
        chosen: the numbers of the samples that are used; all by default.
    """

    def __init__(
        self,
        samples: Samples,
        data: StitchData,
        device: torch.device,
        dtype: torch.dtype | None,
        chosen: Tensor | None = None,
    ) -> None:
        self.inputs, self.labels = (one.to(device) for one in samples)
        self.labels = self.labels.long()
        self.chosen = (torch.arange(len(self.labels)) if chosen is None else chosen).to(device)
        self._data, self._dtype = data, dtype

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the numbers, inputs and labels of all samples in order, not augmented."""
        for numbers in torch.split(self.chosen, size):
            yield numbers, self._prepared(numbers), self.labels[numbers]

    def shuffled(
        self, size: int, seed: int, *, limit: int | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield full batches in an order drawn with the seed, augmented; a rest is dropped, unless
        it is all there is.
        """
        device = self.chosen.device
        order = self.chosen[
            torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(device)
        ]
        augment = AUGMENTATIONS[self._data.augment]
        generator = torch.Generator(device).manual_seed(seed)
        size = min(size, len(self))
        for number in range(self.steps(size, limit)):
            numbers = order[number * size : (number + 1) * size]
            inputs = self._prepared(numbers)
            yield (
                numbers,
                inputs if augment is None else augment(inputs, generator),
                self.labels[numbers],
            )

    def steps(self, size: int, limit: int | None = None) -> int:
        """Return the number of full batches."""
        return min(len(self) // min(size, len(self)), limit or len(self))

    def _prepared(self, numbers: Tensor) -> Tensor:
        inputs = self.inputs[numbers]
        inputs = inputs if self._data.prepare is None else self._data.prepare(inputs)
        return (
            inputs.to(self._dtype)
            if self._dtype is not None and inputs.is_floating_point()
            else inputs
        )
