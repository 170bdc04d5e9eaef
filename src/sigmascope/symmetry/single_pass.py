"""The Procrustes similarity of all layers of two networks, in one pass over the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.batches import batch_size
from sigmascope.symmetry.cross_grams import PAIRS, CrossGrams, PairedGrams, check_pairs, pairs_of
from sigmascope.symmetry.passes import INCOMPLETE, Sink, Tap, check_found
from sigmascope.symmetry.similarity_options import ProcrustesOptions

Show: TypeAlias = Callable[[Sink], object]
"""Shows the features of a batch, layer by layer."""


@dataclass
class SinglePass:
    """The pass over the data.

    Attributes:
        taps: the two networks.
        channels: for both networks, site -> number of channels, in the order of the first batch.
        samples: number of samples so far.
    """

    taps: tuple[Tap, Tap]
    options: ProcrustesOptions
    pairs: str
    channels: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    samples: int = 0
    _incomplete: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    _sums: CrossGrams | PairedGrams | None = None

    def take(self, item: object) -> None:
        """Run both networks on a batch and add up the products of their features."""
        size = batch_size(item, self.options.batch_axis)
        shows: list[Show] = [partial(tap.run, item) for tap in self.taps]
        if self._sums is None:
            first = [_copied(show) for show in shows]
            self._sums = self._begin(first)
            shows = [partial(_show_again, features) for features in first]
        for side, show in enumerate(shows):
            awaited = dict(self.channels[side])
            show(partial(self._add, side, size, awaited))
            self._incomplete[side].update(awaited)
        self._sums.finish()
        self.samples += size

    def _begin(self, first: list[dict[str, Tensor]]) -> CrossGrams | PairedGrams:
        """Learn the layers from the features of the first batch."""
        for side, (features, tap) in enumerate(zip(first, self.taps, strict=True)):
            check_found(features, tap)
            self.channels[side].update((site, one.shape[1]) for site, one in features.items())
        check_pairs(self.pairs, *map(len, self.channels))
        x_widths, y_widths = (list(side.values()) for side in self.channels)
        return PAIRS[self.pairs](x_widths, y_widths, dtype=self.options.dtype)

    def _add(
        self, side: int, size: int, awaited: dict[str, int], site: str, features: Tensor
    ) -> None:
        """Add one layer, if it is awaited with so many samples and channels."""
        if len(features) == size and awaited.get(site) == features.shape[1]:
            self.sums.show(side, list(self.channels[side]).index(site), features)
            del awaited[site]

    def similarities(self, group: str) -> tuple[Matrix, dict[tuple[int, int], str]]:
        """Return the similarities of the layers, NaN where there is none, and the reasons."""
        sites = [list(side) for side in self.channels]
        matrix = np.full([len(side) for side in sites], math.nan)
        reasons = {}
        for i, j in pairs_of(self.pairs, *matrix.shape):
            both = zip((sites[0][i], sites[1][j]), self._incomplete, strict=True)
            broken = [f"{site}: {INCOMPLETE}" for site, missing in both if site in missing]
            if broken:
                reasons[i, j] = broken[0]
                continue
            found = self.sums.result(i, j, group=group, normalizer=self.options.normalizer)
            if isinstance(found, str):
                reasons[i, j] = found
            else:
                matrix[i, j] = found.similarity
                if math.isnan(found.similarity):
                    reasons[i, j] = found.reason
        return matrix, reasons

    @property
    def sums(self) -> CrossGrams | PairedGrams:
        """The sums that the similarities follow from."""
        if self._sums is None:
            raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
        return self._sums


def _copied(show: Show) -> dict[str, Tensor]:
    """Copy the features of a batch, which the network may overwrite."""
    found: dict[str, Tensor] = {}

    def keep(site: str, features: Tensor) -> None:
        found[site] = features.clone()

    show(keep)
    return found


def _show_again(features: dict[str, Tensor], sink: Sink) -> None:
    """Show copied features, and free them one by one."""
    for site in list(features):
        sink(site, features.pop(site))
