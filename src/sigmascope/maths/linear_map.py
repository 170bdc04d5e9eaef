"""Least squares of many rows from their sums, and how well a linear map explains other rows.

The rows come in batches and are not kept: the memory depends on the number of channels only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.maths.estimate import Estimate, jackknifed

SINGULAR = 1e-9
"""Smallest eigenvalue of the correlations of the inputs that needs no ridge."""
RIDGE = 1e-6
"""The ridge where one is needed, as a share of the variance of each input channel."""
CONSTANT = 1e-14
"""A variance is zero up to rounding below this share of the mean square."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map with intercept, x to weight @ x + shift.

    Attributes:
        weight: (e, d).
        shift: (e,).
        ridge: added to the variance of each input, as a share of it; 0 for plain least squares.
    """

    weight: Tensor
    shift: Tensor
    ridge: float

    def __call__(self, x: Tensor) -> Tensor:
        """Return the image (n, e) of rows (n, d)."""
        return torch.addmm(self.shift, x, self.weight.T)


class RegressionSums:
    """Sums of rows x and y, in float64, from which least squares are solved.

    >>> sums = RegressionSums()
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> sums.add(x, 3 * x + 2)
    >>> fitted = sums.solve()
    >>> round(fitted.weight.item(), 6), round(fitted.shift.item(), 6), fitted.ridge
    (3.0, 2.0, 0.0)
    """

    def __init__(self) -> None:
        self.count = 0
        self._shift_x = self._shift_y = torch.zeros(0)
        self._x = self._y = self._xx = self._xy = torch.zeros(0)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add rows (n, d) and (n, e)."""
        if not len(x):
            return
        x, y = as_double(x), as_double(y)
        if not self.count:  # sums around these lose no digits
            self._shift_x, self._shift_y = x.mean(dim=0), y.mean(dim=0)
            self._x, self._y = torch.zeros_like(self._shift_x), torch.zeros_like(self._shift_y)
            self._xx = x.new_zeros(x.shape[1], x.shape[1])
            self._xy = x.new_zeros(x.shape[1], y.shape[1])
        if x.shape[1] != len(self._x) or y.shape[1] != len(self._y):
            raise InputError(
                f"rows of {x.shape[1]} and {y.shape[1]} channels after rows of {len(self._x)} and "
                f"{len(self._y)}. All batches must have the same channels."
            )
        x, y = x - self._shift_x, y - self._shift_y
        self.count += len(x)
        self._x += x.sum(dim=0)
        self._y += y.sum(dim=0)
        self._xx.addmm_(x.T, x)
        self._xy.addmm_(x.T, y)

    def is_finite(self) -> bool:
        """Return whether all rows so far were finite."""
        return bool(self._xx.isfinite().all() & self._xy.isfinite().all())

    def solve(self) -> LinearMap:
        """Return the map with the least mean square error, with an intercept.

        A ridge of `RIDGE` times the variance of each input is added where the correlation matrix of
        the inputs is singular: where its least eigenvalue is below `SINGULAR`, as with fewer rows
        than channels, or behind a layer norm, whose outputs sum to a constant.

        Raises:
            InputError: fewer than two rows.
        """
        if self.count < 2:
            raise InputError(f"a linear map needs at least 2 rows to be fitted, got {self.count}.")
        mean_x, mean_y = self._x / self.count, self._y / self.count
        within = self._xx / self.count - torch.outer(mean_x, mean_x)
        across = self._xy / self.count - torch.outer(mean_x, mean_y)
        variance = within.diagonal().clamp_min(0)
        varies = variance > CONSTANT * ((mean_x + self._shift_x).square() + variance)
        scale = torch.where(varies, variance, 1.0).sqrt()
        correlation = within / torch.outer(scale, scale)
        # a constant input has no part in the map
        correlation = torch.where(torch.outer(varies, varies), correlation, 0.0)
        correlation.diagonal().copy_(torch.ones_like(scale))
        across = torch.where(varies[:, None], across / scale[:, None], 0.0)
        ridge = 0.0
        if self.count <= int(varies.sum()) or float(_least(correlation)) < SINGULAR:
            ridge = RIDGE
            correlation.diagonal().add_(ridge)
        weight = torch.linalg.solve(correlation, across) / scale[:, None]
        shift = mean_y + self._shift_y - (mean_x + self._shift_x) @ weight
        return LinearMap(weight.T.contiguous(), shift, ridge)


class ResidualSums:
    """Sums of what a map leaves of outputs, by group of samples, and of how outputs vary.

    Args:
        fitted: the map.
        groups: the number of groups.
        steps: whether inputs and outputs are of one width, so that increments y - x exist.
    """

    def __init__(self, fitted: LinearMap, groups: int, *, steps: bool) -> None:
        self._map, self._steps = fitted, steps
        e, like = len(fitted.shift), fitted.shift
        self.counts = like.new_zeros(groups)
        self._residual = like.new_zeros(groups)
        self.cosine = like.new_zeros(groups)
        self._first = like.new_zeros(2, groups, e)
        self._square = like.new_zeros(2, groups)
        self._origin: Tensor | None = None

    def add(self, x: Tensor, y: Tensor, group: Tensor) -> None:
        """Add rows (n, d) and (n, e), each of the group (n,) of its sample."""
        if not len(x):
            return
        x, y = as_double(x), as_double(y)
        self.counts.index_add_(0, group, torch.ones_like(y[:, 0]))
        self._residual.index_add_(0, group, (y - self._map(x)).square().sum(dim=1))
        outputs = torch.stack([y, y - x]) if self._steps else y[None]
        if self._origin is None:
            self._origin = outputs.mean(dim=1, keepdim=True)
        centered = outputs - self._origin
        for place, one in enumerate(centered):
            self._first[place].index_add_(0, group, one)
            self._square[place].index_add_(0, group, one.square().sum(dim=1))
        if self._steps:
            cosine = torch.nn.functional.cosine_similarity(x, y, dim=1)
            self.cosine.index_add_(0, group, cosine)

    def explained(self, *, increment: bool = False) -> Estimate:
        """Return R²: the share of the variance of y, or of y - x, that the map explains.

        The variance is around the mean of the rows added, summed over channels. The map of y - x
        is that of y less the identity, so both leave the same residual.
        """
        place = int(increment)
        sums = self.counts, self._residual, self._first[place], self._square[place]
        return jackknifed(_share_explained, *sums, counts=self.counts)


def mean_influence(*sums: ResidualSums) -> Estimate:
    """Return 1 minus the mean cosine of x and y, over the rows of several sums."""
    cosine = torch.cat([one.cosine for one in sums])
    counts = torch.cat([one.counts for one in sums])
    return jackknifed(lambda total, count: 1 - total / count, cosine, counts, counts=counts)


def _share_explained(count: Tensor, residual: Tensor, first: Tensor, square: Tensor) -> Tensor:
    total = square - first.square().sum() / count
    return torch.where(total > CONSTANT * square, 1 - residual / total, torch.nan)


def _least(matrix: Tensor) -> Tensor:
    """Return the least eigenvalue of a symmetric matrix."""
    least: Tensor = torch.linalg.eigvalsh(matrix)[0]
    return least


def as_double(rows: Tensor) -> Tensor:
    """Return rows in float64, on the CPU if the device has no such numbers."""
    return (rows.cpu() if rows.device.type == "mps" else rows).double()
