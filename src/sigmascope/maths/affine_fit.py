"""Fit the optimal affine map to a pair of samples, and measure the remaining distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import GradientError, InputError, InputTypeError
from sigmascope.maths.covariance import ESTIMATORS, SMALLEST_FLOOR, Covariance, estimate
from sigmascope.maths.gaussians import factor
from sigmascope.maths.samples import (
    ROUNDING,
    Array,
    as_matrix,
    as_pair,
    check_eps,
    limits_of,
    plain,
    rounding_of,
    square_root,
    standardize,
)
from sigmascope.maths.transport import Coupling, couple, pair_up, span_coordinates

# An eps beyond this, in units of the data, is as good as infinite; its multiples are still finite.
LARGEST_EPS = 1e270

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
        degenerate: whether y varies too little for a map.
        certified: how the coupling was proved optimal, see `Coupling`; "none" without coupling.
        note: where eps is too small for float64, what was added in its place.
        moved: how many rows the coupling moves, see `Coupling`; not counted on an accelerator.
    """

    score: Tensor
    w2: Tensor
    bound: Tensor
    shrinkage_x: float
    shrinkage_y: float
    degenerate: bool
    certified: str
    note: str = ""
    moved: int = 0


def fit(
    x: Tensor,
    y: Tensor,
    *,
    covariance: str,
    eps: float | None,
    coupling: str,
    degenerate: str = "nan",
    rounding: tuple[float, float] = (ROUNDING, ROUNDING),
) -> Fit:
    """Return the fit of the optimal affine map between the Gaussians of x (n, d) and y (m, d).

    Bouniot et al., CVPR 2025, arXiv:2310.11439.

    Args:
        x: float64.
        y: float64.
        covariance: a name of `ESTIMATORS`.
        eps: in squared units of the data; None for a share of the mean variance, see `estimate`.
        coupling: a name of `COUPLINGS`.
        degenerate: "published" counts a mean variance of y up to eps as too little, if eps is a
            number; anything else counts only what is constant to rounding.
        rounding: of x and y as they were given, see `rounding_of`. As published, a number for eps
            leaves all variation in the data that float64 has.
    """
    seen = rounding if eps is None else (ROUNDING, ROUNDING)
    (points_x, unit_x), (points_y, unit_y) = map(standardize, (x, y), seen)
    if x.requires_grad and not points_x.any():
        points_x = _Refused.apply(points_x)  # type: ignore[no-untyped-call]
    points_x, points_y = span_coordinates(points_x, points_y)
    width, eps_y = x.shape[1], _in_units(eps, unit_y)
    source = estimate(points_x, width=width, method=covariance, eps=_in_units(eps, unit_x))
    target = estimate(points_y, width=width, method=covariance, eps=eps_y)
    if degenerate == "published" and eps_y is not None:
        lacking = bool(lacks_variance(target.trace, width, eps_y))
    else:
        lacking = bool(limits_of(y).constant(rounding[1]).all())
    if lacking:
        coupled = Coupling(points_y.square().sum() / len(points_y), "none")
    else:
        mapped = factor(points_x, points_y, source, target).apply(points_x, source, target)
        coupled = COUPLINGS[coupling](mapped, points_y)
    w2, bound = square_root(coupled.w2_squared), square_root(2 * target.trace)
    return Fit(
        # bound 0: a constant y and no eps, whose limit is 1
        score=1 - w2 / bound if plain(bound) > 0 else 1 - w2,
        w2=unit_y * w2,
        bound=unit_y * bound,
        shrinkage_x=plain(source.shrinkage),
        shrinkage_y=plain(target.shrinkage),
        degenerate=lacking,
        certified=coupled.certified,
        note="" if lacking else _note(eps, source, target),
        moved=coupled.moved,
    )


def _in_units(eps: float | None, unit: Tensor) -> Tensor | None:
    """Return eps in squared units, at most what float64 can still square and add up."""
    return None if eps is None else (eps / unit / unit).clamp_max(LARGEST_EPS)


def lacks_variance(trace: Array, width: int | Array, eps: Tensor | float) -> Array:
    """Return whether the mean variance is at most eps, which `trace` contains once already."""
    return trace <= 2 * eps * width


def _note(eps: float | None, source: Covariance, target: Covariance) -> str:
    raised = [name for name, one in (("x", source), ("y", target)) if bool(one.raised)]
    if eps is None or not raised:
        return ""
    return (
        f"eps {eps:.3g} is less than float64 resolves beside the variance of "
        f"{' and '.join(raised)}: about {SMALLEST_FLOOR:g} of it was added instead"
    )


class _Refused(torch.autograd.Function):
    """A constant x: every coupling is optimal, so the score has no gradient there."""

    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        return points.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise GradientError(
            "x is constant, and the score has no gradient with respect to a constant x. Detach x, "
            "leave this score out of the loss, or pass an x that varies."
        )


@dataclass(frozen=True)
class AffineMap:
    """An affine map of row vectors.

    Attributes:
        matrix: (d, d), symmetric positive semi-definite.
        shift: (d,).

    >>> import numpy as np
    >>> double = AffineMap(2 * np.eye(2), np.ones(2))
    >>> double(np.array([[1.0, 3.0]]))
    array([[3., 7.]])
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
    x: Array, y: Array, *, covariance: str = "ledoit-wolf", eps: float | None = None
) -> AffineMap:
    r"""Return the optimal affine map $T(x) = A(x-m_X)+m_Y$ between the Gaussians of two samples.

    $A = \Sigma_X^{-1/2}(\Sigma_X^{1/2}\Sigma_Y\Sigma_X^{1/2})^{1/2}\Sigma_X^{-1/2}$ is the only
    positive semi-definite matrix with $A\Sigma_XA = \Sigma_Y$. Bouniot et al., CVPR 2025,
    arXiv:2310.11439.

    Args:
        x: (n, d), rows are samples.
        y: (m, d).
        covariance: "ledoit-wolf", "unbiased" or "biased".
        eps: added to the diagonal of both covariances; None for 1e-6 of the mean variance of x and
            of y. See `sigmascope.affinity`.

    Returns:
        An `AffineMap` of NumPy arrays, or of tensors with gradient, as the input.

    Raises:
        InputError: x is constant to rounding, and eps is None; see also `sigmascope.affinity`.
        InputTypeError, OptionError: see `sigmascope.affinity`.

    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> affine_map(x, 3 * x + 1, covariance="unbiased", eps=0)(np.array([[5.0]]))
    array([[16.]])
    """
    check_choice("covariance", covariance, ESTIMATORS)
    eps = check_eps(eps)
    rows_x, rows_y = as_pair(x, y)
    rounding = [ROUNDING if eps is not None else rounding_of(sample.dtype) for sample in (x, y)]
    (points_x, unit_x), (points_y, unit_y) = map(standardize, (rows_x, rows_y), rounding)
    if eps is None and not points_x.any():
        raise InputError(
            "x is constant to rounding, and no affine map gives a constant the covariance of y. "
            "Pass an x that varies, or a number for eps."
        )
    width = rows_x.shape[1]
    source = estimate(points_x, width=width, method=covariance, eps=_in_units(eps, unit_x))
    target = estimate(points_y, width=width, method=covariance, eps=_in_units(eps, unit_y))
    axes = torch.eye(width, dtype=torch.float64, device=rows_x.device)
    image = factor(points_x, points_y, source, target).apply(axes, source, target)
    matrix = (image + image.mT) / 2 * (unit_y / unit_x)
    shift = rows_y.mean(dim=0) - rows_x.mean(dim=0) @ matrix
    if isinstance(x, Tensor):
        return AffineMap(matrix, shift)
    return AffineMap(matrix.numpy(), shift.numpy())
