"""Readings of the features: one or more for the thresholds, one for the counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.dissection.masks import LabelMap, Masks
from sigmascope.dissection.network_maps import Features
from sigmascope.dissection.overlap import Overlap
from sigmascope.dissection.thresholds import Tops
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.progress import Advance

__all__ = ["Piece", "Readings"]

PIXELS = 1 << 23
"""Pixels of maps held at a time, besides the batch that was read."""


class Piece(NamedTuple):
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

    def parts(self, row_bytes: int, memory: float) -> list[list[Piece]]:
        """Return the rows in parts whose largest values fit into half of the memory.

        Merging needs the other half.
        """
        width, rows = self.shape[0], len(self.bases) * self.shape[0]
        at_once = max(1, int(memory // (2 * row_bytes)))
        parts: list[list[Piece]] = []
        for start in range(0, rows, at_once):
            stop = min(start + at_once, rows)
            bases = range(start // width, (stop - 1) // width + 1)
            parts.append(
                [Piece(n, max(start - n * width, 0), min(stop - n * width, width)) for n in bases]
            )
        return parts

    def thresholds(
        self, part: list[Piece], total: int, quantile: float, advance: Advance
    ) -> Tensor:
        """Return the quantile of each row of a part, (rows,), float64."""
        tops = [Tops(total, quantile) for _ in part]
        at_once = max(1, PIXELS // math.prod(self.shape))
        for _, maps in self._read(advance):
            for some in torch.split(maps, at_once):
                values = some.movedim(1, 0).flatten(1)  # (c, positions)
                for piece, top in zip(part, tops, strict=True):
                    chosen = slice(piece.start, piece.stop)
                    if not self._is_identity[piece.basis]:
                        top.add(self.bases[piece.basis, chosen] @ values)
                    else:  # a product with the identity would only round
                        top.add(values[chosen])
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
        if True in self._is_identity:
            own = self._is_identity.index(True)
            inactive = int(count.never_active.view(len(self.bases), -1)[own].sum())
            if inactive:
                units = f"{inactive} of {self.shape[0]} units"
                self.notes.append(f"{units} are never above their threshold")
        return count

    def _read(self, advance: Advance) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of the first sample and the features, checked against the masks."""
        start = 0
        for maps in self.features:
            if tuple(maps.shape[1:]) != self.shape or maps.dtype != self.bases.dtype:
                raise InputError(
                    f"features must have one shape and dtype, got {self.shape} and "
                    f"{tuple(maps.shape[1:])}, {self.bases.dtype} and {maps.dtype}."
                )
            if not bool(maps.isfinite().all()):
                raise InputError(
                    f"features of samples {start} to {start + len(maps) - 1} are not finite. Check "
                    "the network and its data."
                )
            if start + len(maps) > self.masks.samples:
                raise InputError(
                    f"features have more than the {self.masks.samples} samples of the masks. Pass "
                    "the same samples."
                )
            yield start, maps
            start += len(maps)
            for _ in maps:
                advance()
        if start != self.masks.samples:
            raise InputError(
                f"features have {start} samples and masks have {self.masks.samples}. Pass the same "
                "samples."
            )

    def _labels(self, start: int, count: int, device: torch.device) -> Mapping[str, LabelMap]:
        read = self.masks.read(start, start + count)
        for category in self.masks.categories:
            labels = read[category].labels
            if (
                labels.ndim != 4
                or labels.shape[0] != count
                or tuple(labels.shape[2:]) != self.masks.size
            ):
                raise InputTypeError(
                    f"labels of {category} must be ({count}, layers, {self.masks.size[0]}, "
                    f"{self.masks.size[1]}), got {tuple(labels.shape)}. Repair masks.read."
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
