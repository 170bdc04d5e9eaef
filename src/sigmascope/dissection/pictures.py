"""Concepts that can be computed from images themselves: colors, edges and silhouettes.

They stand in for annotations where there are none. All are computed for a few images at a time,
when they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.dissection.masks import NONE, Concept, LabelMap, Masks
from sigmascope.errors import InputError, InputTypeError

__all__ = ["COLORS", "EDGES", "cielab", "color_masks", "edge_masks", "silhouette_masks"]

COLORS = {
    "black": "#000000",
    "blue": "#0343df",
    "brown": "#653700",
    "gray": "#929591",
    "green": "#15b01a",
    "orange": "#f97306",
    "pink": "#ff81c0",
    "purple": "#7e1e9c",
    "red": "#e50000",
    "white": "#ffffff",
    "yellow": "#ffff14",
}
"""The eleven basic color terms of English (Berlin and Kay, Basic Color Terms, 1969), and for each
the sRGB color that the votes of the xkcd color survey (R. Munroe, Color Survey Results, 2010;
public domain) give to its name."""
EDGES = ("horizontal", "rising", "vertical", "falling")
"""Directions of edges, at 0°, 45°, 90° and 135°, each with those within 22.5°."""

# From linear sRGB to CIE XYZ under D65 (IEC 61966-2-1), and the white point of that light.
XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


def cielab(images: Tensor) -> Tensor:
    """Return images (n, 3, …) of sRGB, 0 to 255, in CIELab under D65, float32: L* from 0 to 100,
    a*, b*.

    >>> cielab(torch.tensor([[255, 0, 0]], dtype=torch.uint8)).round().tolist()
    [[53.0, 80.0, 67.0]]
    """
    levels = torch.arange(256, dtype=torch.float64) / 255
    linear = torch.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4).to(
        images.device
    )
    light = linear[images.long()] if images.dtype == torch.uint8 else _linear(images)
    matrix = (
        torch.tensor(XYZ, dtype=torch.float64, device=images.device)
        / torch.tensor(WHITE, device=images.device)[:, None]
    )
    xyz = torch.einsum("ij,nj...->ni...", matrix, light)
    cut = (6 / 29) ** 3
    f = torch.where(xyz > cut, xyz.clamp_min(cut).pow(1 / 3), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return torch.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], dim=1
    ).float()


def color_masks(images: Tensor) -> Masks:
    """Name the color of every pixel: of eleven basic colors the one that is nearest in CIELab, by
    Euclidean distance.

    The centers are those of `COLORS`, by the survey named there. Every pixel has exactly one
    color. Common ones, such as gray, cover so much of most data that no unit can reach an IoU
    above 0.04 with them; see `Dissection.out_of_reach`.

    Args:
        images: (n, 3, h, w), uint8, sRGB.

    >>> masks = color_masks(torch.tensor([[[[250]], [[10]], [[5]]]], dtype=torch.uint8))
    >>> masks.concepts[int(masks.read(0, 1)["color"].labels)]
    Concept(name='red', category='color')
    """
    pixels = _pixels(images)
    centers = torch.tensor(
        [[int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in COLORS.values()],
        dtype=torch.uint8,
    )
    named = cielab(centers)

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = cielab(pixels[start:stop])
        distances = (
            (part[:, None] - named.to(part.device)[None, :, :, None, None]).square().sum(dim=2)
        )
        return {"color": _annotated(distances.argmin(dim=1))}

    concepts = tuple(Concept(name, "color") for name in COLORS)
    return Masks(
        concepts,
        len(pixels),
        _size(pixels),
        read,
        "nearest of eleven basic colors in CIELab (xkcd survey)",
    )


def edge_masks(images: Tensor, threshold: float = 24.0) -> Masks:
    """Find edges in four directions: where the Sobel gradient of the brightness (BT.601) is longer
    than a threshold.

    Args:
        images: (n, 3, h, w), uint8.
        threshold: in levels of 0 to 255 for a step of one pixel.
    """
    pixels = _pixels(images)
    if not threshold > 0:
        raise InputError(f"threshold={threshold!r} is not above 0.")
    ramp = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
    kernels = torch.stack([ramp, ramp.T])[:, None]

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = pixels[start:stop].float()
        luma = torch.einsum("c,nchw->nhw", torch.tensor(LUMA, device=part.device), part)[:, None]
        across, down = F.conv2d(
            F.pad(luma, (1,) * 4, mode="replicate"), kernels.to(part.device)
        ).unbind(dim=1)
        # An edge runs at a right angle to its gradient; rows count downwards.
        angle = torch.atan2(-down, across) + math.pi / 2
        direction = (angle / (math.pi / 4)).round().long() % 4
        return {
            "edge": _annotated(torch.where(torch.hypot(across, down) > threshold, direction, NONE))
        }

    concepts = tuple(Concept(name, "edge") for name in EDGES)
    return Masks(
        concepts,
        len(pixels),
        _size(pixels),
        read,
        f"Sobel edges longer than {threshold:g} levels, four directions",
    )


def silhouette_masks(
    images: Tensor, labels: Tensor, names: Sequence[str], threshold: float = 25.0
) -> Masks:
    """Take the bright pixels of an image for the shape of its class, as it is in Fashion-MNIST,
    whose background is black.

    Args:
        images: (n, 3, h, w), uint8.
        labels: (n,), whole numbers: places in `names`.
        names: of the classes.
        threshold: of the mean of the three colors; brighter pixels belong to the shape.
    """
    pixels = _pixels(images)
    classes = torch.as_tensor(labels)
    if classes.shape != pixels.shape[:1] or classes.is_floating_point():
        raise InputError(
            f"labels has the shape {tuple(classes.shape)} for {len(pixels)} images. Pass "
            "whole numbers (n,)."
        )
    if not 0 <= int(classes.min()) <= int(classes.max()) < len(names):
        raise InputError(
            f"labels reach from {classes.min()} to {classes.max()}, and there are "
            f"{len(names)} names."
        )

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        bright = pixels[start:stop].float().mean(dim=1) > threshold
        return {
            "shape": _annotated(
                torch.where(
                    bright, classes[start:stop].long().to(bright.device)[:, None, None], NONE
                )
            )
        }

    concepts = tuple(Concept(name, "shape") for name in names)
    return Masks(
        concepts, len(pixels), _size(pixels), read, f"pixels brighter than {threshold:g}, by class"
    )


def _linear(images: Tensor) -> Tensor:
    levels = images.double() / 255
    return torch.where(
        levels <= 0.04045, levels / 12.92, ((levels.clamp_min(0) + 0.055) / 1.055) ** 2.4
    )


def _pixels(images: object) -> Tensor:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise InputTypeError(
            f"images are {getattr(images, 'dtype', type(images).__name__)}. Pass uint8, 0 to "
            "255, not normalised."
        )
    if images.ndim != 4 or images.shape[1] != 3 or not images.numel():
        raise InputError(f"images have the shape {tuple(images.shape)}. Pass (n, 3, h, w).")
    return images


def _size(pixels: Tensor) -> tuple[int, int]:
    return pixels.shape[2], pixels.shape[3]


def _annotated(labels: Tensor) -> LabelMap:
    return LabelMap(
        labels[:, None], torch.ones(len(labels), dtype=torch.bool, device=labels.device)
    )
