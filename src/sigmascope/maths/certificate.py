"""The certificate of an optimal assignment: potentials, found by shortest paths over columns."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Vector: TypeAlias = np.ndarray[Any, Any]
Matrix: TypeAlias = np.ndarray[Any, Any]

# Entries per row that the smoothing reads; at most four times as many are listed.
NEIGHBORS = 48
# Entries of a block of rows that stays in the cache.
BLOCK = 2**15


def prove(
    cost: Matrix,
    columns: Vector,
    positions: Vector,
    *,
    margin: float,
    tolerance: float,
    effort: float = np.inf,
) -> Vector | None:
    r"""Return column potentials that prove `columns` optimal, or None if there are none.

    With $u_i = C_{i\pi(i)} - v_{\pi(i)}$ the conditions read $v_j \le v_{\pi(i)} + C_{ij} -
    C_{i\pi(i)}$: shortest paths over columns. Almost all entries are far too large to lie on one.
    So the search begins with a few entries, all conditions are checked, and entries that fail or
    nearly fail join the search. As v only falls, an entry that holds by more than a margin holds
    for as long as the u of its row has not risen by more.

    Args:
        cost: (n, n).
        columns: (n,), the permutation.
        positions: flat positions of the entries to begin with, for speed only.
        margin: by how little an entry may hold to join the search, for speed only.
        tolerance: how far a condition may be missed.
        effort: entries to read before giving up; one of a path counts for four of the matrix.
    """
    n, own = len(cost), along(cost, columns)
    permutation = np.arange(n) * n + columns
    paths, covered = Paths(np.arange(n), np.zeros(n), np.zeros(n)), np.full(n, -np.inf)
    while effort > 0:
        edges = _exchanges(cost, columns, np.concatenate([positions, permutation]))
        rounds = int(min(n + 1, effort / (4 * len(edges.lengths))))
        settled = _settle(edges, paths, tolerance=tolerance / 2, rounds=rounds)
        if settled is None:
            return None
        paths, u = settled, own - settled.value[columns]
        open_rows = u > covered + margin
        effort -= 4 * len(edges.lengths) + n * int(open_rows.sum())
        among = np.flatnonzero(open_rows)
        near, least, complete = entries_within(cost, u, paths.value, margin=margin, among=among)
        if least >= -tolerance:
            return paths.value
        # Rows listed again completely replace their entries; of the others nothing is dropped, so
        # that every round adds an entry that fails and the search ends.
        covered[open_rows] = -np.inf
        covered[complete] = u[complete]
        renewed = np.zeros(n, dtype=bool)
        renewed[complete] = True
        positions = np.concatenate([positions[~renewed[positions // n]], near.positions])
    return None


def entries_within(
    cost: Matrix, u: Vector, v: Vector, *, margin: float, among: Vector
) -> tuple[Listed, float, Vector]:
    """Return the entries in the rows `among` that exceed the potentials by at most `margin`.

    Also the least excess of all, and the rows listed completely: where ties make the entries too
    many, only the worst of each row and some that fail are listed.
    """
    n, positions, excess, complete, least = len(cost), [among[:0]], [u[:0]], [among[:0]], np.inf
    for block in row_blocks(cost, len(among)):
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
    listed = Listed(np.concatenate(positions), np.concatenate(excess))
    return listed, least, np.concatenate(complete)


class Listed(NamedTuple):
    """Flat positions of some entries, in order, and by how much each exceeds the potentials."""

    positions: Vector
    excess: Vector


class Exchanges(NamedTuple):
    """Edges of the graph of exchanges, by target: a row leaves its column (source) for another."""

    sources: Vector
    targets: Vector
    lengths: Vector
    # (n,): where each target begins; the permutation itself puts an edge into every column
    starts: Vector


class Paths(NamedTuple):
    """A path to every column: the column before it, the length of that step, and of the path."""

    before: Vector
    step: Vector
    value: Vector


def _exchanges(cost: Matrix, columns: Vector, listed: Vector) -> Exchanges:
    rows, targets = np.divmod(listed, len(cost))
    order = np.argsort(targets.astype(np.min_scalar_type(len(cost))), kind="stable")
    lengths, targets = (cost.ravel()[listed] - along(cost, columns)[rows])[order], targets[order]
    starts = np.searchsorted(targets, np.arange(len(cost)))
    return Exchanges(columns[rows][order], targets, lengths, starts)


def _settle(edges: Exchanges, paths: Paths, *, tolerance: float, rounds: int) -> Paths | None:
    """Return the shortest paths; None if a cycle has negative length, or after too many rounds.

    Each round gives every column its best last step, as Bellman and Ford do, but then measures the
    whole paths (Howard's policy iteration): tens of rounds instead of as many as the longest path
    has steps. Steps that each save length close to a cycle only if the cycle saves length.
    """
    before, step, value = paths.before.copy(), paths.step.copy(), paths.value
    for _ in range(rounds):
        through = value[edges.sources] + edges.lengths
        least = np.minimum.reduceat(through, edges.starts)
        shorter = least < value - tolerance
        if not shorter.any():
            return Paths(before, step, value)
        best = np.flatnonzero((through == least[edges.targets]) & shorter[edges.targets])
        before[edges.targets[best]] = edges.sources[best]
        step[edges.targets[best]] = edges.lengths[best]
        measured = _measure(before, step)
        if measured is None:
            return None
        value = measured
    return None


def _measure(before: Vector, step: Vector) -> Vector | None:
    """Return the length of every path, doubling the known part; None if a path never ends."""
    value, ahead = step, before
    for _ in range(len(before).bit_length() + 1):
        further = ahead[ahead]
        value = value + value[ahead]
        if (further == ahead).all():
            return value
        ahead = further
    return None


def along(cost: Matrix, columns: Vector) -> Vector:
    """Return the entries of `cost` that the permutation picks."""
    picked: Vector = cost[np.arange(len(cost)), columns]
    return picked


def row_blocks(cost: Matrix, rows: int) -> list[slice]:
    """Return blocks of rows whose temporaries stay in the cache."""
    height = max(1, BLOCK // cost.shape[1])
    return [slice(first, first + height) for first in range(0, rows, height)]
