"""The Hilbert–Schmidt independence criterion (HSIC) of kernels, by its unbiased estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Bytes of the rows of kernels that are centered at a time.
BLOCK_BYTES = 2**21
# Powers of two by which kernels are divided stay in this range, so that they and their inverses are
# normal numbers.
EXPONENT = 1000


class Products(NamedTuple):
    """HSIC of kernels, each divided by a power of two so that no square overflows or vanishes.

    Attributes:
        cross: (k, l), of each x with each y.
        x, y: (k,) and (l,), of each with itself; 0 for a kernel that is constant off its diagonal.
        same: (k, l), which pairs of kernels are equal, entry by entry, before the division.
        x_units, y_units: the divisors.
    """

    cross: Tensor
    x: Tensor
    y: Tensor
    same: Tensor
    x_units: list[float]
    y_units: list[float]

    def divided(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the HSIC of (x, y), (x, x) and (y, y) of two divided kernels, for their cosine."""
        return float(self.cross[i, j]), float(self.x[i]), float(self.y[j])

    def hsic(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the same of the kernels themselves; infinite or 0 where that is out of range."""
        x, y = self.x_units[i], self.y_units[j]
        across, one, other = self.divided(i, j)
        return across * x * y, one * x * x, other * y * y


def hsic_products(x: Sequence[Tensor], y: Sequence[Tensor]) -> Products:
    r"""Return the unbiased HSIC of each kernel of `x` with each of `y`, in float64.

    $U_{ij} = K_{ij} - (r_i + r_j)/(n - 2) + \sum r / ((n - 1)(n - 2))$ off the diagonal and 0 on
    it, with r the sums of the rows of K; then $\mathrm{HSIC}_1(K, L) = \sum U_K U_L / (n (n - 3))$.
    Song et al., JMLR 2012. Kernels are read a few rows at a time. Each is divided by a power of two
    near its largest entry, which rounds nothing. They are (n, n) with n >= 4, symmetric, with a
    diagonal of zeros.
    """
    units = [[_unit(kernel) for kernel in side] for side in (x, y)]
    sums = [
        [_row_terms(*one) for one in zip(side, own, strict=True)]
        for side, own in zip((x, y), units, strict=True)
    ]
    n, device = len(x[0]), x[0].device
    cross = torch.zeros(len(x), len(y), dtype=torch.float64, device=device)
    selves = [torch.zeros(len(side), dtype=torch.float64, device=device) for side in (x, y)]
    same = torch.ones(len(x), len(y), dtype=torch.bool)
    step = max(1, BLOCK_BYTES // (8 * n * (len(x) + len(y))))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        for i, j in torch.nonzero(same).tolist():
            same[i, j] = torch.equal(x[i][rows], y[j][rows])
        left, right = (
            torch.stack([_centered_rows(*one, rows) for one in zip(side, own, terms, strict=True)])
            for side, own, terms in zip((x, y), units, sums, strict=True)
        )
        cross += left @ right.T
        for one, block in zip(selves, (left, right), strict=True):
            one += block.square().sum(dim=1)
    for one, side, own in zip(selves, (x, y), units, strict=True):
        floor = [_rounding(kernel, unit) for kernel, unit in zip(side, own, strict=True)]
        one[one <= torch.tensor(floor, dtype=torch.float64, device=device)] = 0
    return Products(
        cross / (n * (n - 3)), selves[0] / (n * (n - 3)), selves[1] / (n * (n - 3)), same, *units
    )


def _unit(kernel: Tensor) -> float:
    """Return a power of two near the largest entry."""
    largest = max(abs(float(end)) for end in torch.aminmax(kernel))
    exponent = math.frexp(largest)[1] if largest else 0
    return 2.0 ** max(-EXPONENT, min(exponent, EXPONENT))


def _row_terms(kernel: Tensor, unit: float) -> Tensor:
    """Return t (n,); t_i + t_j is subtracted from entry (i, j)."""
    n = len(kernel)
    sums = torch.cat(
        [(rows.double() / unit).sum(dim=1) for rows in torch.split(kernel, _rows_at_once(n))]
    )
    return sums / (n - 2) - sums.sum() / (2 * (n - 1) * (n - 2))


def _centered_rows(kernel: Tensor, unit: float, terms: Tensor, rows: slice) -> Tensor:
    block = kernel[rows].double() / unit
    block -= terms[rows, None]
    block -= terms
    block.diagonal(offset=rows.start).zero_()
    return block.flatten()


def _rounding(kernel: Tensor, unit: float) -> float:
    """Return the sum of squares that rounding may leave of a kernel constant off its diagonal."""
    parts = torch.split(kernel, _rows_at_once(len(kernel)))
    squares = math.fsum(float((rows.double() / unit).square_().sum()) for rows in parts)
    return (16 * torch.finfo(kernel.dtype).eps) ** 2 * squares


def _rows_at_once(n: int) -> int:
    return max(1, BLOCK_BYTES // (8 * n))
