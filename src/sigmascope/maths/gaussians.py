r"""Affine transport between Gaussians.

With $\Sigma_X = L_XL_X^\top$ and the eigenvectors V, eigenvalues $h^2$ of $L_X^\top\Sigma_YL_X$,
put $W = L_X^{-\top}V$ and $Z = Wh$. Then $W^\top\Sigma_XW = I$, $\Sigma_Y = ZZ^\top$, and the
optimal map between the two Gaussians is $A = WZ^\top$: whiten, stretch, color. No matrix square
root and no inverse is formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.errors import GradientError, InputError, InputTypeError
from sigmascope.maths.covariance import Covariance
from sigmascope.maths.samples import Array, Number, as_matrix, like_input, plain, square_root

# Products of two covariances are formed if their condition numbers multiply to less than this: the
# smallest eigenvalue then keeps three digits. Beyond, see `_factor_root`.
SQUARABLE = 1e12
SQUARABLE_EACH = 1e9


@dataclass(frozen=True)
class GaussianMap:
    """The factors of the optimal map A = W Zᵀ: `whiten` W, `color` Z (r, r), `stretch` h (r,)."""

    whiten: Tensor
    color: Tensor
    stretch: Tensor

    def apply(self, x: Tensor, source: Covariance, target: Covariance) -> Tensor:
        """Return the mapped rows of `x` (n, r), with a gradient to `x` and both covariances."""
        if not (x.requires_grad or source.scatter.requires_grad or target.scatter.requires_grad):
            return (x @ self.whiten) @ self.color.mT
        arguments = x, source.matrix(), target.matrix(), self.whiten, self.color, self.stretch
        mapped: Tensor = _Apply.apply(*arguments)  # type: ignore[no-untyped-call]
        return mapped


def factor(x: Tensor, y: Tensor, source: Covariance, target: Covariance) -> GaussianMap:
    """Return the factors of the optimal map between two Gaussians, without gradients.

    `source` and `target` are the estimates of the centered samples x (n, r) and y (m, r).
    """
    with torch.no_grad():
        one, other = source.condition(), target.condition()
        small = (one * other < SQUARABLE) & (torch.maximum(one, other) < SQUARABLE_EACH)
        if bool(small):
            return _factor_square(source.matrix(), target.matrix())
        return _factor_root(x, y, source, target)


def _factor_square(source: Tensor, target: Tensor) -> GaussianMap:
    """Factor by one Cholesky and one symmetric eigendecomposition."""
    lower = torch.linalg.cholesky(source)
    squared, vectors = torch.linalg.eigh(lower.mT @ (target @ lower))
    # The floors of both covariances bound the product from below; rounding may not.
    stretch = squared.clamp_min(torch.finfo(squared.dtype).eps * squared[-1]).sqrt()
    whiten = torch.linalg.solve_triangular(lower.mT, vectors, upper=True)
    return GaussianMap(whiten, target @ ((lower @ vectors) / stretch), stretch)


def _factor_root(x: Tensor, y: Tensor, source: Covariance, target: Covariance) -> GaussianMap:
    """Factor by two QR and one SVD, without a covariance: no condition number is squared."""
    lower_x, lower_y = _root(x, source), _root(y, target)
    left, stretch, right = torch.linalg.svd(lower_y @ lower_x.mT)
    whiten = torch.linalg.solve_triangular(lower_x, right.mT, upper=True)
    smallest = torch.finfo(stretch.dtype).tiny
    return GaussianMap(whiten, lower_y.mT @ left, stretch.clamp_min(smallest))


def _root(sample: Tensor, covariance: Covariance) -> Tensor:
    r"""Return the upper triangular R with $R^\top R = w\,X^\top X + c\,I$."""
    identity = torch.eye(sample.shape[-1], dtype=sample.dtype, device=sample.device)
    stacked = torch.cat([covariance.weight.sqrt() * sample, covariance.floor.sqrt() * identity])
    triangle: Tensor = torch.linalg.qr(stacked, mode="r").R
    return triangle


class _Apply(torch.autograd.Function):
    r"""x A as a function of x and the two covariances.

    From $A\Sigma_XA = \Sigma_Y$ follows $A\Sigma_X\,dA + dA\,\Sigma_XA = d\Sigma_Y -
    A\,d\Sigma_X\,A$, which W and h diagonalize. Divisors are sums $h_i + h_j$, never differences:
    equal eigenvalues do no harm.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        x, source, _, whiten, color, stretch = inputs
        ctx.save_for_backward(x, source, whiten, color, stretch)
        return (x @ whiten) @ color.mT

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # create_graph=True, which once_differentiable lets pass when nothing here needs a gradient
        if torch.is_grad_enabled():
            raise GradientError(
                "the score has first derivatives only. Call backward() without create_graph=True."
            )
        x, source, whiten, color, stretch = ctx.saved_tensors
        (gradient,) = gradients
        to_map = x.mT @ gradient
        inner = whiten.mT @ ((to_map + to_map.mT) / 2) @ whiten / (stretch[:, None] + stretch)
        unwhiten = source @ whiten
        to_source = -color @ inner @ color.mT
        to_target = unwhiten @ inner @ unwhiten.mT
        return (gradient @ color) @ whiten.mT, to_source, to_target, None, None, None


def w2_gaussian(mean_x: Array, covariance_x: Array, mean_y: Array, covariance_y: Array) -> Number:
    r"""Return the Wasserstein distance $W_2$ between two Gaussians.

    $W_2^2 = \|m_X-m_Y\|^2 + \mathrm{tr}\bigl(\Sigma_X + \Sigma_Y -
    2(\Sigma_X^{1/2}\Sigma_Y\Sigma_X^{1/2})^{1/2}\bigr)$. Bouniot et al., CVPR 2025,
    arXiv:2310.11439.

    Args:
        mean_x: (d,).
        covariance_x: (d, d), symmetric and positive semi-definite.
        mean_y: (d,).
        covariance_y: (d, d).

    Returns:
        The distance: a float for NumPy input, a 0-d tensor with gradient for torch input.

    Raises:
        InputError: shapes do not match, or a covariance is not symmetric positive semi-definite.
        InputTypeError: see `sigmascope.affinity`.

    >>> import numpy as np
    >>> w2_gaussian(np.zeros(4), np.eye(4), np.zeros(4), 4 * np.eye(4))
    2.0
    """
    first, second = _gaussian(mean_x, covariance_x, "x"), _gaussian(mean_y, covariance_y, "y")
    if first[0].shape != second[0].shape:
        raise InputError(
            f"the means have {len(first[0])} and {len(second[0])} entries. Pass equal numbers."
        )
    if len({isinstance(part, Tensor) for part in (mean_x, covariance_x, mean_y, covariance_y)}) > 1:
        raise InputTypeError(
            "means and covariances are of different kinds. Pass all as arrays or all as tensors."
        )
    if len({part.device for part in (*first, *second)}) > 1:
        raise InputTypeError(
            "means and covariances are on different devices. Move them to one with .to(...)."
        )
    squared = (first[0] - second[0]).square().sum() + _Bures.apply(first[1], second[1])  # type: ignore[no-untyped-call]
    return like_input(square_root(squared), mean_x)


class _Bures(torch.autograd.Function):
    r"""tr(S + T - 2 (S^½ T S^½)^½) of two covariances.

    The squared distance of their roots after the best rotation, $\|S^{1/2} - Q\,T^{1/2}\|_F^2$,
    does not cancel for covariances that are close. Its gradients are $I - A$ and $I - A^{-1}$ with
    the optimal map A.
    """

    @staticmethod
    def forward(ctx: Any, *covariances: Tensor) -> Tensor:
        root_x, root_y = (_symmetric_root(covariance) for covariance in covariances)
        left, _, right = torch.linalg.svd(root_y @ root_x)
        rotation = right.mT @ left.mT
        ctx.save_for_backward(root_x, root_y, rotation)
        squared: Tensor = (root_x - rotation @ root_y).square().sum()
        return squared

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        root_x, root_y, rotation = ctx.saved_tensors
        identity = torch.eye(len(root_x), dtype=root_x.dtype, device=root_x.device)
        forth = torch.linalg.pinv(root_x, hermitian=True) @ rotation @ root_y
        back = root_x @ rotation @ torch.linalg.pinv(root_y, hermitian=True)
        symmetric = ((one + one.mT) / 2 for one in (forth, back))
        return tuple(gradients[0] * (identity - one) for one in symmetric)


def _gaussian(mean: Array, covariance: Array, name: str) -> tuple[Tensor, Tensor]:
    matrix = as_matrix(covariance, f"covariance_{name}", rows=1)
    square = matrix.shape[0] == matrix.shape[1]
    if not square or bool((matrix - matrix.mT).abs().max() > 1e-8 * matrix.abs().max()):
        raise InputError(
            f"covariance_{name} is not symmetric. Pass a covariance (d, d), e.g. np.cov(x.T)."
        )
    if getattr(mean, "ndim", None) != 1:
        raise InputError(f"mean_{name} is not a vector. Pass a mean (d,), e.g. x.mean(0).")
    center = as_matrix(mean[None], f"mean_{name}", rows=1)[0]
    if len(center) != len(matrix):
        raise InputError(
            f"mean_{name} has {len(center)} entries and covariance_{name} {len(matrix)}. "
            "Pass those of one sample."
        )
    return center, (matrix + matrix.mT) / 2


def _symmetric_root(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    smallest, largest = plain(values[0]), plain(values[-1])
    if smallest < -1e-8 * max(largest, 0.0) or largest < 0:
        raise InputError(
            f"a covariance has eigenvalue {smallest:.3g} < 0. Pass a positive semi-definite matrix."
        )
    root: Tensor = (vectors * square_root(values.clamp_min(0))) @ vectors.mT
    return root
