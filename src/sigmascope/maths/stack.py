"""Fit many pairs on an accelerator at once: the arithmetic of `fit`, as batched matrix products.

Pairs of one shape are stacked (narrow ones padded to one shape), and each stack passes through

1. `_prepare`: center, reduce to the joint span where that is smaller, take the scatter matrices. A
few numbers of each are
   read back, from which the host computes the estimates of the covariances (`weighing`): on the
   device every small sum would cost a launch;
2. `_move`: Cholesky factors, the polar factor of their product, the mapped points, all squared
distances and the diagonal
   check, which is read back too;
3. `_settle`: pairs that fail the check, nearly always narrow ones, get potentials that prove the
identity, or go to the
   solver on the host.

Every stack has a lane of its own (see `lanes`) and yields where it would have to wait, for the
device or for the solver, which has a thread. So the device computes on wide stacks while the host
launches, and solves for, narrow ones.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.maths.assignment import ROUNDING, Assignment, solve
from sigmascope.maths.fit import Fit
from sigmascope.maths.lanes import Lane, Ready, run, wait_for, wait_until
from sigmascope.maths.polar import polar_factor
from sigmascope.maths.potentials import GUESSED, identity_is_optimal, near_potentials
from sigmascope.maths.weighing import Weighed, weigh_stack

__all__ = ["fit_stack"]

# Added to the diagonal of a Gram matrix (times its columns and the mean square of the side), above
# its rounding. It adds as much to the squared distance, which only a score near 1 can tell: such a
# score of a pair that was reduced is not used.
JITTER = 2e-15
TELLING = 0.99
# Pairs up to this width are padded to one: launching their many small kernels costs more than
# computing with zeros.
NARROW = 256
# Bytes on the device that the pairs in work may need together.
PORTION = 6 * 2**30


@dataclass(frozen=True)
class _Stack:
    """b pairs of one shape; the first axis of length 2 tells x from y.

    Attributes:
        positions: where the pairs stand among all.
        widths: the columns that the pairs came with.
        points: centered, (2, b, n, r).
        scatter: (2, b, r, r).
        summary: for the host, (2, b, n + 2): the lengths of the rows, the size of the scatter, and
            the largest value of the sample as it came, or NaN where it could not be reduced.
    """

    positions: list[int]
    widths: list[int]
    points: Tensor
    scatter: Tensor
    summary: Tensor


@dataclass(frozen=True)
class _Moved:
    """Mapped points and those they are to meet (b, n, r), squared distances (b, n, n), and a report
    for the host (2, b).

    The report tells whether the identity is proved optimal, and whether the arithmetic went well.
    """

    moved: Tensor
    target: Tensor
    cost: Tensor
    report: Tensor


def fit_stack(
    pairs: Sequence[tuple[Tensor, Tensor]], *, covariance: str, eps: float
) -> list[Fit | None]:
    """Fit every pair with the optimal coupling; without gradients.

    Args:
        pairs: (x, y) on one device, each (n, d) of a floating type; n and d may differ from pair to
            pair.
        covariance: a name of `ESTIMATORS`.
        eps: added to the diagonals, in the units of the data.

    Returns:
        One `Fit` per pair, or None for a pair that needs the slower and more careful arithmetic of
        `fit`: bad or huge values, an output that hardly varies, an ill-conditioned covariance.
    """
    fits: list[Fit | None] = [None] * len(pairs)
    if not pairs:
        return fits
    device = pairs[0][0].device
    wait_for(device)
    weigh = functools.partial(weigh_stack, covariance=covariance, eps=eps)
    with torch.no_grad(), ThreadPoolExecutor(1) as solver:
        for some in _portions([pair[0].shape for pair in pairs]):
            # Narrow ones first, they tend to need the solver; then the widest, they keep the device
            # busy longest.
            groups = sorted(
                _grouped(some), key=lambda group: (group.columns > NARROW, -group.columns)
            )
            widest = max(group.columns for group in groups)
            lanes = [
                Lane(device, number, urgent=group.columns < widest)
                for number, group in enumerate(groups)
            ]
            for found in run(
                [
                    _fit_group(pairs, group, lane, weigh, solver)
                    for group, lane in zip(groups, lanes, strict=True)
                ]
            ):
                for position, one in found.items():
                    fits[position] = one
    return fits


def _portions(shapes: Sequence[torch.Size]) -> Iterator[dict[int, torch.Size]]:
    """Cut the pairs, by position, into portions that need no more than about `PORTION` bytes at a time."""
    some: dict[int, torch.Size] = {}
    used = 0
    for position, shape in enumerate(shapes):
        n, width = shape
        columns = max(min(width, 2 * n), NARROW)
        needed = 8 * (2 * n * width + 6 * n * columns + 12 * columns**2 + 6 * n**2)
        if some and used + needed > PORTION:
            yield some
            some, used = {}, 0
        some[position] = shape
        used += needed
    if some:
        yield some


@dataclass(frozen=True)
class _Group:
    """Pairs that are computed with one number of columns: their positions, by the width that they
    came with.
    """

    columns: int
    positions: dict[int, list[int]]


def _grouped(shapes: dict[int, torch.Size]) -> list[_Group]:
    groups: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, (n, width) in shapes.items():
        columns = min(width, 2 * n)
        groups[n, 0 if columns <= NARROW else columns][width].append(position)
    return [
        _Group(max(min(width, 2 * n) for width in widths), widths)
        for (n, _), widths in groups.items()
    ]


def _fit_group(
    pairs: Sequence[tuple[Tensor, Tensor]],
    group: _Group,
    lane: Lane,
    weigh: Callable[..., Weighed],
    solver: Executor,
) -> Generator[Ready, None, dict[int, Fit | None]]:
    """Fit the pairs of one group, by their positions; yield where the host has to wait."""
    with lane.enter():
        stack = _stacked(pairs, group)
        summary, ready = lane.fetch(stack.summary)
    yield ready
    weighed = weigh(summary, widths=stack.widths, columns=group.columns)
    with lane.enter():
        one = _move(stack, weighed, lane)
        report, ready = lane.fetch(one.report)
    yield ready
    proved, sane = report.numpy()
    sound = weighed.sound & sane
    certified = yield from _settle(one, np.flatnonzero(sound & ~proved).tolist(), lane, solver)
    with lane.enter():
        w2, bound = _distances(one, weighed, lane)
        score = 1 - w2 / bound
    if max(stack.widths) > group.columns:
        with lane.enter():
            scores, ready = lane.fetch(score)
        yield ready
        sound &= (scores.numpy() <= TELLING) | (weighed.width <= group.columns)
    lane.hand_over(score, w2, bound)
    host = (column.tolist() for column in (*weighed.shrinkage, weighed.trace / weighed.width))
    found = zip(score.unbind(), w2.unbind(), bound.unbind(), *host, certified, strict=True)
    return {
        position: Fit(rho, distance, limit, shrink_x, shrink_y, variance, False, how)
        if good
        else None
        for position, good, (rho, distance, limit, shrink_x, shrink_y, variance, how) in zip(
            stack.positions, sound.tolist(), found, strict=True
        )
    }


def _stacked(pairs: Sequence[tuple[Tensor, Tensor]], group: _Group) -> _Stack:
    """Bring the pairs of a group to one number of columns: pad the narrow ones with zeros, reduce
    the wide ones.
    """
    padded: list[Tensor] = []
    stacks: list[_Stack] = []
    for width, positions in group.positions.items():
        rows = [pairs[position][side] for side in (0, 1) for position in positions]
        points = torch.stack(rows).double().view(2, len(positions), *rows[0].shape)
        if width > group.columns:
            stacks.append(_prepare({width: positions}, points))
        else:
            padded.append(
                F.pad(points, (0, group.columns - width)) if width < group.columns else points
            )
    if padded:
        narrow = {
            width: positions
            for width, positions in group.positions.items()
            if width <= group.columns
        }
        stacks.append(_prepare(narrow, torch.cat(padded, dim=1) if len(padded) > 1 else padded[0]))
    return _join(stacks)


def _prepare(positions: dict[int, list[int]], points: Tensor) -> _Stack:
    n, columns = points.shape[2:]
    largest = torch.linalg.vector_norm(points, math.inf, dim=(2, 3))
    points = points - points.mean(dim=2, keepdim=True)
    # the first mean of a far-off sample is rounded
    points = points - points.mean(dim=2, keepdim=True)
    if columns > 2 * n:
        points, info = _gram_coordinates(points)
        largest = largest.masked_fill(info != 0, math.nan)
    scatter = points.mT @ points
    lengths, norm = (
        torch.linalg.vector_norm(points, dim=3),
        torch.linalg.vector_norm(scatter, dim=(2, 3)),
    )
    summary = torch.cat([lengths, norm[..., None], largest[..., None]], dim=2)
    widths = [width for width, some in positions.items() for _ in some]
    return _Stack(
        [one for some in positions.values() for one in some], widths, points, scatter, summary
    )


def _gram_coordinates(points: Tensor) -> tuple[Tensor, Tensor]:
    """Express the points in 2n coordinates: the rows of the Cholesky factor of their Gram matrix
    have the same products.
    """
    n = points.shape[2]
    rows = torch.cat([points[0], points[1]], dim=1)
    gram = rows @ rows.mT
    squared = gram.diagonal(dim1=1, dim2=2).view(-1, 2, n)
    squared.add_(JITTER * n * squared.mean(dim=2, keepdim=True))
    lower, info = torch.linalg.cholesky_ex(gram)
    return torch.stack([lower[:, :n], lower[:, n:]]), info


def _join(stacks: list[_Stack]) -> _Stack:
    if len(stacks) == 1:
        return stacks[0]
    positions = [position for stack in stacks for position in stack.positions]
    widths = [width for stack in stacks for width in stack.widths]
    return _Stack(
        positions,
        widths,
        *(
            torch.cat([getattr(stack, name) for stack in stacks], dim=1)
            for name in ("points", "scatter", "summary")
        ),
    )


def _move(stack: _Stack, weighed: Weighed, lane: Lane) -> _Moved:
    sent = lane.send(np.concatenate([weighed.weight, weighed.floor, weighed.scale[None]]))[
        ..., None
    ]
    weight, floor, scale = sent[:2, ..., None], sent[2:4], sent[4, ..., None]
    covariance = stack.scatter.mul_(weight)
    covariance.diagonal(dim1=2, dim2=3).add_(floor)
    lower, info = torch.linalg.cholesky_ex(covariance)
    product = torch.bmm(lower[1].mT, lower[0]).div_(scale)
    # Rounded down to a power of two, so that few sets of polynomials are ever computed.
    rotation = polar_factor(product, smallest=2.0 ** math.floor(math.log2(weighed.smallest)))
    x, y = stack.points
    white = torch.linalg.solve_triangular(lower[0], x.mT, upper=False)
    moved = torch.bmm(lower[1], torch.bmm(rotation, white)).mT
    norms = moved.square().sum(dim=2)[:, :, None] + y.square().sum(dim=2)[:, None, :]
    cost = torch.baddbmm(norms, moved, y.mT, alpha=-2).clamp_min_(0)
    own = cost.diagonal(dim1=1, dim2=2) - _rounding(cost)[:, None]
    proved = (cost.amin(dim=2) >= own).all(dim=1) | (cost.amin(dim=1) >= own).all(dim=1)
    return _Moved(moved, y, cost, torch.stack([proved, (info == 0).all(dim=0)]))


def _rounding(cost: Tensor) -> Tensor:
    return ROUNDING * cost.amax(dim=(1, 2))


def _settle(
    one: _Moved, unproved: list[int], lane: Lane, solver: Executor
) -> Generator[Ready, None, list[str]]:
    """Find how the pairs whose identity was not proved optimal at sight are to be coupled, and put
    their targets in order.

    Returns:
        How the optimum of each of the b pairs is established.
    """
    certified = ["diagonal"] * len(one.cost)
    if not unproved:
        return certified
    with lane.enter():
        cost = one.cost[unproved]
        optimal, ready = lane.fetch(identity_is_optimal(cost, _rounding(cost)))
    yield ready
    for k in torch.nonzero(optimal)[:, 0].tolist():
        certified[unproved[k]] = "potentials"
    hard = torch.nonzero(~optimal)[:, 0].tolist()
    if not hard:
        return certified
    with lane.enter():
        cost = cost[hard]
        near, _ = lane.fetch(near_potentials(cost))
        tolerance, _ = lane.fetch(_rounding(cost))
        matrices, ready = lane.fetch(cost)
    solutions = [
        solver.submit(_solve, matrices[k], tolerance[k], near[k], ready) for k in range(len(hard))
    ]
    for k, solution in zip(hard, solutions, strict=True):
        yield solution.done
        found = solution.result()
        with lane.enter():
            target = one.target[unproved[k]]
            target.copy_(target[lane.send(found.columns)])
        certified[unproved[k]] = found.certified
    return certified


def _solve(cost: Tensor, tolerance: Tensor, near: Tensor, ready: Ready) -> Assignment:
    wait_until(ready)
    return solve(
        cost.numpy(),
        tolerance=float(tolerance),
        near=near.numpy() if len(near) <= GUESSED else None,
    )


def _distances(one: _Moved, weighed: Weighed, lane: Lane) -> tuple[Tensor, Tensor]:
    """Return the distances between the moved points and their targets, and the bounds of these
    distances, (b,).
    """
    w2 = torch.linalg.vector_norm(one.moved - one.target, dim=(1, 2)) / math.sqrt(
        one.moved.shape[1]
    )
    return w2, lane.send(np.sqrt(2 * weighed.trace))
