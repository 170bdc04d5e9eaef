"""Choosing what to move a network by: drawn at random, or given by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import numpy as np
import torch

from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.symmetry.groups import TOLERANCE
from sigmascope.symmetry.listing import found_spaces
from sigmascope.symmetry.matrices import as_square, factor_monomial
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import SCALARS, sample_scales
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.ties import MAGNITUDE, SIGN, Channels
from sigmascope.symmetry.wiring.turns import Assignment

__all__ = ["drawn", "given"]


def drawn(wiring: Wiring, generator: torch.Generator | None, log_std: float) -> Assignment:
    """Draw a uniform permutation in every cell of places, and every scale by the law of its group."""
    ties, cells = wiring.ties, wiring.ties.cells()
    order = np.arange(len(cells), dtype=np.int64)
    own = np.flatnonzero(ties.places.roots(order) == order)  # one of each class
    by_cell = own[np.argsort(cells[own], kind="stable")]
    for members in np.split(by_cell, np.flatnonzero(np.diff(cells[by_cell])) + 1):
        order[members] = members[torch.randperm(len(members), generator=generator).numpy()]
    count = ties.scales.lost.shape[1]
    sizes = sample_scales(count, generator, log_std).numpy()
    signs = SCALARS["signs"].sample(count, generator, log_std).numpy()
    free = ties.scales.lost == 0
    sizes = np.where(free[MAGNITUDE], sizes, 1.0)
    for channels, floor in wiring.floors:
        scales = ties.scales.roots(channels.scale)
        # with a smaller one a variance would become negative
        sizes[scales[sizes[scales] ** channels.exponent < floor]] = 1.0
    return Assignment(ties, order, sizes * np.where(free[SIGN], signs, 1.0))


def given(wiring: Wiring, elements: Mapping[str, Monomial | Array]) -> Assignment:
    """Choose by name: an element acts on what a module or space puts out; what is not named is not
    scaled, nor permuted.

    Raises:
        OptionError: a name that is not in the network.
        InputError: an element that is not monomial, of another size, outside the group that its
            space admits, or at odds with another one that must move alike.
    """
    choice = _Choice(wiring)
    for name, element in elements.items():
        choice.take(name, element)
    return choice.assignment()


class _Choice:
    """Elements taken one after the other, each checked against what the network admits and against
    those before.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._ties, self._cells = wiring.ties, wiring.ties.cells()
        self._named = {
            name: part for _, parts in found_spaces(wiring) for name, part in parts.items()
        } | wiring.sites
        self._taken: dict[str, tuple[Channels, Monomial]] = {}
        # place -> which one moves to it, and who says so
        self._sources: dict[int, tuple[int, str]] = {}
        self._values: dict[int, tuple[float, str]] = {}  # scale -> its value, and who says so

    def take(self, name: str, matrix: Monomial | Array) -> None:
        """Set places and scales by one element."""
        channels = self._find(name)
        element = (
            matrix
            if isinstance(matrix, Monomial)
            else factor_monomial(as_square(matrix, f"the element of {name!r}"), TOLERANCE)
        )
        if isinstance(element, str):
            raise InputError(f"the element of {name!r} is no permutation with scales: {element}.")
        if len(element) != len(channels):
            raise InputError(
                f"the element of {name!r} acts on {len(element)} channels, and there are "
                f"{len(channels)}."
            )
        self._permute(name, channels, element)
        self._scale(name, channels, element)
        self._taken[name] = channels, element

    def assignment(self) -> Assignment:
        """Return what was chosen."""
        order = np.arange(len(self._cells), dtype=np.int64)
        values = np.ones(self._ties.scales.lost.shape[1])
        for place, (source, _) in self._sources.items():
            order[place] = source
        for scale, (value, _) in self._values.items():
            values[scale] = value
        chosen = Assignment(self._ties, order, values)
        for name, (channels, element) in self._taken.items():
            if not torch.equal(chosen.monomial(channels).permutation, element.permutation):
                raise InputError(
                    f"{name!r}: copies of one channel may not be exchanged, nor sent to "
                    "different channels."
                )
        return chosen

    def _find(self, name: str) -> Channels:
        if name in self._named:
            return self._named[name]
        near = difflib.get_close_matches(str(name), self._named, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise OptionError(
            f"no channels are called {name!r}.{guess} sigmascope.symmetry.spaces(model) "
            "lists the names."
        )

    def _permute(self, name: str, channels: Channels, element: Monomial) -> None:
        places = self._ties.places.roots(channels.place)
        sources = places[element.permutation.numpy()]
        for position in np.flatnonzero(self._cells[places] != self._cells[sources]).tolist():
            other = int(element.permutation[position])
            number = max(self._ties.places.lost[0, [places[position], sources[position]]])
            reason = self._ties.reasons[number] or "they are not used alike in the network"
            raise InputError(
                f"{name!r}: channels {other} and {position} may not be exchanged: {reason}."
            )
        for place, source in zip(places.tolist(), sources.tolist(), strict=True):
            earlier, by = self._sources.setdefault(place, (source, name))
            if earlier != source:
                raise InputError(
                    f"{name!r} and {by!r} share a permutation, and their elements differ in "
                    "it. Make them equal."
                )

    def _scale(self, name: str, channels: Channels, element: Monomial) -> None:
        values = element.scales.numpy()
        scales = self._ties.scales.roots(channels.scale)
        lost = self._ties.scales.lost[:, scales]
        off = np.abs(np.abs(values) - 1) > TOLERANCE
        for wrong, number in (
            (off & (lost[MAGNITUDE] > 0), MAGNITUDE),
            ((values < 0) & (lost[SIGN] > 0), SIGN),
        ):
            for channel in np.flatnonzero(wrong).tolist():
                reason = self._ties.reasons[lost[number, channel]]
                raise InputError(
                    f"{name!r}: channel {channel} may not be scaled by "
                    f"{values[channel]:.6g}: {reason}."
                )
        for channel in np.flatnonzero((values < 0) & ~channels.signed).tolist():
            raise InputError(
                f"{name!r}: channel {channel} is never negative here and may not be scaled "
                f"by {values[channel]:.6g}."
            )
        sizes = np.where(off, np.abs(values), 1.0) ** (1 / channels.exponent)
        for scale, value in zip(
            scales.tolist(), np.where(values < 0, -sizes, sizes).tolist(), strict=True
        ):
            earlier, by = self._values.setdefault(scale, (value, name))
            if abs(earlier - value) > TOLERANCE * abs(value):
                raise InputError(
                    f"{name!r} and {by!r} share a scale, and their elements differ in it. "
                    "Make them equal."
                )
