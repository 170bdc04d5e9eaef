"""Concepts computed from the images themselves, instead of annotations: colors and edges.

They are computed on demand, for a few images at a time.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.checks import check_number
from sigmascope.dissection.masks import NONE, Concept, LabelMap, Masks
from sigmascope.errors import InputError, InputTypeError

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
"""The basic color terms of English (Berlin and Kay, Basic Color Terms, 1969) as sRGB, by the votes
of the xkcd color survey (R. Munroe, Color Survey Results, 2010; public domain)."""
EDGES = ("horizontal", "rising", "vertical", "falling")
"""Directions of edges: 0°, 45°, 90° and 135°, each ± 22.5°."""

# From linear sRGB to CIE XYZ under D65 (IEC 61966-2-1), and the white point of that light.
XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


def cielab(images: Tensor) -> Tensor:
    """Return sRGB images (n, 3, …), 0 to 255, as L* (0 to 100), a*, b* of CIELab (D65), float32.

    >>> cielab(torch.tensor([[255, 0, 0]], dtype=torch.uint8)).round().tolist()
    [[53.0, 80.0, 67.0]]
    """
    if images.dtype == torch.uint8:
        table = _linear(torch.arange(256, dtype=torch.float64) / 255)
        light = table.to(images.device)[images.long()]
    else:
        light = _linear(images.double() / 255)
    white = torch.tensor(WHITE, device=images.device)[:, None]
    matrix = torch.tensor(XYZ, dtype=torch.float64, device=images.device) / white
    xyz = torch.einsum("ij,nj...->ni...", matrix, light)
    cut = (6 / 29) ** 3
    f = torch.where(xyz > cut, xyz.clamp_min(cut).pow(1 / 3), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    light, red, yellow = 116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])
    return torch.stack([light, red, yellow], dim=1).float()


def color_masks(images: Tensor) -> Masks:
    """Return masks of eleven basic colors: each pixel has the color nearest in CIELab.

    The colors are `COLORS`. Common ones, such as gray, cover so much of most data that no unit can
    reach an IoU above 0.04 with them; see `Dissection.out_of_reach`.

    Args:
        images: (n, 3, h, w), uint8, sRGB.

    >>> masks = color_masks(torch.tensor([[[[250]], [[10]], [[5]]]], dtype=torch.uint8))
    >>> masks.concepts[int(masks.read(0, 1)["color"].labels)]
    Concept(name='red', category='color')
    """
    pixels = _pixels(images)
    centers = [[int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in COLORS.values()]
    named = cielab(torch.tensor(centers, dtype=torch.uint8))

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = cielab(pixels[start:stop])
        apart = part[:, None] - named.to(part.device)[None, :, :, None, None]
        return {"color": _annotated(apart.square().sum(dim=2).argmin(dim=1))}

    concepts = tuple(Concept(name, "color") for name in COLORS)
    about = "nearest of eleven basic colors in CIELab (xkcd survey)"
    return Masks(concepts, len(pixels), (pixels.shape[2], pixels.shape[3]), read, about)


def edge_masks(images: Tensor, threshold: float = 24.0) -> Masks:
    """Return masks of edges in four directions: pixels with a large Sobel gradient of the luma.

    Args:
        images: (n, 3, h, w), uint8.
        threshold: of the length of the gradient, in levels of 0 to 255 per pixel.

    >>> images = torch.zeros(1, 3, 6, 6, dtype=torch.uint8)
    >>> images[:, :, :, 3:] = 255
    >>> masks = edge_masks(images)
    >>> labels = masks.read(0, 1)["edge"].labels
    >>> {masks.concepts[place].name for place in labels.unique().tolist() if place >= 0}
    {'vertical'}
    """
    pixels = _pixels(images)
    check_number("threshold", threshold, strict=True)
    ramp = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
    kernels = torch.stack([ramp, ramp.T])[:, None]

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = pixels[start:stop].float()
        luma = torch.einsum("c,nchw->nhw", torch.tensor(LUMA, device=part.device), part)[:, None]
        padded = F.pad(luma, (1,) * 4, mode="replicate")
        across, down = F.conv2d(padded, kernels.to(part.device)).unbind(dim=1)
        # An edge is perpendicular to its gradient; rows count downward.
        angle = torch.atan2(-down, across) + math.pi / 2
        direction = (angle / (math.pi / 4)).round().long() % 4
        strong = torch.hypot(across, down) > threshold
        return {"edge": _annotated(torch.where(strong, direction, NONE))}

    concepts = tuple(Concept(name, "edge") for name in EDGES)
    about = f"Sobel edges longer than {threshold:g} levels, four directions"
    return Masks(concepts, len(pixels), (pixels.shape[2], pixels.shape[3]), read, about)


def _linear(levels: Tensor) -> Tensor:
    """Return sRGB levels, 0 to 1, as linear light."""
    return torch.where(
        levels <= 0.04045, levels / 12.92, ((levels.clamp_min(0) + 0.055) / 1.055) ** 2.4
    )


def _pixels(images: object) -> Tensor:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise InputTypeError(
            f"images must be uint8, 0 to 255, not normalized, got "
            f"{getattr(images, 'dtype', type(images).__name__)}."
        )
    if images.ndim != 4 or images.shape[1] != 3 or not images.numel():
        raise InputError(f"images must be (n, 3, h, w), got the shape {tuple(images.shape)}.")
    return images


def _annotated(labels: Tensor) -> LabelMap:
    everywhere = torch.ones(len(labels), dtype=torch.bool, device=labels.device)
    return LabelMap(labels[:, None], everywhere)
