"""The readings over the features: once or more for the thresholds, once for all that is counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.dissection.features import Features
from sigmascope.dissection.masks import LabelMap, Masks
from sigmascope.dissection.overlap import Overlap
from sigmascope.dissection.thresholds import Tops
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.progress import Advance

__all__ = ["Piece", "Work"]

PIXELS = 1 << 23
"""Of maps that are held at a time, beside those that come in."""


class Piece(NamedTuple):
    """Units from `start` to before `stop` of one basis."""

    basis: int
    start: int
    stop: int


@dataclass
class Work:
    """Features, masks and bases, and the readings over them. A row is a unit in a basis: basis · c
    + unit.
    """

    features: Features
    masks: Masks
    bases: Tensor
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self._is_identity = [torch.equal(one, torch.eye(len(one)).to(one)) for one in self.bases]

    def parts(self, row_bytes: int, memory: float) -> list[list[Piece]]:
        """Divide the rows so that the largest values of a part fit into memory, with as much again
        for merging.
        """
        width = self.shape[0]
        at_once = max(1, int(memory // (2 * row_bytes)))
        found: list[list[Piece]] = []
        for start in range(0, len(self.bases) * width, at_once):
            stop = min(start + at_once, len(self.bases) * width)
            bases = range(start // width, (stop - 1) // width + 1)
            found.append(
                [Piece(n, max(start - n * width, 0), min(stop - n * width, width)) for n in bases]
            )
        return found

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
                    # A product with the identity would only round.
                    same = self._is_identity[piece.basis]
                    top.add(values[chosen] if same else self.bases[piece.basis, chosen] @ values)
        return torch.cat([top.quantiles() for top in tops])

    def overlap(self, thresholds: Tensor, advance: Advance) -> Overlap:
        """Count what all units share with all concepts."""
        limits = thresholds.to(self.bases.dtype).view(len(self.bases), -1)
        count = Overlap(self.masks, len(thresholds), thresholds.device)
        at_once = max(1, PIXELS // (self.shape[0] * math.prod(self.masks.size)))
        for start, maps in self._read(advance):
            for begin in range(0, len(maps), at_once):
                some = maps[begin : begin + at_once]
                labels = self._labels(start + begin, len(some), some.device)
                count.add_concepts(labels)
                for number, matrix in enumerate(self.bases):
                    turned = (
                        some
                        if self._is_identity[number]
                        else (matrix @ some.flatten(2)).view_as(some)
                    )
                    # A resized map is nowhere above its largest value: most need not be resized at
                    # all.
                    sample, unit = (turned.amax(dim=(2, 3)) > limits[number]).nonzero(as_tuple=True)
                    resized = _resized(turned[sample, unit], self.masks.size)
                    active = resized > limits[number][unit][:, None, None]
                    count.add_units(active, sample, unit + number * self.shape[0], labels)
        own = next((number for number, same in enumerate(self._is_identity) if same), None)
        silent = 0 if own is None else int(count.silent.view(len(self.bases), -1)[own].sum())
        if silent:
            self.notes.append(f"{silent} of {self.shape[0]} units are never above their threshold")
        return count

    def _read(self, advance: Advance) -> Iterator[tuple[int, Tensor]]:
        """Yield the features with the number of their first sample, and check that they belong to
        the masks.
        """
        start = 0
        for maps in self.features:
            if tuple(maps.shape[1:]) != self.shape or maps.dtype != self.bases.dtype:
                raise InputError(
                    f"features change from {self.shape} to {tuple(maps.shape[1:])}. Pass "
                    "maps of one shape and type."
                )
            if not bool(maps.isfinite().all()):
                raise InputError(
                    f"features of the samples from {start} on are not finite. Repair the "
                    "network or its data."
                )
            if start + len(maps) > self.masks.samples:
                raise InputError(
                    f"features go on after the {self.masks.samples} samples of the masks. "
                    "Pass the same samples."
                )
            yield start, maps
            start += len(maps)
            for _ in maps:
                advance()
        if start != self.masks.samples:
            raise InputError(
                f"features are of {start} samples and masks of {self.masks.samples}. Pass "
                "the same samples."
            )

    def _labels(self, start: int, count: int, device: torch.device) -> Mapping[str, LabelMap]:
        found = self.masks.read(start, start + count)
        for category in self.masks.categories:
            labels = found[category].labels
            if (
                labels.ndim != 4
                or labels.shape[0] != count
                or tuple(labels.shape[2:]) != self.masks.size
            ):
                raise InputTypeError(
                    f"the masks of {category} have the shape {tuple(labels.shape)} for "
                    f"{count} samples."
                )
        return {
            category: LabelMap(one.labels.to(device, torch.long), one.annotated.to(device))
            for category, one in found.items()
        }


def _resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize maps (m, h, w) bilinearly, pixels being areas: corners are not aligned, and what
    shrinks is not smoothed first.
    """
    if tuple(maps.shape[1:]) == size:
        return maps
    return F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
