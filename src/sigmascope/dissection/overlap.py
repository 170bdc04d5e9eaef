"""Counting the pixels that units and concepts share."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sigmascope.dissection.masks import NONE, LabelMap, Masks

__all__ = ["Overlap"]


class Overlap:
    """Pixel counts of several units and all concepts of some masks, over any number of batches.

    Units are active at few pixels. These are listed, and each is counted for the concept that
    stands there: the work does not grow with the number of concepts, nor does any memory but that
    of the counts.

    Args:
        masks: whose concepts are counted.
        rows: number of units.
        device: where the counting is done.
    """

    def __init__(self, masks: Masks, rows: int, device: torch.device) -> None:
        count = len(masks.concepts)
        self._categories = masks.categories
        self._of = torch.tensor(
            [self._categories.index(one.category) for one in masks.concepts], device=device
        )
        self._shared = torch.zeros(rows, count, dtype=torch.long, device=device)
        self._active = torch.zeros(rows, len(self._categories), dtype=torch.long, device=device)
        self._concept = torch.zeros(count, dtype=torch.long, device=device)
        self._pixels = masks.samples * masks.size[0] * masks.size[1]

    def add_concepts(self, labels: Mapping[str, LabelMap]) -> None:
        """Count the pixels of the concepts of some samples, once for all units."""
        for found in labels.values():
            seen = found.labels[found.annotated]
            chosen = seen[seen != NONE]
            self._concept += torch.bincount(chosen, minlength=len(self._concept))

    def add_units(
        self, active: Tensor, samples: Tensor, rows: Tensor, labels: Mapping[str, LabelMap]
    ) -> None:
        """Count what units share with concepts in some samples.

        Args:
            active: (m, h, w), booleans: where a unit is active in a sample; pairs that are left out
                are active nowhere.
            samples: (m,), the place of that sample in the labels.
            rows: (m,), the row of that unit.
            labels: of the samples.
        """
        map_, pixel = active.flatten(1).nonzero(as_tuple=True)
        sample, row = samples[map_], rows[map_]
        for number, category in enumerate(self._categories):
            found = labels[category]
            seen = found.annotated[sample]
            self._active[:, number] += torch.bincount(row[seen], minlength=len(self._active))
            flat = found.labels.flatten(2)
            for layer in range(flat.shape[1]):
                label = flat[sample, layer, pixel]
                counted = seen & (label != NONE)
                index = row[counted] * len(self._concept) + label[counted]
                self._shared.view(-1).index_add_(0, index, torch.ones_like(index))

    @property
    def silent(self) -> Tensor:
        """(rows,), booleans: units without an active pixel."""
        return (self._active == 0).all(dim=1)

    def iou(self) -> Tensor:
        """Return |unit ∩ concept| / |unit ∪ concept|, (rows, concepts), float64; NaN where neither
        has a pixel.

        The union is counted on the samples that are annotated for the category of the concept.
        """
        union = self._active[:, self._of] + self._concept - self._shared
        return self._shared.double() / union.double()

    def coverage(self) -> Tensor:
        """Return the share of all pixels, annotated or not, that each concept has, (concepts,), float64."""
        return self._concept.double() / self._pixels
