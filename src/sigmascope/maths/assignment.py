r"""The linear assignment problem, with a proof of optimality.

A permutation $\pi$ minimises $\sum_i C_{i\pi(i)}$ if and only if there are potentials with $u_i + v_j \le C_{ij}$
everywhere and equality along $\pi$. Three ways to find them, tried in this order:

1. *diagonal*: every row's (or every column's) minimum lies on the diagonal. For the layers of real networks this
   nearly always holds.
2. *potentials*: shortest paths in the graph of exchanges settle, so the identity is optimal.
3. *solver*: the identity is not optimal; `solve` finds the permutation, and shortest paths prove it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

__all__ = ["Assignment", "assign", "prove", "solve"]

Vector: TypeAlias = np.ndarray[Any, Any]
Matrix: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")

# Entries of a matrix of squared distances are known to about this, relative to the largest one.
ROUNDING = 64 * float(np.finfo(np.float64).eps)
# Up to this many rows a cold start of the solver is as fast as a warm one.
SMALL = 256
PARTS = 4
# Entries per row that the smoothing looks at, and with which the shortest paths begin.
NEIGHBOURS, SHORTLIST = 32, 16
# Temperatures of the smoothing, relative to the largest entry it looks at, and the iterations spent on each.
TEMPERATURES, SWEEPS = (0.2, 0.1, 0.05, 0.02), 20
# Bytes of a block of rows that stays in the cache of one core.
BLOCK = 2**19


@dataclass(frozen=True)
class Assignment:
    """An optimal permutation and the potentials that prove it.

    Attributes:
        columns: (n,), the column that each row is given.
        row_potentials: (n,), u.
        column_potentials: (n,), v; `cost - u[:, None] - v` is nowhere below minus the rounding of the cost.
        certified: how optimality was established: "diagonal", "potentials", "solver", or "no" if no proof was found.
    """

    columns: Vector
    row_potentials: Vector
    column_potentials: Vector
    certified: str


def assign(cost: Matrix) -> Assignment:
    """Find the permutation of least total cost and prove it.

    Args:
        cost: (n, n), float64, finite.

    >>> assign(np.array([[1.0, 0.0], [0.0, 3.0]]))
    Assignment(columns=array([1, 0]), row_potentials=array([0., 0.]), column_potentials=array([0., 0.]), certified='solver')
    """
    own, zero, identity = cost.diagonal(), np.zeros(len(cost)), np.arange(len(cost))
    nearest = cost.argmin(axis=1)
    least = cost[identity, nearest]
    tolerance = ROUNDING * max(float(cost.max()), -float(least.min()))
    if (least >= own - tolerance).all():
        return Assignment(identity, own.copy(), zero, "diagonal")
    # The first condition follows from the second; it saves a pass over the matrix.
    if (least >= own[nearest] - tolerance).all() and (cost.min(axis=0) >= own - tolerance).all():
        return Assignment(identity, zero, own.copy(), "diagonal")
    # Where a row that exchanges its column with that of its nearest row saves cost, the identity is out at once.
    if (least + cost[nearest, identity] >= own + own[nearest] - 2 * tolerance).all():
        value = prove(cost - own[:, None], identity, tolerance=tolerance)
        if value is not None:
            return Assignment(identity, own - value, value, "potentials")
    return solve(cost, tolerance=tolerance)


def solve(cost: Matrix, *, tolerance: float) -> Assignment:
    """Solve the assignment problem from near-optimal potentials, and prove the result.

    The solver (SciPy's shortest augmenting paths) is exact for any shift of rows and columns, and fast when the shift
    comes near the optimal potentials. See `_near_potentials` for where those come from.
    """
    reduced, rows, shift = _shift(cost, _near_potentials(cost, tolerance))
    if len(cost) > SMALL:
        _, more_rows, more = _shift(reduced, _smooth(reduced), out=reduced)
        rows, shift = rows + more_rows, shift + more
    _, columns = linear_sum_assignment(reduced)
    value = prove(reduced, columns, tolerance=tolerance)
    certified, value = ("no", np.zeros(len(cost))) if value is None else ("solver", value)
    return Assignment(columns, rows + _along(reduced, columns) - value[columns], value + shift, certified)


def prove(cost: Matrix, columns: Vector, *, tolerance: float) -> Vector | None:
    r"""Find column potentials that prove `columns` optimal, or return None if there are none.

    With $u_i = C_{i\pi(i)} - v_{\pi(i)}$ the conditions read $v_j \le v_{\pi(i)} + C_{ij} - C_{i\pi(i)}$: shortest paths
    over columns. Almost all entries are far too large to lie on one. So the paths are sought among the smallest
    entries, all conditions are checked, and entries that fail join the search until none does.

    Args:
        cost: (n, n), shifted so that entries along optimal permutations are small.
        columns: (n,), the permutation.
        tolerance: how far a condition may be missed.
    """
    n, own = len(cost), _along(cost, columns)
    listed = np.concatenate([_smallest(cost, SHORTLIST)[0], np.arange(n) * n + columns])
    paths: Paths | None = Paths(np.arange(n), np.zeros(n), np.zeros(n))
    while True:
        paths = _settle(_exchanges(cost, columns, listed), paths, tolerance=tolerance / 2)
        if paths is None:
            return None
        missed = _missed(cost, paths.value, own - paths.value[columns] - tolerance)
        if len(missed) == 0:
            return paths.value
        listed = np.concatenate([listed, missed])


def _near_potentials(cost: Matrix, tolerance: float) -> Vector:
    """Guess column potentials from four interleaved quarters of the problem.

    Optimal potentials vary smoothly from point to point. So each quarter is solved, its potentials are continued to
    all columns, and the four guesses are averaged: their noise cancels, and what is left for the solver to do falls
    several times more than with one guess.
    """
    if len(cost) <= SMALL:
        return np.zeros(len(cost))

    def guess(first: int) -> Vector:
        part = slice(first, None, PARTS)
        rows = solve(np.ascontiguousarray(cost[part, part]), tolerance=tolerance).row_potentials
        least = _by_blocks(lambda block: (cost[part][block] - rows[block, None]).min(axis=0), len(rows), len(cost))
        continued: Vector = np.min(least, axis=0)
        return continued - continued.mean()

    total: Vector = np.sum(_in_threads(guess, list(range(PARTS))), axis=0)
    return total / PARTS


def _smooth(reduced: Matrix) -> Vector:
    """Return a shift of the columns after which few rows compete for one column.

    Sinkhorn's iteration at falling temperature, on the smallest entries only. They include a zero in every row and
    column, and no row sum exceeds one when the temperature falls, so that nothing overflows.
    """
    n = len(reduced)
    listed, bound = _smallest(reduced, NEIGHBOURS)
    rows, columns = np.divmod(listed, n)
    slack, total, starts = reduced.ravel()[listed], np.zeros(n), np.searchsorted(rows, np.arange(n + 1))
    if bound <= 0 or (np.diff(starts) == 0).any():  # ties
        return total
    for temperature in TEMPERATURES:
        kernel = csr_array((np.exp(slack / (-temperature * bound)), columns, starts), shape=(n, n))
        back, left = kernel.T, np.ones(n)
        for _ in range(SWEEPS):
            right = 1 / (back @ left)
            left = 1 / (kernel @ right)
        u, v = temperature * bound * np.log(left), temperature * bound * np.log(right)
        slack, total = slack - u[rows] - v[columns], total + v
    return total


def _smallest(cost: Matrix, per_row: int) -> tuple[Vector, float]:
    """List the flat positions of the smallest entries, about `per_row` a row, and the largest value among them."""
    sample = cost[:: max(1, len(cost) // 64)]
    rank = min(per_row * len(sample), sample.size - 1)
    bound = np.partition(sample, rank, axis=None)[rank]
    return _thin(np.flatnonzero(cost <= bound), len(cost)), float(bound)


def _thin(positions: Vector, n: int) -> Vector:
    """Keep an even part of the positions where ties make them too many."""
    return positions[:: 1 + len(positions) // (4 * NEIGHBOURS * n)]


def _missed(cost: Matrix, value: Vector, limit: Vector) -> Vector:
    """List the flat positions at which `cost - value` falls below the limit of the row."""
    n = len(cost)

    def scan(block: slice) -> Vector:
        slack = cost[block] - value
        rows = np.flatnonzero(slack.min(axis=1) < limit[block])
        within, targets = np.nonzero(slack[rows] < limit[block][rows, None])
        return (block.start + rows[within]) * n + targets

    return _thin(np.concatenate(_by_blocks(scan, n, n)), n)


class Exchanges(NamedTuple):
    """Edges of the graph of exchanges, sorted by target: a row leaves its column (source) for another (target)."""

    sources: Vector
    targets: Vector
    lengths: Vector
    starts: Vector  # (n,): where each target begins; the permutation itself puts an edge into every column


class Paths(NamedTuple):
    """A path to every column: the column before it, the length of that step, and of the whole path."""

    before: Vector
    step: Vector
    value: Vector


def _exchanges(cost: Matrix, columns: Vector, listed: Vector) -> Exchanges:
    rows, targets = np.divmod(listed, len(cost))
    order = np.argsort(targets.astype(np.min_scalar_type(len(cost))), kind="stable")
    lengths, targets = (cost.ravel()[listed] - _along(cost, columns)[rows])[order], targets[order]
    return Exchanges(columns[rows][order], targets, lengths, np.searchsorted(targets, np.arange(len(cost))))


def _settle(edges: Exchanges, paths: Paths, *, tolerance: float) -> Paths | None:
    """Shorten the paths until no edge shortens one further; return None if a cycle of negative length appears.

    Each round gives every column its best last step, as Bellman and Ford do, but then measures the whole paths anew
    (Howard's policy iteration): tens of rounds instead of as many as the longest path has steps. Steps that each
    save length close to a cycle only if the cycle saves length.
    """
    before, step, value = paths.before.copy(), paths.step.copy(), paths.value
    for _ in range(len(before) + 1):
        through = value[edges.sources] + edges.lengths
        least = np.minimum.reduceat(through, edges.starts)
        shorter = least < value - tolerance
        if not shorter.any():
            return Paths(before, step, value)
        best = np.flatnonzero((through == least[edges.targets]) & shorter[edges.targets])
        before[edges.targets[best]], step[edges.targets[best]] = edges.sources[best], edges.lengths[best]
        measured = _measure(before, step)
        if measured is None:
            return None
        value = measured
    return None


def _measure(before: Vector, step: Vector) -> Vector | None:
    """Add up the steps of every path, doubling the stretch known of each; return None if a path never ends."""
    value, ahead = step, before
    for _ in range(len(before).bit_length() + 1):
        further = ahead[ahead]
        value = value + value[ahead]
        if (further == ahead).all():
            return value
        ahead = further
    return None


def _shift(cost: Matrix, columns: Vector, *, out: Matrix | None = None) -> tuple[Matrix, Vector, Vector]:
    """Subtract the column potentials, then what makes every row's and column's least entry zero; return the shifts."""
    n, rows, reduced = len(cost), np.empty(len(cost)), np.empty_like(cost) if out is None else out

    def by_rows(block: slice) -> Vector:
        part = np.subtract(cost[block], columns, out=reduced[block])
        rows[block] = part.min(axis=1)
        part -= rows[block, None]
        least: Vector = part.min(axis=0)
        return least

    rest = np.min(_by_blocks(by_rows, n, n), axis=0)
    _by_blocks(lambda block: np.subtract(reduced[block], rest, out=reduced[block]), n, n)
    return reduced, rows, columns + rest


def _along(cost: Matrix, columns: Vector) -> Vector:
    """Return the entries of `cost` that the permutation picks."""
    picked: Vector = cost[np.arange(len(cost)), columns]
    return picked


def _by_blocks(work: Callable[[slice], Result], rows: int, columns: int) -> list[Result]:
    """Apply `work` to blocks of rows small enough for the cache."""
    height = max(1, BLOCK // (8 * columns))
    blocks = [slice(first, min(first + height, rows)) for first in range(0, rows, height)]
    return _in_threads(work, blocks) if rows > 1024 else [work(block) for block in blocks]


def _in_threads(work: Callable[[Any], Result], items: list[Any]) -> list[Result]:
    """Map on all cores; NumPy and SciPy work outside the interpreter lock."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))
