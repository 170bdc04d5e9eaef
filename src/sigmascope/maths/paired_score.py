r"""The score of paired samples as a function of covariances, with its gradient.

With the optimal map A between the Gaussians of x and y it is $\rho = 1 -
\sqrt{(\mathrm{tr}\,A\Sigma_XA + \mathrm{tr}\,\Sigma_Y - 2\,\mathrm{tr}\,A\Sigma_{XY}) \,/\,
2\,\mathrm{tr}\,\Sigma_Y}$. In the coordinates W of `sigmascope.maths.gaussians`, $A = WHW^\top$
with a diagonal H, and its derivative is diagonal too. Leading axes are batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

RELATIVE_EPS = 1e-6  # of the mean variance, where no eps is given
# A squared distance below this share of its bound is the rounding of an affine activation.
AFFINE = 1e-12
# A variance below this share of the squares it was computed from is rounding.
CANCELED = 1e-13


def covariances_of(n: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the unbiased covariances of x, of y, and between them, each (..., d, d)."""
    n, d = n[..., None, None], first.shape[-1] // 2
    joint = (second - first[..., :, None] * first[..., None, :] / n) / (n - 1)
    return (
        _unless_rounding(joint[..., :d, :d], second[..., :d, :d] / (n - 1)),
        _unless_rounding(joint[..., d:, d:], second[..., d:, d:] / (n - 1)),
        joint[..., :d, d:],
    )


def _unless_rounding(covariance: Tensor, products: Tensor) -> Tensor:
    """Return the covariance, or zero where it is what rounding leaves of equal terms."""
    left, whole = (one.diagonal(dim1=-2, dim2=-1).sum(dim=-1) for one in (covariance, products))
    return covariance.masked_fill((left <= CANCELED * whole)[..., None, None], 0)


@dataclass(frozen=True)
class _Transport:
    """The optimal map in units of the mean variances, and the squared distance over its bound.

    x comes before y in `floors`, which are added to the diagonals, and in `units`.
    """

    whiten: Tensor
    stretch: Tensor
    map: Tensor
    source: Tensor
    cross: Tensor
    floors: tuple[Tensor, ...]
    units: tuple[Tensor, ...]
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
    lower, failed = torch.linalg.cholesky_ex(source)
    product = lower.mT @ (target @ lower)
    # a part of the samples that does not vary, or a singular covariance without eps
    sound = (failed == 0) & torch.isfinite(product).all(dim=(-2, -1))
    product = torch.where(sound[..., None, None], product, torch.eye(d).to(product))
    squared, vectors = torch.linalg.eigh(product)
    smallest = torch.finfo(squared.dtype).eps * squared[..., -1:]
    stretch = squared.clamp_min(smallest).sqrt()
    whiten = torch.linalg.solve_triangular(lower.mT, vectors, upper=True)
    mapped = (whiten * stretch[..., None, :]) @ whiten.mT
    moved = floors[0] * mapped.square().sum(dim=(-2, -1)) + 2 * (mapped * cross).sum(dim=(-2, -1))
    share = (d * (2 + floors[1]) - moved) / (2 * d * (1 + floors[1]))
    share = share.clamp_min(0).where(sound, math.nan)
    return _Transport(whiten, stretch, mapped, source, cross, floors, units, share)


def scores_of(x: Tensor, y: Tensor, cross: Tensor, *, eps: float | None) -> Tensor:
    """Return the scores (...) of covariances (..., d, d)."""
    return 1 - _transport(x, y, cross, eps).share.sqrt()


def score_and_gradient(
    x: Tensor, y: Tensor, cross: Tensor, *, eps: float | None
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
