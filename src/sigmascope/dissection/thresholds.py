"""Quantiles of values that come in parts: exact, in memory that holds the values above them and no
others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sigmascope.errors import InputError

__all__ = ["Tops", "kept_values"]


def kept_values(total: int, quantile: float) -> int:
    """Return how many of the largest of `total` values decide a quantile.

    >>> kept_values(1000, 0.995)
    6
    """
    return total - math.floor((total - 1) * quantile)


class Tops:
    """The largest values of each of several rows, as many as a quantile near 1 needs.

    Args:
        total: how many values each row will have in the end.
        quantile: from 0 to 1.
    """

    def __init__(self, total: int, quantile: float) -> None:
        self._total, self._quantile = total, quantile
        self._keep = kept_values(total, quantile)
        self._seen = 0
        self._values: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Take in a part of the values, (rows, m)."""
        self._seen += values.shape[1]
        found = values if self._values is None else torch.cat([self._values, values], dim=1)
        # The order within is of no interest until the end.
        self._values = found.topk(min(self._keep, found.shape[1]), dim=1, sorted=False).values

    def quantiles(self) -> Tensor:
        """Return the quantile of each row, (rows,), float64, interpolated linearly between two
        values as NumPy does.

        Raises:
            InputError: not as many values came as were announced.
        """
        if self._values is None or self._seen != self._total:
            raise InputError(
                f"{self._seen} values of each unit came where {self._total} were announced. "
                "Pass all samples."
            )
        place = (self._total - 1) * self._quantile
        weight = place - math.floor(place)
        largest = self._values.double().sort(dim=1, descending=True).values
        low, high = largest[:, self._keep - 1], largest[:, max(self._keep - 2, 0)]
        return low + (high - low) * weight
