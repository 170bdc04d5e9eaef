"""How alike two sets of features are: results that say which number is which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope.tables import number

__all__ = ["CkaSimilarity", "ProcrustesSimilarity", "channel_note"]


@dataclass(frozen=True, repr=False, eq=False)
class ProcrustesSimilarity:
    """Features compared after the best alignment of their channels.

    Attributes:
        similarity: 1 - distance: larger is more alike. NaN only with a `reason`.
        distance: the normalised distance that is left, from 0.
        group: "relu": permutations, each channel divided by its norm; or "orthogonal": rotations
            and reflections.
        normaliser: "authors" or "live", see `procrustes`.
        alignment: (c, c), the permutation or orthogonal matrix that takes the normalised channels
            of x nearest to those of y; it acts on columns. The narrower side is filled up with zero
            channels. None where there is no similarity.
        channels: of x and y.
        live: how many of them are not zero everywhere.
        samples: how many were compared.
        reason: why there is no similarity, or what a reader of it should know.
    """

    similarity: float
    distance: float
    group: str
    normaliser: str
    alignment: Matrix | None
    channels: tuple[int, int]
    live: tuple[int, int]
    samples: int
    reason: str

    @property
    def permutation(self) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """(c,), the channel of y that each channel of x is matched with; None for the orthogonal group."""
        if self.group != "relu" or self.alignment is None:
            return None
        matched: np.ndarray[Any, np.dtype[np.int64]] = self.alignment.argmax(axis=0).astype(
            np.int64
        )
        return matched

    def __repr__(self) -> str:
        how = f"group={self.group}" + (
            f", normaliser={self.normaliser}" if self.group == "relu" else ""
        )
        return _shown(
            "Procrustes",
            self.similarity,
            self.distance,
            how,
            self.live,
            self.channels,
            self.samples,
            self.reason,
        )


@dataclass(frozen=True, repr=False, eq=False)
class CkaSimilarity:
    """Features compared by centered kernel alignment.

    Attributes:
        similarity: CKA itself, from -1 to 1: larger is more alike. NaN only with a `reason`.
        distance: 1 - similarity.
        group: whose elements it does not see: "relu" or, with normalise="none", "orthogonal".
        kernel: "max" or "median" over the channels, or "sum", the linear kernel.
        normalise: "channels" or "none".
        centered: whether the mean of each channel was taken off.
        hsic: unbiased, of (x, y), (x, x) and (y, y).
        channels: of x and y.
        live: how many of them vary; without centring, how many are not zero everywhere.
        samples: how many were compared.
        reason: why there is no similarity, or what a reader of it should know.
    """

    similarity: float
    distance: float
    group: str
    kernel: str
    normalise: str
    centered: bool
    hsic: tuple[float, float, float]
    channels: tuple[int, int]
    live: tuple[int, int]
    samples: int
    reason: str

    def __repr__(self) -> str:
        how = (
            f"group={self.group}, kernel={self.kernel}, normalise={self.normalise}, "
            f"centered={self.centered}"
        )
        return _shown(
            "CKA",
            self.similarity,
            self.distance,
            how,
            self.live,
            self.channels,
            self.samples,
            self.reason,
        )


def channel_note(live: tuple[int, int], channels: tuple[int, int], what: str) -> str:
    """Say which side has channels that carry nothing.

    >>> channel_note((6, 8), (8, 8), "zero everywhere")
    '2 of 8 channels of x are zero everywhere'
    """
    sides = zip("xy", live, channels, strict=True)
    return "; ".join(
        f"{all_ - some} of {all_} channels of {name} are {what}"
        for name, some, all_ in sides
        if some < all_
    )


def _shown(
    what: str,
    similarity: float,
    distance: float,
    how: str,
    live: tuple[int, int],
    channels: tuple[int, int],
    samples: int,
    reason: str,
) -> str:
    numbers = f"{what} similarity {number(similarity)}, distance {number(distance)}"
    counts = f"{samples} samples, live channels {live[0]}/{channels[0]} and {live[1]}/{channels[1]}"
    note = f"\n{'No similarity' if math.isnan(similarity) else 'Note'}: {reason}." if reason else ""
    return f"{numbers} ({how}; {counts}){note}"
