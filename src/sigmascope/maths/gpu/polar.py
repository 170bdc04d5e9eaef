r"""The orthogonal polar factor of many matrices at once, by matrix products alone.

$X \leftarrow X(a + bX^\top X + c(X^\top X)^2)$ preserves the polar factor of X and applies the odd
polynomial $at + bt^3 + ct^5$ to its singular values. Each step takes the polynomial nearest to 1 on
the interval that contains the singular values, so that few steps carry all of them to 1.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

Polynomial = tuple[float, float, float]

ROUNDING = 1e-16  # of float64

# Taylor's polynomial at 1, whose error is 5/2 e³ for singular values within e of 1.
NEAR_ONE: Polynomial = (15 / 8, -10 / 8, 3 / 8)


def polar_factor(matrices: Tensor, *, smallest: float, error: float = ROUNDING) -> Tensor:
    """Return the orthogonal polar factors of (b, r, r) with singular values in [smallest, 1].

    Those of the result are within `error` of 1; fewer steps do for a larger one.

    >>> matrix = torch.tensor([[[0.0, 0.5], [-0.25, 0.0]]], dtype=torch.float64)
    >>> polar_factor(matrix, smallest=0.25).round(decimals=12).abs()
    tensor([[[0., 1.],
             [1., 0.]]], dtype=torch.float64)
    """
    for linear, cubic, quintic in polynomials(smallest, error):
        # a + bs + cs² = c(s + b/2c)² + a - b²/4c: sums on diagonals only, so that each step is
        # three products and no copy.
        inner = torch.bmm(matrices.mT, matrices)
        inner.diagonal(dim1=1, dim2=2).add_(cubic / (2 * quintic))
        inner = torch.baddbmm(inner, inner, inner, beta=0, alpha=quintic)
        inner.diagonal(dim1=1, dim2=2).add_(linear - cubic**2 / (4 * quintic))
        matrices = torch.bmm(matrices, inner)
    return matrices


@functools.lru_cache(maxsize=256)
def polynomials(smallest: float, error: float = ROUNDING) -> list[Polynomial]:
    """Return the polynomials that carry [smallest, 1] to 1 within an error."""
    low, high, steps = smallest, 1.0, []
    while high - low > 0.02:
        polynomial, distance = _nearest_to_one(low, high)
        steps.append(polynomial)
        low, high = 1 - distance, 1 + distance
    distance = max(high - 1, 1 - low)
    while distance > error:
        steps.append(NEAR_ONE)
        distance = 2.5 * distance**3
    return steps


def _nearest_to_one(low: float, high: float) -> tuple[Polynomial, float]:
    """Return the odd quintic nearest to 1 on [low, high] and its distance (Remez's exchange)."""
    inside = low + (high - low) * np.array([0.25, 0.75])
    for _ in range(50):
        points = np.array([low, *inside, high])
        system = np.stack([points, points**3, points**5, [1, -1, 1, -1]], axis=1)
        linear, cubic, quintic, error = np.linalg.solve(system, np.ones(4))
        # The extrema inside: the roots of a + 3b t² + 5c t⁴.
        root = math.sqrt(9 * cubic**2 - 20 * quintic * linear)
        extrema = np.sqrt(np.sort((-3 * cubic + np.array([-root, root])) / (10 * quintic)))
        if np.allclose(extrema, inside, rtol=1e-12, atol=0):
            break
        inside = extrema
    return (float(linear), float(cubic), float(quintic)), float(abs(error))
