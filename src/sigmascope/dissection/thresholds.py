"""Exact quantiles of values that arrive in parts, keeping only the values above them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sigmascope.errors import InputError

__all__ = ["Tops", "kept_values"]


def kept_values(total: int, quantile: float) -> int:
    """Return how many of the largest of `total` values determine a quantile.

    >>> kept_values(1000, 0.995)
    6
    """
    return total - math.floor((total - 1) * quantile)


class Tops:
    """The largest values of each of several rows, as many as a quantile near 1 needs.

    Args:
        total: the number of values of each row in the end.
        quantile: from 0 to 1.
    """

    def __init__(self, total: int, quantile: float) -> None:
        self._total, self._quantile = total, quantile
        self._keep = kept_values(total, quantile)
        self._seen = 0
        self._values: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Add a part of the values, (rows, m)."""
        self._seen += values.shape[1]
        merged = values if self._values is None else torch.cat([self._values, values], dim=1)
        # they are sorted only in the end
        self._values = merged.topk(min(self._keep, merged.shape[1]), dim=1, sorted=False).values

    def quantiles(self) -> Tensor:
        """Return the quantile of each row, (rows,), float64, interpolated linearly as by NumPy.

        Raises:
            InputError: the number of values is not `total`.
        """
        if self._values is None or self._seen != self._total:
            raise InputError(
                f"expected {self._total} values of each unit, got {self._seen}. Pass all samples."
            )
        place = (self._total - 1) * self._quantile
        weight = place - math.floor(place)
        largest = self._values.double().sort(dim=1, descending=True).values
        low, high = largest[:, self._keep - 1], largest[:, max(self._keep - 2, 0)]
        return low + (high - low) * weight
