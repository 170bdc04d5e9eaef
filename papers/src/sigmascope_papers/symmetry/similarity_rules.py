"""Rules on the similarity of layers. A NaN never holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, relation, untried
from sigmascope_papers.rules import at_least, at_most, below, near, ordered_alike
from sigmascope_papers.symmetry.similarities import GROUPS, Pairs

Limits = tuple[float, float]
"""To hold, and to hold weakly."""
Numbers = Mapping[str, Mapping[str, float]]
"""Group -> layer -> the paper's similarity of layers at the same place, where it is known."""
Rule = Callable[[Pairs], list[Check]]

CKA_LIMITS: Limits = (0.1, 0.2)
PROCRUSTES_LIMITS: Limits = (0.05, 0.1)
ALIKE: Limits = (0.8, 0.5)
# Procrustes similarities that differ by at most this count as equal.
SAME = 0.05
# By how much more alike layers 60* and 70* are by the relu group, to be clear; in the paper 0.25.
EXCESS = 0.1


def each_group(*rules: Callable[[Pairs, str], Check]) -> Rule:
    """Return a rule that applies some to one group after the other."""
    return lambda pairs: [rule(pairs, group) for group in GROUPS for rule in rules]


def once(*rules: Callable[[Pairs], Check]) -> Rule:
    """Return a rule that applies some in turn."""
    return lambda pairs: [rule(pairs) for rule in rules]


def numbers(
    pairs: Pairs, group: str, *, paper: Numbers, limits: Limits, words: str = "{}"
) -> Check:
    """Judge whether similarities at the same place are near the paper's."""
    layers = list(paper[group])
    claim = f"{group} group, layers {words.format(', '.join(layers))}"
    return near(claim, list(paper[group].values()), pairs.at(group, layers), limits)


def entries(
    pairs: Pairs, group: str, *, paper: Mapping[str, Sequence[Sequence[float]]], same: bool
) -> Check:
    """Judge whether the entries of the matrix, on the diagonal or off it, are near the paper's."""
    printed = np.array(paper[group])
    chosen = np.eye(len(printed), dtype=bool) == same
    claim = f"{group} group, layers at {'the same place' if same else 'other places'}"
    return near(claim, printed[chosen].tolist(), pairs.matrices(group)[:, chosen], CKA_LIMITS)


def within_range(
    pairs: Pairs, group: str, *, paper: Mapping[str, tuple[float, float]], limits: Limits
) -> Check:
    """Judge whether layers inside blocks lie in the paper's range, widened by the limit."""
    mean, (low, high) = pairs.mean(group)[1::2], paper[group]
    outside = np.maximum(low - mean, mean - high)
    expected = f"{low:.2f} to {high:.2f}, ± {limits[0]:g}"
    obtained = f"{mean.min():.2f} to {mean.max():.2f}"
    return at_most(f"{group} group, layers inside", expected, obtained, outside, limits)


def below_orthogonal(pairs: Pairs, but: Sequence[str] = ()) -> Check:
    """Judge whether the relu group is below the orthogonal one at every layer, but some."""
    layers = [layer for layer in pairs.layers if layer not in but]
    exception = f" but {', '.join(but)}" if but else ""
    return below(
        "the relu group finds layers less alike than the orthogonal one",
        pairs.at("relu", layers),
        pairs.at("orthogonal", layers),
        expected=f"at every layer{exception}, in every pair",
        digits=None,
    )


def below_at_ends(pairs: Pairs, *, layers: Sequence[str], counts: tuple[int, int]) -> Check:
    """Judge at how many ends of blocks the relu group is below the orthogonal one."""
    count = int((pairs.mean("relu", layers) < pairs.mean("orthogonal", layers)).sum())
    claim = "at the ends of blocks the relu group finds layers less alike than the orthogonal one"
    expected = f"at {counts[0]} of {len(layers)}, at two of them by 0.01"
    return at_least(claim, expected, str(count), count, counts)


def decays_faster(pairs: Pairs) -> Check:
    """Judge whether the relu group loses more from the first to the last layer.

    It is clear if it loses twice as much, and more in every pair.
    """
    relu, orthogonal = (
        found[:, 0] - found[:, -1] for found in (pairs.same_place(group) for group in GROUPS)
    )
    more = relu > orthogonal
    return relation(
        "by the relu group similarity decays faster with depth",
        "from first to last twice as much, and more in every pair",
        f"{relu.mean():.2f} against {orthogonal.mean():.2f}, more in {more.sum()} of "
        f"{len(relu)} pairs",
        true=relu.mean() > max(0.0, orthogonal.mean()),
        clear=relu.mean() >= 2 * orthogonal.mean() and more.all(),
    )


def like_their_own(
    pairs: Pairs, group: str, *, counts: Mapping[str, tuple[int, int]], source: str = ""
) -> Check:
    """Judge in how many rows and columns of the mean matrix the largest entry is on the diagonal."""
    mean = pairs.matrices(group).mean(axis=0)
    count = 0
    for matrix in (mean, mean.T):
        known = np.isfinite(matrix).all(axis=1)
        count += int((matrix[known].argmax(axis=1) == np.flatnonzero(known)).sum())
    claim = f"{group} group: layers are most like those at their own place"
    expected = f"in {counts[group][0]} of {2 * len(mean)} rows and columns{source}"
    return at_least(claim, expected, str(count), count, counts[group])


def inner_lower(pairs: Pairs, group: str) -> Check:
    """Judge whether layers inside residual blocks are less alike than those at their ends.

    It is clear if all but one are below the mean of their neighbors.
    """
    mean = pairs.mean(group)
    inner, outer = mean[1::2], mean[::2]
    lower = (inner < (outer[:-1] + outer[1:]) / 2).sum()
    return relation(
        f"{group} group: layers inside residual blocks are less alike than those at their ends",
        f"at least {len(inner) - 1} of {len(inner)} are below their neighbors",
        f"{lower}; on average {inner.mean():.2f} against {outer.mean():.2f}",
        true=inner.mean() < outer.mean(),
        clear=lower >= len(inner) - 1,
    )


def orders_agree(pairs: Pairs, *, layers: Sequence[str] = ()) -> Check:
    """Judge whether both groups rank the layers alike."""
    means = [pairs.mean(group, layers) for group in GROUPS]
    return ordered_alike("both groups order the layers alike", *means, ALIKE)


def falls(pairs: Pairs, group: str, *, first: int, words: str) -> Check:
    """Judge whether similarity falls over the first layers; clear if at each step in every pair."""
    found = pairs.same_place(group)[:, :first]
    mean = found.mean(axis=0)
    return relation(
        f"{group} group: similarity falls over {words}",
        "at each step, in every pair",
        f"from {' over '.join(f'{value:.2f}' for value in mean[:-1])} to {mean[-1]:.2f}",
        true=mean[0] > mean[-1],
        clear=(np.diff(found, axis=1) < 0).all(),
    )


def rises_last(pairs: Pairs, group: str) -> Check:
    """Judge whether the last layer is more alike than the one before; clear if in every pair."""
    found = pairs.same_place(group)
    rise = found[:, -1] - found[:, -2]
    return relation(
        f"{group} group: it rises again at the last layer",
        "in every pair",
        f"{rise.mean():+.3f}",
        true=rise.mean() > 0,
        clear=(rise > 0).all(),
    )


def falls_and_rises(pairs: Pairs, group: str, *, paper: Numbers) -> Check:
    """Judge whether similarity falls over three stages and rises in the fourth.

    It is clear if by half of what it does in the paper.
    """
    ends = ("3", "55", "73")
    first, low, last = pairs.mean(group, ends).tolist()
    start, lowest, end = (paper[group][layer] for layer in ends)
    fall, rise, wanted = first - low, last - low, (start - lowest, end - lowest)
    return relation(
        f"{group} group: similarity falls over three stages and rises in the fourth",
        f"by {wanted[0]:.2f} and {wanted[1]:.2f}, or half of that",
        f"{fall:.2f} and {rise:.2f}, from {first:.2f} over {low:.2f} to {last:.2f}",
        true=fall > 0 and rise > 0,
        clear=fall >= wanted[0] / 2 and rise >= wanted[1] / 2,
    )


def differ_little(pairs: Pairs, *, spread: float) -> Check:
    """Judge whether the standard deviation over the pairs is at most the paper's largest one."""
    claim = "pairs differ little"
    expected = f"standard deviations at most {spread:g}, the paper's largest"
    if len(pairs.found["relu"]) < 2:
        return untried(claim, expected, "there is one pair")
    found = max(float(pairs.same_place(group).std(axis=0).max()) for group in GROUPS)
    return at_most(claim, expected, f"{found:.3f}", found, (spread, 2 * spread))


def stand_out(pairs: Pairs, *, paper: Numbers, layers: Sequence[str]) -> Check:
    """Judge whether layer 70* is more alike by the relu group; clear if 60* is too, each by 0.1."""
    more = pairs.mean("relu", layers) - pairs.mean("orthogonal", layers)
    differences = " and ".join(_differences(paper, layers))
    return relation(
        "layers 60* and 70* are more alike by the relu group",
        f"{differences}; at least {EXCESS:+.2f}",
        " and ".join(f"{value:+.2f}" for value in more),
        true=more[1] > 0,
        clear=(more >= EXCESS).all(),
    )


def _differences(paper: Numbers, layers: Sequence[str]) -> list[str]:
    relu, orthogonal = paper["relu"], paper["orthogonal"]
    return [f"{relu[layer] - orthogonal[layer]:+.2f}" for layer in layers]


def above_between(pairs: Pairs, *, paper: Numbers) -> Check:
    """Judge whether the relu group is above the orthogonal one at layers 6 and 10 only.

    If three of the four signs are as in the paper on average, the claim weakly holds.
    """
    more = pairs.same_place("relu") - pairs.same_place("orthogonal")
    signs = np.sign([paper["relu"][one] - paper["orthogonal"][one] for one in pairs.layers])
    live = ", ".join(f"{value:.2f}" for value in pairs.by_live_channels().mean(axis=0))
    return relation(
        "the relu group finds layers 6 and 10 more alike, 3 and 14 less alike than the "
        "orthogonal one",
        f"{', '.join(_differences(paper, pairs.layers))}; these signs in every pair",
        f"{', '.join(f'{value:+.2f}' for value in more.mean(axis=0))}; by live channels only "
        f"the relu group has {live}, of which there are {pairs.live_channels().min():.0f} or "
        "more in each layer",
        true=(more.mean(axis=0) * signs > 0).sum() >= len(signs) - 1,
        clear=(more * signs > 0).all(),
    )


def unlike_itself(pairs: Pairs, group: str, *, paper: Numbers, layer: str) -> Check:
    """Judge whether a layer is less alike than its neighbors.

    It is clear if by half of what it is below the last layer in the paper.
    """
    at = pairs.layers.index(layer)
    before, odd, after = pairs.mean(group)[at - 1 : at + 2].tolist()
    wanted = paper[group]["73"] - paper[group][layer]
    live = [one.live[side][at] for one in pairs.found[group] for side in (0, 1)]
    return relation(
        f"{group} group: layer {layer}, inside the last block, is unlike itself",
        f"{paper[group][layer]:.2f}, below both neighbors by {wanted:.2f} or half of that",
        f"{odd:.2f} between {before:.2f} and {after:.2f}; {min(live)} to {max(live)} of its "
        f"{pairs.found[group][0].channels[0][at]} channels vary",
        true=before > odd and after > odd,
        clear=min(before - odd, after - odd) >= wanted / 2,
    )


def of_dead_channels(pairs: Pairs, *, layer: str) -> Check:
    """Judge whether the relu group is above the orthogonal one because of channels without output.

    Two such channels are alike to the authors' normalizer. Over live channels only, the relu group
    should not be above by more than 0.05; if by at most half as much as before, weakly. Where it is
    not above by more than 0.05 in the first place, there is nothing to explain.
    """
    at = pairs.layers.index(layer)
    relu, orthogonal = (float(pairs.mean(group)[at]) for group in GROUPS)
    live = float(pairs.by_live_channels()[:, at].mean())
    counts: Matrix = pairs.live_channels()[:, :, at]
    claim = (
        f"ours: layer {layer} is more alike by the relu group because of channels without output"
    )
    expected = (
        f"by live channels only it is as alike as by the orthogonal group, or less, up to {SAME:g}"
    )
    obtained = (
        f"{counts.min():.0f} to {counts.max():.0f} of {pairs.found['relu'][0].channels[0][at]} "
        f"channels are live; by all {relu:.2f}, by these {live:.2f}, by the orthogonal group "
        f"{orthogonal:.2f}"
    )
    if not relu > orthogonal + SAME:
        return untried(claim, expected, f"it is not more alike: {obtained}")
    return at_most(claim, expected, obtained, live, (orthogonal + SAME, (relu + orthogonal) / 2))
