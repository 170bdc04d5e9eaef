"""Counts of the pixels that units and concepts share."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sigmascope.dissection.masks import NONE, LabelMap, Masks

__all__ = ["Overlap"]


class Overlap:
    """Pixel counts of several units and all concepts of some masks, over any number of batches.

    Units are active at few pixels. Each of these is counted for the concept at that pixel, so that
    time and memory, except for the counts, do not grow with the number of concepts.

    Args:
        masks: whose concepts are counted.
        rows: number of units.
        device: of the counts.
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
