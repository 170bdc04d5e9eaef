"""The kernels of all layers of two networks, in rounds over the data that keep no more features
than memory allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.kernels import hsic_products
from sigmascope.measure.batches import batch_size, batches_of, fingerprint_of_batch
from sigmascope.measure.progress import Advance
from sigmascope.symmetry.options import KernelSettings, Watching
from sigmascope.symmetry.passes import Tap, check_found, items_of
from sigmascope.symmetry.streaming import Kernel, constant_kernels, cosine

__all__ = ["Layer", "Rounds"]

INCOMPLETE = "it is not called in every batch, or with features of another shape"


class Layer(NamedTuple):
    """One site of one of the networks: the shape (c, ...) and type of its features."""

    side: int
    site: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass
class Rounds:
    """The walk over the data.

    Attributes:
        taps: the two networks.
        names: of them.
        layers: the sites of each.
        samples: how many there are.
        kernels: of all layers, as far as they are known.
        failures: layer -> why it has no kernel.
    """

    taps: tuple[Tap, Tap]
    names: tuple[str, str]
    batches: Any
    watching: Watching
    settings: KernelSettings
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
        """Look at all batches once, and at the layers on the first, and plan the rounds; return the
        number of steps.

        Raises:
            InputTypeError: the data can be read only once.
            InputError: fewer than four samples.
            NoActivationError: a network without features.
        """
        found = batches_of(self.batches)
        if iter(found) is found:
            raise InputTypeError(
                "CKA reads the data several times. Pass a list of batches or a DataLoader, "
                "not an iterator."
            )
        for number, item in enumerate(items_of(self.batches, self.watching)):
            if number == 0:
                self._look(item)
            self._prints.append(fingerprint_of_batch(item))
            self.samples += batch_size(item, self.watching.batch_axis)
        if self.samples < 4:
            raise InputError(f"{self.samples} samples; the unbiased estimator needs at least 4.")
        self._plan = list(self._rounds())
        return len(self._plan) * len(self._prints) + sum(map(len, self._plan))

    def _look(self, item: object) -> None:
        for side, tap in enumerate(self.taps):
            found = self.layers[side]

            def note(
                site: str, features: Tensor, side: int = side, found: list[Layer] = found
            ) -> None:
                found.append(
                    Layer(side, site, tuple(features.shape[1:]), features.dtype, features.device)
                )

            tap.run(item, note)
            check_found([layer.site for layer in found], tap, self.names[side])

    def _rounds(self) -> Iterator[list[Layer]]:
        """Group layers so that the features of a group fit into memory; a layer that does not fit
        alone is a group.
        """
        group: list[Layer] = []
        used = 0.0
        for layer in (*self.layers[0], *self.layers[1]):
            size = self.samples * math.prod(layer.shape) * layer.dtype.itemsize
            if group and used + size > self.settings.memory:
                yield group
                group, used = [], 0.0
            group.append(layer)
            used += size
        yield group

    def run(self, advance: Advance) -> None:
        """Compute the kernels of all layers."""
        for group in self._plan:
            features = {
                layer: torch.empty(
                    self.samples, *layer.shape, dtype=layer.dtype, device=layer.device
                )
                for layer in group
            }
            filled = self._fill(features, advance)
            for layer in group:
                if filled[layer] == self.samples:
                    self._add_kernel(layer, features.pop(layer))
                else:
                    self.failures[layer] = INCOMPLETE
                advance()

    def _fill(self, features: dict[Layer, Tensor], advance: Advance) -> dict[Layer, int]:
        """Run the networks over the data once and keep the features of some layers; return how many
        samples each has.
        """
        by_site = {(layer.side, layer.site): layer for layer in features}
        filled = dict.fromkeys(features, 0)
        done = 0
        for number, item in enumerate(items_of(self.batches, self.watching)):
            if number >= len(self._prints) or fingerprint_of_batch(item) != self._prints[number]:
                raise InputError(
                    f"batch {number} is another one each time. Pass data that comes in one "
                    "order: shuffle=False."
                )
            size = batch_size(item, self.watching.batch_axis)
            for side in {layer.side for layer in features}:

                def keep(
                    site: str, found: Tensor, side: int = side, start: int = done, size: int = size
                ) -> None:
                    layer = by_site.get((side, site))
                    if layer is not None and tuple(found.shape) == (size, *layer.shape):
                        features[layer][start : start + size] = found
                        filled[layer] += size

                self.taps[side].run(item, keep)
            done += size
            advance()
        return filled

    def _add_kernel(self, layer: Layer, features: Tensor) -> None:
        settings = self.settings
        kernel = Kernel(
            self.reduction,
            normalise=settings.normalise,
            centered=settings.centered,
            dtype=settings.dtype,
        )
        try:
            kernel.add(features, channel_axis=1)
        except InputError as error:
            self.failures[layer] = str(error).partition(". ")[0]
            return
        self.kernels[layer] = self._kept(kernel.matrix)
        self.live[layer] = kernel.live

    def _kept(self, kernel: Tensor) -> Tensor:
        """Keep a kernel where there is room: as it is, or in a file that is read when it is needed."""
        if kernel.nbytes * sum(map(len, self.layers)) <= self.settings.memory:
            return kernel
        array = kernel.cpu().numpy()
        file = np.memmap(
            self.folder / f"{len(self.kernels)}.kernel", array.dtype, "w+", shape=array.shape
        )
        file[:] = array
        return torch.from_numpy(file)

    def similarities(self) -> tuple[np.ndarray[Any, Any], dict[tuple[int, int], str]]:
        """Return the CKA of every layer of the one network with every layer of the other, and where
        there is none, why.
        """
        matrix = np.full([len(side) for side in self.layers], np.nan)
        reasons = {}
        for i, j in np.ndindex(*matrix.shape):
            both = (self.layers[0][i], self.layers[1][j])
            reasons[i, j] = "; ".join(
                f"{one.site}: {self.failures[one]}" for one in both if one in self.failures
            )
        known: Sequence[list[int]] = [
            [place for place, layer in enumerate(side) if layer in self.kernels]
            for side in self.layers
        ]
        if all(known):
            x, y = (
                [self.kernels[side[place]] for place in some]
                for side, some in zip(self.layers, known, strict=True)
            )
            products = hsic_products(x, [kernel.to(x[0].device) for kernel in y])
            for a, i in enumerate(known[0]):
                for b, j in enumerate(known[1]):
                    hsic = products.divided(a, b)
                    matrix[i, j] = cosine(hsic, identical=bool(products.same[a, b]))
                    reasons[i, j] = constant_kernels(hsic)
        return matrix, {pair: reason for pair, reason in reasons.items() if reason}
