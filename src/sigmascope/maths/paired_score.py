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

from sigmascope.maths.gpu.lyapunov import solve_lyapunov
from sigmascope.maths.gpu.polar import polar_factor
from sigmascope.maths.gpu.triangular import inverse_of_lower

RELATIVE_EPS = 1e-6  # of the mean variance, where no eps is given
# A squared distance below this share of its bound is the rounding of an affine activation.
AFFINE = 1e-12
# A variance below this share of the squares it was computed from is rounding.
CANCELED = 1e-13
# Singular values below this share of the largest are not told from zero.
SMALLEST_RATIO = 1e-12


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
    """The optimal map W H Wᵀ, and the squared distance it leaves over its bound."""

    whiten: Tensor
    stretch: Tensor
    map: Tensor
    share: Tensor


@dataclass(frozen=True)
class _Units:
    """Both covariances with eps added, and the one between them, in units of the mean variances.

    x comes before y in `floors`, what eps is in these units, and in `units`.
    """

    source: Tensor
    target: Tensor
    cross: Tensor
    floors: tuple[Tensor, ...]
    units: tuple[Tensor, ...]

    def share(self, mapped: Tensor, sound: Tensor) -> Tensor:
        """Return the squared distance after a map (..., d, d) over its bound; NaN if unsound."""
        d, (floor_x, floor_y) = mapped.shape[-1], self.floors
        moved = (mapped * (floor_x[..., None, None] * mapped + 2 * self.cross)).sum(dim=(-2, -1))
        share = (d * (2 + floor_y) - moved) / (2 * d * (1 + floor_y))
        return share.clamp_min(0).where(sound, math.nan)


def _in_units(
    x: Tensor, y: Tensor, cross: Tensor, eps: float | None, relative: float = RELATIVE_EPS
) -> _Units:
    units = tuple(one.diagonal(dim1=-2, dim2=-1).mean(dim=-1) for one in (x, y))
    floors = tuple(torch.full_like(unit, relative) if eps is None else eps / unit for unit in units)
    source, target = (one / unit[..., None, None] for one, unit in zip((x, y), units, strict=True))
    for one, floor in ((source, floors[0]), (target, floors[1])):
        one.diagonal(dim1=-2, dim2=-1).add_(floor[..., None])
    root_x, root_y = (unit.sqrt()[..., None, None] for unit in units)
    cross = cross / root_x / root_y  # the product of both units may not fit into a float64
    return _Units(source, target, cross, floors, units)


def _transport(given: _Units) -> _Transport:
    """Return the map by one Cholesky and one symmetric eigendecomposition."""
    lower, failed = torch.linalg.cholesky_ex(given.source)
    product, sound = _sound(lower.mT @ (given.target @ lower), failed)
    squared, vectors = torch.linalg.eigh(product)
    smallest = torch.finfo(squared.dtype).eps * squared[..., -1:]
    stretch = squared.clamp_min(smallest).sqrt()
    whiten = torch.linalg.solve_triangular(lower.mT, vectors, upper=True)
    mapped = (whiten * stretch[..., None, :]) @ whiten.mT
    return _Transport(whiten, stretch, mapped, given.share(mapped, sound))


def _sound(product: Tensor, failed: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices, the identity for those that cannot be decomposed, and which can.

    A part of the samples may not vary, or have a singular covariance without eps.
    """
    sound = (failed == 0) & torch.isfinite(product).all(dim=(-2, -1))
    return product.where(sound[..., None, None], _identity(product)), sound


def _identity(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _shares_by_products(given: _Units) -> Tensor:
    """Return the squared distances over their bounds by matrix products alone, for a GPU."""
    lower_x, failed_x = torch.linalg.cholesky_ex(given.source)
    lower_y, failed_y = torch.linalg.cholesky_ex(given.target)
    product, sound = _sound(lower_y.mT @ lower_x, failed_x | failed_y)
    scale = torch.linalg.matrix_norm(product)[..., None, None]
    # The floors bound the singular values from below: 1e-6 times the mean, or eps itself.
    least = torch.stack(given.floors).prod(dim=0).sqrt() / scale[..., 0, 0]
    smallest = float(least.where(sound, 1.0).min().clamp(SMALLEST_RATIO, 0.5))
    flat = (product / scale).reshape(-1, *product.shape[-2:])
    rotation = polar_factor(flat, smallest=2.0 ** math.floor(math.log2(smallest)))
    white = torch.linalg.solve_triangular(
        lower_x, rotation.reshape(product.shape), upper=False, left=False
    )
    return given.share(lower_y @ white, sound)


def scores_of(x: Tensor, y: Tensor, cross: Tensor, *, eps: float | None) -> Tensor:
    """Return the scores (...) of covariances (..., d, d)."""
    given = _in_units(x, y, cross, eps)
    on_host = x.device.type == "cpu"
    return 1 - (_transport(given).share if on_host else _shares_by_products(given)).sqrt()


def score_and_gradient(
    x: Tensor, y: Tensor, cross: Tensor, *, eps: float | None, relative: float = RELATIVE_EPS
) -> tuple[Tensor, Tensor]:
    r"""Return the scores (s,) and their gradients (s, 2d, 2d) with respect to the joint covariance.

    Where eps is None, `relative` of the mean variances is added to the diagonals.

    From $A\Sigma_XA = \Sigma_Y$ follows $A\Sigma_X\,dA + dA\,\Sigma_XA = d\Sigma_Y -
    A\,d\Sigma_X\,A$, so that $\langle M, dA\rangle = \langle W^{-\top}\Lambda W^{-1},
    d\Sigma_Y\rangle - \langle WH\Lambda HW^\top, d\Sigma_X\rangle$ with $\Lambda_{ij} =
    (W^\top MW)_{ij} / (h_i+h_j)$.
    """
    given = _in_units(x, y, cross, eps, relative)
    at = _transport(given)
    w, h, floor = at.whiten, at.stretch, given.floors[0][:, None, None]
    inner = w.mT @ (floor * at.map + (given.cross + given.cross.mT) / 2) @ w
    inner = inner / (h[:, :, None] + h[:, None, :])
    outer, back = w * h[:, None, :], given.source @ w
    to_x, to_y = 2 * outer @ inner @ outer.mT, -2 * back @ inner @ back.mT
    return _with_gradient(
        given, _Slopes(at.map, at.share, to_x, to_y), relative if eps is None else 0.0
    )


def score_and_gradient_by_products(
    x: Tensor, y: Tensor, cross: Tensor, *, relative: float = RELATIVE_EPS
) -> tuple[Tensor, Tensor]:
    r"""Return what `score_and_gradient` returns without eps, by matrix products, for a GPU.

    The host waits for nothing, so that it can be captured in a CUDA graph. With $\Sigma_X =
    LL^\top$, $H = L^\top AL$ and the K with $HK + KH = L^{-1}ML^{-\top}$, it is $\langle M,
    dA\rangle = \langle LKL^\top, d\Sigma_Y\rangle$ up to the basis: see `score_and_gradient`.
    """
    given, d = _in_units(x, y, cross, None, relative), x.shape[-1]
    # both at once, and one inverse instead of six triangular solves
    both, failed = torch.linalg.cholesky_ex(torch.cat([given.source, given.target]))
    (lower_x, lower_y), (failed_x, failed_y) = both.chunk(2), failed.chunk(2)
    product, sound = _sound(lower_y.mT @ lower_x, failed_x | failed_y)
    identity = _identity(product).expand_as(product)
    lower_x = lower_x.where(sound[:, None, None], identity)
    inverse = inverse_of_lower(lower_x)
    scale = torch.linalg.matrix_norm(product)[:, None, None]
    # Singular values are at least the floor, and no norm exceeds the traces, d(1 + floor).
    smallest = 2.0 ** math.floor(math.log2(relative / (1 + relative) / d))
    root = polar_factor(product / scale, smallest=smallest).mT @ (product / scale)
    root = (root + root.mT) / 2  # H over its scale
    mapped = inverse.mT @ (root * scale) @ inverse
    middle = given.floors[0][:, None, None] * mapped + (given.cross + given.cross.mT) / 2
    right = inverse @ middle @ inverse.mT
    inner = solve_lyapunov(root, (right + right.mT) / 2, smallest=smallest) / scale
    to_x = 2 * inverse.mT @ (root @ inner @ root * scale**2) @ inverse
    to_y = -2 * lower_x @ inner @ lower_x.mT
    share = given.share(mapped, sound)
    return _with_gradient(given, _Slopes(mapped, share, to_x, to_y), relative)


@dataclass(frozen=True)
class _Slopes:
    """The optimal map, the share of the bound it leaves, and how that changes with x and y."""

    map: Tensor
    share: Tensor
    to_x: Tensor
    to_y: Tensor


def _with_gradient(given: _Units, at: _Slopes, eps: float) -> tuple[Tensor, Tensor]:
    """Return the scores (s,) and their gradients (s, 2d, 2d) from the parts of the derivative.

    `eps` is the relative one, 0 where it is absolute.
    """
    d, to_x, to_y = at.map.shape[-1], at.to_x, at.to_y
    # what the diagonal terms of eps, which follow the variances, add
    trace_x, trace_y = (one.diagonal(dim1=1, dim2=2).sum(dim=1) for one in (to_x, to_y))
    more_x = eps / d * (trace_x - at.map.square().sum(dim=(1, 2)))
    more_y = 2 + eps * (1 + trace_y / d) - 2 * at.share * (1 + eps)
    to_x.diagonal(dim1=1, dim2=2).add_(more_x[:, None])
    to_y.diagonal(dim1=1, dim2=2).add_(more_y[:, None])
    unit_x, unit_y = (unit[:, None, None] for unit in given.units)
    between = -at.map / unit_x.sqrt() / unit_y.sqrt()  # half, for it stands on both sides
    joint = torch.cat(
        [torch.cat([to_x / unit_x, between], dim=2), torch.cat([between.mT, to_y / unit_y], dim=2)],
        dim=1,
    )
    root = at.share.sqrt()
    bound = 2 * d * (1 + given.floors[1][:, None, None])
    slope = torch.where(at.share > AFFINE, -0.5 / root.clamp_min(AFFINE), 0)
    return 1 - root, joint / bound * slope[:, None, None]
