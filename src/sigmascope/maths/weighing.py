"""Estimate the covariances of many pairs on the host, from a few numbers of each that the device has sent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.maths.covariance import SMALLEST_FLOOR, Moments, weigh
from sigmascope.maths.fit import lacks_variance
from sigmascope.maths.gaussians import SQUARABLE, SQUARABLE_EACH
from sigmascope.maths.samples import LARGEST_VALUE, ROUNDING

__all__ = ["Weighed", "weigh_stack"]

# The root mean squares of samples whose fourth powers fit into float64 with room to spare.
SMALLEST_SPREAD, LARGEST_SPREAD = 1e-60, 1e60
# A scatter matrix that is nearer to a multiple of the identity, in squares and relative to itself, leaves too few digits of
# the distance when that is a difference of squares.
ISOTROPIC = 1e-5


@dataclass(frozen=True)
class Weighed:
    """What the host knows of b pairs; the first axis of length 2, where there is one, tells x from y.

    Attributes:
        weight, floor: the covariances are weight × scatter + floor × identity; (2, b).
        shrinkage: (2, b).
        trace: of the covariance of y, (b,).
        width: the columns that the pair came with, (b,).
        scale: no singular value of the product of the Cholesky factors is larger, (b,).
        smallest: ... and none, over the scale, is smaller than this; a number for all sound pairs.
        sound: whether the numbers are fit for the arithmetic of stacks, (b,).
    """

    weight: Tensor
    floor: Tensor
    shrinkage: Tensor
    trace: Tensor
    width: Tensor
    scale: Tensor
    smallest: float
    sound: Tensor

    @property
    def variance(self) -> Tensor:
        """The mean variance of y, eps included, (b,)."""
        return self.trace / self.width


def weigh_stack(summary: Tensor, *, widths: list[int], columns: int, covariance: str, eps: float) -> Weighed:
    """Compute the estimates.

    Args:
        summary: (2, b, n + 2): the lengths of the centred rows, the Frobenius norm of the scatter, and the largest value.
        widths: the b numbers of columns that the pairs came with.
        columns: how many they are computed with.
        covariance: a name of `ESTIMATORS`.
        eps: added to the diagonals.
    """
    squared, norm, largest = summary[..., :-2].square(), summary[..., -2], summary[..., -1]
    n, width = squared.shape[-1], torch.tensor(widths, dtype=torch.float64)
    total, size = squared.sum(dim=-1), norm.square()
    distance = size - total.square() / width
    variance = total / (n * width)
    moments = Moments(n, total, squared.square().sum(dim=-1), size, distance)
    found = weigh(moments, width=width, method=covariance, eps=eps, smallest=SMALLEST_FLOOR * variance)
    condition = 1 + found.weight * norm / found.floor
    spread = variance.sqrt()
    sane = (largest <= LARGEST_VALUE) & (spread > ROUNDING * largest)  # both are false for NaN
    sane &= (spread > SMALLEST_SPREAD) & (spread < LARGEST_SPREAD) & ((distance > ISOTROPIC * size) | (width <= 1))
    sound = sane.all(dim=0) & ~lacks_variance(found.trace[1], width, eps)
    sound &= (condition.prod(dim=0) < SQUARABLE) & (condition.amax(dim=0) < SQUARABLE_EACH)
    frobenius = (found.weight * norm).square() + found.floor * (2 * found.weight * total + columns * found.floor)
    scale = frobenius.prod(dim=0).sqrt().sqrt()
    smallest = (found.floor.prod(dim=0).sqrt() / scale)[sound]
    return Weighed(
        weight=found.weight,
        floor=found.floor,
        shrinkage=found.shrinkage,
        trace=found.trace[1],
        width=width,
        scale=scale,
        smallest=float(smallest.amin()) if len(smallest) else 0.5,
        sound=sound,
    )
