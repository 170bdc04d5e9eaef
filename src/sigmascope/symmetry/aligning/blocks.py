"""What each set of channels touches: the blocks of variables of the descent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.symmetry.wiring.heads import Heads
from sigmascope.symmetry.wiring.network import UnmovableError, Wiring
from sigmascope.symmetry.wiring.ties import MAGNITUDE, SIGN, Channels, Integers
from sigmascope.symmetry.wiring.turns import Turn

EXPONENTS = {"value": 1, "inverse": -1, "square": 2, "sign": 0}


@dataclass(frozen=True)
class Use:
    """How a slot of scales multiplies weights: which slot, to which power, with its sign or not."""

    slot: int
    exponent: int
    odd: bool


@dataclass(frozen=True, eq=False)
class Touch:
    """The part of a parameter that follows a cell along one axis.

    Attributes:
        name: of the parameter.
        axis: along which its channels lie.
        rows: the part of axis 0 that is meant.
        index: (n, k), the positions of each of n channels, which may occur k times.
        uses: the scales that multiply it.
        needs: the other blocks that it depends on.
    """

    name: str
    axis: int
    rows: slice
    index: Tensor
    uses: tuple[Use, ...]
    needs: frozenset[int]

    def gathered(self, tensor: Tensor) -> Tensor:
        """Return (n, f): all weights of each channel."""
        part = tensor[self.rows].movedim(self.axis, 0)
        chosen = part if self._covers(part) else part[self.index.flatten()]
        return chosen.reshape(len(self.index), -1)

    def stepped(self, tensor: Tensor, match: Tensor, factor: Tensor) -> Tensor:
        """Return a tensor with channel match[j] at the place of j, multiplied by factor[j]."""
        part = tensor[self.rows]
        if len(part) == len(tensor) and self._covers(part.movedim(self.axis, 0)):
            order = self.index[match].flatten()
            new = tensor.index_select(self.axis, order)
            if factor.ndim:
                shape = [1] * tensor.ndim
                shape[self.axis] = -1
                new *= factor.to(new).repeat_interleave(self.index.shape[1]).view(shape)
            return new
        weights, new = self.gathered(tensor)[match], tensor.clone()
        if factor.ndim:
            weights = weights * factor.to(weights)[:, None]
        target = new[self.rows].movedim(self.axis, 0)
        target[self.index.flatten()] = weights.reshape(-1, *target.shape[1:])
        return new

    def _covers(self, part: Tensor) -> bool:
        """Return whether its channels are all of axis 0, in order."""
        positions = self.index.flatten()
        return len(positions) == len(part) and bool((positions.diff() == 1).all())


@dataclass(frozen=True, eq=False)
class Slot:
    """Scales, one for each channel of a cell.

    Attributes:
        scales: (n,), their numbers in the tracing.
        magnitude: whether their size is free.
        sign: whether their sign is free.
    """

    scales: Integers
    magnitude: bool
    sign: bool


@dataclass(frozen=True, eq=False)
class Cell:
    """Channels that may be exchanged with each other, and their scales.

    Attributes:
        places: (n,), their numbers in the tracing.
        permuted: whether they may be exchanged.
        slots: the scales that are free.
        touches: the weights that follow.
        observed: calls of modules whose outputs have these channels, with axis and positions (n, k)
            there, and whether the sign of an output is free.
    """

    places: Integers
    permuted: bool
    slots: tuple[Slot, ...]
    touches: tuple[Touch, ...]
    observed: tuple[Observed, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters it touches."""
        return tuple(dict.fromkeys(touch.name for touch in self.touches))


@dataclass(frozen=True, eq=False)
class Observed:
    """Where the channels of a cell can be seen: a call of a module, and positions (n, k) there."""

    call: tuple[str, int]
    axis: int
    index: Tensor
    signed: bool


Block: TypeAlias = Cell | Heads


def blocks_of(wiring: Wiring, parameters: Iterable[str], *, scaled: bool = True) -> list[Block]:
    """Return the blocks of variables, in order of execution.

    Args:
        wiring: what the tracing found.
        parameters: the names whose distance counts; buffers are moved but not compared.
        scaled: whether scales are variables too.
    """
    return _Reader(wiring, frozenset(parameters), scaled=scaled).read()


class _Reader:
    """Reads the blocks from a wiring."""

    def __init__(self, wiring: Wiring, parameters: frozenset[str], *, scaled: bool) -> None:
        self._wiring, self._parameters, self._scaled = wiring, parameters, scaled
        self._labels = wiring.ties.cells(split_fixed=False)
        self._members: dict[int, Integers] = {}
        roots = wiring.ties.places.roots(np.arange(len(self._labels), dtype=np.int64))
        own = np.flatnonzero(roots == np.arange(len(roots)))
        for label in np.unique(self._labels[own]).tolist():
            self._members[label] = own[self._labels[own] == label]
        self._order: dict[int | str, int] = {}  # label of a cell or site of heads -> block

    def read(self) -> list[Block]:
        heads = {one.output: one for one in self._wiring.heads}
        for name, turns in self._wiring.turns.items():
            if name in heads:
                self._order.setdefault(heads[name].site, len(self._order))
            for turn in turns:
                for label in self._labels_in(turn):
                    self._order.setdefault(label, len(self._order))
        sites = {one.site: one for one in self._wiring.heads}
        found = [
            sites[key] if isinstance(key, str) else self._cell(key) for key in list(self._order)
        ]
        return found

    def _labels_in(self, turn: Turn) -> list[int]:
        return list(dict.fromkeys(self._labels[turn.channels.place].tolist()))

    def needs(self, name: str, axis: int) -> frozenset[int]:
        """Return the blocks that weights along one axis depend on: those along the others."""
        turns = [turn for turn in self._wiring.turns[name] if turn.channels.axis != axis]
        found = {self._order[label] for turn in turns for label in self._labels_in(turn)}
        found |= {self._order[one.site] for one in self._wiring.heads if name in one.names}
        return frozenset(found)

    def _cell(self, label: int) -> Cell:
        members = self._members[label]
        slots: dict[bytes, tuple[int, Slot]] = {}
        touches = []
        for name, turns in self._wiring.turns.items():
            if name not in self._parameters:
                continue
            for turn in turns:
                index = self._positions(turn.channels, label)
                for part in () if index is None else self._scaled_alike(turn, index):
                    uses = self._uses(turn, part, slots)
                    axis, rows = turn.channels.axis, slice(*turn.rows)
                    touches.append(Touch(name, axis, rows, part, uses, self.needs(name, axis)))
        fixed = bool((self._wiring.ties.places.lost[0, members] > 0).any())
        return Cell(
            members,
            len(members) > 1 and not fixed,
            tuple(slot for _, slot in slots.values()),
            tuple(touches),
            () if fixed else tuple(self._observed(label)),
        )

    def _positions(self, channels: Channels, label: int) -> Tensor | None:
        """Return the positions (n, k) of the channels of a cell along an axis."""
        here = np.flatnonzero(self._labels[channels.place] == label)
        if not len(here):
            return None
        places = self._wiring.ties.places.roots(channels.place[here])
        ranked = here[np.argsort(places, kind="stable")]
        return torch.from_numpy(ranked.reshape(len(self._members[label]), -1))

    def _scaled_alike(self, turn: Turn, index: Tensor) -> list[Tensor]:
        """Return positions (n, k) in parts, in each of which a channel has one scale.

        Copies of a channel have scales of their own behind a depthwise filter that makes several.
        """
        roots = self._wiring.ties.scales.roots
        parts: dict[bytes, list[Tensor]] = {}
        for column in index.unbind(dim=1) if self._scaled else ():
            at = column.numpy()
            found = [roots(channels.scale[at]).tobytes() for channels, _ in turn.factors]
            parts.setdefault(b"".join(found), []).append(column)
        return [torch.stack(own, dim=1) for own in parts.values()] or [index]

    def _uses(
        self, turn: Turn, index: Tensor, slots: dict[bytes, tuple[int, Slot]]
    ) -> tuple[Use, ...]:
        found = []
        for channels, power in turn.factors if self._scaled else ():
            at = channels[index[:, 0].numpy()]
            slot = self._slot(at)
            if not (slot.magnitude or slot.sign):
                continue
            if len(set(at.exponent.tolist())) > 1 or len(set(at.signed.tolist())) > 1:
                raise UnmovableError(
                    f"{self._wiring.ties.reasons[-1]}: channels of one cell have scales of "
                    "different powers, which cannot be aligned."
                )
            number, _ = slots.setdefault(slot.scales.tobytes(), (len(slots), slot))
            exponent = EXPONENTS[power] * int(at.exponent[0])
            found.append(Use(number, exponent, bool(at.signed[0]) and power != "square"))
        return tuple(found)

    def _slot(self, channels: Channels) -> Slot:
        scales = self._wiring.ties.scales
        roots = scales.roots(channels.scale)
        free = scales.lost[:, roots] == 0
        alone = len(np.unique(roots)) == len(roots)
        return Slot(roots, alone and bool(free[MAGNITUDE].all()), alone and bool(free[SIGN].all()))

    def _observed(self, label: int) -> Iterable[Observed]:
        for call, channels in self._wiring.calls.items():
            index = self._positions(channels, label)
            if index is not None:
                at = channels[index[:, 0].numpy()]
                signed = self._scaled and self._slot(at).sign and bool(at.signed.all())
                yield Observed(call, channels.axis, index, signed)
