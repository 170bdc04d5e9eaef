"""What a stitch may be: the table of families.

A stitch is a matrix (c, c) on the channels, without bias or batch norm. A row says where the
parameters of a family start, which matrix they stand for, and what keeps them in the family. The
matrix in training may be a relaxation; `exact` asks for the member of the family that is evaluated.
The matrix is always computed from the parameters; a cached one would be outdated.

The families "full", "low-rank", "lasso" and "relu-group" are those of Godfrey et al., NeurIPS 2022,
arXiv:2205.14258.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.maths.procrustes import align_by_permutation
from sigmascope.stitching.permutations import (
    norm_term,
    project,
    round_permutation,
    sinkhorn,
    softsort,
    sort_permutation,
    sums_term,
)
from sigmascope.stitching.settings import Settings

Parameters: TypeAlias = dict[str, Tensor]

FIRST_ITERATIONS = 100  # of Sinkhorn, where a permutation starts
# below the first a lasso entry is evaluated as 0, up to the second an entry counts as sparse
TINY, SPARSE = 1e-4, 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over samples and positions, float64: x xᵀ (c, c), x yᵀ (c, c) and squares of y (c,)."""

    xx: Tensor
    xy: Tensor
    y_squares: Tensor


@dataclass(frozen=True)
class Family:
    """A row of the table.

    Attributes:
        start: number of channels, generator and settings -> the initial parameters, float64.
        matrix: parameters, settings and whether the exact member is wanted -> (c, c).
        term: what is added to the loss.
        project: in-place operation after a step, back into the family or closer to zero.
        constant: names of the parameters that are drawn at the start and not trained.
        decayed: names of the parameters with weight decay.
        scales: name of the scales, which a head start leaves out.
        neutral: the value of scales that change nothing, where they start.
        fit: moments of features -> (c, c), for families that are computed instead of trained.
        start_at: a scaled permutation -> the parameters that stand for it, for families that can
            start there.
        adapts: whether batch norms need new statistics before the exact member is evaluated.
        monomial: whether the exact member is a scaling followed by a permutation.
        options: settings that only some families read, the one it is named with first.
        is_trained: whether it is trained and not computed or given.
    """

    start: Callable[[int, torch.Generator, Settings], Parameters] = field(repr=False)
    matrix: Callable[[Parameters, Settings, bool], Tensor] = field(repr=False)
    term: Callable[[Parameters, Settings], Tensor | None] | None = field(default=None, repr=False)
    project: Callable[[Parameters, Settings], None] | None = field(default=None, repr=False)
    constant: tuple[str, ...] = ()
    decayed: tuple[str, ...] = ()
    scales: str | None = None
    neutral: float = 1.0
    fit: Callable[[Moments], Tensor] | None = field(default=None, repr=False)
    start_at: Callable[[Tensor], Parameters] | None = field(default=None, repr=False)
    adapts: bool = False
    monomial: bool = False
    options: tuple[str, ...] = ()
    is_trained: bool = True


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * bound


def _full(channels: int, generator: torch.Generator, _: Settings) -> Parameters:
    """Start as a 1 × 1 convolution of torch does."""
    return {"weight": _uniform((channels, channels), channels**-0.5, generator)}


def _low_rank(channels: int, generator: torch.Generator, settings: Settings) -> Parameters:
    rank = settings.rank
    if rank > channels:
        raise InputError(
            f"rank must be at most {channels}, the channels of the site, got {rank}. Pass a "
            "smaller one, or family='full'."
        )
    down = _uniform((rank, channels), channels**-0.5, generator)
    return {"down": down, "up": _uniform((channels, rank), rank**-0.5, generator)}


def _lasso_matrix(parameters: Parameters, settings: Settings, exact: bool) -> Tensor:
    """Return the weights, with small ones as zeros where training cannot reach zero."""
    weight = parameters["weight"]
    rounded = exact and settings.shrinkage == "gradient"
    return torch.where(weight.abs() < TINY, 0, weight) if rounded else weight


def _lasso_term(parameters: Parameters, settings: Settings) -> Tensor | None:
    if settings.shrinkage != "gradient":
        return None
    return settings.strength * parameters["weight"].abs().sum()


def _lasso_project(parameters: Parameters, settings: Settings) -> None:
    r"""Move entries toward 0 and stop there, by $\eta\lambda / (1 - \mu)$.

    With momentum $\mu$ a constant gradient g moves a weight by $\eta g / (1 - \mu)$ per step, so a
    weight rests where $g + \lambda\,\mathrm{sign}(w) = 0$, or at 0 where $|g| \le \lambda$.
    """
    if settings.shrinkage == "proximal":
        weight = parameters["weight"]
        most = torch.finfo(weight.dtype).max
        threshold = min(settings.rate * settings.strength / (1 - settings.momentum), most)
        weight.sub_(weight.clamp(-threshold, threshold))


def _group_start(channels: int, generator: torch.Generator, settings: Settings) -> Parameters:
    drawn = torch.rand(channels, channels, generator=generator, dtype=torch.float64)
    started = {
        "permutation": sinkhorn(drawn, FIRST_ITERATIONS),
        "scales": torch.ones(channels, dtype=torch.float64),
    }
    if settings.rounding == "monotone":
        weights = torch.rand(channels, generator=generator, dtype=torch.float64)
        started["weights"] = weights.sort().values
    return started


def _group_matrix(parameters: Parameters, settings: Settings, exact: bool) -> Tensor:
    permutation = parameters["permutation"]
    if exact:
        weights = parameters.get("weights")
        permutation = round_permutation(permutation, settings.rounding, weights=weights)
    return permutation * parameters["scales"]


def _group_term(parameters: Parameters, settings: Settings) -> Tensor:
    permutation = parameters["permutation"]
    term = norm_term(permutation, settings.alpha, settings.regularizer)
    return term + sums_term(permutation, settings.beta) if settings.projection == "none" else term


def _group_start_at(matrix: Tensor) -> Parameters:
    return {"permutation": (matrix > 0).to(matrix), "scales": matrix.sum(dim=0)}


def _group_project(parameters: Parameters, settings: Settings) -> None:
    permutation, scales = parameters["permutation"], parameters["scales"]
    clamped = settings.projection == "none"
    permutation.copy_(permutation.clamp_min(0) if clamped else project(permutation))
    scales.clamp_(min=0)


def _sort_start(channels: int, generator: torch.Generator, _: Settings) -> Parameters:
    return {
        "scores": _uniform((channels,), 1.0, generator),
        "log_scales": torch.zeros(channels, dtype=torch.float64),
    }


def _sort_matrix(parameters: Parameters, settings: Settings, exact: bool) -> Tensor:
    scores = parameters["scores"]
    temperature = settings.temperature / len(scores)
    permutation = (
        sort_permutation(scores) if exact else softsort(scores, temperature, settings.weighing)
    )
    return permutation * parameters["log_scales"].exp()


def _sort_start_at(matrix: Tensor) -> Parameters:
    """Return scores whose order is the permutation, evenly spaced from 1 to -1."""
    spaced = torch.linspace(1, -1, len(matrix), dtype=matrix.dtype, device=matrix.device)
    return {"scores": (matrix > 0).to(matrix).T @ spaced, "log_scales": matrix.sum(dim=0).log()}


def _identity(channels: int, _: torch.Generator, __: Settings) -> Parameters:
    return {"weight": torch.eye(channels, dtype=torch.float64)}


def _weight(parameters: Parameters, _: Settings, __: bool) -> Tensor:
    return parameters["weight"]


def _least_squares(moments: Moments) -> Tensor:
    r"""Return the smallest solution of $\min_W \sum \|W x - y\|^2$."""
    solved: Tensor = torch.linalg.pinv(moments.xx, hermitian=True) @ moments.xy
    return solved.T


def matched(moments: Moments) -> Tensor:
    """Return the permutation that best matches normalized channels, scaled by ratios of norms."""
    x_squares = moments.xx.diagonal()
    squares = [one.cpu().numpy().astype(np.float64) for one in (x_squares, moments.y_squares)]
    permutation = align_by_permutation(moments.xy.cpu().numpy(), *squares).matrix
    found = torch.from_numpy(permutation).to(moments.xx)
    ratios = (moments.y_squares[:, None] / x_squares).sqrt()
    alive = (moments.y_squares[:, None] > 0) & (x_squares > 0)
    return found * torch.where(alive, ratios, 1.0)


FAMILIES: dict[str, Family] = {
    "full": Family(_full, _weight, decayed=("weight",)),
    "low-rank": Family(
        _low_rank,
        lambda parameters, _, __: parameters["up"] @ parameters["down"],
        decayed=("down", "up"),
        options=("rank",),
    ),
    "lasso": Family(
        _full,
        _lasso_matrix,
        term=_lasso_term,
        project=_lasso_project,
        decayed=("weight",),
        options=("strength", "shrinkage"),
    ),
    "relu-group": Family(
        _group_start,
        _group_matrix,
        term=_group_term,
        project=_group_project,
        constant=("weights",),
        decayed=("scales",),
        scales="scales",
        adapts=True,
        monomial=True,
        options=("alpha", "regularizer", "projection", "beta", "rounding", "scale_rate", "start"),
        start_at=_group_start_at,
    ),
    "softsort": Family(
        _sort_start,
        _sort_matrix,
        decayed=("scores", "log_scales"),
        scales="log_scales",
        neutral=0.0,
        adapts=True,
        monomial=True,
        options=("temperature", "weighing", "scale_rate", "start"),
        start_at=_sort_start_at,
    ),
    "identity": Family(_identity, _weight, adapts=True, monomial=True, is_trained=False),
    "least-squares": Family(_identity, _weight, fit=_least_squares, adapts=True, is_trained=False),
    "permutation": Family(
        _identity, _weight, fit=matched, adapts=True, monomial=True, is_trained=False
    ),
    "fixed": Family(_identity, _weight, is_trained=False),
}
"""Name -> row; the names are `choices.Family`.

>>> from sigmascope import stitching
>>> [name for name, family in stitching.FAMILIES.items() if not family.is_trained]
['identity', 'least-squares', 'permutation', 'fixed']
"""


def sparsity(matrix: Tensor, threshold: float = SPARSE) -> float:
    """Return the share of entries with absolute value <= `threshold`; 1 - 1/c for a permutation.

    >>> sparsity(torch.eye(4))
    0.75
    """
    return float((matrix.abs() <= threshold).double().mean())
