"""Rules on the similarity of layers that several figures share. A NaN never holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sigmascope_papers.item import Check, relation, untried
from sigmascope_papers.symmetry.pairs import GROUPS, Pairs

__all__ = [
    "below_orthogonal",
    "decays_faster",
    "differ_little",
    "falls",
    "inner_lower",
    "like_their_own",
    "near",
    "of_dead_channels",
    "ordered_alike",
    "rises_last",
    "within_range",
]

Array = np.ndarray[Any, np.dtype[np.float64]]
# Within this, Procrustes similarities count as the same.
SAME = 0.05


def near(claim: str, paper: Sequence[float], found: Array, limits: tuple[float, float]) -> Check:
    """Hold where each mean over the pairs (p, k) is within the first limit of the paper's number;
    in direction, the second.

    More than six numbers are not listed; the figure and its data have them. The deviation is the
    population's, as the paper's is, and one pair has none.
    """
    clear, far = limits
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    gap = np.abs(mean - np.asarray(paper))
    numbers = [
        f"{m:.2f} ± {d:.2f}" if len(found) > 1 else f"{m:.2f}"
        for m, d in zip(mean, deviation, strict=True)
    ]
    listed = ", ".join(numbers) + "; " if len(mean) <= 6 else ""
    expected = ", ".join(f"{value:.2f}" for value in paper) + f", each ± {clear:g}"
    obtained = f"{listed}off by {gap.max():.2f} at most, {np.median(gap):.2f} in median"
    return relation(
        claim, expected, obtained, true=bool((gap <= far).all()), clear=bool((gap <= clear).all())
    )


def within_range(
    claim: str, range_: tuple[float, float], found: Array, limits: tuple[float, float]
) -> Check:
    """Hold where each mean over the pairs lies in a range widened by the first limit; in direction,
    by the second.
    """
    mean = found.mean(axis=0)
    low, high = range_

    def inside(by: float) -> bool:
        return bool(((mean >= low - by) & (mean <= high + by)).all())

    expected = f"{low:.2f} to {high:.2f}, ± {limits[0]:g}"
    return relation(
        claim,
        expected,
        f"{mean.min():.2f} to {mean.max():.2f}",
        true=inside(limits[1]),
        clear=inside(limits[0]),
    )


def below_orthogonal(pairs: Pairs, but: Sequence[str] = ()) -> Check:
    """The relu group is below the orthogonal one at every layer, but some, on average; clearly if
    in every pair.
    """
    taken = np.array([layer not in but for layer in pairs.layers])
    relu, orthogonal = (pairs.same_place(group)[:, taken] for group in GROUPS)
    lower = relu < orthogonal
    on_average = relu.mean(axis=0) < orthogonal.mean(axis=0)
    obtained = (
        f"on average at {on_average.sum()} of {on_average.size} layers; in {lower.sum()} of "
        f"{lower.size} comparisons"
    )
    claim = "the relu group finds layers less alike than the orthogonal one"
    expected = (
        " but ".join(["at every layer", *([", ".join(but)] if but else [])]) + ", in every pair"
    )
    return relation(claim, expected, obtained, true=bool(on_average.all()), clear=bool(lower.all()))


def decays_faster(pairs: Pairs) -> Check:
    """The relu group loses more from the first to the last layer; clearly if twice as much, and
    more in every pair.
    """
    relu, orthogonal = (
        found[:, 0] - found[:, -1]
        for found in (pairs.same_place("relu"), pairs.same_place("orthogonal"))
    )
    return relation(
        "by the relu group similarity decays faster with depth",
        "from first to last twice as much, and more in every pair",
        f"{relu.mean():.2f} against {orthogonal.mean():.2f}, more in "
        f"{(relu > orthogonal).sum()} of {len(relu)} pairs",
        true=bool(relu.mean() > max(0.0, orthogonal.mean())),
        clear=bool(relu.mean() >= 2 * orthogonal.mean() and (relu > orthogonal).all()),
    )


def like_their_own(pairs: Pairs, group: str, counts: tuple[int, int], source: str) -> Check:
    """In so many rows and columns of the mean matrix the largest entry is on the diagonal; the
    first count is clear.
    """
    mean = pairs.matrices(group).mean(axis=0)
    places = np.arange(len(mean))
    sides = [matrix[np.isfinite(matrix).all(axis=1)] for matrix in (mean, mean.T)]
    known = [places[np.isfinite(matrix).all(axis=1)] for matrix in (mean, mean.T)]
    count = sum(
        int((side.argmax(axis=1) == own).sum()) for side, own in zip(sides, known, strict=True)
    )
    clear, least = counts
    return relation(
        f"{group} group: layers are most like those at their own place",
        f"in {clear} of {2 * len(mean)} rows and columns{source}",
        str(count),
        true=count >= least,
        clear=count >= clear,
    )


def inner_lower(pairs: Pairs, group: str) -> Check:
    """Layers inside residual blocks are less alike on average; clearly if all but one are below
    their neighbors' mean.
    """
    mean = pairs.same_place(group).mean(axis=0)
    inner, outer = mean[1::2], mean[::2]
    lower = inner < (outer[:-1] + outer[1:]) / 2
    return relation(
        f"{group} group: layers inside residual blocks are less alike than those at their ends",
        f"at least {len(inner) - 1} of {len(inner)} are below their neighbors",
        f"{lower.sum()}; on average {inner.mean():.2f} against {outer.mean():.2f}",
        true=bool(inner.mean() < outer.mean()),
        clear=bool(lower.sum() >= len(inner) - 1),
    )


def ordered_alike(pairs: Pairs, layers: Sequence[str], limits: tuple[float, float]) -> Check:
    """Both groups rank these layers alike, by a rank correlation of the first limit or more; in
    direction, of the second.
    """
    at = [pairs.layers.index(layer) for layer in layers]
    means = [pairs.same_place(group).mean(axis=0)[at] for group in GROUPS]
    told = np.isfinite(means).all() and all(np.ptp(mean) > 0 for mean in means)
    rank = float(spearmanr(*means).statistic) if told else float("nan")
    claim, expected = (
        "both groups order the layers alike",
        f"rank correlation of {limits[0]} or more",
    )
    return relation(claim, expected, f"{rank:.2f}", true=rank >= limits[1], clear=rank >= limits[0])


def falls(pairs: Pairs, group: str, layers: Sequence[str], words: str) -> Check:
    """The mean falls from the first to the last of these layers; clearly if at each step in every pair."""
    found = pairs.same_place(group)[:, [pairs.layers.index(layer) for layer in layers]]
    mean = found.mean(axis=0)
    return relation(
        f"{group} group: similarity falls over {words}",
        "at each step, in every pair",
        f"from {' over '.join(f'{value:.2f}' for value in mean[:-1])} to {mean[-1]:.2f}",
        true=bool(mean[0] > mean[-1]),
        clear=bool((np.diff(found, axis=1) < 0).all()),
    )


def rises_last(pairs: Pairs, group: str) -> Check:
    """The last layer is more alike than the one before on average; clearly if in every pair."""
    found = pairs.same_place(group)
    rise = found[:, -1] - found[:, -2]
    claim, expected = f"{group} group: it rises again at the last layer", "in every pair"
    return relation(
        claim,
        expected,
        f"{rise.mean():+.3f}",
        true=bool(rise.mean() > 0),
        clear=bool((rise > 0).all()),
    )


def differ_little(pairs: Pairs, spread: float) -> Check:
    """No standard deviation over the pairs is larger than the paper's largest one; in direction,
    than twice that.
    """
    claim, expected = (
        "pairs differ little",
        f"standard deviations at most {spread:g}, the paper's largest",
    )
    if len(pairs.found["relu"]) < 2:
        return untried(claim, expected, "there is one pair")
    found = max(float(pairs.same_place(group).std(axis=0).max()) for group in GROUPS)
    return relation(
        claim, expected, f"{found:.3f}", true=found <= 2 * spread, clear=found <= spread
    )


def of_dead_channels(pairs: Pairs, layer: str) -> Check:
    """Where the relu group is above the orthogonal one, it is not by live channels only, up to
    0.05; in direction, half as far.

    Two channels without output are alike to the authors' normaliser. Where the relu group is not
    above by more than that, there is nothing to explain.
    """
    at = pairs.layers.index(layer)
    relu, orthogonal = (float(pairs.same_place(group)[:, at].mean()) for group in GROUPS)
    live = float(pairs.by_live_channels()[:, at].mean())
    counts = pairs.live_channels()[:, :, at]
    width = pairs.found["relu"][0].channels[0][at]
    claim = (
        f"ours: layer {layer} is more alike by the relu group because of channels without output"
    )
    expected = (
        f"by live channels only it is as alike as by the orthogonal group, or less, up to {SAME:g}"
    )
    obtained = (
        f"{counts.min():.0f} to {counts.max():.0f} of {width} channels are live; by all "
        f"{relu:.2f}, by these {live:.2f}, "
        f"by the orthogonal group {orthogonal:.2f}"
    )
    if not relu > orthogonal + SAME:
        return untried(claim, expected, f"it is not more alike: {obtained}")
    return relation(
        claim,
        expected,
        obtained,
        true=live <= (relu + orthogonal) / 2,
        clear=live <= orthogonal + SAME,
    )
