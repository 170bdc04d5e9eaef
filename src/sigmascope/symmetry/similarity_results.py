"""How similar two sets of features are: results that name their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope.tables import Preformatted, number

Permutation = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class FeatureSimilarity(Preformatted):
    """The similarity of two sets of features.

    Attributes:
        similarity: larger is more similar; NaN only with a `reason`.
        distance: 1 - similarity.
        group: whose elements it is invariant to: "relu" or "orthogonal".
        channels: numbers of channels of x and y.
        live: how many of them vary (centered CKA), or are not zero everywhere.
        samples: number of samples.
        reason: why there is no similarity, or what to know about it.
    """

    title: ClassVar[str]

    similarity: float
    distance: float
    group: str
    channels: tuple[int, int]
    live: tuple[int, int]
    samples: int
    reason: str

    def __repr__(self) -> str:
        numbers = f"similarity {number(self.similarity)}, distance {number(self.distance)}"
        how = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown())
        sides = zip(self.live, self.channels, strict=True)
        live = " and ".join(f"{some}/{count}" for some, count in sides)
        text = f"{self.title} {numbers} ({how}; {self.samples} samples, live channels {live})"
        note = "No similarity" if math.isnan(self.similarity) else "Note"
        return f"{text}\n{note}: {self.reason}." if self.reason else text

    def _shown(self) -> tuple[str, ...]:
        return ("group",)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return similarity and distance by name, for a logger; names begin with `prefix`."""
        return {f"{prefix}similarity": self.similarity, f"{prefix}distance": self.distance}


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class ProcrustesSimilarity(FeatureSimilarity):
    """Features compared after the best alignment of their channels; see `procrustes`.

    Attributes:
        normalizer: "authors" or "live".
        alignment: (c, c), the permutation or orthogonal matrix that takes the normalized channels
            of x nearest to those of y; it acts on columns. The narrower side is padded with zero
            channels. None where there is no similarity.

    >>> import numpy as np
    >>> from sigmascope import symmetry
    >>> x = np.random.default_rng(0).standard_normal((60, 3))
    >>> found = symmetry.procrustes(x, x[:, [2, 0, 1]])
    >>> found.permutation.tolist(), round(found.similarity, 6)
    ([1, 2, 0], 1.0)
    """

    title: ClassVar[str] = "Procrustes"

    normalizer: str
    alignment: Matrix | None

    def _shown(self) -> tuple[str, ...]:
        return ("group", "normalizer") if self.group == "relu" else ("group",)

    @property
    def permutation(self) -> Permutation | None:
        """(c,), the channel of y matched with each channel of x; None for the orthogonal group."""
        if self.group != "relu" or self.alignment is None:
            return None
        matched: Permutation = self.alignment.argmax(axis=0).astype(np.int64)
        return matched


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class CkaSimilarity(FeatureSimilarity):
    """Features compared by centered kernel alignment, from -1 to 1; see `cka`.

    Attributes:
        kernel: "max" or "median" over the channels, or "sum", the linear kernel.
        normalize: "channels" or "none"; the orthogonal group is invariant only with "none".
        centered: whether the mean of each channel was subtracted.
        hsic: unbiased, of (x, y), (x, x) and (y, y).

    >>> import numpy as np
    >>> from sigmascope import symmetry
    >>> x = np.random.default_rng(0).standard_normal((60, 6))
    >>> found = symmetry.cka(x, x[:, ::-1])
    >>> found.kernel, found.samples, found.live, round(found.similarity, 6)
    ('max', 60, (6, 6), 1.0)
    """

    title: ClassVar[str] = "CKA"

    kernel: str
    normalize: str
    centered: bool
    hsic: tuple[float, float, float]

    def _shown(self) -> tuple[str, ...]:
        return ("group", "kernel", "normalize", "centered")


def channel_note(live: tuple[int, int], channels: tuple[int, int], what: str) -> str:
    """Return a sentence about the channels that carry no information; empty if all do.

    >>> channel_note((6, 8), (8, 8), "zero everywhere")
    '2 of 8 channels of x are zero everywhere'
    """
    sides = zip("xy", live, channels, strict=True)
    return "; ".join(
        f"{count - some} of {count} channels of {name} are {what}"
        for name, some, count in sides
        if some < count
    )
