r"""Rotations of the channels: drawn, raised to powers, and compared with the identity.

A rotation turns planes: in an orthonormal basis W it is a block diagonal matrix of rotations by
angles θ, and its powers $R^p = W\,\mathrm{diag}(\mathrm{rot}(p\theta))\,W^T$ are a path from the
identity (p = 0) to R (p = 1). They do not commute with an activation, so they lead away from the
basis in which it acts. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import schur
from torch import Tensor

from sigmascope.checks import LARGEST_NUMPY_SEED, check_choice, check_number, check_whole
from sigmascope.choices import Orientation
from sigmascope.errors import InputError
from sigmascope.maths.randomness import as_number
from sigmascope.maths.samples import Array
from sigmascope.symmetry.matrices import as_square, like

TOLERANCE = 1e-6  # how far R Rᵀ may be from the identity: float32 matrices pass

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def random_rotation(n: int, seed: int | torch.Generator) -> Tensor:
    """Return a uniformly random rotation (n, n), float64, with determinant 1.

    It is the Q of a Gaussian matrix, its signs set by R, and its first row negated where det Q =
    -1. The numbers are those of `numpy.random.RandomState`: a whole number gives the same rotation
    everywhere.

    Raises:
        OptionError: n or the seed is out of range.

    >>> R = random_rotation(3, seed=0)
    >>> torch.allclose(R @ R.T, torch.eye(3).double()), round(float(torch.linalg.det(R)), 6)
    (True, 1.0)
    """
    shape = (check_whole("n", n, 1), n)
    source = np.random.RandomState(as_number(seed, LARGEST_NUMPY_SEED))
    Q, R = np.linalg.qr(source.normal(size=shape))
    Q = Q * np.sign(np.diag(R))
    if np.linalg.det(Q) < 0:
        Q[0] = -Q[0]
    return torch.from_numpy(Q)


def rotation_power(R: Array, p: float, *, orientation: Orientation = "signed") -> Any:
    r"""Return the principal power $R^p$: every plane turns by p times its angle in (-π, π].

    The powers are a one-parameter group: $R^0 = I$, $R^1 = R$, $R^a R^b = R^{a+b}$. The eigenvalues
    -1, an even number of them, are taken in pairs as planes that turn by π; which pairs, R leaves
    open, and it is decided here once for all powers.

    Args:
        R: (n, n), orthogonal with determinant 1; n may be odd.
        p: any number.
        orientation: "signed"; or "unsigned" for comparison with published results, which drop the
            sign of each angle: then $R^1$ is R with some of its planes reversed, and only $(R^p +
            R^{-p})/2$ is right.

    Returns:
        (n, n), of the kind, type and device of R.

    Raises:
        InputError: not a rotation.
        OptionError: an invalid orientation or power.

    >>> quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> rotation_power(quarter, 2).round(decimals=12) + 0.0
    tensor([[-1.,  0.],
            [ 0., -1.]], dtype=torch.float64)
    """
    return rotation_powers(R, [p], orientation=orientation)[0]


def rotation_powers(
    R: Array, powers: Sequence[float], *, orientation: Orientation = "signed"
) -> Any:
    """Return powers (p, n, n) of a rotation, which is factored once; see `rotation_power`.

    >>> R = random_rotation(3, seed=0)
    >>> half, whole = rotation_powers(R, [0.5, 1.0])
    >>> torch.allclose(half @ half, R), torch.allclose(whole, R)
    (True, True)
    """
    check_choice("orientation", orientation, Orientation)
    rotation = _as_rotation(R)
    exponents = [check_number("power", p, -math.inf, strict=True) for p in powers]
    if not exponents:
        raise InputError("powers is empty. Pass at least one number.")
    W, planes = _planes(rotation, orientation)
    made = np.stack([_power(rotation, W, planes, p, orientation) for p in exponents])
    return like(torch.from_numpy(made), R)


def deviation(R: Array) -> float:
    r"""Return the spectral norm of R - I; for a rotation $2 \max \sin(|\theta|/2)$.

    >>> deviation(-torch.eye(2))
    2.0
    """
    matrix = as_square(R, "R").detach().cpu()
    identity = torch.eye(len(matrix), dtype=matrix.dtype)
    return float(torch.linalg.matrix_norm(matrix - identity, ord=2))


def _as_rotation(R: Array) -> Matrix:
    matrix = as_square(R, "R").detach().cpu().numpy()
    off = float(np.abs(matrix @ matrix.T - np.eye(len(matrix))).max())
    if off > TOLERANCE:
        raise InputError(
            f"R is not orthogonal: R Rᵀ differs from the identity by {off:.1e}. Pass a rotation."
        )
    if np.linalg.det(matrix) < 0:
        raise InputError("R has determinant -1; powers need a rotation. Negate one row.")
    return matrix


def _planes(rotation: Matrix, orientation: str) -> tuple[Matrix, list[tuple[int, int, float]]]:
    """Return an orthonormal basis in columns, and the planes: two columns and an angle."""
    T, W = schur(rotation, output="real")
    planes, reversed_ = [], []
    i = 0
    while i < len(T):
        # LAPACK writes exact zeros below blocks of size one
        if i + 1 < len(T) and T[i + 1, i] != 0:
            # The block is a rotation up to rounding; both of its sines and cosines count.
            angle = math.atan2(T[i + 1, i] - T[i, i + 1], T[i, i] + T[i + 1, i + 1])
            planes.append((i, i + 1, angle if orientation == "signed" else abs(angle)))
            i += 2
        else:
            reversed_ += [i] if T[i, i] < 0 else []
            i += 1
    # an even number, since the determinant is 1
    pairs = zip(reversed_[::2], reversed_[1::2], strict=True)
    return W, planes + [(one, two, math.pi) for one, two in pairs]


def _power(
    rotation: Matrix, W: Matrix, planes: list[tuple[int, int, float]], p: float, orientation: str
) -> Matrix:
    if p == 0:
        return np.eye(len(rotation))
    if p == 1 and orientation == "signed":
        return rotation.copy()
    B = np.eye(len(rotation))
    for i, j, angle in planes:
        cosine, sine = math.cos(p * angle), math.sin(p * angle)
        B[i, i] = B[j, j] = cosine
        B[i, j], B[j, i] = -sine, sine
    return W @ B @ W.T
