"""The layers of a network for one batch, stacked by the size of their maps for large products."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from sigmascope.symmetry.feature_maps import Positions, cells_summed, squared_norms

# Maps up to this width are summed over cells by products.
WIDEST = 64


class Memory:
    """Buffers that are used again: fresh pages cost as much time as what is written to them."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._kept: dict[object, Tensor] = {}

    def take(self, key: object, shape: Sequence[int], device: torch.device) -> Tensor:
        """Return a buffer of a shape; other keys have other buffers."""
        size = math.prod(shape)
        if key not in self._kept or len(self._kept[key]) < size:
            self._kept[key] = torch.empty(size, dtype=self.dtype, device=device)
        return self._kept[key][:size].view(*shape)


class Side:
    """The layers of one network, as they are shown, batch by batch.

    A layer is written once: to its part of a stack, if its shape is that of the batch before.

    Attributes:
        squares: the squared norms (c,) of the channels of each layer over all batches, float64.
        layers: place -> the features (c, n, ...) of this batch.
    """

    def __init__(self, widths: Sequence[int], dtype: torch.dtype) -> None:
        self.squares = [torch.zeros(width, dtype=torch.float64) for width in widths]
        self.layers: dict[int, Tensor] = {}
        self._dtype = dtype
        self._shapes: dict[int, tuple[torch.Size, torch.device]] = {}  # of the batch before
        self._planned = self._shapes  # those that there is room for
        self._stacks: dict[tuple[int, ...], Tensor] = {}
        self._parts: dict[int, Tensor] = {}

    @property
    def positions(self) -> dict[int, Positions]:
        """Return place -> the shape of its map."""
        return {place: tuple(layer.shape[2:]) for place, layer in self.layers.items()}

    @property
    def members(self) -> dict[Positions, tuple[int, ...]]:
        """Return the shape of a map -> the places that have it, in order."""
        found = defaultdict(list)
        for place, positions in sorted(self.positions.items()):
            found[positions].append(place)
        return {positions: tuple(places) for positions, places in found.items()}

    @property
    def samples(self) -> int:
        """Return how many samples the batch has."""
        return next(iter(self.layers.values())).shape[1]

    def take(self, place: int, features: Tensor) -> None:
        """Copy the features (n, c, ...) of a layer."""
        if not self.layers and self._planned != self._shapes:
            self._make_room()
        by_channel = features.transpose(0, 1)
        layer = self._parts.get(place)
        if layer is None or layer.shape != by_channel.shape or layer.device != features.device:
            layer = torch.empty(by_channel.shape, dtype=self._dtype, device=features.device)
        self.layers[place] = layer.copy_(by_channel)
        squares = squared_norms(layer.transpose(0, 1))  # while they are in a cache
        self.squares[place] = self.squares[place].to(squares.device).add_(squares)

    def stacked(self, start: int, stop: int, device: torch.device) -> dict[Positions, Tensor]:
        """Return the shape of a map -> the channels (c, n, ...) of its layers, for some samples."""
        found = {}
        for positions, places in self.members.items():
            ready = all(self.layers[place] is self._parts.get(place) for place in places)
            stack = self._stacks.get(places) if ready else None
            if stack is None:
                some = torch.cat([self.layers[place][:, start:stop] for place in places])
            else:
                some = stack[:, start:stop]
            found[positions] = some.to(device)
        return found

    def clear(self) -> None:
        """End a batch."""
        self._shapes = {place: (layer.shape, layer.device) for place, layer in self.layers.items()}
        self.layers = {}

    def _make_room(self) -> None:
        """Lay out stacks for a batch like the one before."""
        self._planned, self._stacks, self._parts = self._shapes, {}, {}
        alike: dict[tuple[torch.Size, torch.device], list[int]] = defaultdict(list)
        for place, (shape, device) in sorted(self._shapes.items()):
            alike[shape[1:], device].append(place)
        for (rest, device), places in alike.items():
            widths = [self._shapes[place][0][0] for place in places]
            stack = torch.empty(sum(widths), *rest, dtype=self._dtype, device=device)
            self._stacks[tuple(places)] = stack
            self._parts |= dict(zip(places, torch.split(stack, widths), strict=True))


class Stacks:
    """Some samples of the stacks of one network, and their sums over cells of positions."""

    def __init__(self, name: str, stacks: dict[Positions, Tensor], memory: Memory) -> None:
        self.sizes = tuple(stacks)
        self._name, self._memory = name, memory
        self._sums = {
            (positions, (1,) * len(positions)): stack for positions, stack in stacks.items()
        }

    def summed(self, positions: Positions, factors: Positions) -> Tensor:
        """Return a stack summed over cells, from known sums over smaller cells if there are any."""
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
            padded = nearest + (1,) * (len(factors) - len(nearest))
            rest = tuple(b // a for a, b in zip(padded, factors, strict=True))
            key = (self._name, positions, factors)
            self._sums[positions, factors] = self._sum_cells(source, rest, key)
        return self._sums[positions, factors]

    def _sum_cells(self, stack: Tensor, factors: Positions, key: object) -> Tensor:
        if len(factors) != 2 or stack.ndim != 4 or stack.shape[-1] > WIDEST:
            return cells_summed(stack, factors)
        # A product with ones reads the stack once, and needs no copy of some samples.
        (channels, samples, height, width), (down, across) = stack.shape, factors
        ones = torch.eye(width // across, dtype=stack.dtype, device=stack.device)
        ones = ones.repeat_interleave(across, dim=0).repeat(down, 1).expand(channels, -1, -1)
        shape = (channels, samples * (height // down), width // across)
        out = self._memory.take(key, shape, stack.device)
        torch.bmm(stack.flatten(1).view(channels, -1, down * width), ones, out=out)
        return out.view(channels, samples, height // down, width // across)
