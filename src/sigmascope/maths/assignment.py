r"""The linear assignment problem, with a proof of optimality.

A permutation $\pi$ minimizes $\sum_i C_{i\pi(i)}$ if and only if there are potentials with $u_i +
v_j \le C_{ij}$ everywhere and equality along $\pi$. Three ways to find them, tried in this order:

1. *diagonal*: every row's (or every column's) minimum lies on the diagonal. For the layers of real
   networks this nearly always holds.
2. *potentials*: shortest paths in the graph of exchanges settle, so the identity is optimal.
3. *solver*: the identity is not optimal; `solve` finds the permutation, shortest paths prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from sigmascope.maths.certificate import (
    NEIGHBORS,
    Listed,
    Matrix,
    Vector,
    along,
    entries_within,
    prove,
    row_blocks,
)

# Entries of a matrix of squared distances are known to about this, relative to the largest one.
ROUNDING = 64 * float(np.finfo(np.float64).eps)
# Up to COLD rows the solver starts without potentials, up to WHOLE without parts.
COLD, WHOLE = 128, 256
PARTS = 4
# Entries per row that shortest paths begin with.
SHORTLIST = 16
# Temperatures of the smoothing, relative to the largest entry, and the iterations at each.
TEMPERATURES, SWEEPS = (0.2, 0.07, 0.02), 15


@dataclass(frozen=True)
class Assignment:
    """An optimal permutation and the potentials that prove it.

    Attributes:
        columns: (n,), the column of each row.
        row_potentials: (n,), u.
        column_potentials: (n,), v; `cost - u[:, None] - v >= 0` up to the rounding of the cost.
        certified: how optimality was proved: "diagonal", "potentials", "solver", or "no".
    """

    columns: Vector
    row_potentials: Vector
    column_potentials: Vector
    certified: str


def assign(cost: Matrix, *, error: float | None = None) -> Assignment:
    """Return the permutation of least total cost (n, n), float64, with its proof.

    `error` says how exact the entries are; by default up to the rounding of the largest one.

    >>> found = assign(np.array([[1.0, 0.0], [0.0, 3.0]]))
    >>> found.columns.tolist(), found.certified
    ([1, 0], 'solver')
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
    # Where exchanging columns with the nearest row saves cost, the identity is not optimal.
    if (least + cost[nearest, identity] >= own + own[nearest] - 2 * tolerance).all():
        margin = float((own - least)[own > least].mean())
        # A true proof is short; the solver is asked before it takes longer than the solver would.
        limits = {"margin": margin, "tolerance": tolerance, "effort": 48.0 * cost.size}
        value = prove(cost, identity, identity[:0], **limits)
        if value is not None:
            return Assignment(identity, own - value, value, "potentials")
    return solve(cost, tolerance=tolerance)


def _tolerance(cost: Matrix, least: Vector, error: float | None) -> float:
    """Return how far a condition of a proof may be missed; `least` are the row minima."""
    if error is None:
        return ROUNDING * max(float(cost.max()), -float(least.min()))
    # Where the entries are more exact than that, sums of the smallest ones are rounded.
    return max(error, ROUNDING * float(np.abs([least, cost.min(axis=0)]).max()))


def solve(cost: Matrix, *, tolerance: float, near: Vector | None = None) -> Assignment:
    """Return the optimal permutation, found from near-optimal potentials, with its proof.

    The solver (SciPy's shortest augmenting paths) is exact for any shift of the columns, and fast
    if the shift, `near`, is near the optimal potentials. A condition of the proof may be missed by
    `tolerance`.
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
    return Assignment(columns, along(reduced, columns) - value[columns], value + shift, certified)


def _near_potentials(cost: Matrix, tolerance: float) -> Vector:
    """Return a guess of the column potentials, from four interleaved quarters of the problem.

    Optimal potentials vary smoothly from point to point. So each quarter is solved, its potentials
    are continued to all columns, and the four guesses are averaged, which cancels their noise.
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
    """Return a shift of the columns so that few rows compete for one, and the smallest entries.

    Sinkhorn's iteration at falling temperature, on the listed entries only. Row sums are one
    whenever the temperature falls, so no entry of the kernel exceeds one.
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
    count = SHORTLIST * n
    small = slack <= np.partition(slack, count)[count] if count < len(slack) else slice(None)
    return Listed(listed.positions[small], slack[small]), shift + rest


def _tighten(cost: Matrix, columns: Vector) -> tuple[Vector, Vector]:
    """Return potentials that leave every entry >= 0, and a zero in every row and column."""
    blocks = row_blocks(cost, len(cost))
    rows = np.concatenate([(cost[block] - columns).min(axis=1) for block in blocks])
    return rows, _column_minima(cost, rows)


def _column_minima(cost: Matrix, rows: Vector) -> Vector:
    """Return the least entry of every column of `cost - rows[:, None]`."""
    blocks = row_blocks(cost, len(cost))
    parts = [(cost[block] - rows[block, None]).min(axis=0) for block in blocks]
    least: Vector = np.min(parts, axis=0)
    return least


def _smallest(cost: Matrix, rows: Vector, columns: Vector, per_row: int) -> Listed:
    """Return the entries that exceed the potentials least, about `per_row` a row."""
    some = slice(None, None, max(1, len(cost) // 64))
    sample = cost[some] - rows[some, None] - columns
    rank = min(per_row * len(sample), sample.size - 1)
    bound = float(np.partition(sample, rank, axis=None)[rank])
    return entries_within(cost, rows, columns, margin=bound, among=np.arange(len(cost)))[0]
