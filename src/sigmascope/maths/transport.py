"""Exact transport between samples: the optimal coupling, with proof, and its distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.errors import MissingExtraError
from sigmascope.maths.assignment import Assignment, assign
from sigmascope.maths.samples import Array, Number, as_pair, like_input, square_root, standardize

# The columns, relative to the rows, from which a QR decomposition costs less than it saves.
WORTH_REDUCING = 1.25
# If the largest squared distance is more than this many times a typical one, a few rows are far
# away, and squared distances by inner products lose the digits that tell the others apart.
FAR = 1e5


@dataclass(frozen=True)
class Coupling:
    """A coupling of two samples.

    Attributes:
        w2_squared: the mean squared distance under the coupling, a 0-d tensor with gradient (the
            coupling is held fixed).
        certified: how optimality was proved, see `sigmascope.maths.assignment`; "sorting" in one
            dimension, "network simplex" for unequal sizes, "paired" where no optimum was sought.
        moved: for equal sizes, how many rows are coupled with another point than their own row's.
    """

    w2_squared: Tensor
    certified: str
    moved: int = 0


def span_coordinates(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return two centered samples in an orthonormal basis of their joint span, if that is smaller.

    The basis is held fixed under differentiation. That is exact: the score is unchanged by
    reflections that fix the span, so its derivative in directions that leave the span is zero.
    (n, d) and (m, d) become (n, r) and (m, r) with r = n + m, unless that costs more than it saves.
    """
    n, d = x.shape
    if d < WORTH_REDUCING * (n + len(y)):
        return x, y
    rows = torch.cat([x, y])
    if not rows.requires_grad:
        coordinates = torch.linalg.qr(rows.mT, mode="r").R.mT
        return coordinates[:n], coordinates[n:]
    basis = torch.linalg.qr(rows.detach().mT).Q
    return x @ basis, y @ basis


def couple(x: Tensor, y: Tensor) -> Coupling:
    """Return an optimal coupling of uniform samples (n, r) and (m, r), with its proof.

    m = n is an assignment problem; anything else needs the extra `ot`.
    """
    if len(x) != len(y):
        return _couple_unequal(x, y)
    if x.shape[1] == 1:
        order, sorted_y = x.argsort(dim=0, stable=True), y.sort(dim=0).values
        w2_squared = (x[order[:, 0]] - sorted_y).square().mean()
        return Coupling(w2_squared, "sorting", int((sorted_y != y[order[:, 0]]).sum()))
    with torch.no_grad():
        cost, exact = _squared_distances(x, y)
        found = assign(cost.cpu().numpy(), error=0.0 if exact else None)
    return _coupled(x, y, found)


def _coupled(x: Tensor, y: Tensor, found: Assignment) -> Coupling:
    columns = torch.from_numpy(found.columns).to(x.device)
    moved = int((y[columns] != y).any(dim=1).sum()) if found.certified == "solver" else 0
    return Coupling(_mean_squared(x - y[columns]), found.certified, moved)


def pair_up(x: Tensor, y: Tensor) -> Coupling:
    """Return the coupling of row i with row i, an upper bound, for samples (n, r)."""
    return Coupling(_mean_squared(x - y), "paired")


def _couple_unequal(x: Tensor, y: Tensor) -> Coupling:
    try:
        import ot
    except ImportError as error:
        raise MissingExtraError(
            f"x has {len(x)} rows and y {len(y)}: samples of unequal size need the package POT. "
            'Install it with: pip install "sigmascope[ot]"'
        ) from error
    with torch.no_grad():
        cost = _squared_distances(x, y)[0].cpu()
        # POT warns and returns a wrong plan when it runs out of iterations; 10 million suffice.
        plan = torch.from_numpy(ot.emd([], [], cost.numpy(), numItermax=10**7)).to(x.device)
        rows, columns = torch.nonzero(plan, as_tuple=True)
    moved = (x[rows] - y[columns]).square().sum(dim=1)
    return Coupling((plan[rows, columns] * moved).sum(), "network simplex")


def _squared_distances(x: Tensor, y: Tensor) -> tuple[Tensor, bool]:
    """Return all squared distances (n, m), and whether each has digits of its own.

    By inner products, which are known to the rounding of the largest one, unless rows are far away.
    """
    norms = x.square().sum(dim=1)[:, None] + y.square().sum(dim=1)
    cost = torch.addmm(norms, x, y.mT, alpha=-2).clamp_min_(0)
    if bool(has_far_rows(cost)):
        return _exact_distances(x, y), True
    return cost, False


def has_far_rows(cost: Tensor) -> Tensor:
    """Return for squared distances (..., n, m) whether a few are beyond comparison, see `FAR`."""
    # Between rows half the sample apart: neighbors may be copies of one another.
    typical = cost.diagonal(offset=min(cost.shape[-2:]) // 2, dim1=-2, dim2=-1)
    return cost.amax(dim=(-2, -1)) > FAR * typical.median(dim=-1).values


def _exact_distances(x: Tensor, y: Tensor) -> Tensor:
    """Return all squared distances (n, m) by differences, each with its own digits."""
    distances: Tensor = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.square()


def _mean_squared(difference: Tensor) -> Tensor:
    return difference.square().sum(dim=-1).mean(dim=-1)


def w2_exact(x: Array, y: Array) -> Number:
    r"""Return the exact Wasserstein distance $W_2$ between two samples with uniform weights.

    $W_2^2 = \min_P \sum_{ij} P_{ij}\|x_i - y_j\|^2$ over couplings of the two samples. Equal sizes
    make it an assignment problem, solved with proof; unequal sizes need the extra `ot`. The
    gradient holds the optimal coupling fixed. Bouniot et al., CVPR 2025, arXiv:2310.11439.

    Args:
        x: (n, d), rows are samples.
        y: (m, d).

    Returns:
        The distance: a float for NumPy input, a 0-d tensor with gradient for torch input.

    Raises:
        InputError, InputTypeError: see `sigmascope.affinity`.
        MissingExtraError: the sizes differ and POT is not installed.

    >>> import numpy as np
    >>> w2_exact(np.array([[0.0], [1.0]]), np.array([[4.0], [3.0]]))
    3.0
    """
    a, b = as_pair(x, y)
    points, unit = standardize(torch.cat([a, b]), rounding=0.0)
    first, second = span_coordinates(points[: len(a)], points[len(a) :])
    if len(a) != len(b) or first.shape[1] == 1:
        coupled = couple(first, second)
    else:
        # Unlike the score, a distance is absolute: one far point must not blur the others.
        with torch.no_grad():
            found = assign(_exact_distances(first, second).cpu().numpy(), error=0.0)
        coupled = _coupled(first, second, found)
    return like_input(unit * square_root(coupled.w2_squared), x)
