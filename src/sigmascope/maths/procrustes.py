r"""Aligning the channels of two sets of features: by a permutation, or by an orthogonal matrix.

The cross-Gram $G_{cc'} = \sum_k x_{ck} y_{c'k}$ and the squared norms of the channels suffice, so
features may come in batches and need not be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Alignment:
    """The element of a group, (c, c), that takes normalized features nearest to others.

    y ≈ matrix @ x for columns, the narrower side padded; `squared` is the remaining distance.
    """

    matrix: Matrix
    squared: float


def align_by_permutation(gram: Matrix, x_squares: Vector, y_squares: Vector) -> Alignment:
    r"""Return the best matching of channels one to one, each divided by its norm.

    $d^2 = \ell_x + \ell_y - 2 \max_P \sum_i \tilde G_{i P(i)}$ with $\ell$ the numbers of non-zero
    channels. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        gram: (c1, c2), the cross-Gram.
        x_squares: (c1,), the squared norms of the channels of x.
        y_squares: (c2,), of y.

    >>> gram, x_squares, y_squares = [[0.0, 2.0], [3.0, 0.0]], [1.0, 9.0], [1.0, 4.0]
    >>> align_by_permutation(*map(np.array, (gram, x_squares, y_squares)))
    Alignment(matrix=array([[0., 1.],
           [1., 0.]]), squared=0.0)
    """
    cosines = _squared_up(_inverse_roots(x_squares)[:, None] * gram * _inverse_roots(y_squares))
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    matched = float(cosines[rows, columns].sum())
    matrix = np.zeros_like(cosines)
    matrix[columns, rows] = 1
    live = int(np.count_nonzero(x_squares)) + int(np.count_nonzero(y_squares))
    return Alignment(matrix, max(float(live) - 2 * matched, 0.0))


def align_by_rotation(gram: Matrix, x_squares: Vector, y_squares: Vector) -> Alignment:
    r"""Return the best rotation or reflection of channels, all divided by one norm.

    $d^2 = 2 - 2 \|G\|_* / (\|x\| \|y\|)$; neither x nor y is zero. See `align_by_permutation`.
    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    >>> align_by_rotation(np.array([[0.0, -1.0], [1.0, 0.0]]), np.ones(2), np.ones(2)).matrix
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    # One square root after the other: the product of the squares may not fit into a float64.
    cosines = _squared_up(gram / np.sqrt(x_squares.sum()) / np.sqrt(y_squares.sum()))
    left, values, right = np.linalg.svd(cosines)
    return Alignment(right.T @ left.T, max(2 - 2 * float(values.sum()), 0.0))


def _inverse_roots(squares: Vector) -> Vector:
    """Return 1/√s, and 0 for the channels that are zero."""
    roots: Vector = np.sqrt(squares)
    return np.divide(1, roots, out=np.zeros_like(roots), where=roots > 0)


def _squared_up(matrix: Matrix) -> Matrix:
    """Return a matrix padded with zeros to a square."""
    rows, columns = matrix.shape
    size = max(rows, columns)
    return np.pad(matrix, ((0, size - rows), (0, size - columns)))
