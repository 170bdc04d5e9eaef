"""Rules on the similarity of layers that several figures share. A NaN never holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sigmascope.reproduce.item import Check, relation
from sigmascope.reproduce.symmetry.pairs import Pairs

__all__ = ["below_orthogonal", "decays_faster", "inner_lower", "like_their_own", "near", "within_range"]

Array = np.ndarray[Any, np.dtype[np.float64]]


def near(claim: str, paper: Sequence[float], found: Array, limits: tuple[float, float]) -> Check:
    """Hold where each mean over the pairs (p, k) is within the first limit of the paper's number; in direction, the second.

    More than six numbers are not listed; the figure and its data have them.
    """
    clear, far = limits
    mean, deviation = found.mean(axis=0), found.std(axis=0, ddof=1)
    gap = np.abs(mean - np.asarray(paper))
    listed = ", ".join(f"{m:.2f} ± {d:.2f}" for m, d in zip(mean, deviation, strict=True)) + "; " if len(mean) <= 6 else ""
    expected = ", ".join(f"{value:.2f}" for value in paper) + f", each ± {clear:g}"
    obtained = f"{listed}off by {gap.max():.2f} at most, {np.median(gap):.2f} in median"
    return relation(claim, expected, obtained, true=bool((gap <= far).all()), clear=bool((gap <= clear).all()))


def within_range(claim: str, range_: tuple[float, float], found: Array, limits: tuple[float, float]) -> Check:
    """Hold where each mean over the pairs lies in a range widened by the first limit; in direction, by the second."""
    mean = found.mean(axis=0)
    low, high = range_

    def inside(by: float) -> bool:
        return bool(((mean >= low - by) & (mean <= high + by)).all())

    expected = f"{low:.2f} to {high:.2f}, ± {limits[0]:g}"
    return relation(claim, expected, f"{mean.min():.2f} to {mean.max():.2f}", true=inside(limits[1]), clear=inside(limits[0]))


def below_orthogonal(pairs: Pairs) -> Check:
    """The relu group is below the orthogonal one at every layer on average; clearly if in every pair."""
    lower = pairs.same_place("relu") < pairs.same_place("orthogonal")
    on_average = pairs.same_place("relu").mean(axis=0) < pairs.same_place("orthogonal").mean(axis=0)
    obtained = f"on average at {on_average.sum()} of {on_average.size} layers; in {lower.sum()} of {lower.size} comparisons"
    claim, expected = "the relu group finds layers less alike than the orthogonal one", "at every layer, in every pair"
    return relation(claim, expected, obtained, true=bool(on_average.all()), clear=bool(lower.all()))


def decays_faster(pairs: Pairs) -> Check:
    """The relu group loses more from the first to the last layer; clearly if twice as much, and more in every pair."""
    relu, orthogonal = (found[:, 0] - found[:, -1] for found in (pairs.same_place("relu"), pairs.same_place("orthogonal")))
    return relation(
        "by the relu group similarity decays faster with depth",
        "from first to last twice as much, and more in every pair",
        f"{relu.mean():.2f} against {orthogonal.mean():.2f}, more in {(relu > orthogonal).sum()} of {len(relu)} pairs",
        true=bool(relu.mean() > max(0.0, orthogonal.mean())),
        clear=bool(relu.mean() >= 2 * orthogonal.mean() and (relu > orthogonal).all()),
    )


def like_their_own(pairs: Pairs, group: str, counts: tuple[int, int], source: str) -> Check:
    """In so many rows and columns of the mean matrix the largest entry is on the diagonal; the first count is clear."""
    mean = pairs.matrices(group).mean(axis=0)
    places = np.arange(len(mean))
    sides = [matrix[np.isfinite(matrix).all(axis=1)] for matrix in (mean, mean.T)]
    known = [places[np.isfinite(matrix).all(axis=1)] for matrix in (mean, mean.T)]
    count = sum(int((side.argmax(axis=1) == own).sum()) for side, own in zip(sides, known, strict=True))
    clear, least = counts
    return relation(
        f"{group} group: layers are most like those at their own place",
        f"in {clear} of {2 * len(mean)} rows and columns{source}",
        str(count),
        true=count >= least,
        clear=count >= clear,
    )


def inner_lower(pairs: Pairs, group: str) -> Check:
    """Layers inside of residual blocks are less alike on average; clearly if all but one are below their neighbours' mean."""
    mean = pairs.same_place(group).mean(axis=0)
    inner, outer = mean[1::2], mean[::2]
    lower = inner < (outer[:-1] + outer[1:]) / 2
    return relation(
        f"{group} group: layers inside of residual blocks are less alike than those at their ends",
        f"at least {len(inner) - 1} of {len(inner)} are below their neighbours",
        f"{lower.sum()}; on average {inner.mean():.2f} against {outer.mean():.2f}",
        true=bool(inner.mean() < outer.mean()),
        clear=bool(lower.sum() >= len(inner) - 1),
    )
