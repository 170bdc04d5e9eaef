"""Where concepts are in images: masks that are read or computed for a few samples at a time.

Every category of concepts ("color", "part", …) has layers of label maps: at each pixel of a layer
stands the number of one concept, or none. One layer holds any number of concepts that do not
overlap, so that the memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array

__all__ = [
    "NONE",
    "Concept",
    "LabelMap",
    "Masks",
    "as_masks",
    "image_masks",
    "join_masks",
    "pixel_masks",
]

NONE = -1
"""Stands where there is no concept."""
CATEGORY = "concept"


@dataclass(frozen=True)
class Concept:
    """Something that may be seen in an image, such as red, of the category color."""

    name: str
    category: str = CATEGORY

    def __str__(self) -> str:
        return f"{self.name} ({self.category})"


@dataclass(frozen=True, eq=False)
class LabelMap:
    """Where the concepts of one category are in a few samples.

    Attributes:
        labels: (n, layers, h, w), whole numbers: places in `Masks.concepts`, or `NONE`. No concept
            stands twice at a pixel.
        annotated: (n,), which samples somebody has looked at for this category; the others say
            nothing about it.
    """

    labels: Tensor
    annotated: Tensor


@dataclass(frozen=True, eq=False)
class Masks:
    """Masks of concepts for a number of samples.

    Attributes:
        concepts: all of them.
        samples: how many images there are.
        size: (h, w) of the masks.
        read: (start, stop) -> category -> `LabelMap` of the samples from start to before stop.
        about: what they are and where they come from.
    """

    concepts: tuple[Concept, ...]
    samples: int
    size: tuple[int, int]
    read: Callable[[int, int], Mapping[str, LabelMap]] = field(repr=False)
    about: str = ""

    def __post_init__(self) -> None:
        if not self.concepts:
            raise InputError("there are no concepts. Name at least one.")
        if len(set(self.concepts)) < len(self.concepts):
            twice = next(one for one in self.concepts if self.concepts.count(one) > 1)
            raise InputError(
                f"the concept {twice} is named twice. Give each another name or category."
            )
        if self.samples < 1 or min(self.size) < 1:
            raise InputError(
                f"the masks are of {self.samples} samples and the size {self.size}. Pass at "
                "least one pixel."
            )

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories in order of their first concept."""
        return tuple(dict.fromkeys(concept.category for concept in self.concepts))


def pixel_masks(
    masks: Array,
    concepts: Sequence[str | tuple[str, str] | Concept] | None = None,
    *,
    annotated: Mapping[str, Array] | None = None,
    about: str = "masks given as a tensor",
) -> Masks:
    """Take masks from a tensor; they may overlap.

    Args:
        masks: (n, k, h, w), booleans: whether concept k is at a pixel.
        concepts: k names, or pairs (name, category); by default numbers.
        annotated: category -> (n,), booleans, which samples count for it; all by default.
        about: what they are.

    Raises:
        InputError: unequal lengths.
        InputTypeError: no booleans.

    >>> pixel_masks(torch.zeros(5, 2, 8, 8, dtype=torch.bool), [("red", "color"), ("wheel", "part")]).categories
    ('color', 'part')
    """
    tensor = _booleans(masks, "masks", 4)
    named = [_concept(one) for one in (range(tensor.shape[1]) if concepts is None else concepts)]
    if len(named) != tensor.shape[1]:
        raise InputError(
            f"masks has {tensor.shape[1]} concepts and {len(named)} are named. Pass as many "
            "of both."
        )
    known = {
        name: _booleans(flags, f"annotated[{name!r}]", 1)
        for name, flags in (annotated or {}).items()
    }
    for name, flags in known.items():
        if name not in {one.category for one in named} or len(flags) != len(tensor):
            raise InputError(f"annotated[{name!r}] fits no category of {len(tensor)} samples.")
    places = {
        category: torch.tensor(
            [place for place, one in enumerate(named) if one.category == category]
        )
        for category in dict.fromkeys(one.category for one in named)
    }

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = tensor[start:stop]
        return {
            category: LabelMap(
                _layers(part[:, chosen], chosen), known.get(category, _all(len(tensor)))[start:stop]
            )
            for category, chosen in places.items()
        }

    return Masks(tuple(named), len(tensor), (tensor.shape[2], tensor.shape[3]), read, about)


def image_masks(
    labels: Array,
    names: Sequence[str],
    size: tuple[int, int],
    *,
    category: str = "class",
    about: str = "whole images",
) -> Masks:
    """Let each image show one concept, at all of its pixels, as scenes do.

    Args:
        labels: (n,), whole numbers: places in `names`, or -1 for an image that is not annotated.
        names: of the concepts.
        size: (h, w) of the masks.
        category: of all the concepts.
        about: what they are.

    Raises:
        InputError: labels without a name.
    """
    values = torch.as_tensor(labels)
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        raise InputTypeError(
            f"labels has the shape {tuple(values.shape)} and {values.dtype}. Pass whole "
            "numbers (n,)."
        )
    if not len(values) or int(values.max()) >= len(names) or int(values.min()) < NONE:
        raise InputError(
            f"labels reach from {values.min()} to {values.max()}, and there are {len(names)} names."
        )
    values = values.long()

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = values[start:stop]
        return {category: LabelMap(part[:, None, None, None].expand(-1, 1, *size), part != NONE)}

    return Masks(tuple(Concept(name, category) for name in names), len(values), size, read, about)


def join_masks(*parts: Masks) -> Masks:
    """Put masks of the same samples, of one size, together; their categories must differ.

    Raises:
        InputError: they do not fit together.
    """
    if not parts or len({(part.samples, part.size) for part in parts}) > 1:
        shapes = ", ".join(f"{part.samples} samples of {part.size}" for part in parts)
        raise InputError(
            f"masks of {shapes or 'nothing'} do not belong together. Pass masks of the same "
            "samples and size."
        )
    categories = [name for part in parts for name in part.categories]
    if len(set(categories)) < len(categories):
        raise InputError(
            f"the categories {', '.join(categories)} are not different. Rename one of them."
        )
    offsets = np.cumsum([0, *(len(part.concepts) for part in parts)]).tolist()

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        found = {}
        for part, offset in zip(parts, offsets, strict=False):
            for category, one in part.read(start, stop).items():
                found[category] = LabelMap(
                    torch.where(one.labels == NONE, NONE, one.labels + offset), one.annotated
                )
        return found

    concepts = tuple(concept for part in parts for concept in part.concepts)
    return Masks(
        concepts, parts[0].samples, parts[0].size, read, "; ".join(part.about for part in parts)
    )


def as_masks(masks: Masks | Array) -> Masks:
    """Return masks, from themselves or from a tensor as `pixel_masks` takes it."""
    return masks if isinstance(masks, Masks) else pixel_masks(masks)


def _concept(given: Any) -> Concept:
    if isinstance(given, Concept):
        return given
    if isinstance(given, (str, int)):
        return Concept(str(given))
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and all(isinstance(part, str) for part in given)
    ):
        return Concept(*given)
    raise InputTypeError(
        f"{given!r:.80} names no concept. Pass a name, or a pair (name, category)."
    )


def _booleans(values: object, name: str, axes: int) -> Tensor:
    tensor = (
        torch.from_numpy(values)
        if isinstance(values, np.ndarray) and values.dtype.kind == "b"
        else values
    )
    if not isinstance(tensor, Tensor) or tensor.dtype != torch.bool:
        kind = getattr(values, "dtype", type(values).__name__)
        raise InputTypeError(f"{name} is {kind}. Pass a tensor of booleans, such as values > 0.")
    if tensor.ndim != axes:
        raise InputError(
            f"{name} has the shape {tuple(tensor.shape)} where {axes} axes are wanted: (n, "
            "k, h, w), or (n,)."
        )
    return tensor


def _all(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


def _layers(masks: Tensor, places: Tensor) -> Tensor:
    """Lay concepts that may overlap into as few layers as the deepest pile needs."""
    depth = max(1, int(masks.sum(dim=1).max()) if len(masks) else 1)
    labels = torch.where(masks, places.to(masks.device)[:, None, None], NONE)
    return labels.sort(dim=1, descending=True).values[:, :depth]
