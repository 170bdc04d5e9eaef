"""Covariance estimates of many pairs, on the host, from a few numbers of each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.maths.affine_fit import lacks_variance
from sigmascope.maths.covariance import SMALLEST_FLOOR, Moments, weigh
from sigmascope.maths.gaussians import SQUARABLE_EACH
from sigmascope.maths.samples import LARGEST_VALUE

Vector: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Root mean squares whose fourth powers fit into float64 with room to spare.
SMALLEST_SPREAD, LARGEST_SPREAD = 1e-60, 1e60
# The condition numbers of both covariances may multiply to this: only their roots are multiplied.
LARGEST_CONDITION = 1e13
# A variance nearer to eps, relative to it, is left to `fit`, which rounds in another order.
NEAR = 1e-9
# A scatter nearer to a multiple of the identity, in squares and relative to itself, leaves too few
# digits of the distance when that is a difference of squares.
ISOTROPIC = 1e-5


@dataclass(frozen=True)
class Weighed:
    """The estimates of b pairs, in NumPy, which costs less than torch on so few numbers.

    Attributes:
        weight, floor: the covariances are weight × scatter + floor × identity; (2, b), x before y.
        shrinkage: (2, b).
        trace: of the covariance of y, (b,).
        width: original number of columns of the pair, (b,).
        scale: bounds the singular values of the product of the Cholesky factors, (b,).
        smallest: bounds those of sound pairs, over their scale, from below.
        sound: whether the batched arithmetic is accurate enough, (b,).
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
    summary: Tensor,
    *,
    widths: list[int],
    columns: int,
    covariance: str,
    eps: float | None,
    degenerate: str,
) -> Weighed:
    """Return the estimates from the summary (2, b, n + 2) of a `Stack`.

    `widths` are the b original numbers of columns, `columns` the one used; see `fit`.
    """
    sent = summary.numpy()
    lengths, norm, largest = sent[..., :-2], sent[..., -2], sent[..., -1]
    with np.errstate(all="ignore"):  # what overflows is not sound
        squared, n, width = lengths**2, lengths.shape[-1], np.array(widths, dtype=float)
        total, size = squared.sum(axis=-1), norm**2
        distance, variance = size - total**2 / width, total / (n * width)
        sums = map(torch.from_numpy, (total, (squared**2).sum(axis=-1), size, distance))
        smallest, columns_of = map(torch.from_numpy, (SMALLEST_FLOOR * variance, width))
        found = weigh(
            Moments(n, *sums), width=columns_of, method=covariance, eps=eps, smallest=smallest
        )
        weight, floor, trace = found.weight.numpy(), found.floor.numpy(), found.trace.numpy()[1]
        condition, spread = 1 + weight * norm / floor, np.sqrt(variance)
        sane = (largest <= LARGEST_VALUE) & (spread > SMALLEST_SPREAD)  # both are false for NaN
        sane &= spread < LARGEST_SPREAD
        sane &= (distance > ISOTROPIC * size) | (width <= 1)
        guard = eps if eps is not None and degenerate == "published" else 0.0
        sound = sane.all(axis=0) & ~lacks_variance(trace, width, (1 + NEAR) * guard)
        sound &= (condition.prod(axis=0) < LARGEST_CONDITION) & (
            condition.max(axis=0) < SQUARABLE_EACH
        )
        frobenius = (weight * norm) ** 2 + floor * (2 * weight * total + columns * floor)
        scale = np.sqrt(np.sqrt(frobenius.prod(axis=0)))
        least = (np.sqrt(floor.prod(axis=0)) / scale)[sound].min(initial=0.5)
    return Weighed(weight, floor, found.shrinkage.numpy(), trace, width, scale, float(least), sound)
