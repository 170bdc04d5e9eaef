"""Coordinate descent over the symmetries of a network: one block after the other, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.symmetry.aligning.blocks import Block, Cell
from sigmascope.symmetry.aligning.head_match import best_heads
from sigmascope.symmetry.aligning.matching import assigned
from sigmascope.symmetry.aligning.pairs import multiplier, products_of, solve
from sigmascope.symmetry.wiring.heads import HeadElement
from sigmascope.symmetry.wiring.ties import Integers

Tensors: TypeAlias = dict[str, Tensor]
Prior: TypeAlias = Mapping[int, Tensor]
"""Block -> (n, n), how unlike its channels are by their features, from 0 to 1 or 2."""

TIE = 1e-6  # what weights count beside features, which decide
SWEEPS, GAIN = 100, 1e-5  # the most sweeps; one that gains less is the last
NOTHING = 1e-24  # of the squared norm of the target: rounding


@dataclass(frozen=True, eq=False)
class Step:
    """A change of one cell, relative to where it is: which channel comes, and its scales (n,)."""

    match: Tensor
    scales: dict[int, Tensor]


class Descent:
    """The state of a descent: one network, moved so far, and the element that moved it.

    Args:
        target: name of a parameter -> its value, which stays.
        moving: the same of the network to be moved; copied.
        blocks: the variables.
        places: number of places in the tracing.
        scales: number of scales in the tracing.
        rotated: whether attention heads may be rotated.
    """

    def __init__(
        self,
        target: Tensors,
        moving: Tensors,
        blocks: Sequence[Block],
        *,
        places: int,
        scales: int,
        rotated: bool = True,
    ) -> None:
        self._target, self._blocks, self._rotated = target, blocks, rotated
        self.current = dict(moving)
        self.order: Integers = np.arange(places, dtype=np.int64)
        self.values = np.ones(scales)
        self.heads = {
            number: HeadElement.identity(block)
            for number, block in enumerate(blocks)
            if not isinstance(block, Cell)
        }
        self._parts = {name: self._distance(name) for name in moving}
        self._energy = sum(float(one.double().square().sum()) for one in target.values())
        self.history: list[float] = []

    @property
    def objective(self) -> float:
        """The squared distance of all parameters to those of the target."""
        return float(np.sum([*self._parts.values()]))

    def sweep(self, prior: Prior | None, advance: Callable[[], None]) -> None:
        """Update blocks in order until a sweep gains next to nothing; never accept a rise.

        Args:
            prior: by features, which then decide the assignments, and weights only the scales.
            advance: is called after every update.
        """
        changed = set(range(len(self._blocks)))
        self.history.append(self.objective)
        if self.history[-1] <= NOTHING * self._energy:
            return
        for _ in range(SWEEPS):
            due, changed = changed, set()
            for number, block in enumerate(self._blocks):
                if number in due | changed and self.update(number, prior=prior):
                    changed |= self._neighbors(block) | {number}
                advance()
            self.history.append(self.objective)
            before, now = self.history[-2:]
            if not changed or before - now <= GAIN * before or now <= NOTHING * self._energy:
                return

    def update(
        self, number: int, *, prior: Prior | None = None, known: Collection[int] | None = None
    ) -> bool:
        """Update one block; return whether it changed.

        Args:
            number: of the block.
            prior: see `sweep`.
            known: the other blocks whose state means something: at the start. Then weights that
                depend on further ones are left out, and the change is always accepted.
        """
        block = self._blocks[number]
        if not isinstance(block, Cell):
            permuted = prior is None or known is not None
            turn = best_heads(
                block, self._target, self.current, permuted=permuted, rotated=self._rotated
            )
            accepted = self._accept(block.turned(self.current, turn), always=known is not None)
            if accepted:
                self.heads[number] = turn.after(self.heads[number])
            return accepted
        step = self._best(block, None if prior is None else prior.get(number), known)
        if step is None:
            return False
        accepted = self._accept(self._stepped(block, step), always=known is not None)
        if accepted:
            self._note(block, step)
        return accepted

    def _accept(self, new: Tensors, *, always: bool) -> bool:
        """Take new values of parameters if they are nearer, or always."""
        parts = {name: self._distance(name, tensor) for name, tensor in new.items()}
        before, after = sum(self._parts[name] for name in parts), sum(parts.values())
        if not math.isfinite(after) or not (always or after < before * (1 - 1e-12)):
            return False
        self.current.update(new)
        self._parts.update(parts)
        return True

    def permute(self, cell: Cell, match: Tensor) -> None:
        """Permute a cell, whatever it costs."""
        step = Step(match, {})
        new = self._stepped(cell, step)
        self.current.update(new)
        self._parts.update({name: self._distance(name) for name in new})
        self._note(cell, step)

    def _best(self, cell: Cell, prior: Tensor | None, known: Collection[int] | None) -> Step | None:
        start = known is not None
        touches = [one for one in cell.touches if known is None or one.needs <= set(known)]
        if not touches and prior is None:
            return None
        products = products_of(touches, self._target, self.current)
        match = torch.arange(len(cell.places))
        if cell.permuted:
            cost = solve(products, cell, start=start).cost if products else None
            if prior is not None:  # its columns are the channels where they were at first
                prior = prior[:, torch.from_numpy(self._channels(cell, cell.places))]
            match = assigned(_weighed(cost, prior))
        if not products:
            return Step(match, {})
        scales = solve([one.at(match) for one in products], cell, start=start).scales
        return Step(match, scales)

    def _stepped(self, cell: Cell, step: Step) -> Tensors:
        """Return the parameters after a step."""
        new: Tensors = {}
        ones = {slot: torch.ones(len(step.match)).double() for slot in range(len(cell.slots))}
        for touch in cell.touches:
            before = new.get(touch.name, self.current[touch.name])
            factor = multiplier(touch.uses, ones | step.scales)
            new[touch.name] = touch.stepped(before, step.match, factor)
        return new

    def _note(self, cell: Cell, step: Step) -> None:
        """Compose a step with what has been done so far."""
        match = step.match.numpy()
        channel = self._channels(cell, cell.places[match])
        self.order[cell.places] = cell.places[channel]
        for slot, scales in step.scales.items():
            self.values[cell.slots[slot].scales[channel]] *= scales.numpy()

    def _channels(self, cell: Cell, places: Integers) -> Integers:
        """Return which channels of a cell, as they were numbered at first, are now at places."""
        found: Integers = np.searchsorted(cell.places, self.order[places])  # places are sorted
        return found

    def _distance(self, name: str, tensor: Tensor | None = None) -> float:
        current = self.current[name] if tensor is None else tensor
        difference = self._target[name] - current
        return float(torch.linalg.vector_norm(difference, dtype=torch.float64)) ** 2

    def _neighbors(self, block: Block) -> set[int]:
        names = set(block.names)
        return {number for number, other in enumerate(self._blocks) if names & set(other.names)} - {
            number for number, other in enumerate(self._blocks) if other is block
        }


def _weighed(cost: Tensor | None, prior: Tensor | None) -> Tensor:
    """Return the cost of an assignment: features where there are any, weights to break ties."""
    if prior is None:
        if cost is None:
            raise ValueError("neither weights nor features are known")
        return cost
    if cost is None:
        return prior
    spread = float(cost.max() - cost.min()) or 1.0
    return prior + TIE / spread * cost
