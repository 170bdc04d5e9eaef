"""Fit many pairs on an accelerator at once: the arithmetic of `fit`, as batched matrix products.

Pairs of one shape are stacked (narrow ones padded to one shape), and each stack passes through

1. `_prepare`: centre, reduce to the joint span where that is smaller, estimate the covariances;
2. `_root`: Cholesky factors and their product, whose polar factor is sought. What this shows is read back: the host must
   know how many steps the iteration needs, and which pairs are not for it;
3. `_move`: the polar factor, the mapped points, all squared distances and the diagonal check, which is read back too;
4. `_settle`: pairs that fail the check, nearly always narrow ones, get potentials that prove the identity, or go to the
   solver on the host.

Every stack has a lane of its own (see `lanes`) and yields where it would have to wait, for the device or for the solver, which
has a thread. So the device computes on wide stacks while the host launches, and solves for, narrow ones.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.maths.assignment import ROUNDING, Assignment, solve
from sigmascope.maths.covariance import Covariance, estimate
from sigmascope.maths.fit import Fit, lacks_variance
from sigmascope.maths.gaussians import SQUARABLE, SQUARABLE_EACH
from sigmascope.maths.lanes import Lane, Ready, run, wait_for, wait_until
from sigmascope.maths.polar import polar_factor
from sigmascope.maths.samples import LARGEST_VALUE, standardise

__all__ = ["fit_stack"]

# Added to the diagonal of a Gram matrix (times its size), above its rounding. It adds as much to the squared distance, which
# only a score near 1 can tell: such a score of a pair that was reduced is not used.
JITTER = 2e-15
TELLING = 0.99
# Pairs up to this width are padded to one: launching their many small kernels costs more than computing with zeros.
NARROW = 256
# Bytes on the device that the pairs in work may need together.
PORTION = 6 * 2**30
# Rounds of shortest paths on the device before a pair goes to the host.
ROUNDS = 48
# Temperatures at which potentials are guessed, relative to the distance of this many neighbours, and the sweeps at each.
# With more rows than this the host guesses better.
TEMPERATURES, NEIGHBOURS, SWEEPS = (0.5, 0.05), 32, 16
GUESSED = 1024


@dataclass(frozen=True)
class _Stack:
    """b pairs of one shape; the first axis of length 2 tells x from y.

    Attributes:
        positions: where the pairs stand among all.
        points: (2, b, n, r).
        unit: (2, b).
        covariance: with fields (2, b, ...).
        width: (b,), the columns that the pair came with.
        sound: (b,), whether its numbers are fit for this arithmetic.
    """

    positions: list[int]
    points: Tensor
    unit: Tensor
    covariance: Covariance
    width: Tensor
    sound: Tensor


@dataclass(frozen=True)
class _Rooted:
    """A stack with the Cholesky factors (2, b, r, r) and their scaled product (b, r, r), and a report (b, 5) for the host.

    The report holds: whether the pair is sound, a lower bound of the product's singular values, both shrinkages and the
    mean variance of y.
    """

    stack: _Stack
    lower: Tensor
    product: Tensor
    report: Tensor


@dataclass(frozen=True)
class _Moved:
    """A stack with its mapped points (b, n, r), squared distances (b, n, n), and pairs whose identity is not proved (b,)."""

    stack: _Stack
    moved: Tensor
    cost: Tensor
    unproved: Tensor


@dataclass(frozen=True)
class _Settled:
    """The columns (b, n) given to the rows of each pair, and how their optimality was established."""

    columns: Tensor
    certified: list[str]


def fit_stack(pairs: Sequence[tuple[Tensor, Tensor]], *, covariance: str, eps: float) -> list[Fit | None]:
    """Fit every pair with the optimal coupling; without gradients.

    Args:
        pairs: (x, y) on one device, each (n, d) of a floating type; n and d may differ from pair to pair.
        covariance: a name of `ESTIMATORS`.
        eps: added to the diagonals, in the units of the data.

    Returns:
        One `Fit` per pair, or None for a pair that needs the slower and more careful arithmetic of `fit`: bad or huge
        values, an output that hardly varies, an ill-conditioned covariance.
    """
    fits: list[Fit | None] = [None] * len(pairs)
    if pairs:
        wait_for(pairs[0][0].device)
    with torch.no_grad(), ThreadPoolExecutor(1) as solver:
        for some in _portions([pair[0].shape for pair in pairs]):
            # Narrow ones first, they tend to need the solver; then the widest, they keep the device busy longest.
            groups = sorted(_grouped(some), key=lambda group: (group.columns > NARROW, -group.columns))
            widest = max(group.columns for group in groups)
            device = pairs[0][0].device
            lanes = [Lane(device, number, urgent=group.columns < widest) for number, group in enumerate(groups)]
            prepare = functools.partial(_stacked, pairs, covariance=covariance, eps=eps)
            run([_fit_group(group, prepare, fits, lane, solver) for group, lane in zip(groups, lanes, strict=True)])
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
    """Pairs that are computed with one number of columns: their positions, by the width that they came with."""

    columns: int
    positions: dict[int, list[int]]


def _grouped(shapes: dict[int, torch.Size]) -> list[_Group]:
    groups: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, (n, width) in shapes.items():
        columns = min(width, 2 * n)
        groups[n, 0 if columns <= NARROW else columns][width].append(position)
    return [_Group(max(min(width, 2 * n) for width in widths), widths) for (n, _), widths in groups.items()]


def _fit_group(
    group: _Group, prepare: Callable[[_Group], _Stack], fits: list[Fit | None], lane: Lane, solver: Executor
) -> Generator[Ready]:
    """Fit the pairs of one group and put the results where they belong; yield where the host has to wait."""
    with lane.enter():
        rooted = _root(prepare(group))
        report, ready = lane.fetch(rooted.report)
    yield ready
    with lane.enter():
        moved = _move(rooted, report)
        unproved, ready = lane.fetch(moved.unproved)
    yield ready
    settled = _Settled(torch.arange(moved.cost.shape[1]).repeat(len(report), 1), ["diagonal"] * len(report))
    yield from _settle(moved.cost, torch.nonzero(unproved)[:, 0].tolist(), settled, lane, solver)
    stack = moved.stack
    lane.hand_over(moved.moved, stack.points, stack.unit, stack.width, stack.covariance.trace)
    for position, found in zip(stack.positions, _fits(moved, report, settled), strict=True):
        fits[position] = found


def _stacked(pairs: Sequence[tuple[Tensor, Tensor]], group: _Group, *, covariance: str, eps: float) -> _Stack:
    """Bring the pairs of a group to one number of columns: pad the narrow ones with zeros, reduce the wide ones."""
    padded: list[Tensor] = []
    stacks: list[_Stack] = []
    for width, positions in group.positions.items():
        rows = [pairs[position][side] for side in (0, 1) for position in positions]
        points = torch.stack(rows).double().view(2, len(positions), *rows[0].shape)
        if width > group.columns:
            stacks.append(_prepare({width: positions}, points, covariance, eps))
        else:
            padded.append(F.pad(points, (0, group.columns - width)) if width < group.columns else points)
    if padded:
        narrow = {width: positions for width, positions in group.positions.items() if width <= group.columns}
        stacks.append(_prepare(narrow, torch.cat(padded, dim=1) if len(padded) > 1 else padded[0], covariance, eps))
    return _join(stacks)


def _prepare(positions: dict[int, list[int]], points: Tensor, covariance: str, eps: float) -> _Stack:
    n, columns = points.shape[2:]
    widths = [float(width) for width, some in positions.items() for _ in some]
    width = torch.tensor(widths, dtype=torch.float64, device=points.device)
    sound = torch.linalg.vector_norm(points, math.inf, dim=(0, 2, 3)) <= LARGEST_VALUE  # false for NaN too
    points, unit = standardise(points)
    if columns > 2 * n:
        points, info = _gram_coordinates(points)
        sound = sound & (info == 0)
    relative = eps / unit.square()
    estimated = estimate(points, width=width, method=covariance, eps=relative)
    sound = sound & ~lacks_variance(estimated, width, relative)[1]
    return _Stack([one for some in positions.values() for one in some], points, unit, estimated, width, sound)


def _gram_coordinates(points: Tensor) -> tuple[Tensor, Tensor]:
    """Express the points in 2n coordinates: the rows of the Cholesky factor of their Gram matrix have the same products."""
    n = points.shape[2]
    rows = torch.cat([points[0], points[1]], dim=1)
    gram = rows @ rows.mT
    gram.diagonal(dim1=1, dim2=2).add_(JITTER * n * rows.shape[2])
    lower, info = torch.linalg.cholesky_ex(gram)
    return torch.stack([lower[:, :n], lower[:, n:]]), info


def _join(stacks: list[_Stack]) -> _Stack:
    if len(stacks) == 1:
        return stacks[0]
    positions = [position for stack in stacks for position in stack.positions]
    points, unit = (torch.cat([getattr(stack, name) for stack in stacks], dim=1) for name in ("points", "unit"))
    width, sound = (torch.cat([getattr(stack, name) for stack in stacks]) for name in ("width", "sound"))
    parts = [stack.covariance for stack in stacks]
    covariance = Covariance(*(torch.cat([getattr(part, field.name) for part in parts], dim=1) for field in fields(Covariance)))
    return _Stack(positions, points, unit, covariance, width, sound)


def _root(stack: _Stack) -> _Rooted:
    covariance = stack.covariance
    lower, info = torch.linalg.cholesky_ex(covariance.matrix())
    product = torch.bmm(lower[1].mT, lower[0])
    # The fourth root of the sum of fourth powers bounds the largest singular value, closely where they decay.
    scale = torch.linalg.vector_norm(torch.bmm(product.mT, product), dim=(1, 2)).sqrt()
    condition = covariance.condition()
    sound = stack.sound & (condition.prod(dim=0) < SQUARABLE) & (condition.amax(dim=0) < SQUARABLE_EACH)
    smallest = covariance.floor.prod(dim=0).sqrt() / scale
    variance = covariance.trace[1] * stack.unit[1].square() / stack.width
    report = torch.stack([(sound & (info == 0).all(dim=0)).double(), smallest, *covariance.shrinkage, variance], dim=1)
    return _Rooted(stack, lower, product / scale[:, None, None], report)


def _move(rooted: _Rooted, report: Tensor) -> _Moved:
    sound = report[:, 0] > 0
    smallest = report[sound, 1].amin() if bool(sound.any()) else torch.tensor(0.5)
    # Rounded down to a power of two, so that few sets of polynomials are ever computed.
    rotation = polar_factor(rooted.product, smallest=float(smallest.log2().floor().exp2()))
    x, y = rooted.stack.points
    white = torch.linalg.solve_triangular(rooted.lower[0], x.mT, upper=False)
    moved = torch.bmm(rooted.lower[1], torch.bmm(rotation, white)).mT
    norms = moved.square().sum(dim=2)[:, :, None] + y.square().sum(dim=2)[:, None, :]
    cost = torch.baddbmm(norms, moved, y.mT, alpha=-2).clamp_min_(0)
    own = cost.diagonal(dim1=1, dim2=2) - _rounding(cost)[:, None]
    proved = (cost.amin(dim=2) >= own).all(dim=1) | (cost.amin(dim=1) >= own).all(dim=1)
    unproved = ~proved & sound.to(proved.device, non_blocking=True)
    return _Moved(rooted.stack, moved, cost, unproved)


def _rounding(cost: Tensor) -> Tensor:
    return ROUNDING * cost.amax(dim=(1, 2))


def _settle(cost: Tensor, unproved: list[int], settled: _Settled, lane: Lane, solver: Executor) -> Generator[Ready]:
    """Find the columns of the pairs whose identity was not proved optimal at sight, and note them in `settled`."""
    if not unproved:
        return
    with lane.enter():
        cost = cost[unproved]
        optimal, ready = lane.fetch(_identity_is_optimal(cost, _rounding(cost)))
    yield ready
    for k in torch.nonzero(optimal)[:, 0].tolist():
        settled.certified[unproved[k]] = "potentials"
    hard = torch.nonzero(~optimal)[:, 0].tolist()
    if not hard:
        return
    with lane.enter():
        cost = cost[hard]
        near, _ = lane.fetch(_near_potentials(cost))
        tolerance, _ = lane.fetch(_rounding(cost))
        matrices, ready = lane.fetch(cost)
    solutions = [solver.submit(_solve, matrices[k], tolerance[k], near[k], ready) for k in range(len(hard))]
    for k, solution in zip(hard, solutions, strict=True):
        yield solution.done
        found = solution.result()
        settled.columns[unproved[k]] = torch.from_numpy(found.columns)
        settled.certified[unproved[k]] = found.certified


def _solve(cost: Tensor, tolerance: Tensor, near: Tensor, ready: Ready) -> Assignment:
    wait_until(ready)
    return solve(cost.numpy(), tolerance=float(tolerance), near=near.numpy() if len(near) <= GUESSED else None)


def _near_potentials(cost: Tensor) -> Tensor:
    """Guess column potentials (b, n): Sinkhorn's iteration at falling temperature."""
    shift, scale = cost.amin(dim=1), cost.new_ones(())
    for step, temperature in enumerate(TEMPERATURES):
        reduced = cost - shift[:, None, :]
        reduced = reduced - reduced.amin(dim=2, keepdim=True)
        rest = reduced.amin(dim=1)
        reduced, shift = reduced - rest[:, None, :], shift + rest
        if step == 0:  # the size of the entries that compete
            nearest = torch.topk(reduced, min(NEIGHBOURS, cost.shape[1]), dim=2, largest=False).values
            scale = nearest[:, :, -1].mean(dim=1)[:, None, None].clamp_min(torch.finfo(cost.dtype).tiny)
        kernel = (reduced / (-temperature * scale)).exp()
        left = torch.ones_like(kernel[:, :, :1])
        for _ in range(SWEEPS):
            right = torch.bmm(kernel.mT, left).reciprocal_()
            left = torch.bmm(kernel, right).reciprocal_()
        shift = shift + (temperature * scale * right.log())[:, :, 0]
    return shift


def _identity_is_optimal(cost: Tensor, tolerance: Tensor) -> Tensor:
    """Tell for which cost matrices (b, n, n) shortest paths from the identity settle, see `assignment.prove`."""
    exchange = cost - cost.diagonal(dim1=1, dim2=2)[:, :, None]
    value = torch.zeros_like(exchange[:, 0])
    for _ in range(ROUNDS):
        value = (exchange + value[:, :, None]).amin(dim=1)  # never above the value before: the diagonal of exchange is 0
    lower = (exchange + value[:, :, None]).amin(dim=1)
    return (lower >= value - tolerance[:, None]).all(dim=1)


def _fits(one: _Moved, report: Tensor, settled: _Settled) -> list[Fit | None]:
    y, unit, width = one.stack.points[1], one.stack.unit[1], one.stack.width
    target = torch.take_along_dim(y, settled.columns.to(y.device)[:, :, None], dim=1)
    w2 = (one.moved - target).square().sum(dim=2).mean(dim=1).sqrt() * unit
    bound = (2 * one.stack.covariance.trace[1]).sqrt() * unit
    score = 1 - w2 / bound
    usable = (report[:, 0] > 0) & ~((score > TELLING) & (width > y.shape[2])).cpu()
    return [
        Fit(rho, distance, limit, shrink_x, shrink_y, variance, False, how) if good else None
        for good, rho, distance, limit, (_, _, shrink_x, shrink_y, variance), how in zip(
            usable.tolist(), score.unbind(), w2.unbind(), bound.unbind(), report.tolist(), settled.certified, strict=True
        )
    ]
