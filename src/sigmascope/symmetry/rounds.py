"""The kernels of all layers of two networks, in rounds over the data that fit into memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.hsic import hsic_products
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.batches import batch_size, batches_of, fingerprint_of_batch
from sigmascope.measure.progress import Advance
from sigmascope.symmetry.cka_similarity import FEWEST, Kernel, constant_kernels, cosine
from sigmascope.symmetry.passes import INCOMPLETE, Tap, check_found, items_of
from sigmascope.symmetry.similarity_options import CkaOptions


class Layer(NamedTuple):
    """One site of one of the networks: the shape (c, ...) and type of its features."""

    side: int
    site: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass
class Rounds:
    """The passes over the data.

    Attributes:
        taps: the two networks.
        layers: the sites of each.
        samples: number of samples.
        kernels: of the layers, as far as they are known.
        live: of these layers, how many channels carry information.
        failures: layer -> why it has no kernel.
    """

    taps: tuple[Tap, Tap]
    batches: Any
    options: CkaOptions
    reduction: str
    folder: Path
    layers: tuple[list[Layer], list[Layer]] = field(default_factory=lambda: ([], []))
    samples: int = 0
    kernels: dict[Layer, Tensor] = field(default_factory=dict)
    live: dict[Layer, int] = field(default_factory=dict)
    failures: dict[Layer, str] = field(default_factory=dict)
    _prints: list[str] = field(default_factory=list)
    _plan: list[list[Layer]] = field(default_factory=list)

    def prepare(self) -> int:
        """Read all batches once, find the layers on the first, and return the number of steps."""
        found = batches_of(self.batches)
        if iter(found) is found:
            raise InputTypeError(
                "CKA reads the data several times. Pass a list of batches or a DataLoader, "
                "not an iterator."
            )
        for number, item in enumerate(items_of(self.batches, self.options)):
            if number == 0:
                self._find_layers(item)
            self._prints.append(fingerprint_of_batch(item))
            self.samples += batch_size(item, self.options.batch_axis)
        if self.samples < FEWEST:
            raise InputError(
                f"{self.samples} samples; the unbiased estimator needs at least {FEWEST}."
            )
        self._plan = list(self._rounds())
        return len(self._plan) * len(self._prints) + sum(map(len, self._plan))

    def _find_layers(self, item: object) -> None:
        for side, tap in enumerate(self.taps):
            found = self.layers[side]

            def note(site: str, x: Tensor, side: int = side, found: list[Layer] = found) -> None:
                found.append(Layer(side, site, tuple(x.shape[1:]), x.dtype, x.device))

            tap.run(item, note)
            check_found([layer.site for layer in found], tap)

    def _rounds(self) -> Iterator[list[Layer]]:
        """Group layers so that the features of a group fit into memory, if one layer does."""
        group: list[Layer] = []
        used = 0.0
        for layer in (*self.layers[0], *self.layers[1]):
            size = self.samples * math.prod(layer.shape) * layer.dtype.itemsize
            if group and used + size > self.options.memory:
                yield group
                group, used = [], 0.0
            group.append(layer)
            used += size
        yield group

    def run(self, advance: Advance) -> None:
        """Compute the kernels of all layers."""
        for group in self._plan:
            features = {
                one: torch.empty(self.samples, *one.shape, dtype=one.dtype, device=one.device)
                for one in group
            }
            filled = self._fill(features, advance)
            for layer in group:
                if filled[layer] == self.samples:
                    self._add_kernel(layer, features.pop(layer))
                else:
                    self.failures[layer] = INCOMPLETE
                advance()

    def _fill(self, features: dict[Layer, Tensor], advance: Advance) -> dict[Layer, int]:
        """Run the networks over the data and copy the features of some layers; count samples."""
        by_site = {(layer.side, layer.site): layer for layer in features}
        filled = dict.fromkeys(features, 0)
        done = 0
        for number, item in enumerate(items_of(self.batches, self.options)):
            if number >= len(self._prints) or fingerprint_of_batch(item) != self._prints[number]:
                raise InputError(
                    f"batch {number} differs from pass to pass. Pass data that comes in one "
                    "order: shuffle=False."
                )
            rows = slice(done, done + batch_size(item, self.options.batch_axis))
            for side in {layer.side for layer in features}:

                def keep(site: str, x: Tensor, side: int = side, rows: slice = rows) -> None:
                    layer, size = by_site.get((side, site)), rows.stop - rows.start
                    if layer is not None and tuple(x.shape) == (size, *layer.shape):
                        features[layer][rows] = x
                        filled[layer] += size

                self.taps[side].run(item, keep)
            done = rows.stop
            advance()
        return filled

    def _add_kernel(self, layer: Layer, features: Tensor) -> None:
        own = self.options
        kernel = Kernel(
            self.reduction, normalize=own.normalize, centered=own.centered, dtype=own.dtype
        )
        try:
            kernel.add(features, channel_axis=1)
        except InputError as error:
            self.failures[layer] = str(error).partition(". ")[0]
            return
        self.kernels[layer] = self._kept(kernel.matrix)
        self.live[layer] = kernel.live

    def _kept(self, kernel: Tensor) -> Tensor:
        """Return a kernel as it is, or in a file if all of them would not fit into memory."""
        if kernel.nbytes * sum(map(len, self.layers)) <= self.options.memory:
            return kernel
        array = kernel.cpu().numpy()
        path = self.folder / f"{len(self.kernels)}.kernel"
        file = np.memmap(path, array.dtype, "w+", shape=array.shape)
        file[:] = array
        return torch.from_numpy(file)

    def similarities(self) -> tuple[Matrix, dict[tuple[int, int], str]]:
        """Return the CKA of every two layers of both networks, NaN where there is none, and why."""
        matrix = np.full([len(side) for side in self.layers], np.nan)
        reasons = {}
        for i, j in np.ndindex(*matrix.shape):
            both = (self.layers[0][i], self.layers[1][j])
            failed = (f"{one.site}: {self.failures[one]}" for one in both if one in self.failures)
            reasons[i, j] = "; ".join(failed)
        rows, columns = (
            [place for place, layer in enumerate(side) if layer in self.kernels]
            for side in self.layers
        )
        if rows and columns:
            x = [self.kernels[self.layers[0][place]] for place in rows]
            y = [self.kernels[self.layers[1][place]].to(x[0].device) for place in columns]
            products = hsic_products(x, y)
            for a, i in enumerate(rows):
                for b, j in enumerate(columns):
                    hsic = products.divided(a, b)
                    matrix[i, j] = cosine(hsic, identical=bool(products.same[a, b]))
                    reasons[i, j] = constant_kernels(hsic)
        return matrix, {pair: reason for pair, reason in reasons.items() if reason}
