"""Training and test samples in memory: how they are read, checked and augmented."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError

Samples: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (n, …) and labels (n,), whole numbers."""

SHIFT = 2


def flip_and_shift(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images (n, c, h, w), half of them mirrored, shifted by up to two pixels into zeros."""
    n, _, height, width = images.shape
    flips = torch.rand(n, generator=generator, device=images.device) < 0.5
    images = torch.where(flips[:, None, None, None], images.flip(3), images)
    padded = F.pad(images, (SHIFT,) * 4)
    offsets = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=generator, device=images.device)
    rows, columns = (
        offset + torch.arange(size, device=images.device)
        for offset, size in zip(offsets, (height, width), strict=True)
    )
    samples = torch.arange(n, device=images.device)[:, None, None]
    # Indexing moves the sliced channel axis behind the indexed ones; move it back.
    shifted = padded[samples, :, rows[:, :, None], columns[:, None, :]]
    return shifted.permute(0, 3, 1, 2).contiguous()


AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor] | None] = {
    "none": None,
    "flip-shift": flip_and_shift,
}
"""Name -> function of prepared images and a generator; the names are `choices.Augmentation`."""


@dataclass(frozen=True, eq=False)
class StitchData:
    """Training and test samples as tensors.

    Attributes:
        train: inputs (n, …) and labels (n,).
        test: the same for the test.
        prepare: turns a batch into the inputs of a network, such as by normalizing bytes.
        augment: a row of `AUGMENTATIONS`, applied to prepared training inputs.

    Raises:
        InputError: shapes that do not fit together, or no samples.
        InputTypeError: not tensors.

    >>> import torch
    >>> images = torch.zeros(8, 3, 4, 4), torch.arange(8) % 2
    >>> data = StitchData(images, images, prepare=lambda x: x / 255, augment="flip-shift")
    >>> data.augment, len(data.train[0])
    ('flip-shift', 8)
    """

    train: Samples
    test: Samples
    prepare: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    augment: str = "none"

    def __post_init__(self) -> None:
        check_choice("augment", self.augment, AUGMENTATIONS)
        _check_samples("train", self.train)
        _check_samples("test", self.test)
        if self.augment != "none" and self.train[0].ndim != 4:
            raise InputError(
                f"augment={self.augment!r} needs images (n, c, h, w), got inputs "
                f"{tuple(self.train[0].shape)}. Use augment='none'."
            )


def as_data(batches: object) -> StitchData:
    """Return training and test data, from themselves or from a pair; see `read_data`."""
    if isinstance(batches, StitchData):
        return batches
    if isinstance(batches, (tuple, list)) and len(batches) == 2:
        return read_data(batches[0], batches[1])
    raise InputTypeError(
        f"batches must be a pair (train, test) of loaders or of (inputs, labels), or a StitchData, "
        f"got a {type(batches).__name__}."
    )


def read_data(
    train: Any,
    test: Any,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    augment: str = "none",
) -> StitchData:
    """Return the samples of two loaders, each read once into memory.

    A loader that augments would do so only once; use `augment` instead.

    Args:
        train: a loader or list of batches (inputs, labels), or one such pair of tensors or arrays.
        test: the same.
        prepare: see `StitchData`, as for `augment`.
        augment: see `StitchData`.

    Raises:
        InputError, InputTypeError: not batches of inputs and labels.

    >>> x, y = torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    >>> read_data([(x[:4], y[:4]), (x[4:], y[4:])], (x, y)).train[0].shape
    torch.Size([6, 2])
    """
    return StitchData(_read("train", train), _read("test", test), prepare, augment)


def _check_samples(name: str, samples: Any) -> None:
    is_pair = isinstance(samples, tuple) and len(samples) == 2
    if not is_pair or not all(isinstance(part, Tensor) for part in samples):
        raise InputTypeError(
            f"{name} must be a pair of tensors (inputs, labels). Use read_data for loaders."
        )
    inputs, labels = samples
    is_paired = labels.ndim == 1 and len(labels) == len(inputs) > 0
    if not is_paired or labels.is_floating_point():
        raise InputError(
            f"{name} must be inputs (n, …) and whole-number labels (n,) with n >= 1, got inputs "
            f"{tuple(inputs.shape)} and labels {tuple(labels.shape)} of {labels.dtype}."
        )


def _read(name: str, batches: Any) -> Samples:
    if isinstance(batches, (tuple, list)) and len(batches) == 2:
        labels = batches[1]
        if isinstance(labels, (Tensor, np.ndarray)) and labels.ndim == 1:
            batches = [batches]
    if isinstance(batches, (str, bytes)) or not isinstance(batches, Iterable):
        raise InputTypeError(
            f"{name} must be a loader or a list of batches (inputs, labels), got a "
            f"{type(batches).__name__}."
        )
    parts = []
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise InputTypeError(
                f"{name} must yield batches (inputs, labels), got a {type(batch).__name__}."
            )
        parts.append(tuple(torch.as_tensor(part) for part in batch[:2]))
    if not parts:
        raise InputError(f"{name} is empty. Pass at least one batch.")
    inputs, labels = (torch.cat(side) for side in zip(*parts, strict=True))
    return inputs, labels if labels.is_floating_point() else labels.long()
