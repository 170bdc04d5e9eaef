r"""The best scale of a channel, in closed form or by a safeguarded Newton iteration.

A channel x of one network, multiplied by d on its way in and divided by d on its way out, is at the
squared distance

$$f(d) = \sum_k \alpha_k d^{2k} - 2 \beta_k d^k + \mathrm{const}$$

from a channel of the other, with α the squared norms of its weights and β their inner products. For
k = ±1 the derivative is a quartic: with $t = d\,(\alpha_1 / \alpha_{-1})^{1/4}$,
$t^4 - b t^3 + c t - 1 = 0$. It has one positive root unless $b^3 > 4c$ and $c^3 > 4b$, and then the
largest or the smallest is the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS, PRECISION = 60, 1e-13
GRID, REACH = 97, 12.0
SMALLEST = 1e-3  # of a scale, relative to the ratio of norms, where nothing keeps it from 0
PORTION = 2**15  # pairs at a time: a dozen arrays of them stay in the cache of a core


@dataclass(frozen=True)
class Term:
    """Weights that are multiplied by a power of the scale.

    Attributes:
        exponent: k, not 0 except for `odd` terms that take only the sign.
        odd: whether the sign of the scale multiplies too.
        alpha: (…), squared norms of the channels to be scaled; broadcast against `beta`.
        beta: (…), inner products with the channels to be met.
        norm: (…), squared norms of the channels to be met; broadcast against `beta`.
    """

    exponent: int
    odd: bool
    alpha: Tensor
    beta: Tensor
    norm: Tensor


def best_scales(
    terms: Sequence[Term], *, magnitude: bool, sign: bool, start: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the best scale of every pair, and f there without its constant.

    Args:
        terms: the weights that the scale multiplies, float64.
        magnitude: whether its size is free.
        sign: whether its sign is free.
        start: whether weights on one side only are known; then norms are made equal, because a
            regression would shrink what the other side has to undo.
    """
    shape = terms[0].beta.shape  # that of all
    if len(shape) < 2 or shape[0] * shape[1] <= PORTION:
        return _best_of(terms, magnitude=magnitude, sign=sign, start=start)
    rows = max(1, PORTION // shape[1])
    parts = [
        _best_of(
            [_rows(term, first, rows, shape) for term in terms],
            magnitude=magnitude,
            sign=sign,
            start=start,
        )
        for first in range(0, shape[0], rows)
    ]
    scales, values = (torch.cat(own) for own in zip(*parts, strict=True))
    return scales, values


def _rows(term: Term, first: int, count: int, shape: torch.Size) -> Term:
    """Return some rows of a term; what is the same for all rows stays as it is."""
    part = [
        one[first : first + count] if one.ndim == len(shape) and len(one) == shape[0] else one
        for one in (term.alpha, term.beta, term.norm)
    ]
    return Term(term.exponent, term.odd, *part)


def _best_of(
    terms: Sequence[Term], *, magnitude: bool, sign: bool, start: bool
) -> tuple[Tensor, Tensor]:
    if not magnitude:
        return _best_sign(terms) if sign else _fixed(terms)
    if not sign:
        return _best_size(terms, start=start)
    two_sided = {term.exponent for term in terms if term.beta.numel()} == {1, -1}
    if two_sided and all(term.odd for term in terms):
        return _best_both(terms, start=start)
    d, value = _best_size(terms, start=start)
    flipped = [_with_sign(term, -torch.ones_like(term.beta)) for term in terms]
    other, other_value = _best_size(flipped, start=start)
    better = other_value < value
    return torch.where(better, -other, d), torch.where(better, other_value, value)


def _fixed(terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
    value = sum((term.alpha - 2 * term.beta for term in terms), torch.zeros(()).double())
    return torch.ones_like(value), value


def _best_sign(terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
    odd = sum((term.beta for term in terms if term.odd), torch.zeros(()).double())
    d, value = _fixed(terms)
    return torch.where(odd < 0, -d, d), value + 2 * odd - 2 * odd.abs()


def _with_sign(term: Term, signs: Tensor) -> Term:
    beta = signs * term.beta if term.odd else term.beta
    return Term(term.exponent, term.odd, term.alpha, beta, term.norm)


def _best_both(terms: Sequence[Term], *, start: bool) -> tuple[Tensor, Tensor]:
    """Return the best scale of either sign: t → 1/t shows that b + c has its sign."""
    up, down = (_merged([one for one in terms if one.exponent == k]) for k in (1, -1))
    b, c, _ = _normalized(up, down)
    signs = torch.where(b + c < 0, -1.0, 1.0).to(b)
    d, value = _best_size([_with_sign(term, signs) for term in terms], start=start)
    return signs * d, value


def _best_size(terms: Sequence[Term], *, start: bool) -> tuple[Tensor, Tensor]:
    """Return the best positive scale."""
    by_exponent = {
        k: _merged([one for one in terms if one.exponent == k])
        for k in dict.fromkeys(term.exponent for term in terms)
        if k
    }
    constant = sum((-2 * one.beta for one in terms if not one.exponent), torch.zeros(()).double())
    if set(by_exponent) == {1, -1}:
        d = _two_sided(by_exponent[1], by_exponent[-1])
    elif len(by_exponent) == 1:
        d = _one_sided(next(iter(by_exponent.values())), start=start)
    elif by_exponent:
        d = _searched(list(by_exponent.values()))
    else:
        return _fixed(terms)
    return d, _value(list(by_exponent.values()), d) + constant


def _merged(terms: Sequence[Term]) -> Term:
    first, *rest = terms
    for one in rest:
        first = Term(
            first.exponent,
            first.odd,
            first.alpha + one.alpha,
            first.beta + one.beta,
            first.norm + one.norm,
        )
    return first


def _value(terms: Sequence[Term], d: Tensor) -> Tensor:
    value = torch.zeros_like(d)
    for term in terms:
        power = d**term.exponent
        value += term.alpha * power.square() - 2 * term.beta * power
    return value


def _one_sided(term: Term, *, start: bool) -> Tensor:
    known = (term.alpha > 0) & (term.norm > 0)
    ratio = torch.where(known, (term.norm / term.alpha).sqrt(), 1.0).expand_as(term.beta)
    if not start:
        best = torch.where(term.alpha > 0, term.beta / term.alpha, ratio)
        ratio = torch.maximum(best, SMALLEST * ratio)
    return ratio if term.exponent == 1 else ratio ** (1 / term.exponent)


def _normalized(up: Term, down: Term) -> tuple[Tensor, Tensor, Tensor]:
    """Return b, c and d / t; NaN where one side is zero."""
    unit = (down.alpha / up.alpha) ** 0.25
    size = (up.alpha * down.alpha).sqrt()
    return up.beta * unit / size, down.beta / (unit * size), unit


def _two_sided(up: Term, down: Term) -> Tensor:
    b, c, unit = _normalized(up, down)
    sound = (up.alpha > 0) & (down.alpha > 0) & b.isfinite() & c.isfinite()
    if bool(sound.all()):
        return _quartic(b, c) * unit
    alone = torch.where(up.alpha > 0, _one_sided(up, start=False), _one_sided(down, start=False))
    safe = torch.where(sound, b, 0.0), torch.where(sound, c, 0.0)
    return torch.where(sound, _quartic(*safe) * unit, alone)


def _quartic(b: Tensor, c: Tensor) -> Tensor:
    """Return t > 0 where t² + t⁻² - 2bt - 2c/t is least."""
    t = _root(b, c)
    several = (b**3 > 4 * c) & (c**3 > 4 * b) & (b > 0) & (c > 0)
    if bool(several.any()):
        b, c = b[several], c[several]
        first, second = t[several], 1 / _root(c, b)  # the smallest root is 1 over a largest
        better = _quartic_value(second, b, c) < _quartic_value(first, b, c)
        t[several] = torch.where(better, second, first)
    return t


def _quartic_value(t: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return t.square() + t.square().reciprocal() - 2 * b * t - 2 * c / t


def _root(b: Tensor, c: Tensor) -> Tensor:
    """Return the largest root of t⁴ - bt³ + ct - 1, by Newton's method.

    Where several are positive it begins above and descends to the largest one. Otherwise it begins
    near the only one, and bisection catches steps that leave the bracket. Most roots settle after a
    few steps; the others go on alone.
    """
    shape, b, c = b.shape, b.flatten(), c.flatten()
    high = b.clamp(min=0) + 1 + (-c).clamp(min=0) ** (1 / 3)
    low = 1 / (c.clamp(min=0) + 1 + (-b).clamp(min=0) ** (1 / 3))
    single = (b**3 <= 4 * c) | (c**3 <= 4 * b)
    near = torch.minimum(torch.maximum(1 + (b - c) / 4, low), high)  # to first order at 1
    t = torch.where(single, near, high)
    found, places = t.clone(), torch.arange(len(b))
    for _ in range(STEPS):
        square = t * t
        value = square * t * (t - b) + c * t - 1
        slope = square * (4 * t - 3 * b) + c
        high, low = torch.where(value > 0, t, high), torch.where(value > 0, low, t)
        new = t - value / slope
        inside = (new >= low) & (new <= high)  # False for NaN
        new = torch.where(inside, new, (low * high).sqrt())
        moved = (new - t).abs() > PRECISION * t
        t = new
        left = int(moved.sum())
        if 2 * left <= len(t):
            found[places] = t
            t, b, c, high, low, places = (one[moved] for one in (t, b, c, high, low, places))
            if not left:
                break
    found[places] = t
    return found.view(shape)


def _searched(terms: Sequence[Term]) -> Tensor:
    """Return the best positive scale for any exponents: a grid, then golden sections."""

    def at(r: Tensor) -> Tensor:
        return _value(terms, r.exp())

    best = torch.full_like(terms[0].beta, -REACH)
    least = at(best)
    for place in torch.linspace(-REACH, REACH, GRID, dtype=torch.float64)[1:]:
        value = at(torch.full_like(best, float(place)))
        best, least = torch.where(value < least, place, best), torch.minimum(value, least)
    step = 2 * REACH / (GRID - 1)
    return _golden(at, best - step, best + step).exp()


def _golden(at: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    ratio = (5**0.5 - 1) / 2
    for _ in range(STEPS):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        lower = at(left) < at(right)
        low, high = torch.where(lower, low, left), torch.where(lower, right, high)
    return (low + high) / 2
