"""The assignment of least cost, fast where most pairs are out of the question.

Of a large matrix a few entries of each row and column are enough to solve the problem. The
potentials of `maths.certificate` then prove the solution optimal among all entries. Without a proof
the whole matrix is solved.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from torch import Tensor

from sigmascope.maths.certificate import prove

Array: TypeAlias = np.ndarray[Any, Any]

DENSE = 1024  # rows up to which the whole matrix is solved at once
SHORTLIST = 40  # entries of each row and of each column
EFFORT = 100  # times the matrix may be read for a proof
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of the largest entry


def assigned(cost: Tensor) -> Tensor:
    """Return the assignment of least cost: row j is matched with column match[j].

    >>> assigned(torch.tensor([[1.0, 0.0], [0.0, 3.0]])).tolist()
    [1, 0]
    """
    cost = cost.double()
    if not math.isfinite(float(cost.sum())):
        cost = torch.nan_to_num(cost, nan=0.0, posinf=1e300, neginf=-1e300)
        return _solved(cost.numpy())
    nearest = cost.argmin(dim=1)
    if int(torch.bincount(nearest, minlength=1).max()) == 1:
        return nearest  # no row stands in another's way
    centered = (cost - cost.mean(dim=0)).numpy()  # the solver takes half the time
    found = _shortlisted(centered) if len(cost) > DENSE else None
    return _solved(centered) if found is None else torch.from_numpy(found)


def _solved(cost: Array) -> Tensor:
    rows, columns = linear_sum_assignment(cost)
    match: Tensor = torch.from_numpy(np.asarray(columns)[np.argsort(rows)])
    return match


def _shortlisted(cost: Array) -> Array | None:
    """Return the optimal column of each row, or None if the smallest entries do not prove it."""
    count, table = len(cost), torch.from_numpy(cost)
    chosen = torch.zeros(table.shape, dtype=torch.bool)
    for axis in (1, 0):
        places = table.topk(SHORTLIST, dim=axis, largest=False, sorted=False).indices
        chosen.scatter_(axis, places, True)
    positions = np.flatnonzero(chosen.numpy())
    rows, columns = np.divmod(positions, count)
    values = cost.ravel()[positions]
    size = max(float(np.abs(cost).max()), 1e-300)
    edges = csr_array((values - values.min() + size, (rows, columns)), shape=cost.shape)
    try:
        order, match = min_weight_full_bipartite_matching(edges)
    except ValueError:  # some rows have no column left
        return None
    match = match[np.argsort(order)].astype(np.int64)
    limits = {"tolerance": ROUNDING * size, "effort": float(EFFORT * cost.size)}
    proof = prove(cost, match, positions, margin=0.0, **limits)
    return None if proof is None else match
