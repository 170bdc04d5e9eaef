r"""The linear assignment problem, with a proof of optimality.

A permutation $\pi$ minimizes $\sum_i C_{i\pi(i)}$ if and only if there are potentials with $u_i +
v_j \le C_{ij}$ everywhere and equality along $\pi$. Three ways to find them, tried in this order:

1. *diagonal*: every row's (or every column's) minimum lies on the diagonal. For the layers of real
networks this
   nearly always holds.
2. *potentials*: shortest paths in the graph of exchanges settle, so the identity is optimal. 3.
*solver*: the identity is not optimal; `solve` finds the permutation, and shortest paths prove it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

__all__ = ["Assignment", "assign", "prove", "solve"]

Vector: TypeAlias = np.ndarray[Any, Any]
Matrix: TypeAlias = np.ndarray[Any, Any]

# Entries of a matrix of squared distances are known to about this, relative to the largest one.
ROUNDING = 64 * float(np.finfo(np.float64).eps)
# Up to this many rows the solver starts cold, and up to this many with smoothed potentials but
# without parts.
COLD, WHOLE = 128, 256
PARTS = 4
# Entries per row that the smoothing looks at, and the shortest paths.
NEIGHBORS, SHORTLIST = 48, 16
# Temperatures of the smoothing, relative to the largest entry it looks at, and the iterations spent
# on each.
TEMPERATURES, SWEEPS = (0.2, 0.07, 0.02), 15
# Entries of a block of rows that stays in the cache.
BLOCK = 2**15


@dataclass(frozen=True)
class Assignment:
    """An optimal permutation and the potentials that prove it.

    Attributes:
        columns: (n,), the column that each row is given.
        row_potentials: (n,), u.
        column_potentials: (n,), v; `cost - u[:, None] - v` is nowhere below minus the rounding of
            the cost.
        certified: how optimality was established: "diagonal", "potentials", "solver", or "no" if no
            proof was found.
    """

    columns: Vector
    row_potentials: Vector
    column_potentials: Vector
    certified: str


def assign(cost: Matrix, *, error: float | None = None) -> Assignment:
    """Find the permutation of least total cost and prove it.

    Args:
        cost: (n, n), float64, finite.
        error: how well the entries are known; by default to their rounding relative to the largest
            one.

    >>> assign(np.array([[1.0, 0.0], [0.0, 3.0]]))
    Assignment(columns=array([1, 0]), row_potentials=array([0., 0.]), column_potentials=array([0., 0.]), certified='solver')
    """
    cost = np.ascontiguousarray(cost)
    own, zero, identity = cost.diagonal(), np.zeros(len(cost)), np.arange(len(cost))
    nearest = cost.argmin(axis=1)
    least = cost[identity, nearest]
    tolerance = _tolerance(cost, least, error)
    if (least >= own - tolerance).all():
        return Assignment(identity, own.copy(), zero, "diagonal")
    # The first condition follows from the second; it saves a pass over the matrix.
    if (least >= own[nearest] - tolerance).all() and (cost.min(axis=0) >= own - tolerance).all():
        return Assignment(identity, zero, own.copy(), "diagonal")
    # Where a row that exchanges its column with that of its nearest row saves cost, the identity is
    # out at once.
    if (least + cost[nearest, identity] >= own + own[nearest] - 2 * tolerance).all():
        margin = float((own - least)[own > least].mean())
        # Where it is true the proof is short. Where it takes longer than the solver would, the
        # solver is asked.
        value = prove(
            cost,
            identity,
            identity[:0],
            margin=margin,
            tolerance=tolerance,
            effort=48.0 * cost.size,
        )
        if value is not None:
            return Assignment(identity, own - value, value, "potentials")
    return solve(cost, tolerance=tolerance)


def _tolerance(cost: Matrix, least: Vector, error: float | None) -> float:
    """Say how far a condition of a proof may be missed; `least` are the row minima."""
    if error is None:
        return ROUNDING * max(float(cost.max()), -float(least.min()))
    # Where the entries are known better than that, it is sums of the smallest ones that are
    # rounded.
    return max(error, ROUNDING * float(np.abs([least, cost.min(axis=0)]).max()))


def solve(cost: Matrix, *, tolerance: float, near: Vector | None = None) -> Assignment:
    """Solve the assignment problem from near-optimal potentials, and prove the result.

    The solver (SciPy's shortest augmenting paths) is exact for any shift of the columns, and fast
    when the shift comes near the optimal potentials. See `_near_potentials` for where those come
    from, if the caller has none.

    Args:
        cost: (n, n).
        tolerance: how far a condition of the proof may be missed.
        near: (n,), column potentials to begin with; they matter for speed only.
    """
    rows, shift = _tighten(cost, _near_potentials(cost, tolerance) if near is None else near)
    smooth = near is None and len(cost) > COLD
    listed = _smallest(cost, rows, shift, NEIGHBORS if smooth else SHORTLIST)
    if smooth:
        listed, more = _smooth(listed, len(cost))
        shift = shift + more
    reduced = cost - shift
    _, columns = linear_sum_assignment(reduced)
    margin = max(0.0, float(listed.excess.max(initial=0)))
    value = prove(reduced, columns, listed.positions, margin=margin, tolerance=tolerance)
    certified, value = ("no", np.zeros(len(cost))) if value is None else ("solver", value)
    return Assignment(columns, _along(reduced, columns) - value[columns], value + shift, certified)


def prove(
    cost: Matrix,
    columns: Vector,
    positions: Vector,
    *,
    margin: float,
    tolerance: float,
    effort: float = np.inf,
) -> Vector | None:
    r"""Find column potentials that prove `columns` optimal, or return None if there are none.

    With $u_i = C_{i\pi(i)} - v_{\pi(i)}$ the conditions read $v_j \le v_{\pi(i)} + C_{ij} -
    C_{i\pi(i)}$: shortest paths over columns. Almost all entries are far too large to lie on one.
    So the paths are sought among a few entries, all conditions are checked, and where one fails,
    those that fail or nearly fail join the search. As v only falls, an entry that a check found to
    hold by more than a margin holds for as long as the u of its row has not risen by more.

    Args:
        cost: (n, n).
        columns: (n,), the permutation.
        positions: flat positions of the entries to begin with; which ones matters for speed only.
        margin: by how little an entry may hold to join the search; matters for speed only.
        tolerance: how far a condition may be missed.
        effort: how many entries to look at before giving up; one of a path counts for four of the
            matrix.
    """
    n, own = len(cost), _along(cost, columns)
    permutation = np.arange(n) * n + columns
    paths, covered = Paths(np.arange(n), np.zeros(n), np.zeros(n)), np.full(n, -np.inf)
    while effort > 0:
        edges = _exchanges(cost, columns, np.concatenate([positions, permutation]))
        settled = _settle(
            edges,
            paths,
            tolerance=tolerance / 2,
            rounds=int(min(n + 1, effort / (4 * len(edges.lengths)))),
        )
        if settled is None:
            return None
        paths, u = settled, own - settled.value[columns]
        open_rows = u > covered + margin
        effort -= 4 * len(edges.lengths) + n * int(open_rows.sum())
        near, least, complete = _within(
            cost, u, paths.value, margin=margin, among=np.flatnonzero(open_rows)
        )
        if least >= -tolerance:
            return paths.value
        # Rows listed anew and completely replace what was listed of them; of the others nothing is
        # forgotten, so that every round adds an entry that fails and the search comes to an end.
        covered[open_rows] = -np.inf
        covered[complete] = u[complete]
        renewed = np.zeros(n, dtype=bool)
        renewed[complete] = True
        positions = np.concatenate([positions[~renewed[positions // n]], near.positions])
    return None


def _near_potentials(cost: Matrix, tolerance: float) -> Vector:
    """Guess column potentials from four interleaved quarters of the problem.

    Optimal potentials vary smoothly from point to point. So each quarter is solved, its potentials
    are continued to all columns, and the four guesses are averaged: their noise cancels, and what
    is left for the solver to do falls several times more than with one guess.
    """
    total = np.zeros(len(cost))
    if len(cost) <= WHOLE:
        return total
    for first in range(PARTS):
        part = slice(first, None, PARTS)
        rows = solve(np.ascontiguousarray(cost[part, part]), tolerance=tolerance).row_potentials
        guess = _column_minima(cost[part], rows)
        total += guess - guess.mean()
    return total / PARTS


def _smooth(listed: Listed, n: int) -> tuple[Listed, Vector]:
    """Shift the columns so that few rows compete for one; return the entries that are smallest
    then, and the shift.

    Sinkhorn's iteration at falling temperature, on the listed entries only. Row sums are one
    whenever the temperature falls, so that no entry of the kernel exceeds one.
    """
    (rows, columns), slack, shift = np.divmod(listed.positions, n), listed.excess, np.zeros(n)
    starts, scale = np.searchsorted(rows, np.arange(n + 1)), float(slack.max(initial=0))
    # ties
    if scale <= 0 or (np.diff(starts) == 0).any() or (np.bincount(columns, minlength=n) == 0).any():
        return listed, shift
    for temperature in TEMPERATURES:
        heat = temperature * scale
        kernel = csr_array((np.exp(-slack / heat), columns, starts), shape=(n, n))
        back, left = kernel.T, np.ones(n)
        for _ in range(SWEEPS):
            right = 1 / (back @ left)
            left = 1 / (kernel @ right)
        shift = shift + heat * np.log(right)
        slack = slack - heat * np.log(left)[rows] - heat * np.log(right)[columns]
    slack, rest = slack - np.minimum.reduceat(slack, starts[:-1])[rows], np.full(n, np.inf)
    np.minimum.at(rest, columns, slack)
    slack = slack - rest[columns]
    small = (
        slack <= np.partition(slack, SHORTLIST * n)[SHORTLIST * n]
        if SHORTLIST * n < len(slack)
        else slice(None)
    )
    return Listed(listed.positions[small], slack[small]), shift + rest


def _tighten(cost: Matrix, columns: Vector) -> tuple[Vector, Vector]:
    """Return potentials that leave every entry >= 0, and a zero in every row and column."""
    rows = np.concatenate(
        [(cost[block] - columns).min(axis=1) for block in _blocks(cost, len(cost))]
    )
    return rows, _column_minima(cost, rows)


def _column_minima(cost: Matrix, rows: Vector) -> Vector:
    """Return the least entry of every column of `cost - rows[:, None]`."""
    least: Vector = np.min(
        [(cost[block] - rows[block, None]).min(axis=0) for block in _blocks(cost, len(cost))],
        axis=0,
    )
    return least


def _smallest(cost: Matrix, rows: Vector, columns: Vector, per_row: int) -> Listed:
    """List the entries that exceed the potentials least, about `per_row` a row."""
    some = slice(None, None, max(1, len(cost) // 64))
    sample = cost[some] - rows[some, None] - columns
    rank = min(per_row * len(sample), sample.size - 1)
    bound = float(np.partition(sample, rank, axis=None)[rank])
    return _within(cost, rows, columns, margin=bound, among=np.arange(len(cost)))[0]


def _within(
    cost: Matrix, u: Vector, v: Vector, *, margin: float, among: Vector
) -> tuple[Listed, float, Vector]:
    """List the entries in the rows `among` that exceed the potentials by at most `margin`.

    Returns:
        The entries, the least excess of all, and the rows listed completely: where ties make the
        entries too many, only the worst of each row and some that fail are listed.
    """
    n, positions, excess, complete, least = len(cost), [among[:0]], [u[:0]], [among[:0]], np.inf
    for block in _blocks(cost, len(among)):
        rows = among[block]
        slack = cost[rows]
        slack -= v
        slack -= u[rows, None]
        lowest = float(slack.min())
        found = np.flatnonzero(slack <= margin)
        if len(found) <= 4 * NEIGHBORS * len(rows):
            complete.append(rows)
        else:
            failing = np.flatnonzero(slack < 0)
            worst = np.arange(len(rows)) * n + slack.argmin(axis=1)
            found = np.union1d(failing[:: 1 + len(failing) // (NEIGHBORS * len(rows))], worst)
        positions.append(rows[found // n] * n + found % n)
        excess.append(slack.ravel()[found])
        least = min(least, lowest)
    return (
        Listed(np.concatenate(positions), np.concatenate(excess)),
        least,
        np.concatenate(complete),
    )


class Listed(NamedTuple):
    """Flat positions of some entries, in order, and by how much each exceeds the potentials."""

    positions: Vector
    excess: Vector


class Exchanges(NamedTuple):
    """Edges of the graph of exchanges, sorted by target: a row leaves its column (source) for
    another (target).
    """

    sources: Vector
    targets: Vector
    lengths: Vector
    # (n,): where each target begins; the permutation itself puts an edge into every column
    starts: Vector


class Paths(NamedTuple):
    """A path to every column: the column before it, the length of that step, and of the whole path."""

    before: Vector
    step: Vector
    value: Vector


def _exchanges(cost: Matrix, columns: Vector, listed: Vector) -> Exchanges:
    rows, targets = np.divmod(listed, len(cost))
    order = np.argsort(targets.astype(np.min_scalar_type(len(cost))), kind="stable")
    lengths, targets = (cost.ravel()[listed] - _along(cost, columns)[rows])[order], targets[order]
    return Exchanges(
        columns[rows][order], targets, lengths, np.searchsorted(targets, np.arange(len(cost)))
    )


def _settle(edges: Exchanges, paths: Paths, *, tolerance: float, rounds: int) -> Paths | None:
    """Shorten the paths until no edge shortens one further; return None if a cycle of negative
    length appears, or too late.

    Each round gives every column its best last step, as Bellman and Ford do, but then measures the
    whole paths anew (Howard's policy iteration): tens of rounds instead of as many as the longest
    path has steps. Steps that each save length close to a cycle only if the cycle saves length.
    """
    before, step, value = paths.before.copy(), paths.step.copy(), paths.value
    for _ in range(rounds):
        through = value[edges.sources] + edges.lengths
        least = np.minimum.reduceat(through, edges.starts)
        shorter = least < value - tolerance
        if not shorter.any():
            return Paths(before, step, value)
        best = np.flatnonzero((through == least[edges.targets]) & shorter[edges.targets])
        before[edges.targets[best]], step[edges.targets[best]] = (
            edges.sources[best],
            edges.lengths[best],
        )
        measured = _measure(before, step)
        if measured is None:
            return None
        value = measured
    return None


def _measure(before: Vector, step: Vector) -> Vector | None:
    """Add up the steps of every path, doubling the stretch known of each; return None if a path
    never ends.
    """
    value, ahead = step, before
    for _ in range(len(before).bit_length() + 1):
        further = ahead[ahead]
        value = value + value[ahead]
        if (further == ahead).all():
            return value
        ahead = further
    return None


def _along(cost: Matrix, columns: Vector) -> Vector:
    """Return the entries of `cost` that the permutation picks."""
    picked: Vector = cost[np.arange(len(cost)), columns]
    return picked


def _blocks(cost: Matrix, rows: int) -> list[slice]:
    """Cut rows into blocks whose temporaries stay in the cache."""
    height = max(1, BLOCK // cost.shape[1])
    return [slice(first, first + height) for first in range(0, rows, height)]
