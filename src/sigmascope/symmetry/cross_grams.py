"""The cross-Grams of the layers of two networks, summed batch by batch; no features are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, product

import torch
from torch import Tensor

from sigmascope import choices
from sigmascope.errors import InputError
from sigmascope.symmetry.feature_maps import Positions, ratios, squared_norms
from sigmascope.symmetry.passes import Copies
from sigmascope.symmetry.procrustes_similarity import (
    NOT_FINITE,
    CrossGram,
    Sums,
    aligned_similarity,
)
from sigmascope.symmetry.similarity_results import ProcrustesSimilarity
from sigmascope.symmetry.stacks import Memory, Side, Stacks

# Elements of stacked layers that are multiplied at a time: few enough to stay in a cache, enough
# for fast products.
CHUNK, LARGE_CHUNK = 2**23, 2**28

Members = tuple[int, ...]
Live = tuple[tuple[int, ...], tuple[int, ...]]


class CrossGrams:
    """The sums that Procrustes needs for every layer of one network with every layer of another.

    Layers with maps of one size are stacked, so that a few large products do the work of many small
    ones. Products are computed in the given type and summed in float64, where the features are.
    Memory is O(c1 · c2) for each pair of layers, and that of the features of one batch.

    Args:
        x_widths: numbers of channels of the layers of one network.
        y_widths: those of the other.
        dtype: of the products. Layers that are equal after rounding to it count as identical.
    """

    def __init__(
        self, x_widths: Sequence[int], y_widths: Sequence[int], *, dtype: choices.Precision
    ) -> None:
        self.samples = 0
        self._widths = (x_widths, y_widths)
        self._blocks: dict[tuple[Members, Members], Tensor] = {}
        self._repeats: dict[tuple[int, int], tuple[int, int] | str] = {}
        self._positions: list[dict[int, Positions]] = []
        self._same = set(product(range(len(x_widths)), range(len(y_widths))))
        self._memory = Memory(getattr(torch, dtype))
        self._sides = (Side(x_widths, self._memory.dtype), Side(y_widths, self._memory.dtype))

    def show(self, side: int, place: int, features: Tensor) -> None:
        """Copy the features (n, c, ...) of one layer of network 0 or 1."""
        self._sides[side].take(place, features)

    def finish(self) -> None:
        """Multiply the layers shown for one batch; layers that were not shown are left out."""
        x, y = self._sides
        if not (x.layers and y.layers):
            return
        self._note_repeats()
        self._same = {(i, j) for i, j in self._same if _equal(x.layers.get(i), y.layers.get(j))}
        layers = [layer for side in self._sides for layer in side.layers.values()]
        device = layers[0].device
        elements = sum(layer[:, 0].numel() for layer in layers)
        step = max(1, (CHUNK if device.type == "cpu" else LARGE_CHUNK) // elements)
        for start in range(0, x.samples, step):
            left, right = (
                Stacks(name, side.stacked(start, start + step, device), self._memory)
                for name, side in zip("xy", self._sides, strict=True)
            )
            for (one, other), found in _products(left, right):
                key = x.members[one], y.members[other]
                known = self._blocks.get(key)
                total = found.double() if known is None else known.to(device).add_(found)
                self._blocks[key] = total
        self.samples += x.samples
        for side in self._sides:
            side.clear()

    def result(self, i: int, j: int, *, group: str, normalizer: str) -> ProcrustesSimilarity | str:
        """Return the similarity of layer i of one network and layer j of the other, or why not."""
        repeats = self._repeats[i, j]
        if isinstance(repeats, str):
            return repeats
        x_squares, y_squares = (
            side.squares[place].cpu().numpy() * often
            for side, place, often in zip(self._sides, (i, j), repeats, strict=True)
        )
        gram, same = self._gram(i, j).numpy(), (i, j) in self._same
        return _similarity(Sums(gram, x_squares, y_squares, self.samples, same), group, normalizer)

    def live(self) -> Live:
        """Return for each layer of both networks how many channels are not zero everywhere."""
        x, y = (
            tuple(int(torch.count_nonzero(one)) for one in side.squares) for side in self._sides
        )
        return x, y

    def _gram(self, i: int, j: int) -> Tensor:
        """Return the products of the channels of two layers, over all batches."""
        total = torch.zeros(self._widths[0][i], self._widths[1][j], dtype=torch.float64)
        for (rows, columns), block in self._blocks.items():
            if i in rows and j in columns:
                self._blocks[rows, columns] = here = block.cpu()  # once for all pairs
                total += here[_part(self._widths[0], rows, i), _part(self._widths[1], columns, j)]
        return total

    def _note_repeats(self) -> None:
        """Note how often each layer of a pair is repeated on the finer map of the two."""
        positions = [side.positions for side in self._sides]
        if positions == self._positions:
            return
        self._positions = positions
        for i, j in product(*positions):
            found = _repeats(positions[0][i], positions[1][j])
            known = self._repeats.setdefault((i, j), found)
            if known != found and not isinstance(known, str):
                self._repeats[i, j] = (
                    "the ratio of the numbers of positions changes from batch to batch"
                )


class PairedGrams:
    """The same for layers at the same place in both networks only; see `CrossGrams`.

    Only the layers of the first network are kept until those of the second are shown.
    """

    def __init__(
        self, x_widths: Sequence[int], y_widths: Sequence[int], *, dtype: choices.Precision
    ) -> None:
        self._sums = [CrossGram(dtype=dtype) for _ in zip(x_widths, y_widths, strict=True)]
        self._apart: dict[int, str] = {}  # layers that cannot be compared, and why
        self._live = [
            [torch.zeros(width, dtype=torch.bool) for width in widths]
            for widths in (x_widths, y_widths)
        ]
        self._copies = Copies()

    def show(self, side: int, place: int, features: Tensor) -> None:
        """Copy or add the features (n, c, ...) of one layer of network 0 or 1; all of 0 first."""
        if side == 0:
            self._copies.keep(place, features)
        elif place in self._copies.sites:
            x = self._copies.sites[place]
            self._pair(place, x, features.to(x.device))

    def finish(self) -> None:
        """End a batch."""
        self._copies.begin()

    def _pair(self, place: int, x: Tensor, y: Tensor) -> None:
        repeats = _repeats(tuple(x.shape[2:]), tuple(y.shape[2:]))
        if isinstance(repeats, str):
            self._apart[place] = repeats
            for seen, one in zip(self._live, (x, y), strict=True):
                seen[place] |= (squared_norms(one) > 0).cpu()
        else:
            self._sums[place].add(x, y)

    def result(self, i: int, j: int, *, group: str, normalizer: str) -> ProcrustesSimilarity | str:
        """Return the similarity of layer i = j of both networks, or why not."""
        sums = self._sums[i].sums()
        if i in self._apart or sums is None:
            return self._apart[i]
        return _similarity(sums, group, normalizer)

    def live(self) -> Live:
        """Return for each layer of both networks how many channels are not zero everywhere."""
        for place, sums in enumerate(found.sums() for found in self._sums):
            if sums is not None:
                for seen, squares in zip(self._live, sums[1:3], strict=True):
                    seen[place] |= torch.from_numpy(squares > 0)
        x, y = (tuple(int(one.sum()) for one in side) for side in self._live)
        return x, y


PAIRS: dict[str, type[CrossGrams] | type[PairedGrams]] = {
    "all": CrossGrams,
    "diagonal": PairedGrams,
}
"""Which pairs of layers are compared -> the class that sums their products."""


def pairs_of(pairs: str, rows: int, columns: int) -> list[tuple[int, int]]:
    """Return the pairs of layers to compare, by their places in the two networks."""
    return [(i, j) for i in range(rows) for j in range(columns) if pairs == "all" or i == j]


def check_pairs(pairs: str, rows: int, columns: int) -> None:
    """Raise if layers are to be compared place by place and the networks differ in their number."""
    if pairs == "diagonal" and rows != columns:
        raise InputError(
            f"pairs='diagonal' needs as many layers in both networks, not {rows} and "
            f"{columns}. Use pairs='all'."
        )


def _similarity(sums: Sums, group: str, normalizer: str) -> ProcrustesSimilarity | str:
    if not sums.is_finite:
        return NOT_FINITE
    return aligned_similarity(sums, group=group, normalizer=normalizer)


def _products(x: Stacks, y: Stacks) -> Iterator[tuple[tuple[Positions, Positions], Tensor]]:
    """Yield the product of every two stacks of both networks, on the coarser map of the two."""
    # Large maps first, so that sums over small cells are there for those over larger ones.
    sizes = (sorted(side.sizes, key=math.prod, reverse=True) for side in (x, y))
    for one, other in product(*sizes):
        if not isinstance(_repeats(one, other), str):
            finer_x, finer_y = ratios(one, other)
            left, right = x.summed(one, finer_x), y.summed(other, finer_y)
            yield (one, other), left.flatten(1) @ right.flatten(1).T


def _equal(x: Tensor | None, y: Tensor | None) -> bool:
    return x is not None and y is not None and x.shape == y.shape and torch.equal(x, y.to(x.device))


def _part(widths: Sequence[int], members: Members, place: int) -> slice:
    """Return the channels of a layer in the stack of its members."""
    ends = accumulate((widths[one] for one in members), initial=0)
    return dict(zip(members, (slice(*both) for both in pairwise(ends)), strict=True))[place]


def _repeats(x: Positions, y: Positions) -> tuple[int, int] | str:
    try:
        finer_x, finer_y = ratios(x, y)
    except InputError as error:
        return str(error).rstrip(".")
    return math.prod(finer_y), math.prod(finer_x)
