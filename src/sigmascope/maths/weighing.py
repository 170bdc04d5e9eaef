"""Estimate the covariances of many pairs on the host, from a few numbers of each that the device
has sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.maths.covariance import SMALLEST_FLOOR, Moments, weigh
from sigmascope.maths.fit import lacks_variance
from sigmascope.maths.gaussians import SQUARABLE, SQUARABLE_EACH
from sigmascope.maths.samples import LARGEST_VALUE, ROUNDING

__all__ = ["Weighed", "weigh_stack"]

Vector: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# The root mean squares of samples whose fourth powers fit into float64 with room to spare.
SMALLEST_SPREAD, LARGEST_SPREAD = 1e-60, 1e60
# An output whose variance exceeds eps by less, relative to it, is left to `fit`, which rounds its
# trace in another order.
NEAR = 1e-9
# A scatter matrix that is nearer to a multiple of the identity, in squares and relative to itself,
# leaves too few digits of the distance when that is a difference of squares.
ISOTROPIC = 1e-5


@dataclass(frozen=True)
class Weighed:
    """What the host knows of b pairs, in NumPy: on so few numbers each step of torch would cost
    more than the arithmetic.

    Attributes:
        weight, floor: the covariances are weight × scatter + floor × identity; (2, b), x before y.
        shrinkage: (2, b).
        trace: of the covariance of y, (b,).
        width: the columns that the pair came with, (b,).
        scale: no singular value of the product of the Cholesky factors is larger, (b,).
        smallest: no singular value of a sound pair, over its scale, is smaller.
        sound: whether the numbers are fit for the arithmetic of stacks, (b,).
    """

    weight: Vector
    floor: Vector
    shrinkage: Vector
    trace: Vector
    width: Vector
    scale: Vector
    smallest: float
    sound: Vector


def weigh_stack(
    summary: Tensor, *, widths: list[int], columns: int, covariance: str, eps: float
) -> Weighed:
    """Compute the estimates.

    Args:
        summary: (2, b, n + 2): the lengths of the centered rows, the Frobenius norm of the scatter,
            and the largest value.
        widths: the b numbers of columns that the pairs came with.
        columns: how many they are computed with.
        covariance: a name of `ESTIMATORS`.
        eps: added to the diagonals.
    """
    lengths, norm, largest = (
        summary.numpy()[..., :-2],
        summary.numpy()[..., -2],
        summary.numpy()[..., -1],
    )
    with np.errstate(all="ignore"):  # what overflows is not sound
        squared, n, width = lengths**2, lengths.shape[-1], np.array(widths, dtype=float)
        total, size = squared.sum(axis=-1), norm**2
        distance, variance = size - total**2 / width, total / (n * width)
        moments = Moments(
            n, *map(torch.from_numpy, (total, (squared**2).sum(axis=-1), size, distance))
        )
        smallest = torch.from_numpy(SMALLEST_FLOOR * variance)
        found = weigh(
            moments, width=torch.from_numpy(width), method=covariance, eps=eps, smallest=smallest
        )
        weight, floor, trace = found.weight.numpy(), found.floor.numpy(), found.trace.numpy()[1]
        condition, spread = 1 + weight * norm / floor, np.sqrt(variance)
        sane = (largest <= LARGEST_VALUE) & (spread > ROUNDING * largest)  # both are false for NaN
        sane &= (
            (spread > SMALLEST_SPREAD)
            & (spread < LARGEST_SPREAD)
            & ((distance > ISOTROPIC * size) | (width <= 1))
        )
        sound = sane.all(axis=0) & ~lacks_variance(trace, width, (1 + NEAR) * eps)
        sound &= (condition.prod(axis=0) < SQUARABLE) & (condition.max(axis=0) < SQUARABLE_EACH)
        frobenius = (weight * norm) ** 2 + floor * (2 * weight * total + columns * floor)
        scale = np.sqrt(np.sqrt(frobenius.prod(axis=0)))
        least = (np.sqrt(floor.prod(axis=0)) / scale)[sound].min(initial=0.5)
    return Weighed(weight, floor, found.shrinkage.numpy(), trace, width, scale, float(least), sound)
