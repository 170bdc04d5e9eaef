"""Fit the optimal affine map to a pair of samples, and measure the remaining distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.covariance import ESTIMATORS, estimate
from sigmascope.maths.gaussians import factor
from sigmascope.maths.samples import (
    Array,
    as_matrix,
    as_pair,
    check_eps,
    plain,
    square_root,
    standardize,
)
from sigmascope.maths.transport import Coupling, couple, pair_up, span_coordinates

COUPLINGS: dict[str, Callable[[Tensor, Tensor], Coupling]] = {"optimal": couple, "paired": pair_up}
"""Name -> function of the mapped x and of y, both (n, r)."""


@dataclass(frozen=True)
class Fit:
    """The score of a pair and what it was computed from; Bouniot et al., arXiv:2310.11439.

    Attributes:
        score: 1 - w2 / bound.
        w2: distance between the mapped x and y; where `degenerate`, between the mean of y and y.
        bound: the root of twice the trace of the covariance of y.
        shrinkage_x: shrinkage intensity of the covariance of x.
        shrinkage_y: shrinkage intensity of the covariance of y.
        variance: mean variance of y, eps included.
        degenerate: whether y varies too little for a map.
        certified: how the coupling was proved optimal, see `Coupling`; "none" without coupling.
    """

    score: Tensor
    w2: Tensor
    bound: Tensor
    shrinkage_x: float
    shrinkage_y: float
    variance: float
    degenerate: bool
    certified: str


def fit(x: Tensor, y: Tensor, *, covariance: str, eps: float, coupling: str) -> Fit:
    """Return the fit of the optimal affine map between the Gaussians of x (n, d) and y (m, d).

    The samples are float64, and eps is in their units. The options are names of `ESTIMATORS` and
    `COUPLINGS`. Bouniot et al., CVPR 2025, arXiv:2310.11439.
    """
    (points_x, unit_x), (points_y, unit_y) = standardize(x), standardize(y)
    points_x, points_y = span_coordinates(points_x, points_y)
    width = x.shape[1]
    source = estimate(points_x, width=width, method=covariance, eps=eps / unit_x.square())
    target = estimate(points_y, width=width, method=covariance, eps=eps / unit_y.square())
    degenerate = bool(lacks_variance(target.trace, width, eps / unit_y.square()))
    if degenerate:
        coupled = Coupling(points_y.square().sum() / len(points_y), "none")
    else:
        mapped = factor(points_x, points_y, source, target).apply(points_x, source, target)
        coupled = COUPLINGS[coupling](mapped, points_y)
    w2, bound = square_root(coupled.w2_squared), square_root(2 * target.trace)
    return Fit(
        # bound 0: a constant y and eps 0, whose limit is 1
        score=1 - w2 / bound if plain(bound) > 0 else 1 - w2,
        w2=unit_y * w2,
        bound=unit_y * bound,
        shrinkage_x=plain(source.shrinkage),
        shrinkage_y=plain(target.shrinkage),
        variance=plain(target.trace * unit_y.square()) / width,
        degenerate=degenerate,
        certified=coupled.certified,
    )


def lacks_variance(trace: Array, width: int | Array, eps: Tensor | float) -> Array:
    """Return whether the mean variance is at most eps, which `trace` contains once already."""
    return trace <= 2 * eps * width


@dataclass(frozen=True)
class AffineMap:
    """An affine map of row vectors.

    Attributes:
        matrix: (d, d), symmetric positive semi-definite.
        shift: (d,).
    """

    matrix: Array
    shift: Array

    def __call__(self, points: Array) -> Array:
        """Return the mapped rows of `points` (k, d), of the kind of the map, in float64."""
        rows = as_matrix(points, "points", rows=1)
        matrix, shift = torch.as_tensor(self.matrix), torch.as_tensor(self.shift)
        same = isinstance(points, Tensor) == isinstance(self.matrix, Tensor)
        if not same or rows.device != matrix.device:
            raise InputTypeError(
                "points and the map are of different kinds or on different devices. Pass "
                "points as x was passed."
            )
        if rows.shape[1] != len(shift):
            raise InputError(
                f"points has {rows.shape[1]} columns and the map {len(shift)}. Pass equal numbers."
            )
        mapped = rows @ matrix + shift
        return mapped if isinstance(points, Tensor) else mapped.numpy()


def affine_map(
    x: Array, y: Array, *, covariance: str = "ledoit-wolf", eps: float = 1e-6
) -> AffineMap:
    r"""Return the optimal affine map $T(x) = A(x-m_X)+m_Y$ between the Gaussians of two samples.

    $A = \Sigma_X^{-1/2}(\Sigma_X^{1/2}\Sigma_Y\Sigma_X^{1/2})^{1/2}\Sigma_X^{-1/2}$ is the only
    positive semi-definite matrix with $A\Sigma_XA = \Sigma_Y$. Bouniot et al., CVPR 2025,
    arXiv:2310.11439.

    Args:
        x: (n, d), rows are samples.
        y: (m, d).
        covariance: "ledoit-wolf", "unbiased" or "biased".
        eps: added to the diagonal of both covariances.

    Returns:
        An `AffineMap` of NumPy arrays, or of tensors with gradient, as the input.

    Raises:
        InputError, InputTypeError, OptionError: see `sigmascope.affinity`.

    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> affine_map(x, 3 * x + 1, covariance="unbiased", eps=0)(np.array([[5.0]]))
    array([[16.]])
    """
    check_choice("covariance", covariance, ESTIMATORS)
    eps = check_eps(eps)
    rows_x, rows_y = as_pair(x, y)
    (points_x, unit_x), (points_y, unit_y) = standardize(rows_x), standardize(rows_y)
    width = rows_x.shape[1]
    source = estimate(points_x, width=width, method=covariance, eps=eps / unit_x.square())
    target = estimate(points_y, width=width, method=covariance, eps=eps / unit_y.square())
    axes = torch.eye(width, dtype=torch.float64, device=rows_x.device)
    image = factor(points_x, points_y, source, target).apply(axes, source, target)
    matrix = (image + image.mT) / 2 * (unit_y / unit_x)
    shift = rows_y.mean(dim=0) - rows_x.mean(dim=0) @ matrix
    if isinstance(x, Tensor):
        return AffineMap(matrix, shift)
    return AffineMap(matrix.numpy(), shift.numpy())
