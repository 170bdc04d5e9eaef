"""The cost of matching every channel of one network with every channel of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.symmetry.aligning.blocks import Cell, Touch, Use
from sigmascope.symmetry.aligning.scales import Term, best_scales

# Rounds over scales that multiply the same weights, as before and behind a depthwise filter: for
# all pairs, where a rough cost will do, and for those that were chosen.
ROUNDS, LAST_ROUNDS = 6, 400


@dataclass(frozen=True)
class Products:
    """Sums over weights that are scaled alike.

    Attributes:
        uses: the scales that multiply them.
        inner: (n, n), inner products of channel j of the target (rows) with i of the other.
        own: (n,), squared norms of the channels to be moved.
        norm: (n, 1), squared norms of the channels of the target.
    """

    uses: tuple[Use, ...]
    inner: Tensor
    own: Tensor
    norm: Tensor

    def at(self, match: Tensor) -> Products:
        """Return the products of channel j with match[j] alone, (n,)."""
        rows = torch.arange(len(match))
        return Products(self.uses, self.inner[rows, match], self.own[match], self.norm[:, 0])


def products_of(
    touches: Iterable[Touch], target: Mapping[str, Tensor], current: Mapping[str, Tensor]
) -> list[Products]:
    """Return the products of the weights of all pairs of channels, each sum in their precision."""
    found: dict[tuple[Use, ...], tuple[Tensor, Tensor, Tensor]] = {}
    for touch in touches:
        x, y = touch.gathered(target[touch.name]), touch.gathered(current[touch.name])
        norms = _squares(y), _squares(x)[:, None]
        earlier = found.get(touch.uses)
        if earlier is None:
            found[touch.uses] = x @ y.T, *norms
        else:
            inner, own, norm = earlier
            found[touch.uses] = inner.addmm_(x, y.T), own + norms[0], norm + norms[1]
    return [Products(uses, inner.double(), own, norm) for uses, (inner, own, norm) in found.items()]


def _squares(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)  # as exact as the products are
    return norms.double().square()


@dataclass(frozen=True)
class Solved:
    """The best scale of every slot and pair, and the cost of every pair without its constant."""

    scales: dict[int, Tensor]
    cost: Tensor


def solve(products: Sequence[Products], cell: Cell, *, start: bool = False) -> Solved:
    """Return the best scales and costs of all pairs; exact unless scales share weights.

    Args:
        products: of all pairs, or of chosen ones.
        cell: whose slots they name.
        start: see `best_scales`.
    """
    costs: list[Tensor] = []
    scales: dict[int, Tensor] = {}
    for slots, own in _components(products):
        if not slots:
            costs += [torch.add(one.own, one.inner, alpha=-2) for one in own]
        elif len(slots) == 1:
            (slot,) = slots
            terms = [_term(one, slot, {}) for one in own]
            scales[slot], value = _best(terms, cell, slot, start=start)
            costs.append(value)
        else:
            costs.append(_coupled(own, cell, slots, scales))
    cost = costs[0]
    for more in costs[1:]:
        cost = cost.add_(more)
    return Solved(scales, cost)


def _best(
    terms: Sequence[Term], cell: Cell, slot: int, *, start: bool = False
) -> tuple[Tensor, Tensor]:
    free = cell.slots[slot]
    return best_scales(terms, magnitude=free.magnitude, sign=free.sign, start=start)


def _components(products: Sequence[Products]) -> list[tuple[tuple[int, ...], list[Products]]]:
    """Return products in groups that share no slot, each with its slots."""
    groups: list[tuple[set[int], list[Products]]] = []
    for one in products:
        slots, members = {use.slot for use in one.uses}, [one]
        for group in [group for group in groups if group[0] & slots or not (group[0] or slots)]:
            groups.remove(group)
            slots, members = slots | group[0], [*group[1], *members]
        groups.append((slots, members))
    return [(tuple(sorted(slots)), members) for slots, members in groups]


def _term(products: Products, slot: int, others: Mapping[int, Tensor]) -> Term:
    """Return the term of one slot; the others multiply what they multiply."""
    factor, own = torch.ones((), dtype=torch.float64), Use(slot, 0, False)
    for use in products.uses:
        if use.slot == slot:
            own = Use(slot, own.exponent + use.exponent, own.odd != use.odd)
        else:
            factor = factor * _power(others[use.slot], use)
    return Term(
        own.exponent,
        own.odd,
        products.own * factor.square(),
        products.inner * factor,
        products.norm,
    )


def _power(scale: Tensor, use: Use) -> Tensor:
    size = scale.abs() ** use.exponent
    return size * scale.sign() if use.odd else size


def _coupled(
    products: Sequence[Products], cell: Cell, slots: Sequence[int], scales: dict[int, Tensor]
) -> Tensor:
    """Minimize over several slots in turn, from 1; return the cost."""
    for slot in slots:
        scales[slot] = torch.ones_like(products[0].inner)
    last = torch.full_like(products[0].inner, torch.inf)
    for _ in range(ROUNDS if last.ndim > 1 else LAST_ROUNDS):
        for slot in slots:
            with_it = [one for one in products if any(use.slot == slot for use in one.uses)]
            terms = [_term(one, slot, scales) for one in with_it]
            scales[slot], _ = _best(terms, cell, slot)
        cost = torch.zeros_like(products[0].inner)
        for one in products:
            factor = multiplier(one.uses, scales)
            cost += one.own * factor.square() - 2 * one.inner * factor
        if not bool((last - cost > 1e-15 * cost.abs().max()).any()):
            break
        last = cost
    return cost


def multiplier(uses: Iterable[Use], scales: Mapping[int, Tensor]) -> Tensor:
    """Return what multiplies weights: the product of the powers of their scales."""
    factor = torch.ones((), dtype=torch.float64)
    for use in uses:
        factor = factor * _power(scales[use.slot], use)
    return factor
