"""Fit many pairs on an accelerator at once: the arithmetic of `fit`, as batched matrix products.

Pairs of one shape are stacked (narrow ones padded to one shape), and each stack passes through

1. `padding`: center, reduce to the joint span where that is smaller, take the scatter matrices. A
   few numbers of each are read back, from which the host estimates the covariances (`weighing`): on
   the device every small sum would cost a launch;
2. `_move`: Cholesky factors, the polar factor of their product, the mapped points, all squared
   distances and the diagonal check, which is read back too;
3. `_settle`: pairs that fail the check, nearly always narrow ones, get potentials that prove the
   identity, or go to the solver on the host.

Every stack has its own lane (see `lanes`) and yields where it would have to wait, for the device or
for the solver, which has a thread. So the device computes on wide stacks while the host launches,
and solves, narrow ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sigmascope.maths.affine_fit import Fit
from sigmascope.maths.assignment import ROUNDING, Assignment, solve
from sigmascope.maths.gpu.lanes import Lane, Ready, run, wait_for, wait_until
from sigmascope.maths.gpu.padding import NARROW, Group, Stack, grouped, portions, stacked
from sigmascope.maths.gpu.polar import polar_factor
from sigmascope.maths.gpu.potentials import GUESSED, identity_is_optimal, near_potentials
from sigmascope.maths.gpu.weighing import Weighed, weigh_stack
from sigmascope.maths.samples import rounding_of
from sigmascope.maths.transport import has_far_rows

# A larger score of a reduced pair may differ by the jitter of the reduction and is not used.
TELLING = 0.99


@dataclass(frozen=True)
class _Moved:
    """Mapped points and their targets (b, n, r), squared distances (b, n, n), and a report (2, b).

    The report, for the host: is the identity provably optimal, and did the arithmetic succeed?
    """

    moved: Tensor
    target: Tensor
    cost: Tensor
    report: Tensor


def fit_stack(
    pairs: Sequence[tuple[Tensor, Tensor]],
    *,
    covariance: str,
    eps: float | None,
    degenerate: str = "nan",
    rounding: Sequence[tuple[float, float]] | None = None,
) -> list[Fit | None]:
    """Return the fit of every pair with the optimal coupling, without gradients.

    None for a pair that needs the slower and more careful arithmetic of `fit`: bad or huge values,
    a constant sample, rows that are far away, an ill-conditioned covariance. All pairs are on one
    device, each sample (n, d) of a floating type; n and d may vary. For the options see `fit`; the
    default of `rounding`, one for each pair, is that of their types.
    """
    fits: list[Fit | None] = [None] * len(pairs)
    if not pairs:
        return fits
    device = pairs[0][0].device
    wait_for(device)
    if rounding is None:
        rounding = [(rounding_of(x.dtype), rounding_of(y.dtype)) for x, y in pairs]
    stack = functools.partial(stacked, pairs, rounding=rounding, relative=eps is None)
    weigh = functools.partial(weigh_stack, covariance=covariance, eps=eps, degenerate=degenerate)
    with torch.no_grad(), ThreadPoolExecutor(1) as solver:
        for some in portions([pair[0].shape for pair in pairs]):
            # Narrow ones first, which may need the solver; then the widest, which take longest.
            groups = sorted(grouped(some), key=lambda one: (one.columns > NARROW, -one.columns))
            widest = max(group.columns for group in groups)
            tasks = []
            for number, group in enumerate(groups):
                lane = Lane(device, number, urgent=group.columns < widest)
                tasks.append(_fit_group(stack, group, lane, weigh, solver))
            for found in run(tasks):
                for position, one in found.items():
                    fits[position] = one
    return fits


def _fit_group(
    prepare: Callable[[Group], Stack],
    group: Group,
    lane: Lane,
    weigh: Callable[..., Weighed],
    solver: Executor,
) -> Generator[Ready, None, dict[int, Fit | None]]:
    """Return the fits of one group, by position; yield where the host has to wait."""
    with lane.enter():
        stack = prepare(group)
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
    shrinkage = (column.tolist() for column in weighed.shrinkage)
    columns = zip(score.unbind(), w2.unbind(), bound.unbind(), *shrinkage, certified, strict=True)
    found = zip(stack.positions, sound.tolist(), columns, strict=True)
    return {
        position: Fit(rho, distance, limit, shrunk_x, shrunk_y, False, how) if good else None
        for position, good, (rho, distance, limit, shrunk_x, shrunk_y, how) in found
    }


def _move(stack: Stack, weighed: Weighed, lane: Lane) -> _Moved:
    numbers = np.concatenate([weighed.weight, weighed.floor, weighed.scale[None]])
    sent = lane.send(numbers)[..., None]
    weight, floor, scale = sent[:2, ..., None], sent[2:4], sent[4, ..., None]
    covariance = stack.scatter.mul_(weight)
    covariance.diagonal(dim1=2, dim2=3).add_(floor)
    lower, info = torch.linalg.cholesky_ex(covariance)
    product = torch.bmm(lower[1].mT, lower[0]).div_(scale)
    # Rounded down to a power of two, so that few sets of polynomials are computed.
    rotation = polar_factor(product, smallest=2.0 ** math.floor(math.log2(weighed.smallest)))
    x, y = stack.points
    white = torch.linalg.solve_triangular(lower[0], x.mT, upper=False)
    moved = torch.bmm(lower[1], torch.bmm(rotation, white)).mT
    norms = moved.square().sum(dim=2)[:, :, None] + y.square().sum(dim=2)[:, None, :]
    cost = torch.baddbmm(norms, moved, y.mT, alpha=-2).clamp_min_(0)
    own = cost.diagonal(dim1=1, dim2=2) - _rounding(cost)[:, None]
    proved = (cost.amin(dim=2) >= own).all(dim=1) | (cost.amin(dim=1) >= own).all(dim=1)
    sane = (info == 0).all(dim=0) & ~has_far_rows(cost)
    return _Moved(moved, y, cost, torch.stack([proved, sane]))


def _rounding(cost: Tensor) -> Tensor:
    return ROUNDING * cost.amax(dim=(1, 2))


def _settle(
    one: _Moved, unproved: list[int], lane: Lane, solver: Executor
) -> Generator[Ready, None, list[str]]:
    """Order the targets of the unproved pairs optimally; return how each optimum was proved."""
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
    start = near.numpy() if len(near) <= GUESSED else None
    return solve(cost.numpy(), tolerance=float(tolerance), near=start)


def _distances(one: _Moved, weighed: Weighed, lane: Lane) -> tuple[Tensor, Tensor]:
    """Return the distances between the mapped points and their targets, and their bounds, (b,)."""
    norms: Tensor = torch.linalg.vector_norm(one.moved - one.target, dim=(1, 2))
    w2 = norms / math.sqrt(one.moved.shape[1])
    return w2, lane.send(np.sqrt(2 * weighed.trace))
