"""Polynomial fits through few points, with a leave-one-out R²."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from sigmascope.compare.networks import is_constant
from sigmascope.maths.warping import Curve

# A point of this leverage determines a coefficient alone: without it there is no fit.
WHOLE_LEVERAGE = 1 - 1e-9


class Regression(NamedTuple):
    """A fitted polynomial.

    Attributes:
        coefficients: of 1, x, x²; empty where there is no fit.
        r2: on the points themselves.
        r2_loo: each point predicted from the others.
        reason: why there is no fit, or no `r2_loo`.
    """

    coefficients: tuple[float, ...]
    r2: float
    r2_loo: float
    reason: str


def regress(x: Curve, y: Curve, degree: int) -> Regression:
    r"""Return the polynomial fitted by ordinary least squares.

    $R^2 = 1 - \sum e_i^2 / \sum (y_i - \bar y)^2$. Leaving out point i makes its error $e_i / (1 -
    h_i)$, where $h_i$ is the diagonal of the projection onto the polynomials, so no second fit is
    needed. Leave-one-out $R^2$ can be negative: the mean would have predicted better.

    Args:
        x: (n,).
        y: (n,).
        degree: 1 or more.

    >>> regress(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 3.0, 5.0, 7.0]), 1).r2_loo
    1.0
    >>> regress(np.array([0.0, 1.0]), np.array([1.0, 3.0]), 1).reason
    '2 points; a fit of degree 1 needs at least 3'
    """
    if reason := _obstacle(x, y, degree):
        return Regression((), math.nan, math.nan, reason)
    # On [-1, 1] the powers are well conditioned, whatever the unit of x.
    domain = [float(x.min()), float(x.max())]
    inside = (2 * x - domain[0] - domain[1]) / (domain[1] - domain[0])
    basis, upper = np.linalg.qr(np.vander(inside, degree + 1, increasing=True))
    errors = y - basis @ (basis.T @ y)
    leverages = np.square(basis).sum(axis=1)
    total = float(np.square(y - y.mean()).sum())
    scaled = Polynomial(np.linalg.solve(upper, basis.T @ y), domain=domain)
    coefficients = tuple(np.resize([*scaled.convert().coef, *[0.0] * degree], degree + 1).tolist())
    r2 = 1 - float(np.square(errors).sum()) / total
    if leverages.max() > WHOLE_LEVERAGE:
        reason = "one point decides the fit alone, so none is left without it"
        return Regression(coefficients, r2, math.nan, reason)
    r2_loo = 1 - float(np.square(errors / (1 - leverages)).sum()) / total
    return Regression(coefficients, r2, r2_loo, "")


def _obstacle(x: Curve, y: Curve, degree: int) -> str:
    fit = f"a fit of degree {degree} needs at least"
    if len(x) <= degree + 1:
        return f"{len(x)} point{'s' * (len(x) != 1)}; {fit} {degree + 2}"
    if is_constant(x):
        return "the predictor is the same for all"
    if (different := len(np.unique(x))) <= degree:
        return f"the predictor takes {different} values; {fit} {degree + 1}"
    return "the accuracy is the same for all" if is_constant(y) else ""
