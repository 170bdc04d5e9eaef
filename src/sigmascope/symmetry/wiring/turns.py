"""What a move does to a parameter or buffer: permute an axis and multiply by powers of scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.wiring.ties import Channels, Integers, Ties

Power: TypeAlias = Literal["value", "inverse", "square", "sign"]
Factor: TypeAlias = tuple[Channels, Power]
Values: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

POWERS: dict[str, Callable[[Values], Values]] = {
    "value": lambda value: value,
    "inverse": lambda value: 1 / value,
    "square": lambda value: value**2,
    "sign": np.sign,
}


@dataclass(frozen=True, eq=False)
class Turn:
    """One action on a parameter.

    Attributes:
        channels: the axis, and the places along it.
        factors: the new entry is the old one times all of these.
        rows: the part of axis 0 that is meant; all of it by default.
        shift: is added before multiplying and subtracted afterwards.
    """

    channels: Channels
    factors: tuple[Factor, ...]
    rows: tuple[int, int | None] = (0, None)
    shift: float = 0.0

    def fits(self, other: Turn) -> bool:
        """Return whether two actions are the same except for the channels they name."""
        return self._kind() == other._kind()

    def _kind(self) -> tuple[object, ...]:
        powers = [power for _, power in self.factors]
        return self.channels.axis, len(self.channels), self.rows, self.shift, powers


class Assignment:
    """A permutation of the places (`order[place]` moves to it) and a value of each scale."""

    def __init__(self, ties: Ties, order: Integers, values: Values) -> None:
        self._ties, self._order, self._values = ties, order, values

    def monomial(self, channels: Channels, factors: tuple[Factor, ...] | None = None) -> Monomial:
        """Return the element that acts on these channels, or one with the given factors."""
        places = self._ties.places.roots(channels.place)
        scales = np.ones(len(channels))
        for one, power in ((channels, "value"),) if factors is None else factors:
            scales = scales * POWERS[power](self._value(one))
        return Monomial(torch.from_numpy(_positions(places, self._order)), torch.from_numpy(scales))

    def turned(self, tensor: Tensor, turn: Turn, name: str) -> Tensor:
        """Return the new value of a parameter, in float64; refuse a negative variance."""
        element, rows = self.monomial(turn.channels, turn.factors), slice(*turn.rows)
        shift = 0.0 if element.is_permutation else turn.shift
        part = element.apply(tensor[rows] + shift if shift else tensor[rows], turn.channels.axis)
        if shift:
            part -= shift
            _check_variance(part, name)
        if len(part) == len(tensor):
            return part
        result = tensor.clone()
        result[rows] = part
        return result

    def _value(self, channels: Channels) -> Values:
        scale = self._values[self._ties.scales.roots(channels.scale)]
        size = np.abs(scale) ** channels.exponent
        return np.where(channels.signed & (scale < 0), -size, size)


def _check_variance(variance: Tensor, name: str) -> None:
    channel = int(variance.argmin())
    if variance[channel] < 0:
        raise InputError(
            f"{name}: the variance of channel {channel} would become {variance[channel]:.3g}. "
            "Choose a scale nearer to 1 before this batch norm, or exact_eval=False."
        )


def _positions(places: Integers, order: Integers) -> Integers:
    """Return which position moves to each one: the k-th of a place to the k-th of its target."""
    by_place = np.argsort(places, kind="stable")
    ranked = places[by_place]
    occurrence = np.empty_like(places)
    occurrence[by_place] = np.arange(len(places)) - np.searchsorted(ranked, ranked)
    found: Integers = by_place[np.searchsorted(ranked, order[places]) + occurrence]
    return found
