"""The cost of matching every channel of one network with every channel of another."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.symmetry.aligning.blocks import Cell, Touch, Use
from sigmascope.symmetry.aligning.scales import Term, best_scales

# Rounds over scales that multiply the same weights, as before and behind a depthwise filter: for
# all pairs, where a rough cost will do, and for those that were chosen.
ROUNDS, LAST_ROUNDS = 6, 400
MOST_SIGNS = 4  # slots whose signs are tried in all combinations
NEWTON, SETTLED = 20, 1e-9  # the most steps, and a logarithm of a scale that is none
FLAT = 1e-11  # curvature, beside the largest, along which nothing changes


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
    """Minimize over several slots, from several choices of their signs; return the cost.

    With the signs of `cover` given, no two of the others meet in one product. The best of each is
    then found by itself, so that signs alone are exact.
    """
    cover = _cover(products, cell)[:MOST_SIGNS]
    order = [*(slot for slot in slots if slot not in cover), *cover]
    least = torch.full_like(products[0].inner, torch.inf)
    for signs in itertools.product((1.0, -1.0), repeat=len(cover)):
        begin = {slot: torch.ones_like(least) for slot in order}
        for slot, sign in zip(cover, signs, strict=True):
            begin[slot] *= sign
        cost = _in_turn(products, cell, begin, ROUNDS)
        for slot, found in begin.items():
            scales[slot] = torch.where(cost < least, found, scales.get(slot, found))
        least = torch.minimum(cost, least)
    if least.ndim > 1:
        return least
    chosen = {slot: scales[slot] for slot in order}
    if not _settled(products, cell, chosen):
        _in_turn(products, cell, chosen, LAST_ROUNDS)
        _settled(products, cell, chosen)
    scales.update(chosen)
    return _cost(products, chosen)


def _cover(products: Sequence[Products], cell: Cell) -> list[int]:
    """Return slots with free signs, of which every product of two or more of these has one.

    Those that meet the most others come first.
    """
    found: list[int] = []
    meetings = [
        {use.slot for use in one.uses if use.odd and cell.slots[use.slot].sign} for one in products
    ]
    while left := [slots for slots in meetings if len(slots) > 1 and not slots & set(found)]:
        counts = Counter(slot for slots in left for slot in slots)
        found.append(max(sorted(counts), key=counts.__getitem__))
    return found


def _in_turn(
    products: Sequence[Products], cell: Cell, scales: dict[int, Tensor], rounds: int
) -> Tensor:
    """Minimize over one slot after the other, in place; return the cost."""
    cost = last = torch.full_like(products[0].inner, torch.inf)
    for _ in range(rounds):
        for slot in scales:
            with_it = [one for one in products if any(use.slot == slot for use in one.uses)]
            terms = [_term(one, slot, scales) for one in with_it]
            scales[slot], _ = _best(terms, cell, slot)
        cost = _cost(products, scales)
        if not bool((last - cost > 1e-15 * cost.abs().max()).any()):
            break
        last = cost
    return cost


def _cost(products: Sequence[Products], scales: Mapping[int, Tensor]) -> Tensor:
    cost = torch.zeros_like(products[0].inner)
    for one in products:
        factor = multiplier(one.uses, scales)
        cost += one.own * factor.square() - 2 * one.inner * factor
    return cost


def _settled(products: Sequence[Products], cell: Cell, scales: dict[int, Tensor]) -> bool:
    """Take Newton's steps over all sizes together, in place; return whether all channels settled.

    One slot after the other takes hundreds of rounds where the scales of several could change
    together at little cost. A channel whose steps do not become small keeps its scales.
    """
    free = [slot for slot in scales if cell.slots[slot].magnitude]
    powers = torch.tensor(
        [
            [sum(use.exponent for use in one.uses if use.slot == slot) for slot in free]
            for one in products
        ],
        dtype=torch.float64,
    )
    current, settled = dict(scales), torch.zeros(len(products[0].inner), dtype=torch.bool)
    for _ in range(NEWTON if free else 0):
        factors = torch.stack([multiplier(one.uses, current) for one in products], dim=1)
        squares = torch.stack([one.own for one in products], dim=1) * factors.square()
        inner = torch.stack([one.inner for one in products], dim=1) * factors
        gradient = (2 * (squares - inner)) @ powers
        curvature = torch.einsum("np,ps,pt->nst", 4 * squares - 2 * inner, powers, powers)
        step = _newton_step(curvature, gradient)
        for place, slot in enumerate(free):
            current[slot] = current[slot] * step[:, place].exp()
        settled = step.abs().amax(dim=1) < SETTLED
        if bool(settled.all()):
            break
    before, after = _cost(products, scales), _cost(products, current)
    better = settled & (after <= before + 1e-14 * before.abs())  # a root is more exact than a value
    for slot in free:
        scales[slot] = torch.where(better, current[slot], scales[slot])
    return bool(settled.all()) or not free


def _newton_step(curvature: Tensor, gradient: Tensor) -> Tensor:
    """Return the step to where the gradient is 0, of length 1 at most; downhill at saddles."""
    values, vectors = torch.linalg.eigh(curvature.nan_to_num(0.0, 0.0, 0.0))
    along = (vectors.mT @ gradient.nan_to_num(0.0, 0.0, 0.0)[:, :, None])[:, :, 0]
    size = values.abs()
    flat = size <= FLAT * size.amax(dim=1, keepdim=True)
    step = -torch.where(flat, 0.0, along / size)
    longest = step.abs().amax(dim=1, keepdim=True).clamp(min=1)
    found: Tensor = (vectors @ (step / longest)[:, :, None])[:, :, 0]
    return found


def multiplier(uses: Iterable[Use], scales: Mapping[int, Tensor]) -> Tensor:
    """Return what multiplies weights: the product of the powers of their scales."""
    factor = torch.ones((), dtype=torch.float64)
    for use in uses:
        factor = factor * _power(scales[use.slot], use)
    return factor
