"""Readings of the features: one or more for exact thresholds, one to count shared pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.dissection.masks import NONE, LabelMap, Masks
from sigmascope.dissection.network_maps import Features
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.progress import Advance

PIXELS = 1 << 23
"""Pixels of maps held at a time, besides the batch that was read."""


class _Piece(NamedTuple):
    """Units from `start` to before `stop` of one basis."""

    basis: int
    start: int
    stop: int


@dataclass
class Readings:
    """Features, masks and bases (b, c, c). A row is a unit in a basis: basis · c + unit."""

    features: Features
    masks: Masks
    bases: Tensor
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self._is_identity = [torch.equal(one, torch.eye(len(one)).to(one)) for one in self.bases]

    def parts(self, row_bytes: int, memory: float) -> list[list[_Piece]]:
        """Return the rows in parts whose largest values fit into half of the memory.

        Merging needs the other half.
        """
        width, rows = self.shape[0], len(self.bases) * self.shape[0]
        at_once = max(1, int(memory // (2 * row_bytes)))
        parts: list[list[_Piece]] = []
        for start in range(0, rows, at_once):
            stop = min(start + at_once, rows)
            bases = range(start // width, (stop - 1) // width + 1)
            parts.append(
                [_Piece(n, max(start - n * width, 0), min(stop - n * width, width)) for n in bases]
            )
        return parts

    def thresholds(
        self, part: list[_Piece], total: int, quantile: float, advance: Advance
    ) -> Tensor:
        """Return the quantile of each row of a part, (rows,), float64."""
        tops = [Tops(total, quantile) for _ in part]
        at_once = max(1, PIXELS // math.prod(self.shape))
        for _, maps in self._read(advance):
            for some in torch.split(maps, at_once):
                values = some.movedim(1, 0).flatten(1)  # (c, positions)
                for piece, top in zip(part, tops, strict=True):
                    chosen = slice(piece.start, piece.stop)
                    # a product with the identity would only round
                    same = self._is_identity[piece.basis]
                    top.add(values[chosen] if same else self.bases[piece.basis, chosen] @ values)
        return torch.cat([top.quantiles() for top in tops])

    def overlap(self, thresholds: Tensor, advance: Advance) -> Overlap:
        """Return the counts of the pixels that units and concepts share."""
        limits = thresholds.to(self.bases.dtype).view(len(self.bases), -1)
        count = Overlap(self.masks, len(thresholds), thresholds.device)
        at_once = max(1, PIXELS // (self.shape[0] * math.prod(self.masks.size)))
        for start, maps in self._read(advance):
            for begin in range(0, len(maps), at_once):
                some = maps[begin : begin + at_once]
                labels = self._labels(start + begin, len(some), some.device)
                count.add_concepts(labels)
                for number, matrix in enumerate(self.bases):
                    same = self._is_identity[number]
                    turned = some if same else (matrix @ some.flatten(2)).view_as(some)
                    # No resized map exceeds its largest value, so most need not be resized.
                    sample, unit = (turned.amax(dim=(2, 3)) > limits[number]).nonzero(as_tuple=True)
                    resized = _resized(turned[sample, unit], self.masks.size)
                    active = resized > limits[number][unit][:, None, None]
                    count.add_units(active, sample, unit + number * self.shape[0], labels)
        self._note_inactive(count)
        return count

    def _note_inactive(self, count: Overlap) -> None:
        """Note the units of the layer's own basis that are never active."""
        if True in self._is_identity:
            rows = count.never_active.view(len(self.bases), -1)
            number = int(rows[self._is_identity.index(True)].sum())
            told = f"{number} of {self.shape[0]} units are never above their threshold"
            self.notes += [told] * (number > 0)

    def _read(self, advance: Advance) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of the first sample and the features, checked against the masks."""
        start, samples = 0, self.masks.samples
        for maps in self.features:
            shape, dtype = tuple(maps.shape[1:]), maps.dtype
            if shape != self.shape or dtype != self.bases.dtype:
                raise InputError(
                    f"features must have one shape and dtype, got {self.shape} of "
                    f"{self.bases.dtype} and {shape} of {dtype}."
                )
            stop = start + len(maps)
            if not bool(maps.isfinite().all()):
                raise InputError(
                    f"features of samples {start} to {stop - 1} are not finite. Check the network "
                    "and its data."
                )
            if stop > samples:
                raise InputError(
                    f"features have more than the {samples} samples of the masks. Pass as many."
                )
            yield start, maps
            start = stop
            for _ in maps:
                advance()
        if start != samples:
            raise InputError(
                f"features have {start} samples and masks have {samples}. Pass the same samples."
            )

    def _labels(self, start: int, count: int, device: torch.device) -> Mapping[str, LabelMap]:
        read, size = self.masks.read(start, start + count), self.masks.size
        for category in self.masks.categories:
            shape = tuple(read[category].labels.shape)
            if len(shape) != 4 or (shape[0], *shape[2:]) != (count, *size):
                raise InputTypeError(
                    f"labels of {category} must be ({count}, layers, {size[0]}, {size[1]}), got "
                    f"{shape}. Repair masks.read."
                )
        return {
            category: LabelMap(one.labels.to(device, torch.long), one.annotated.to(device))
            for category, one in read.items()
        }


def _resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Return maps (m, h, w) resized bilinearly, without aligned corners or antialiasing."""
    if tuple(maps.shape[1:]) == size:
        return maps
    return F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]


def kept_values(total: int, quantile: float) -> int:
    """Return how many of the largest of `total` values determine a quantile.

    >>> kept_values(1000, 0.995)
    6
    """
    return total - math.floor((total - 1) * quantile)


class Tops:
    """The largest of `total` values of each of several rows, as many as a quantile near 1 needs."""

    def __init__(self, total: int, quantile: float) -> None:
        self._total, self._quantile = total, quantile
        self._keep = kept_values(total, quantile)
        self._seen = 0
        self._values: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Add a part of the values, (rows, m)."""
        self._seen += values.shape[1]
        merged = values if self._values is None else torch.cat([self._values, values], dim=1)
        self._values = merged.topk(min(self._keep, merged.shape[1]), dim=1, sorted=False).values

    def quantiles(self) -> Tensor:
        """Return the quantile of each row, (rows,), float64, interpolated linearly as by NumPy.

        Raises:
            InputError: the number of values is not `total`.
        """
        if self._values is None or self._seen != self._total:
            raise InputError(
                f"expected {self._total} values of each unit, got {self._seen}. Pass all samples."
            )
        place = (self._total - 1) * self._quantile
        weight = place - math.floor(place)
        largest = self._values.double().sort(dim=1, descending=True).values
        low, high = largest[:, self._keep - 1], largest[:, max(self._keep - 2, 0)]
        return low + (high - low) * weight


class Overlap:
    """Pixel counts of units (rows) and all concepts of some masks, over any number of batches.

    Units are active at few pixels. Each of these is counted for the concept at that pixel, so that
    time and memory, except for the counts, do not grow with the number of concepts.
    """

    def __init__(self, masks: Masks, rows: int, device: torch.device) -> None:
        count, self._categories = len(masks.concepts), masks.categories
        places = [self._categories.index(one.category) for one in masks.concepts]
        self._of = torch.tensor(places, device=device)
        self._shared = torch.zeros(rows, count, dtype=torch.long, device=device)
        self._active = torch.zeros(rows, len(self._categories), dtype=torch.long, device=device)
        self._concept = torch.zeros(count, dtype=torch.long, device=device)
        self._pixels = masks.samples * masks.size[0] * masks.size[1]

    def add_concepts(self, labels: Mapping[str, LabelMap]) -> None:
        """Count the pixels of the concepts in some samples, once for all units."""
        for one in labels.values():
            seen = one.labels[one.annotated]
            chosen = seen[seen != NONE]
            self._concept += torch.bincount(chosen, minlength=len(self._concept))

    def add_units(
        self, active: Tensor, samples: Tensor, rows: Tensor, labels: Mapping[str, LabelMap]
    ) -> None:
        """Count the pixels that units share with concepts in some samples.

        Args:
            active: (m, h, w), booleans: where a unit is active in a sample; pairs that are not
                listed are inactive everywhere.
            samples: (m,), the places of the samples in the labels.
            rows: (m,), the rows of the units.
            labels: of the samples.
        """
        map_, pixel = active.flatten(1).nonzero(as_tuple=True)
        sample, row = samples[map_], rows[map_]
        for number, category in enumerate(self._categories):
            one = labels[category]
            seen = one.annotated[sample]
            self._active[:, number] += torch.bincount(row[seen], minlength=len(self._active))
            flat = one.labels.flatten(2)
            for layer in range(flat.shape[1]):
                label = flat[sample, layer, pixel]
                counted = seen & (label != NONE)
                index = row[counted] * len(self._concept) + label[counted]
                self._shared.view(-1).index_add_(0, index, torch.ones_like(index))

    @property
    def never_active(self) -> Tensor:
        """(rows,), booleans: units without an active pixel."""
        return (self._active == 0).all(dim=1)

    def iou(self) -> Tensor:
        """Return |unit ∩ concept| / |unit ∪ concept|, (rows, concepts), float64; NaN for 0 / 0.

        The union is over the samples that are annotated for the category of the concept.
        """
        union = self._active[:, self._of] + self._concept - self._shared
        return self._shared.double() / union.double()

    def coverage(self) -> Tensor:
        """Return the share of all pixels that each concept covers, (concepts,), float64."""
        return self._concept.double() / self._pixels
