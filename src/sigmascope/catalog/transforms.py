"""From stored samples, images of 0 to 255 or sentences, to inputs of a network, by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Mean and standard deviation of the channels, from 0 to 1.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Transform:
    """A function that makes inputs of a network from samples.

    Attributes:
        takes: "images" for tensors (n, 3, h, w) of 0 to 255, "text" for lists of n sentences; other
            words stand for data that the catalog does not have.
        make: samples -> a tensor, or a mapping of arguments by name.
        size: of one image that it makes, (3, height, width) or (height, width, 3); None if unknown.
            Random data have this size, since they are not transformed.

    >>> import torch
    >>> scaled = Transform("images", lambda images: images / 255, size=(3, 32, 32))
    >>> scaled(torch.full((1, 3, 32, 32), 255.0)).max().item()
    1.0
    """

    takes: str
    make: Callable[[Any], Any] = field(repr=False)
    size: tuple[int, ...] | None = field(default=None, repr=False)

    def __call__(self, samples: Any) -> Any:
        """Return the inputs made from samples."""
        return self.make(samples)


def normalize(mean: Sequence[float], std: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Return a function that normalizes images (n, c, h, w) of 0 to 255.

    Args:
        mean: of the channels, from 0 to 1.
        std: of the channels.

    >>> normalize((0.5,), (0.25,))(torch.full((1, 1, 1, 1), 255.0))
    tensor([[[[2.]]]])
    """

    def transform(images: Tensor) -> Tensor:
        kind: dict[str, Any] = {"dtype": torch.float32, "device": images.device}
        shift, scale = (torch.tensor(values, **kind) for values in (mean, std))
        return (images.float() / 255 - shift[:, None, None]) / scale[:, None, None]

    return transform


def resize_and_crop(
    size: tuple[int, int], mean: Sequence[float], std: Sequence[float], *, resize: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Return a function that scales images, crops their center, and normalizes them.

    Args:
        size: (height, width) of the crop.
        mean: of the channels, from 0 to 1.
        std: of the channels.
        resize: length of the shorter side before the crop; by default as short as the crop allows.
    """
    final = normalize(mean, std)

    def transform(images: Tensor) -> Tensor:
        before = tuple(images.shape[-2:])
        pairs = list(zip(size, before, strict=True))
        shortest = max(pairs, key=lambda pair: pair[0] / pair[1])
        goal, length = (resize, min(before)) if resize else shortest
        # One side is exact and the other is cut to an integer, as in torchvision.
        scaled = tuple(max(wanted, goal * side // length) for wanted, side in pairs)
        if scaled != before:
            how: dict[str, Any] = {"size": scaled, "mode": "bilinear", "antialias": True}
            images = F.interpolate(images.float(), **how).round().clamp(0, 255)
        top, left = (round((side - wanted) / 2) for side, wanted in zip(scaled, size, strict=True))
        return final(images[..., top : top + size[0], left : left + size[1]])

    return transform
