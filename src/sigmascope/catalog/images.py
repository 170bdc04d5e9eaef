"""From images of 0 to 255 to what a network takes, for whole batches at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["normalise", "resize_and_crop"]


def normalise(mean: Sequence[float], std: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Return a function that brings images (n, c, h, w) of 0 to 255 to the given statistics, which are of 0 to 1.

    >>> normalise((0.5,), (0.25,))(torch.full((1, 1, 1, 1), 255.0))
    tensor([[[[2.]]]])
    """

    def transform(images: Tensor) -> Tensor:
        shift, scale = (torch.tensor(values, dtype=torch.float32, device=images.device) for values in (mean, std))
        return (images.float() / 255 - shift[:, None, None]) / scale[:, None, None]

    return transform


def resize_and_crop(
    side: int, mean: Sequence[float], std: Sequence[float], *, resize: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Return a function that scales the shorter side of images, cuts a square out of their middle, and normalises it."""
    final = normalise(mean, std)

    def transform(images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        factor = (resize or side) / min(height, width)
        size = max(round(height * factor), side), max(round(width * factor), side)
        if size != (height, width):
            images = F.interpolate(images.float(), size=size, mode="bilinear", antialias=True).round().clamp(0, 255)
        top, left = (size[0] - side) // 2, (size[1] - side) // 2
        return final(images[..., top : top + side, left : left + side])

    return transform
