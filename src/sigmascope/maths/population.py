"""The population score from sums over groups of samples: its value, its bias and its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from scipy.special import stdtrit
from torch import Tensor

from sigmascope.maths.grouped_sums import GROUPS, Sums
from sigmascope.maths.paired_score import AFFINE, covariances_of, score_and_gradient, scores_of

# Up to these widths three designs of parts, and one, are computed; beyond, one part of each kind
# must do: its decomposition is dear, and sums over so many channels vary little from part to part.
NARROW, WIDE = 128, 512
# The share of the second-order term of the bias that may be left after it was removed.
SAME_SIGN, ALTERNATING = 1 / 2, 1 / 4
# Beyond this width groups share matrices of products, which would take more than a GiB: those of a
# cell, of which every part of the design is made.
SHARED = 2048
SHARED_CELLS = ((0, 4), (2, 6), (1, 3, 5, 7))


@dataclass(frozen=True)
class Design:
    """Parts of the groups on which the score is computed again, to see how it changes with n.

    Attributes:
        quarters: the groups left by deleting a quarter of them, `GROUPS` - 2 each.
        halves: halves of the groups.
    """

    quarters: list[list[int]]
    halves: list[list[int]]

    @property
    def parts(self) -> list[list[int]]:
        """All parts, quarters first."""
        return [*self.quarters, *self.halves]


def design_of(dim: int) -> Design:
    """Return balanced parts: each group is deleted equally often, except for wide layers.

    >>> design_of(1024)
    Design(quarters=[[1, 2, 3, 5, 6, 7]], halves=[[0, 2, 4, 6]])
    """
    groups, quarters, halves = range(GROUPS), [], []
    for bit in (4, 1, 2)[: 3 if dim <= NARROW else 1]:
        pairs = [{group, group ^ bit} for group in groups if not group & bit]
        quarters += [[group for group in groups if group not in pair] for pair in pairs]
    for bit in (1, 2, 4)[: 3 if dim <= NARROW else 1]:
        halves += [
            [group for group in groups if bool(group & bit) == side] for side in (False, True)
        ]
    return Design(quarters, halves) if dim <= WIDE else Design(quarters[:1], halves[:1])


@dataclass(frozen=True)
class PopulationScore:
    """The affinity score of the distribution from which samples were drawn.

    Attributes:
        score: debiased, at most 1; NaN only with a `reason`. Negative where inputs and their
            own outputs vary in opposite directions: -0.41 for y = -x.
        stderr: its standard error, from the influence of groups of samples and from what the
            removal of the bias leaves open.
        low, high: the 95 % interval, by Student's t.
        n: samples.
        dim: channels.
        plain: the score before its bias was removed.
        influence: the share of each group of samples in the deviation of the score from that of the
            distribution, to first order; they sum to 0. See `sigmascope.difference`.
        reason: why there is no score; empty where there is one.
        dead: the share of channels whose output is constant up to rounding.
        gain: how much the output varies for the input: the root of the ratio of total variances.

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.randn(512, 4, generator=torch.Generator().manual_seed(0))
    >>> moments = sg.Moments()
    >>> moments.update(x, torch.relu(x))
    >>> found = moments.score()
    >>> found.low < found.score < found.high, found.n, found.dim, found.dead
    (True, 512, 4, 0.0)
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
    dead: float = math.nan
    gain: float = math.nan

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


def population_scores(
    sums: Sequence[Sums], eps: float | None, *, room: int | None = None
) -> list[PopulationScore]:
    """Return the scores of sites of one width on one device, with samples enough, together.

    `room` is the number of bytes to use for the parts of the samples at once; all by default.
    """
    reasons = [_obstacle(one) for one in sums]
    able = [_denoised(one) for one, reason in zip(sums, reasons, strict=True) if not reason]
    scores = iter(_scored(able, eps, room) if able else [])
    return [
        replace(
            without_score(int(one.count.sum()), one.dim, reason) if reason else next(scores),
            dead=dead,
            gain=gain,
        )
        for one, reason, (dead, gain) in zip(sums, reasons, map(_health, sums), strict=True)
    ]


def _health(sums: Sums) -> tuple[float, float]:
    """Return the share of constant outputs, and how much outputs vary for inputs."""
    variance, rounding = _variance_and_rounding(sums)
    varies, dim = variance > rounding, sums.dim
    inputs, outputs = (variance * varies).reshape(2, dim).sum(dim=1)
    dead = 1 - varies[dim:].double().mean()
    share, ratio = torch.stack([dead, outputs / inputs]).tolist()
    return share, math.sqrt(ratio) if ratio >= 0 else math.nan


def bytes_needed(dim: int) -> int:
    """Return the memory that the score of one site takes, about: sums, parts, decompositions."""
    sums = len(SHARED_CELLS) if dim > SHARED else GROUPS
    parts = 11 if dim > WIDE else 3 * len(design_of(dim).parts)
    return 8 * (2 * dim) ** 2 * (sums + parts)


def _obstacle(sums: Sums) -> str:
    """Return why these sums have no score, or an empty text."""
    dim = sums.dim
    if bool((sums.count < 2).any()):
        return (
            f"fewer than two samples in one of the {GROUPS} groups that their numbers form: number "
            "them one by one"
        )
    variance, rounding = _variance_and_rounding(sums)
    if not bool(torch.isfinite(variance).all()):
        return "the input or the output contains NaN, infinite or huge values"
    varies = variance > rounding
    for name, part in (("input", varies[:dim]), ("output", varies[dim:])):
        if not bool(part.any()):
            return f"the {name} is constant up to rounding"
    return ""


def _variance_and_rounding(sums: Sums) -> tuple[Tensor, Tensor]:
    """Return the variance of every channel of x and y, (2d,), and what rounding may make of 0."""
    n = sums.count.sum().item()
    mean = sums.first.sum(dim=0) / n
    variance = sums.second.diagonal(dim1=1, dim2=2).sum(dim=0) / n - mean.square()
    return variance, (sums.precision * (sums.shift + mean)).square()


def _denoised(sums: Sums) -> Sums:
    """Return sums in which channels that are constant up to rounding, however large, are zero."""
    variance, rounding = _variance_and_rounding(sums)
    if not bool(((variance <= rounding) & (variance > 0)).any()):
        return sums
    kept = (variance > rounding).to(variance)
    both, forms = torch.outer(kept, kept), sums.forms
    return replace(
        sums,
        first=sums.first * kept,
        second=sums.second * both,
        forms=None if forms is None else lambda matrix: forms(matrix * both),
    )


def _at_once(parts: int, dim: int, sites: int, room: int | None) -> int:
    """Return how many parts of the samples are decomposed at once: all, where they are small."""
    if dim > WIDE:
        return 1
    return parts if room is None else max(1, min(parts, room // (3 * 8 * (2 * dim) ** 2 * sites)))


def _scored(sums: Sequence[Sums], eps: float | None, room: int | None) -> list[PopulationScore]:
    count = torch.stack([one.count for one in sums])
    first, second = _stacked([one.first for one in sums]), _stacked([one.second for one in sums])
    design = design_of(sums[0].dim)
    chosen = [list(range(GROUPS)), *design.parts]
    groups = _membership(chosen, [[group] for group in range(GROUPS)])
    cells = _membership(chosen, sums[0].cells).to(first.device)
    sizes = count @ groups.T  # (s, k), on the host
    totals = torch.einsum("kg,sgi->ski", groups.to(first.device), first)

    def covariances(some: slice) -> tuple[Tensor, Tensor, Tensor]:
        products = torch.einsum("kc,scij->skij", cells[some], second)
        return covariances_of(sizes[:, some].to(first.device), totals[:, some], products)

    score, gradient = score_and_gradient(*(one[:, 0] for one in covariances(slice(1))), eps=eps)
    linear = _linear(sums, first, second, gradient)
    step = _at_once(len(chosen), sums[0].dim, len(sums), room)
    starts = range(1, len(chosen), step)
    others = [scores_of(*covariances(slice(start, start + step)), eps=eps) for start in starts]
    values = torch.cat([score[:, None], *others], dim=1).cpu()
    return [
        _estimated(one, value, shares, size, design)
        for one, value, shares, size in zip(sums, values, linear.cpu(), sizes, strict=True)
    ]


def _stacked(tensors: list[Tensor]) -> Tensor:
    """Return tensors stacked; one alone, which may be large, is not copied."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)


def _membership(parts: Sequence[Sequence[int]], cells: Sequence[Sequence[int]]) -> Tensor:
    """Return 1 where a part (rows) contains a cell (columns), otherwise 0."""
    inside = [[float({*cell} <= {*part}) for cell in cells] for part in parts]
    return torch.tensor(inside, dtype=torch.float64)


def _linear(sums: Sequence[Sums], first: Tensor, second: Tensor, gradient: Tensor) -> Tensor:
    """Return the first-order change of the score by the centered products of each group, (s, g)."""
    count = torch.stack([one.count for one in sums]).to(first.device)
    mean = first.sum(dim=1) / count.sum(dim=1, keepdim=True)
    along = (gradient @ mean[:, :, None])[:, :, 0]
    products = torch.stack(
        [
            torch.einsum("gij,ij->g", second[number], gradient[number])
            if one.forms is None
            else one.forms(gradient[number])
            for number, one in enumerate(sums)
        ]
    )
    centered = products - 2 * torch.einsum("sgi,si->sg", first, along)
    return centered + count * (mean * along).sum(dim=1, keepdim=True)


def _estimated(
    sums: Sums, values: Tensor, linear: Tensor, sizes: Tensor, design: Design
) -> PopulationScore:
    """Return the debiased score with its interval.

    `values` are the scores of everything and of the parts of the design, and `sizes` their numbers
    of samples. The parts differ from everything by a linear term, which is known and subtracted,
    and by the bias: a polynomial in 1/n, extrapolated to 0. A share of its second order counts as
    an error.
    """
    n, count, quarters = float(sizes[0]), sums.count, len(design.quarters)
    influence = (linear - count / n * linear.sum()) / n
    shifts = torch.stack([linear[part].sum() / count[part].sum() for part in design.parts])
    curved, ratios = values[1:] - (shifts - linear.sum() / n), n / sizes[1:]
    kinds = slice(quarters), slice(quarters, None)
    nodes, averages = ([float(of[kind].mean()) for kind in kinds] for of in (ratios, curved))
    plain = float(values[0])
    once = _extrapolated((1.0, nodes[0]), (plain, averages[0]))
    twice = _extrapolated((1.0, *nodes), (plain, *averages))
    error = math.sqrt(GROUPS / (GROUPS - 1) * float(influence.square().sum()))
    error *= _curvature(values[1 : 1 + quarters], influence, design.quarters)
    # Terms of one sign leave a larger remainder than terms that alternate.
    gap, same = twice - once, (twice - once) * (once - plain) > 0
    stderr = math.hypot(error, (SAME_SIGN if same else ALTERNATING) * gap)
    score = min(twice, 1.0) if math.isfinite(twice) else math.nan
    return _with_interval(sums, plain, score, stderr, influence)


def _extrapolated(nodes: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at 0 of the polynomial through some points."""
    return sum(
        value * math.prod(other / (other - node) for other in nodes if other != node)
        for node, value in zip(nodes, values, strict=True)
    )


def _curvature(values: Tensor, influence: Tensor, quarters: list[list[int]]) -> float:
    """Return by how much deleting quarters changes the score more than to first order, at least 1.

    Heavy tails make it so. Where only one quarter was deleted, 1.
    """
    shares = torch.stack([influence[part].sum() for part in quarters]) * 4 / 3
    spread, expected = (float((one - one.mean()).square().sum()) for one in (values, shares))
    return math.sqrt(max(1.0, spread / expected)) if expected > 0 else 1.0


def _with_interval(
    sums: Sums, plain: float, score: float, stderr: float, influence: Tensor
) -> PopulationScore:
    n = int(sums.count.sum())
    if not math.isfinite(score):
        reason = "a part of the samples does not vary, or has a singular covariance"
        return replace(without_score(n, sums.dim, reason), plain=plain)
    if (1 - plain) ** 2 <= AFFINE:
        plain, score, stderr, influence = 1.0, 1.0, 0.0, torch.zeros_like(influence)
    half = float(stdtrit(GROUPS - 1, 0.975)) * stderr
    return PopulationScore(
        score=score,
        stderr=stderr,
        low=score - half,
        high=min(score + half, 1.0),
        n=n,
        dim=sums.dim,
        plain=plain,
        influence=tuple(influence.tolist()),
    )
