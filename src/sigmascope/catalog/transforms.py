"""From samples as they are stored, images of 0 to 255 or sentences, to what a network takes; whole
batches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["IMAGENET", "Transform", "normalise", "resize_and_crop"]

# Mean and standard deviation of the channels, of 0 to 1.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Transform:
    """A function that makes a network's inputs, and what it makes them of.

    Attributes:
        takes: "images" for tensors (n, 3, h, w) of 0 to 255, "text" for lists of n sentences; other
            words name what no data of the catalog gives.
        make: samples -> a tensor, or a mapping of arguments by name.
        size: of one image that it makes, (3, height, width) or (height, width, 3); None where that
            is unknown. Random data have it, since they reach the network as they are.
    """

    takes: str
    make: Callable[[Any], Any] = field(repr=False)
    size: tuple[int, ...] | None = field(default=None, repr=False)

    def __call__(self, samples: Any) -> Any:
        """Make inputs of samples."""
        return self.make(samples)


def normalise(mean: Sequence[float], std: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Return a function that brings images (n, c, h, w) of 0 to 255 to the given statistics, which
    are of 0 to 1.

    >>> normalise((0.5,), (0.25,))(torch.full((1, 1, 1, 1), 255.0))
    tensor([[[[2.]]]])
    """

    def transform(images: Tensor) -> Tensor:
        shift, scale = (
            torch.tensor(values, dtype=torch.float32, device=images.device)
            for values in (mean, std)
        )
        return (images.float() / 255 - shift[:, None, None]) / scale[:, None, None]

    return transform


def resize_and_crop(
    size: tuple[int, int], mean: Sequence[float], std: Sequence[float], *, resize: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Return a function that scales images, cuts (height, width) out of their middle, and
    normalises them.

    Args:
        size: (height, width) of what is cut out.
        mean: of the channels, of 0 to 1.
        std: of the channels.
        resize: length of the shorter side before the cut; by default as short as the cut allows.
    """
    final = normalise(mean, std)

    def transform(images: Tensor) -> Tensor:
        before = tuple(images.shape[-2:])
        pairs = list(zip(size, before, strict=True))
        goal, length = (
            (resize, min(before)) if resize else max(pairs, key=lambda pair: pair[0] / pair[1])
        )
        # One side is exact and the other is cut to an integer, as torchvision does.
        scaled = tuple(max(wanted, goal * side // length) for wanted, side in pairs)
        if scaled != before:
            images = (
                F.interpolate(images.float(), size=scaled, mode="bilinear", antialias=True)
                .round()
                .clamp(0, 255)
            )
        top, left = (round((side - wanted) / 2) for side, wanted in zip(scaled, size, strict=True))
        return final(images[..., top : top + size[0], left : left + size[1]])

    return transform
