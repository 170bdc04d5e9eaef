r"""Covariance estimates $\Sigma = w\,X^\top X + c\,I$ with a weight $w$ and a floor $c$."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from sigmascope.maths.samples import Array, Number, as_matrix, like_input, standardize

# The smallest floor, for data of unit variance: the rounding noise of a centered float64 sample,
# 1e-16, is far below the standard deviation 1e-12 by which it is divided.
SMALLEST_FLOOR = 1e-24
# By default this share of the mean variance is added to the diagonal.
RELATIVE_EPS = 1e-6


@dataclass(frozen=True)
class Covariance:
    r"""The estimate $w\,X^\top X + c\,I_d$, by its scatter on the r <= d coordinates in use.

    Attributes:
        scatter: $X^\top X$, (..., r, r).
        weight: w, (...).
        floor: c, (...).
        shrinkage: intensity of the shrinkage to a multiple of the identity, in [0, 1], (...).
        trace: over all d coordinates, (...).
        raised: whether the floor was below the smallest one and is now that, (...).
    """

    scatter: Tensor
    weight: Tensor
    floor: Tensor
    shrinkage: Tensor
    trace: Tensor
    raised: Tensor

    def matrix(self) -> Tensor:
        """Return the estimate on the coordinates in use, (..., r, r)."""
        result = self.weight[..., None, None] * self.scatter
        result.diagonal(dim1=-2, dim2=-1).add_(self.floor[..., None])
        return result

    def condition(self) -> Tensor:
        """Return an upper bound of the condition number, (...)."""
        largest: Tensor = torch.linalg.matrix_norm(self.scatter)
        return 1 + self.weight * largest / self.floor


@dataclass(frozen=True)
class Moments:
    r"""Sums over a centered sample X of n rows that an estimator needs, each (...).

    `total` $= \sum_k\|x_k\|^2$, `fourth` $= \sum_k\|x_k\|^4$, `size` $= \|X^\top X\|_F^2$, and
    `distance` is the squared one of $X^\top X$ from the multiple of the identity with its trace.
    """

    rows: int
    total: Tensor
    fourth: Tensor
    size: Tensor
    distance: Tensor


class Weights(NamedTuple):
    """The numbers that make a scatter an estimate, see `Covariance`; each (...)."""

    weight: Tensor
    floor: Tensor
    shrinkage: Tensor
    trace: Tensor
    raised: Tensor


def estimate(
    centered: Tensor, *, width: int | Tensor, method: str, eps: Tensor | None
) -> Covariance:
    """Return the covariance of centered samples (..., n, r) in units of their spread.

    Args:
        centered: (..., n, r), the coordinates in which the data are not zero.
        width: d, the dimension of the space; larger than r, or smaller with zero padding.
        method: a name of `ESTIMATORS`.
        eps: added to the diagonal, (...); None adds `RELATIVE_EPS` of the mean variance.
    """
    scatter = centered.mT @ centered
    squared = centered.square().sum(dim=-1)
    total, size = squared.sum(dim=-1), scatter.square().sum(dim=(-2, -1))
    mean, r = total / width, scatter.shape[-1]
    # From the difference itself, not from a difference of two squares, which cancels for isotropic
    # data. Each coordinate that is not there differs by the mean.
    identity = torch.eye(r, dtype=scatter.dtype, device=scatter.device)
    difference = scatter - mean[..., None, None] * identity
    distance = difference.square().sum(dim=(-2, -1)) + (width - r) * mean.square()
    moments = Moments(squared.shape[-1], total, squared.square().sum(dim=-1), size, distance)
    found = weigh(moments, width=width, method=method, eps=eps, smallest=SMALLEST_FLOOR)
    return Covariance(scatter, *found)


def weigh(
    moments: Moments,
    *,
    width: int | Tensor,
    method: str,
    eps: Tensor | float | None,
    smallest: Tensor | float,
) -> Weights:
    """Return the weights of an estimate, see `estimate`; no floor is below `smallest`."""
    weight, floor, shrinkage = ESTIMATORS[method](moments, width)
    if eps is None:
        eps = RELATIVE_EPS * (weight * moments.total / width + floor)
    floor = floor + eps
    trace = weight * moments.total + width * floor
    return Weights(weight, floor.clamp_min(smallest), shrinkage, trace, floor < smallest)


def ledoit_wolf(x: Array) -> tuple[Array, Number]:
    r"""Return the Ledoit–Wolf covariance of the rows of `x` and its shrinkage intensity.

    $\hat\Sigma = (1-s)S + s\,\mu I$ with the biased S, $\mu = \mathrm{tr}S/d$ and $s = \min(1,
    \beta^2/\delta^2)$, where $\delta^2 = \|S-\mu I\|_F^2$ and $\beta^2 =
    n^{-2}\sum_k\|x_kx_k^\top-S\|_F^2$. Ledoit and Wolf, J. Multivariate Analysis 88, 2004.

    Args:
        x: (n, d), rows are samples.

    Returns:
        The covariance (d, d) and s in [0, 1]: an array and a float for NumPy input, tensors with
        gradient for torch input.

    Raises:
        InputError, InputTypeError: see `sigmascope.affinity`.

    >>> import numpy as np
    >>> covariance, shrinkage = ledoit_wolf(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.5]]))
    >>> covariance.round(3).tolist(), round(shrinkage, 3)
    ([[0.732, 0.552], [0.552, 0.99]], 0.338)
    """
    sample = as_matrix(x, "x")
    points, unit = standardize(sample)
    zero = torch.zeros_like(unit)
    shrunk = estimate(points, width=points.shape[1], method="ledoit-wolf", eps=zero)
    matrix = shrunk.matrix() * unit.square()
    return (matrix if isinstance(x, Tensor) else matrix.numpy()), like_input(shrunk.shrinkage, x)


Estimator: TypeAlias = Callable[[Moments, int | Tensor], tuple[Tensor, Tensor, Tensor]]


def _divided(lost: int) -> Estimator:
    def estimator(moments: Moments, width: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        zero = torch.zeros_like(moments.total)
        return zero + 1 / (moments.rows - lost), zero, zero

    return estimator


def _shrunk(moments: Moments, width: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n, distance = moments.rows, moments.distance
    noise = moments.fourth - moments.size / n
    fixed = (distance <= 0) | (torch.as_tensor(width) <= 1)
    ratio = torch.minimum(noise.clamp_min(0), distance) / distance.masked_fill(fixed, 1)
    shrinkage = ratio.masked_fill(fixed, 0)
    return (1 - shrinkage) / n, shrinkage * moments.total / width / n, shrinkage


ESTIMATORS: dict[str, Estimator] = {
    "ledoit-wolf": _shrunk,
    "unbiased": _divided(1),
    "biased": _divided(0),
}
"""Name -> function of the moments and the dimension d; returns weight, floor, shrinkage, (...)."""
