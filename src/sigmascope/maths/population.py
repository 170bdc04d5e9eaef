r"""The population score from sums over groups of samples: its value, its bias and its error.

With the optimal map A between the Gaussians of x and y the score of paired samples is $\rho = 1 -
\sqrt{(\mathrm{tr}\,A\Sigma_XA + \mathrm{tr}\,\Sigma_Y - 2\,\mathrm{tr}\,A\Sigma_{XY}) \,/\,
2\,\mathrm{tr}\,\Sigma_Y}$, a smooth function of second moments. In the coordinates W of
`sigmascope.maths.gaussians`, $A = WHW^\top$ with a diagonal H, and everything below is diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

GROUPS = 8
RELATIVE_EPS = 1e-6  # of the mean variance, where no eps is given
# Parts of the groups on which the score is computed again, to see how it changes with the number
# of samples: those left by deleting a quarter, and the halves.
QUARTERS = [[group for group in range(GROUPS) if group % 4 != part] for part in range(4)]
HALVES = [[group for group in range(GROUPS) if group % 2 == part] for part in range(2)]
# From this width on one part of each kind must do: the decompositions are dear, and the sums over
# so many channels vary little from part to part.
WIDE = 513
# A squared distance below this share of its bound is the rounding of an affine activation.
AFFINE = 1e-12
# Bytes of covariances decomposed at once on an accelerator.
CHUNK = 2**30


@dataclass(frozen=True)
class Sums:
    """Sums of pairs z = (x, y) of width 2d around a shift, by group of samples.

    Attributes:
        count: (g,), float64, on the host.
        first: (g, 2d), the sum of z - shift.
        second: (g, 2d, 2d), the sum of its products.
        shift: (2d,).
        precision: of the input's type, to tell a constant from a channel that varies.
    """

    count: Tensor
    first: Tensor
    second: Tensor
    shift: Tensor
    precision: float

    @property
    def dim(self) -> int:
        """The number of channels d."""
        return self.first.shape[1] // 2


@dataclass(frozen=True)
class PopulationScore:
    """The affinity score of the distribution from which samples were drawn.

    Attributes:
        score: debiased, at most 1; NaN only with a `reason`.
        stderr: its standard error, from the influence of groups of samples and from what the
            removal of the bias leaves open.
        low, high: the 95 % interval, by Student's t.
        n: samples.
        dim: channels.
        plain: the score before its bias was removed.
        influence: the share of each group of samples in the deviation of the score from that of the
            distribution, to first order; they sum to 0. See `sigmascope.difference`.
        reason: why there is no score; empty where there is one.
    """

    score: float
    stderr: float
    low: float
    high: float
    n: int
    dim: int
    plain: float
    influence: tuple[float, ...]
    reason: str = ""

    def __float__(self) -> float:
        return self.score

    def __repr__(self) -> str:
        why = f", reason={self.reason!r}" if self.reason else ""
        return (
            f"PopulationScore(score={self.score:.4f}, stderr={self.stderr:.2g}, "
            f"low={self.low:.4f}, high={self.high:.4f}, n={self.n}, dim={self.dim}, "
            f"plain={self.plain:.4f}{why})"
        )


def without_score(n: int, dim: int, reason: str) -> PopulationScore:
    """Return the result where there is no score."""
    return PopulationScore(*(math.nan,) * 4, n, dim, math.nan, (), reason)


def samples_needed(dim: int) -> int:
    """Return the smallest number of samples for a score: halves need regular covariances."""
    return max(4 * GROUPS, math.ceil(2.5 * dim))


def population_scores(sums: Sequence[Sums], eps: float | None) -> list[PopulationScore]:
    """Return the scores of several sites; those of one width on one device are computed at once."""
    results: dict[int, PopulationScore] = {}
    alike: dict[tuple[int, torch.device], list[int]] = {}
    for number, one in enumerate(sums):
        reason = _obstacle(one)
        if reason:
            results[number] = without_score(int(one.count.sum()), one.dim, reason)
        else:
            alike.setdefault((one.dim, one.first.device), []).append(number)
    for (dim, device), numbers in alike.items():
        parts = 3 if dim >= WIDE else 1 + len(QUARTERS) + len(HALVES)
        bytes_each = 8 * (2 * dim) ** 2 * (GROUPS + 2 * parts)
        most = max(1, CHUNK // bytes_each) if device.type != "cpu" else 1
        for start in range(0, len(numbers), most):
            chunk = numbers[start : start + most]
            results |= zip(chunk, _scored([sums[number] for number in chunk], eps), strict=True)
    return [results[number] for number in range(len(sums))]


def _obstacle(sums: Sums) -> str:
    """Return why these sums have no score, or an empty text."""
    n, dim = int(sums.count.sum()), sums.dim
    if n < samples_needed(dim):
        return (
            f"{n} sample{'s' * (n != 1)} are too few for {dim} channels: "
            f"{samples_needed(dim)} would do"
        )
    if bool((sums.count < 2).any()):
        return f"fewer than two samples in one of the {GROUPS} groups that their numbers form"
    if not bool(torch.isfinite(sums.second.sum())):
        return "the input or the output contains NaN, infinite or huge values"
    mean = sums.first.sum(dim=0) / n
    variance = sums.second.sum(dim=0).diagonal() / n - mean.square()
    varies = variance > (4 * sums.precision * (sums.shift + mean)).square()
    for name, part in (("input", varies[:dim]), ("output", varies[dim:])):
        if not bool(part.any()):
            return f"the {name} is constant up to rounding"
    return ""


def _scored(sums: Sequence[Sums], eps: float | None) -> list[PopulationScore]:
    """Return the scores of sites of one width on one device."""
    count = torch.stack([one.count for one in sums])
    first, second = (
        torch.stack([getattr(one, name) for one in sums]) for name in ("first", "second")
    )
    wide = sums[0].dim >= WIDE
    parts = [QUARTERS[:1], HALVES[:1]] if wide else [QUARTERS, HALVES]
    keep = torch.zeros(1 + sum(map(len, parts)), GROUPS, dtype=torch.float64)
    keep[0] = 1
    for row, part in enumerate([part for kind in parts for part in kind], start=1):
        keep[row, part] = 1
    sizes = count @ keep.T  # (s, k), on the host
    there = keep.to(first.device)
    covariances = _covariances(
        sizes.to(first.device),
        torch.einsum("kg,sgi->ski", there, first),
        torch.einsum("kg,sgij->skij", there, second),
    )
    score, gradient = _score_and_gradient(*(one[:, 0] for one in covariances), eps)
    others = _scores(*(one[:, 1:] for one in covariances), eps)
    linear = _linear(count.to(first.device), first, second, gradient)
    values = torch.cat([score[:, None], others], dim=1).cpu()
    return [
        _estimated(one, value, shares, size, len(parts[0]))
        for one, value, shares, size in zip(sums, values, linear.cpu(), sizes, strict=True)
    ]


def _covariances(n: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the unbiased covariances of x, of y, and between them, each (..., d, d)."""
    n = n[..., None, None]
    joint = (second - first[..., :, None] * first[..., None, :] / n) / (n - 1)
    d = first.shape[-1] // 2
    return joint[..., :d, :d], joint[..., d:, d:], joint[..., :d, d:]


@dataclass(frozen=True)
class _Transport:
    """The optimal map in units of the mean variances, and the squared distance over its bound."""

    whiten: Tensor
    stretch: Tensor
    map: Tensor
    source: Tensor
    cross: Tensor
    floors: tuple[Tensor, Tensor]
    units: tuple[Tensor, Tensor]
    share: Tensor


def _transport(x: Tensor, y: Tensor, cross: Tensor, eps: float | None) -> _Transport:
    d = x.shape[-1]
    units = tuple(one.diagonal(dim1=-2, dim2=-1).mean(dim=-1) for one in (x, y))
    floors = tuple(
        torch.full_like(unit, RELATIVE_EPS) if eps is None else eps / unit for unit in units
    )
    source, target = (one / unit[..., None, None] for one, unit in zip((x, y), units, strict=True))
    cross = cross / (units[0] * units[1]).sqrt()[..., None, None]
    for one, floor in ((source, floors[0]), (target, floors[1])):
        one.diagonal(dim1=-2, dim2=-1).add_(floor[..., None])
    lower = torch.linalg.cholesky(source)
    squared, vectors = torch.linalg.eigh(lower.mT @ (target @ lower))
    smallest = torch.finfo(squared.dtype).eps * squared[..., -1:]
    stretch = squared.clamp_min(smallest).sqrt()
    whiten = torch.linalg.solve_triangular(lower.mT, vectors, upper=True)
    mapped = (whiten * stretch[..., None, :]) @ whiten.mT
    moved = floors[0] * mapped.square().sum(dim=(-2, -1)) + 2 * (mapped * cross).sum(dim=(-2, -1))
    share = (d * (2 + floors[1]) - moved) / (2 * d * (1 + floors[1]))
    return _Transport(whiten, stretch, mapped, source, cross, floors, units, share.clamp_min(0))


def _scores(x: Tensor, y: Tensor, cross: Tensor, eps: float | None) -> Tensor:
    return 1 - _transport(x, y, cross, eps).share.sqrt()


def _score_and_gradient(
    x: Tensor, y: Tensor, cross: Tensor, eps: float | None
) -> tuple[Tensor, Tensor]:
    r"""Return the scores (s,) and their gradients (s, 2d, 2d) with respect to the joint covariance.

    From $A\Sigma_XA = \Sigma_Y$ follows $A\Sigma_X\,dA + dA\,\Sigma_XA = d\Sigma_Y -
    A\,d\Sigma_X\,A$, so that $\langle M, dA\rangle = \langle W^{-\top}\Lambda W^{-1},
    d\Sigma_Y\rangle - \langle WH\Lambda HW^\top, d\Sigma_X\rangle$ with $\Lambda_{ij} =
    (W^\top MW)_{ij} / (h_i+h_j)$.
    """
    at, d = _transport(x, y, cross, eps), x.shape[-1]
    relative = RELATIVE_EPS if eps is None else 0.0
    w, h, floors = at.whiten, at.stretch, [floor[:, None, None] for floor in at.floors]
    inner = w.mT @ (floors[0] * at.map + (at.cross + at.cross.mT) / 2) @ w
    inner = inner / (h[:, :, None] + h[:, None, :])
    outer, back = w * h[:, None, :], at.source @ w
    to_x, to_y = 2 * outer @ inner @ outer.mT, -2 * back @ inner @ back.mT
    # what the diagonal terms of eps, which follow the variances, add
    trace_x, trace_y = (one.diagonal(dim1=1, dim2=2).sum(dim=1) for one in (to_x, to_y))
    more_x = relative / d * (trace_x - at.map.square().sum(dim=(1, 2)))
    more_y = 2 + relative * (1 + trace_y / d) - 2 * at.share * (1 + relative)
    to_x.diagonal(dim1=1, dim2=2).add_(more_x[:, None])
    to_y.diagonal(dim1=1, dim2=2).add_(more_y[:, None])
    unit_x, unit_y = (unit[:, None, None] for unit in at.units)
    between = -at.map / (unit_x * unit_y).sqrt()  # half, for it stands on both sides
    joint = torch.cat(
        [torch.cat([to_x / unit_x, between], dim=2), torch.cat([between.mT, to_y / unit_y], dim=2)],
        dim=1,
    )
    root = at.share.sqrt()
    bound = 2 * d * (1 + floors[1])
    slope = torch.where(at.share > AFFINE, -0.5 / root.clamp_min(AFFINE), 0)
    return 1 - root, joint / bound * slope[:, None, None]


def _linear(count: Tensor, first: Tensor, second: Tensor, gradient: Tensor) -> Tensor:
    """Return the first-order change of the score by the sum of each group's products, (s, g)."""
    mean = first.sum(dim=1) / count.sum(dim=1, keepdim=True)
    along = (gradient @ mean[:, :, None])[:, :, 0]
    products = torch.einsum("sgij,sij->sg", second, gradient)
    centered = products - 2 * torch.einsum("sgi,si->sg", first, along)
    return centered + count * (mean * along).sum(dim=1, keepdim=True)


def _estimated(
    sums: Sums, values: Tensor, linear: Tensor, sizes: Tensor, quarters: int
) -> PopulationScore:
    """Return the debiased score with its interval.

    `values` are the scores of everything, of the parts without a quarter, and of the halves, and
    `sizes` their numbers of samples. The parts differ from everything by a linear term, which is
    known and subtracted, and by the bias: a polynomial in 1/n, extrapolated to 0.
    """
    n, count = float(sizes[0]), sums.count
    influence = (linear - count / n * linear.sum()) / n
    parts = [*QUARTERS[:quarters], *HALVES[: len(values) - 1 - quarters]]
    shifts = torch.stack([linear[part].sum() / count[part].sum() for part in parts])
    curved = values[1:] - (shifts - linear.sum() / n)
    nodes = [
        float((n / chosen).mean()) for chosen in (sizes[1 : 1 + quarters], sizes[1 + quarters :])
    ]
    averages = [float(chosen.mean()) for chosen in (curved[:quarters], curved[quarters:])]
    plain = float(values[0])
    once = (nodes[0] * plain - averages[0]) / (nodes[0] - 1)
    twice = _extrapolated((1.0, *nodes), (plain, *averages))
    error = math.sqrt(GROUPS / (GROUPS - 1) * float(influence.square().sum()))
    error *= _curvature(values[1 : 1 + quarters], influence, quarters)
    stderr = math.hypot(error, twice - once)
    return _with_interval(sums, plain, min(twice, 1.0), stderr, influence)


def _extrapolated(nodes: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at 0 of the polynomial through some points."""
    return sum(
        value * math.prod(other / (other - node) for other in nodes if other != node)
        for node, value in zip(nodes, values, strict=True)
    )


def _curvature(values: Tensor, influence: Tensor, quarters: int) -> float:
    """Return by how much deleting quarters changes the score more than to first order, at least 1.

    Heavy tails make it so. Where only one quarter was deleted, 1.
    """
    if quarters < len(QUARTERS):
        return 1.0
    shares = torch.stack([influence[part::4].sum() for part in range(4)]) * 4 / 3
    spread, expected = (float((one - one.mean()).square().sum()) for one in (values, shares))
    return math.sqrt(max(1.0, spread / expected)) if expected > 0 else 1.0


def _with_interval(
    sums: Sums, plain: float, score: float, stderr: float, influence: Tensor
) -> PopulationScore:
    from scipy.stats import t

    if (1 - plain) ** 2 <= AFFINE:
        plain, score, stderr = 1.0, 1.0, 0.0
    half = float(t.ppf(0.975, GROUPS - 1)) * stderr
    return PopulationScore(
        score=score,
        stderr=stderr,
        low=score - half,
        high=min(score + half, 1.0),
        n=int(sums.count.sum()),
        dim=sums.dim,
        plain=plain,
        influence=tuple(influence.tolist()),
    )
