"""Which channels of a network must move together: equivalence classes with restrictions.

Every tensor of a forward pass whose channels may move has, for each channel, a *place* and a
*scale*. Channels of one place are permuted alike, wherever they occur; channels of one scale are
multiplied alike. Operations join places and scales, or restrict them, each time for a reason that
is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
MAGNITUDE, SIGN = 0, 1
"""What may be free about a scale: how large it is, and whether it is negative."""
BOTH = (MAGNITUDE, SIGN)


@dataclass(frozen=True, eq=False)
class Channels:
    """The channels along one axis of a tensor.

    A scale d has the value |d| to the exponent here, with or without its sign.

    Attributes:
        axis: their axis, from the front.
        place: (c,) numbers of places.
        scale: (c,) numbers of scales.
        exponent: (c,) whole numbers ≥ 1.
        signed: (c,) whether the sign of the scale is still there.
    """

    axis: int
    place: Integers
    scale: Integers
    exponent: Integers
    signed: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.place)

    def at(self, axis: int) -> Channels:
        """Return the same channels along another axis."""
        return replace(self, axis=axis)

    def __getitem__(self, index: slice | Integers) -> Channels:
        """Return some of the channels, in any order, or several times."""
        return Channels(self.axis, *(column[index] for column in self._columns()))

    def _columns(self) -> tuple[Any, Any, Any, Any]:
        return self.place, self.scale, self.exponent, self.signed

    def same_as(self, other: Channels) -> bool:
        """Return whether these are the same channels in the same order, on any axis."""
        return all(map(np.array_equal, self._columns(), other._columns()))

    @staticmethod
    def side_by_side(parts: Sequence[Channels]) -> Channels:
        """Return the channels of several tensors, one after the other."""
        columns = zip(*(part._columns() for part in parts), strict=True)
        return Channels(parts[0].axis, *map(np.concatenate, columns))


class Classes:
    """Numbers joined into classes; `lost` holds, for each class and freedom, the reason or 0."""

    def __init__(self, freedoms: int) -> None:
        self._parent: Integers = np.empty(0, np.int64)
        self.lost: Integers = np.empty((freedoms, 0), np.int64)

    def new(self, count: int) -> Integers:
        """Return new numbers, each a class of its own, with every freedom."""
        numbers = np.arange(count, dtype=np.int64) + len(self._parent)
        self._parent = np.concatenate([self._parent, numbers])
        self.lost = np.concatenate([self.lost, np.zeros((len(self.lost), count), np.int64)], axis=1)
        return numbers

    def roots(self, numbers: Integers) -> Integers:
        """Return the number that stands for the class of each."""
        found = numbers
        while not np.array_equal(above := self._parent[found], found):
            found = above
        self._parent[numbers] = found
        return found

    def join(self, first: Integers, second: Integers) -> None:
        """Make one class of each pair; it has the freedoms that both have."""
        for one, two in zip(self.roots(first).tolist(), self.roots(second).tolist(), strict=True):
            a, b = self._root(one), self._root(two)
            if a != b:
                low, high = min(a, b), max(a, b)
                self._parent[high] = low
                kept, other = self.lost[:, low], self.lost[:, high]
                self.lost[:, low] = np.where(kept > 0, kept, other)

    def restrict(self, numbers: Integers, freedom: int, reason: int) -> None:
        """Take a freedom away, where it has not been taken away before."""
        roots = self.roots(numbers)
        still_free = roots[self.lost[freedom, roots] == 0]
        self.lost[freedom, still_free] = reason

    def _root(self, number: int) -> int:
        while self._parent[number] != number:
            number = int(self._parent[number])
        return number


class Ties:
    """The places and scales of one network."""

    def __init__(self) -> None:
        self.places = Classes(1)
        self.scales = Classes(2)
        self.reasons = [""]
        self._arrays: dict[bytes, Integers] = {}

    def fresh(self, count: int, axis: int) -> Channels:
        """Return new channels that may be permuted and scaled at will."""
        place, scale = self.places.new(count), self.scales.new(count)
        return Channels(axis, place, scale, np.ones(count, np.int64), np.ones(count, np.bool_))

    def rescaled(self, channels: Channels) -> Channels:
        """Return channels of the same places with new scales."""
        return replace(self.fresh(len(channels), channels.axis), place=channels.place)

    def tie(self, first: Channels, second: Channels, reason: str) -> None:
        """Make two lists of channels move together; scales of different powers are set to 1."""
        self.places.join(first.place, second.place)
        alike = (first.exponent == second.exponent) & (first.signed == second.signed)
        self.scales.join(first.scale[alike], second.scale[alike])
        for one in (first, second):
            self.restrict(one[np.flatnonzero(~alike)], reason, *BOTH)

    def restrict(self, channels: Channels, reason: str, *freedoms: int) -> None:
        """Demand that values have magnitude 1 (`MAGNITUDE`) or are positive (`SIGN`)."""
        for freedom in freedoms:
            concerned = channels.scale[channels.signed] if freedom == SIGN else channels.scale
            self.scales.restrict(concerned, freedom, self._number(reason))

    def pin(self, channels: Channels, reason: str) -> None:
        """Demand that channels stay as they are."""
        self.restrict(channels, reason, *BOTH)
        self.places.restrict(channels.place, 0, self._number(reason))

    def keep_together(self, place: Integers) -> None:
        """Allow only permutations that map a list of places to itself.

        A place may occur several times, as after flattening. Then its k-th occurrence moves to the
        k-th of another place, which must have as many.
        """
        if len(place):
            self._arrays.setdefault(place.tobytes(), place)

    def cells(self, *, split_fixed: bool = True) -> Integers:
        """Return the cell of every place; places of one cell may be permuted freely.

        Those that do not move have cells of their own, unless `split_fixed` is False.
        """
        count = self.places.lost.shape[1]
        roots = self.places.roots(np.arange(count, dtype=np.int64))
        label = np.zeros(count, np.int64)
        rooted = (roots[place] for place in self._arrays.values())
        for array in {found.tobytes(): found for found in rooted}.values():
            members, times = np.unique(array, return_counts=True)
            _, kinds = np.unique(np.stack([label[members], times]), axis=1, return_inverse=True)
            label[members] = kinds.reshape(-1) + label.max(initial=0) + 1
        fixed = np.flatnonzero(self.places.lost[0] > 0)
        numbers = np.arange(len(fixed)) if split_fixed else label[fixed]
        label[fixed] = numbers + label.max(initial=0) + 1
        cells: Integers = label[roots]
        return cells

    def _number(self, reason: str) -> int:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)
