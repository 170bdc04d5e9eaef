"""Rules on the similarity of layers. A NaN never holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Finding, conclude
from sigmascope_papers.rules import at_least, at_most, below, near, ordered_alike
from sigmascope_papers.symmetry.similarities import GROUPS, Pairs

Limits = tuple[float, float]
"""To hold, and to hold weakly."""
Numbers = Mapping[str, Mapping[str, float]]
"""Group -> layer -> the paper's similarity of layers at the same place, where it is known."""

CKA_LIMITS: Limits = (0.1, 0.2)
PROCRUSTES_LIMITS: Limits = (0.05, 0.1)
ALIKE: Limits = (0.8, 0.5)
# Procrustes similarities that differ by at most this count as equal.
SAME = 0.05
# By how much more alike layers 60* and 70* are by the relu group, to be clear; in the paper 0.25.
EXCESS = 0.1


def numbers(
    pairs: Pairs, group: str, *, paper: Numbers, limits: Limits, words: str = "{}"
) -> Check:
    """Judge whether similarities at the same place are near the paper's."""
    layers = list(paper[group])
    claim = f"{group} group, layers {words.format(', '.join(layers))}"
    return near(claim, list(paper[group].values()), pairs.same_place(group, layers), limits)


def entries(pairs: Pairs, group: str, *, paper: Mapping[str, Matrix], same: bool) -> Check:
    """Judge whether the entries of the matrix, on the diagonal or off it, are near the paper's."""
    chosen = np.eye(len(paper[group]), dtype=bool) == same
    claim = f"{group} group, layers at {'the same place' if same else 'other places'}"
    printed, found = paper[group][chosen].tolist(), pairs.matrices(group)[:, chosen]
    return near(claim, printed, found, CKA_LIMITS)


def within_range(pairs: Pairs, group: str, *, paper: Mapping[str, Limits], limits: Limits) -> Check:
    """Judge whether layers inside blocks lie in the paper's range, widened by the limit."""
    mean, (low, high) = pairs.mean(group)[1::2], paper[group]
    expected = f"{low:.2f} to {high:.2f}, ± {limits[0]:g}"
    obtained = f"{mean.min():.2f} to {mean.max():.2f}"
    outside = np.maximum(low - mean, mean - high)
    return conclude(f"{group} group, layers inside", expected, at_most(obtained, outside, limits))


def below_orthogonal(pairs: Pairs, but: Sequence[str] = ()) -> Check:
    """Judge whether the relu group is below the orthogonal one at every layer, but some."""
    layers = [layer for layer in pairs.layers if layer not in but]
    claim = "the relu group finds layers less alike than the orthogonal one"
    expected = f"at every layer{' but ' * bool(but)}{', '.join(but)}, in every pair"
    found = [pairs.same_place(group, layers) for group in GROUPS]
    return below(claim, *found, expected=expected, digits=None)


def below_at_ends(pairs: Pairs, *, layers: Sequence[str], counts: tuple[int, int]) -> Finding:
    """Count the ends of blocks at which the relu group is below the orthogonal one."""
    count = int((pairs.mean("relu", layers) < pairs.mean("orthogonal", layers)).sum())
    return at_least(str(count), count, counts)


def decays_faster(pairs: Pairs) -> Check:
    """Judge whether the relu group loses more from the first to the last layer."""
    ends = [pairs.same_place(group)[:, [0, -1]] for group in GROUPS]
    relu, orthogonal = (found[:, 0] - found[:, 1] for found in ends)
    more, losses = relu > orthogonal, (relu.mean(), orthogonal.mean())
    claim = "by the relu group similarity decays faster with depth"
    expected = "from first to last twice as much, and more in every pair"
    obtained = "{:.2f} against {:.2f}, more in {} of {} pairs".format(
        *losses, more.sum(), len(more)
    )
    true, clear = losses[0] > max(0.0, losses[1]), losses[0] >= 2 * losses[1] and more.all()
    return conclude(claim, expected, (obtained, true, clear))


def like_their_own(
    pairs: Pairs, group: str, *, counts: Mapping[str, tuple[int, int]], source: str = ""
) -> Check:
    """Judge in how many rows and columns of the mean matrix the diagonal entry is largest."""
    mean, count = pairs.matrices(group).mean(axis=0), 0
    for matrix in (mean, mean.T):
        known = np.isfinite(matrix).all(axis=1)
        count += int((matrix[known].argmax(axis=1) == np.flatnonzero(known)).sum())
    claim = f"{group} group: layers are most like those at their own place"
    expected = f"in {counts[group][0]} of {2 * len(mean)} rows and columns{source}"
    return conclude(claim, expected, at_least(str(count), count, counts[group]))


def inner_lower(pairs: Pairs, group: str) -> Check:
    """Judge whether layers inside blocks are less alike; clear if all but one are, by neighbors."""
    inner, outer = pairs.mean(group)[1::2], pairs.mean(group)[::2]
    lower, most = (inner < (outer[:-1] + outer[1:]) / 2).sum(), len(inner) - 1
    claim = f"{group} group: layers inside residual blocks are less alike than those at their ends"
    expected = f"at least {most} of {len(inner)} are below their neighbors"
    obtained = f"{lower}; on average {inner.mean():.2f} against {outer.mean():.2f}"
    return conclude(claim, expected, (obtained, inner.mean() < outer.mean(), lower >= most))


def orders_agree(pairs: Pairs, *, layers: Sequence[str] = ()) -> Check:
    """Judge whether both groups rank the layers alike."""
    relu, orthogonal = (pairs.mean(group, layers) for group in GROUPS)
    return ordered_alike("both groups order the layers alike", relu, orthogonal, ALIKE)


def falls(pairs: Pairs, group: str, *, first: int, words: str) -> Check:
    """Judge whether similarity falls over the first layers; clear if at each step in every pair."""
    found = pairs.same_place(group)[:, :first]
    *before, last = found.mean(axis=0).tolist()
    claim, expected = f"{group} group: similarity falls over {words}", "at each step, in every pair"
    obtained = f"from {' over '.join(f'{value:.2f}' for value in before)} to {last:.2f}"
    clear = (np.diff(found, axis=1) < 0).all()
    return conclude(claim, expected, (obtained, before[0] > last, clear))


def rises_last(pairs: Pairs, group: str) -> Check:
    """Judge whether the last layer is more alike than the one before; clear if in every pair."""
    rise = np.diff(pairs.same_place(group)[:, -2:], axis=1)
    claim, finding = f"{group} group: it rises again at the last layer", f"{rise.mean():+.3f}"
    return conclude(claim, "in every pair", (finding, rise.mean() > 0, (rise > 0).all()))


def falls_and_rises(pairs: Pairs, group: str, *, paper: Numbers) -> Check:
    """Judge whether similarity falls over three stages and rises in the fourth, as in the paper."""
    ends = ("3", "55", "73")
    first, low, last = pairs.mean(group, ends).tolist()
    start, lowest, end = (paper[group][layer] for layer in ends)
    fall, rise, wanted = first - low, last - low, (start - lowest, end - lowest)
    claim = f"{group} group: similarity falls over three stages and rises in the fourth"
    expected = f"by {wanted[0]:.2f} and {wanted[1]:.2f}, or half of that"
    obtained = f"{fall:.2f} and {rise:.2f}, from {first:.2f} over {low:.2f} to {last:.2f}"
    clear = fall >= wanted[0] / 2 and rise >= wanted[1] / 2
    return conclude(claim, expected, (obtained, fall > 0 and rise > 0, clear))


def differ_little(pairs: Pairs, *, spread: float) -> Check:
    """Judge whether the standard deviation over the pairs is at most the paper's largest one."""
    claim = "pairs differ little"
    expected = f"standard deviations at most {spread:g}, the paper's largest"
    if len(pairs.found["relu"]) < 2:
        return conclude(claim, expected, "there is one pair")
    found = max(float(pairs.same_place(group).std(axis=0).max()) for group in GROUPS)
    return conclude(claim, expected, at_most(f"{found:.3f}", found, (spread, 2 * spread)))


def stand_out(pairs: Pairs, *, layers: Sequence[str]) -> Finding:
    """Compare both groups at layers 60* and 70*."""
    more = pairs.mean("relu", layers) - pairs.mean("orthogonal", layers)
    return " and ".join(_signed(more)), more[1] > 0, (more >= EXCESS).all()


def _signed(values: Matrix) -> list[str]:
    return [f"{value:+.2f}" for value in values]


def above_between(pairs: Pairs, *, signs: Sequence[int]) -> Finding:
    """Find at which layers the relu group is above the orthogonal one."""
    more = pairs.same_place("relu") - pairs.same_place("orthogonal")
    mean, live = more.mean(axis=0), pairs.by_live_channels().mean(axis=0)
    obtained = (
        f"{', '.join(_signed(mean))}; by live channels only the relu group has "
        f"{', '.join(f'{value:.2f}' for value in live)}, of which there are "
        f"{pairs.live_channels().min():.0f} or more in each layer"
    )
    return obtained, (mean * signs > 0).sum() >= len(signs) - 1, (more * signs > 0).all()


def unlike_itself(pairs: Pairs, group: str, *, paper: Numbers, layer: str) -> Check:
    """Judge whether a layer is less alike than its neighbors; clear if by half of the paper's."""
    at, found = pairs.layers.index(layer), pairs.found[group]
    before, odd, after = pairs.mean(group)[at - 1 : at + 2].tolist()
    wanted = paper[group]["73"] - paper[group][layer]
    live = [one.live[side][at] for one in found for side in (0, 1)]
    claim = f"{group} group: layer {layer}, inside the last block, is unlike itself"
    expected = f"{paper[group][layer]:.2f}, below both neighbors by {wanted:.2f} or half of that"
    obtained = (
        f"{odd:.2f} between {before:.2f} and {after:.2f}; {min(live)} to {max(live)} of its "
        f"{found[0].channels[0][at]} channels vary"
    )
    true, clear = before > odd and after > odd, min(before - odd, after - odd) >= wanted / 2
    return conclude(claim, expected, (obtained, true, clear))


def of_dead_channels(pairs: Pairs, *, layer: str) -> Finding:
    """Find whether the relu group is above because of channels without output."""
    at = pairs.layers.index(layer)
    relu, orthogonal = (float(pairs.mean(group)[at]) for group in GROUPS)
    live, counts = float(pairs.by_live_channels()[:, at].mean()), pairs.live_channels()[:, :, at]
    obtained = (
        f"{counts.min():.0f} to {counts.max():.0f} of {pairs.found['relu'][0].channels[0][at]} "
        f"channels are live; by all {relu:.2f}, by these {live:.2f}, by the orthogonal group "
        f"{orthogonal:.2f}"
    )
    if not relu > orthogonal + SAME:
        return f"it is not more alike: {obtained}"
    return at_most(obtained, live, (orthogonal + SAME, (relu + orthogonal) / 2))
