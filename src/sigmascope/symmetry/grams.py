"""The cross-Grams of the layers of two networks, all at once and batch by batch; no features are kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, product

import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.symmetry.features import Positions, cells_summed, kernel_dtype, ratios
from sigmascope.symmetry.results import ProcrustesSimilarity
from sigmascope.symmetry.streaming import CrossGram, procrustes_result, squared_norms

__all__ = ["CrossGrams", "PairedGrams"]

# Elements of stacked layers that are multiplied at a time: enough for fast products, few enough for memory.
CHUNK = 2**24
# Maps up to this width are summed over cells by products.
WIDEST = 64
NOT_FINITE = "the features hold NaN or infinite values, or squares of them overflow"


class CrossGrams:
    """The sums that Procrustes needs for the layers of one network with those of another.

    Layers with maps of one size are stacked, so that a few large products do the work of many small ones. Products are
    computed in the given type and summed in float64. Memory is O(c1 · c2) for each pair of layers.

    Args:
        x_widths: the numbers of channels of the layers of the one network.
        y_widths: of the other.
        dtype: of the products.
    """

    def __init__(self, x_widths: Sequence[int], y_widths: Sequence[int], *, dtype: str) -> None:
        self.samples = 0
        self._pairs = list(product(range(len(x_widths)), range(len(y_widths))))
        self._grams = {(i, j): torch.zeros(x_widths[i], y_widths[j], dtype=torch.float64) for i, j in self._pairs}
        self._squares = [[torch.zeros(width, dtype=torch.float64) for width in widths] for widths in (x_widths, y_widths)]
        self._repeats: dict[tuple[int, int], tuple[int, int] | str] = {}
        self._same = set(self._pairs)
        self._memory = _Memory(kernel_dtype(dtype))

    def add(self, xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Take in the features (n, c, ...) of all layers for one batch, on one device."""
        self._note_repeats(xs, ys)
        self._same = {(i, j) for i, j in self._same if xs[i].shape == ys[j].shape and torch.equal(xs[i], ys[j])}
        step = max(1, CHUNK // sum(one[0].numel() for one in (*xs, *ys)))
        totals: dict[tuple[Positions, Positions], Tensor] = {}
        for start in range(0, len(xs[0]), step):
            x, y = (
                _Stacks(name, [one[start : start + step] for one in side], self._memory)
                for name, side in zip("xy", (xs, ys), strict=True)
            )
            for squares, stacks in zip(self._squares, (x, y), strict=True):
                _add_squares(squares, stacks)
            for key, found in _products(x, y):
                totals[key] = totals[key].add_(found) if key in totals else found.double()
        for (one, other), total in totals.items():
            found = total.cpu()
            for i, j in product(x.members[one], y.members[other]):
                self._grams[i, j] += found[x.parts[i], y.parts[j]]
        self.samples += len(xs[0])

    def result(self, i: int, j: int, *, group: str, normaliser: str) -> ProcrustesSimilarity | str:
        """Return the similarity of layer i of the one network and layer j of the other, or why there is none."""
        repeats = self._repeats[i, j]
        if isinstance(repeats, str):
            return repeats
        gram = self._grams[i, j].numpy()
        x_squares, y_squares = self._squares[0][i].numpy() * repeats[0], self._squares[1][j].numpy() * repeats[1]
        if not all(math.isfinite(float(one.sum())) for one in (gram, x_squares, y_squares)):
            return NOT_FINITE
        return procrustes_result(
            gram,
            x_squares,
            y_squares,
            group=group,
            normaliser=normaliser,
            samples=self.samples,
            identical=(i, j) in self._same,
        )

    def live(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return for each layer of both networks how many channels are not zero everywhere."""
        x, y = (tuple(int(torch.count_nonzero(one)) for one in side) for side in self._squares)
        return x, y

    def _note_repeats(self, xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Note how often the values of each layer of a pair are repeated on the finer map of the two."""
        for i, j in self._pairs:
            found = _repeats(tuple(xs[i].shape[2:]), tuple(ys[j].shape[2:]))
            if self._repeats.setdefault((i, j), found) != found and not isinstance(self._repeats[i, j], str):
                self._repeats[i, j] = "the ratio of the numbers of positions changes from batch to batch"


class PairedGrams:
    """The same for layers at the same place in both networks, and no others; see `CrossGrams`."""

    def __init__(self, x_widths: Sequence[int], y_widths: Sequence[int], *, dtype: str) -> None:
        self._sums = [CrossGram(dtype=dtype) for _ in zip(x_widths, y_widths, strict=True)]
        self._apart: dict[int, str] = {}  # layers that cannot be compared, and why
        self._live = [[torch.zeros(width, dtype=torch.bool) for width in widths] for widths in (x_widths, y_widths)]

    def add(self, xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Take in the features (n, c, ...) of all layers for one batch, on one device."""
        for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
            repeats = _repeats(tuple(x.shape[2:]), tuple(y.shape[2:]))
            if isinstance(repeats, str):
                self._apart[place] = repeats
                for seen, one in zip(self._live, (x, y), strict=True):
                    seen[place] |= (squared_norms(one) > 0).cpu()
            else:
                self._sums[place].add(x, y)

    def result(self, i: int, j: int, *, group: str, normaliser: str) -> ProcrustesSimilarity | str:
        """Return the similarity of layer i = j of both networks, or why there is none."""
        sums = self._sums[i].arrays()
        if i in self._apart or sums is None:
            return self._apart[i]
        if not all(math.isfinite(float(one.sum())) for one in sums):
            return NOT_FINITE
        return procrustes_result(
            *sums, group=group, normaliser=normaliser, samples=self._sums[i].samples, identical=self._sums[i].identical
        )

    def live(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return for each layer of both networks how many channels are not zero everywhere."""
        for place, sums in enumerate(found.arrays() for found in self._sums):
            if sums is not None:
                for seen, squares in zip(self._live, sums[1:], strict=True):
                    seen[place] |= torch.from_numpy(squares > 0)
        x, y = (tuple(int(one.sum()) for one in side) for side in self._live)
        return x, y


class _Memory:
    """Memory that is used again and again: fresh pages cost as much as what is written to them."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._kept: dict[object, Tensor] = {}

    def take(self, key: object, shape: Sequence[int], device: torch.device) -> Tensor:
        size = math.prod(shape)
        if key not in self._kept or len(self._kept[key]) < size:
            self._kept[key] = torch.empty(size, dtype=self.dtype, device=device)
        return self._kept[key][:size].view(*shape)


class _Stacks:
    """The layers of one network, those with maps of one size stacked as (c, n, ...).

    Attributes:
        positions: of each layer.
        members: positions -> the layers that have them.
        parts: the channels of each layer in its stack.
    """

    def __init__(self, name: str, layers: Sequence[Tensor], memory: _Memory) -> None:
        self.positions = [tuple(layer.shape[2:]) for layer in layers]
        self.members: dict[Positions, list[int]] = defaultdict(list)
        for place, positions in enumerate(self.positions):
            self.members[positions].append(place)
        self.parts: dict[int, slice] = {}
        self._name, self._memory = name, memory
        self._sums: dict[tuple[Positions, Positions], Tensor] = {}
        for positions, places in self.members.items():
            ends = list(accumulate((layers[place].shape[1] for place in places), initial=0))
            self.parts |= dict(zip(places, (slice(*both) for both in pairwise(ends)), strict=True))
            first = layers[places[0]]
            stack = memory.take((name, positions), (ends[-1], len(first), *positions), first.device)
            for place in places:
                stack[self.parts[place]].copy_(layers[place].transpose(0, 1))
            self._sums[positions, (1,) * len(positions)] = stack

    def summed(self, positions: Positions, factors: Positions) -> Tensor:
        """Return a stack summed over cells, once for every size of cells, and from sums over smaller cells if there are any."""
        factors = factors if math.prod(factors) > 1 else (1,) * len(positions)
        if (positions, factors) not in self._sums:
            smaller = [
                known
                for source, known in self._sums
                if source == positions
                and len(known) == len(factors)
                and all(b % a == 0 for a, b in zip(known, factors, strict=True))
            ]
            nearest = max(smaller, key=math.prod, default=(1,) * len(positions))
            source = self._sums[positions, nearest]
            rest = tuple(b // a for a, b in zip(nearest + (1,) * (len(factors) - len(nearest)), factors, strict=True))
            self._sums[positions, factors] = self._sum_cells(source, rest, (self._name, positions, factors))
        return self._sums[positions, factors]

    def _sum_cells(self, stack: Tensor, factors: Positions, key: object) -> Tensor:
        if len(factors) != 2 or stack.ndim != 4 or stack.shape[-1] > WIDEST:
            return cells_summed(stack, factors)
        # A product with ones reads the stack once.
        (*front, height, width), (down, across) = stack.shape, factors
        row = torch.eye(width // across, dtype=stack.dtype, device=stack.device).repeat_interleave(across, dim=0)
        out = self._memory.take(key, (math.prod(front) * (height // down), width // across), stack.device)
        torch.mm(stack.view(-1, down * width), row.repeat(down, 1), out=out)
        return out.view(*front, height // down, width // across)


def _products(x: _Stacks, y: _Stacks) -> Iterator[tuple[tuple[Positions, Positions], Tensor]]:
    """Multiply every stack of the one network with every stack of the other, on the coarser map of the two."""
    # Large maps first, so that sums over small cells are there for those over larger ones.
    for one, other in product(*(sorted(side.members, key=math.prod, reverse=True) for side in (x, y))):
        if not isinstance(_repeats(one, other), str):
            left, right = _on_one_map(x, y, one, other)
            yield (one, other), left.flatten(1) @ right.flatten(1).T


def _on_one_map(x: _Stacks, y: _Stacks, x_positions: Positions, y_positions: Positions) -> tuple[Tensor, Tensor]:
    finer_x, finer_y = ratios(x_positions, y_positions)
    return x.summed(x_positions, finer_x), y.summed(y_positions, finer_y)


def _add_squares(squares: list[Tensor], stacks: _Stacks) -> None:
    for positions, places in stacks.members.items():
        found = squared_norms(stacks.summed(positions, (1,)).transpose(0, 1)).cpu()
        for place in places:
            squares[place] += found[stacks.parts[place]]


def _repeats(x: Positions, y: Positions) -> tuple[int, int] | str:
    try:
        finer_x, finer_y = ratios(x, y)
    except InputError as error:
        return str(error).rstrip(".")
    return math.prod(finer_y), math.prod(finer_x)
