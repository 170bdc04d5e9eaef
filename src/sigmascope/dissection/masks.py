"""Masks of concepts in images, read or computed for a few samples at a time.

Every category of concepts ("color", "part", …) has layers of label maps, which hold the number of
one concept, or none, at each pixel. Concepts that do not overlap share a layer, so that memory does
not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError, printable
from sigmascope.maths.samples import Array

NONE = -1
"""The label of pixels without a concept."""
CATEGORY = "concept"


@dataclass(frozen=True)
class Concept:
    """Something to be seen in an image, such as red, of the category color.

    >>> Concept("red", "color")
    Concept(name='red', category='color')
    """

    name: str
    category: str = CATEGORY

    def __str__(self) -> str:
        return printable(f"{self.name} ({self.category})")


@dataclass(frozen=True, eq=False)
class LabelMap:
    """The concepts of one category in a few samples.

    Attributes:
        labels: (n, layers, h, w), whole numbers: places in `Masks.concepts`, or `NONE`. No concept
            occurs twice at a pixel.
        annotated: (n,), booleans: which samples are annotated for this category.

    >>> import torch
    >>> from sigmascope.dissection import image_masks
    >>> labels = image_masks(torch.tensor([0, 1, -1]), ["cat", "dog"], (4, 4)).read(0, 3)["class"]
    >>> labels.labels.shape, labels.annotated.tolist()
    (torch.Size([3, 1, 4, 4]), [True, True, False])
    """

    labels: Tensor
    annotated: Tensor


def _not_given(start: int, stop: int) -> Mapping[str, LabelMap]:
    raise InputTypeError(
        "Masks need concepts, samples, size and read. Make them with pixel_masks(tensor, names), "
        "image_masks(labels, names, size), color_masks(images), edge_masks(images) or "
        "read_broden(directory).masks."
    )


@dataclass(frozen=True, eq=False)
class Masks:
    """Masks of concepts for a number of samples, made by `pixel_masks` and other functions.

    Attributes:
        concepts: all of them.
        samples: the number of images.
        size: (h, w) of the masks.
        read: (start, stop) -> category -> `LabelMap` of the samples from start to before stop.
        about: what they are and where they come from.

    Raises:
        InputError: no concepts, a concept twice, or no pixels.
        InputTypeError: without `read`.

    >>> import torch
    >>> from sigmascope import dissection
    >>> masks = dissection.image_masks(torch.tensor([0, 1, -1]), ["cat", "dog"], (4, 4))
    >>> masks.samples, masks.size, masks.concepts[0].name
    (3, (4, 4), 'cat')
    """

    concepts: tuple[Concept, ...] = ()
    samples: int = 0
    size: tuple[int, int] = (0, 0)
    read: Callable[[int, int], Mapping[str, LabelMap]] = field(default=_not_given, repr=False)
    about: str = ""

    def __post_init__(self) -> None:
        if self.read is _not_given:
            _not_given(0, 0)
        if not self.concepts:
            raise InputError("masks have no concepts. Name at least one.")
        if len(set(self.concepts)) < len(self.concepts):
            twice = next(one for one in self.concepts if self.concepts.count(one) > 1)
            raise InputError(f"the concept {twice} occurs twice. Use distinct names or categories.")
        if self.samples < 1 or min(self.size) < 1:
            got = f"{self.samples} samples of the size {self.size}"
            raise InputError(f"masks must have at least one sample and pixel, got {got}.")

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories, in order of their first concept."""
        return tuple(dict.fromkeys(concept.category for concept in self.concepts))


def pixel_masks(
    masks: Array,
    concepts: Sequence[str | tuple[str, str] | Concept] | None = None,
    *,
    annotated: Mapping[str, Array] | None = None,
    about: str = "masks given as a tensor",
) -> Masks:
    """Return masks from a tensor; they may overlap.

    Args:
        masks: (n, k, h, w), booleans: whether concept k is at a pixel.
        concepts: k names, or pairs (name, category); by default numbers.
        annotated: category -> (n,), booleans: which samples are annotated for it; all by default.
        about: what they are.

    Raises:
        InputError: different lengths.
        InputTypeError: not booleans.

    >>> masks = torch.zeros(5, 2, 8, 8, dtype=torch.bool)
    >>> pixel_masks(masks, [("red", "color"), ("wheel", "part")]).categories
    ('color', 'part')
    """
    tensor = _booleans(masks, "masks", 4)
    named = [_concept(one) for one in (range(tensor.shape[1]) if concepts is None else concepts)]
    if len(named) != tensor.shape[1]:
        raise InputError(
            f"masks has {tensor.shape[1]} concepts, but {len(named)} names were given. Pass one "
            "name for each."
        )
    places: dict[str, list[int]] = {}
    for place, one in enumerate(named):
        places.setdefault(one.category, []).append(place)
    known = dict.fromkeys(places, torch.ones(len(tensor), dtype=torch.bool))
    for name, flags in (annotated or {}).items():
        if name not in places or len(flags) != len(tensor):
            raise InputError(
                f"annotated[{name!r}] must be the flags of {len(tensor)} samples for one of the "
                f"categories {', '.join(places)}, got {len(flags)} flags."
            )
        known[name] = _booleans(flags, f"annotated[{name!r}]", 1)

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = tensor[start:stop]
        return {
            category: LabelMap(
                _layers(part[:, chosen], torch.tensor(chosen)), known[category][start:stop]
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
    """Return masks of one concept per image, at all of its pixels, as for scenes.

    Args:
        labels: (n,), whole numbers: places in `names`, or -1 for an image that is not annotated.
        names: of the concepts.
        size: (h, w) of the masks.
        category: of all the concepts.
        about: what they are.

    Raises:
        InputError: labels without a name.

    >>> masks = image_masks(torch.tensor([0, 1, -1]), ["cat", "dog"], (4, 4))
    >>> [concept.name for concept in masks.concepts], masks.samples
    (['cat', 'dog'], 3)
    """
    values = torch.as_tensor(labels)
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        shape = tuple(values.shape)
        raise InputTypeError(f"labels must be whole numbers (n,), got {values.dtype} {shape}.")
    if not len(values) or int(values.max()) >= len(names) or int(values.min()) < NONE:
        raise InputError(
            f"labels must be -1 or places in the {len(names)} names, got {values.tolist()!r:.80}."
        )
    values = values.long()

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        part = values[start:stop]
        return {category: LabelMap(part[:, None, None, None].expand(-1, 1, *size), part != NONE)}

    return Masks(tuple(Concept(name, category) for name in names), len(values), size, read, about)


def join_masks(*parts: Masks) -> Masks:
    """Return masks of the same samples, of one size and of different categories, as one.

    Raises:
        InputError: they do not fit together.

    >>> classes = image_masks(torch.tensor([0, 1]), ["cat", "dog"], (4, 4))
    >>> spots = pixel_masks(torch.zeros(2, 1, 4, 4, dtype=torch.bool), [("spots", "texture")])
    >>> join_masks(classes, spots).categories
    ('class', 'texture')
    """
    if not parts or len({(part.samples, part.size) for part in parts}) > 1:
        shapes = ", ".join(f"{part.samples} samples of {part.size}" for part in parts)
        raise InputError(f"masks must be of the same samples and size, got {shapes or 'none'}.")
    categories = [name for part in parts for name in part.categories]
    if len(set(categories)) < len(categories):
        raise InputError(f"categories must differ, got {', '.join(categories)}. Rename one.")
    offsets = np.cumsum([0, *(len(part.concepts) for part in parts)]).tolist()

    def read(start: int, stop: int) -> dict[str, LabelMap]:
        joined = {}
        for part, offset in zip(parts, offsets, strict=False):
            for category, one in part.read(start, stop).items():
                labels = torch.where(one.labels == NONE, NONE, one.labels + offset)
                joined[category] = LabelMap(labels, one.annotated)
        return joined

    concepts = tuple(concept for part in parts for concept in part.concepts)
    about = "; ".join(part.about for part in parts)
    return Masks(concepts, parts[0].samples, parts[0].size, read, about)


def as_masks(masks: Masks | Array) -> Masks:
    """Return masks, from themselves or from a tensor; see `pixel_masks`."""
    return masks if isinstance(masks, Masks) else pixel_masks(masks)


def _concept(given: Any) -> Concept:
    if isinstance(given, Concept):
        return given
    if isinstance(given, (str, int)):
        return Concept(str(given))
    if isinstance(given, tuple) and [type(part) for part in given] == [str, str]:
        return Concept(*given)
    raise InputTypeError(f"a concept must be a name or a pair (name, category), got {given!r:.80}.")


def _booleans(values: object, name: str, axes: int) -> Tensor:
    is_array = isinstance(values, np.ndarray) and values.dtype.kind == "b"
    tensor = torch.as_tensor(values) if is_array else values
    if not isinstance(tensor, Tensor) or tensor.dtype != torch.bool:
        kind = getattr(values, "dtype", type(values).__name__)
        raise InputTypeError(f"{name} must be booleans, such as values > 0, got {kind}.")
    if tensor.ndim != axes:
        shape = "(n, k, h, w)" if axes == 4 else "(n,)"
        raise InputError(f"{name} must be {shape}, got the shape {tuple(tensor.shape)}.")
    return tensor


def _layers(masks: Tensor, places: Tensor) -> Tensor:
    """Return concepts that may overlap in as few layers as possible."""
    depth = max(1, int(masks.sum(dim=1).max()) if len(masks) else 1)
    labels = torch.where(masks, places.to(masks.device)[:, None, None], NONE)
    return labels.sort(dim=1, descending=True).values[:, :depth]
