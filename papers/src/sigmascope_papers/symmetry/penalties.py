"""What stitches cost, by layer: the drawing and the rules that several figures share. A NaN never
holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, Look, add_panel_legend, look, shown
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, relation
from sigmascope_papers.symmetry.stitches import FAMILIES, Stitches

__all__ = [
    "ALIKE",
    "COMPUTED",
    "FULL_LIMITS",
    "LIMITS",
    "PAPERS",
    "cheaper",
    "cheaper_at",
    "draw_penalties",
    "inside_of",
    "inside_the_group",
    "near_paper",
    "outside_of",
    "penalties_at",
    "same_order",
    "trained_beats_computed",
]

COMPUTED = ("permutation", "least-squares")
"""Families that are ours: they are computed instead of trained, and drawn thinner."""
PAPERS = "the paper's"
LIMITS = (5.0, 10.0)
"""Points that a penalty may be off the paper's: to hold, and in direction."""
FULL_LIMITS = (2.0, 4.0)
"""The same for full stitches, which cost a few points only."""
ALIKE = (0.8, 0.5)
# of the width: the paper's crosses stand beside ours, so that neither hides the other
ASIDE = 0.009
CUT = 0.25  # of the scales may be 0, and the group is still meant
LISTED = 6
"""More numbers than these are not listed in a claim; the figure and its data have them."""


def outside_of(layers: Sequence[str]) -> tuple[str, ...]:
    """Return the layers at the ends of residual blocks, or before all."""
    return tuple(layer for layer in layers if not layer.endswith("*"))


def inside_of(layers: Sequence[str]) -> tuple[str, ...]:
    """Return the layers inside residual blocks."""
    return tuple(layer for layer in layers if layer.endswith("*"))


def penalties_at(stitches: Stitches, label: str, layers: Sequence[str]) -> Matrix:
    """(p, k), the penalties of p pairs at layers, by the paper's names of them; NaN at those that
    were not stitched.
    """
    columns = dict(zip(stitches.layers, stitches.penalties(label).T, strict=True))
    missing = np.full(len(stitches.pairs), np.nan)
    return np.stack([columns.get(layer, missing) for layer in layers], axis=1)


def near_paper(
    claim: str, found: Matrix, paper: Sequence[float], limits: tuple[float, float]
) -> Check:
    """Hold where each mean over the pairs (p, k) is within the first limit of the paper's number;
    in direction, the second.
    """
    clear, far = limits
    mean, deviation, printed = (
        found.mean(axis=0),
        found.std(axis=0),
        np.asarray(paper, dtype=np.float64),
    )
    gap = np.abs(mean - printed)
    if len(printed) <= LISTED:
        expected = ", ".join(f"{value:g}" for value in printed)
        listed = (
            ", ".join(f"{m:.1f} ± {d:.1f}" for m, d in zip(mean, deviation, strict=True)) + "; "
        )
    else:
        expected, listed = f"{len(printed)} numbers from {printed.min():g} to {printed.max():g}", ""
    obtained = f"{listed}off by {gap.max():.1f} at most, {np.median(gap):.1f} in median"
    true, within = bool((gap <= far).all()), bool((gap <= clear).all())
    return relation(claim, f"{expected}, each ± {clear:g}", obtained, true=true, clear=within)


def cheaper(
    claim: str, less: Matrix, more: Matrix, expected: str = "at every layer, in every pair"
) -> Check:
    """Hold where penalties (p, k) are below others at every layer in every pair; in direction, at
    every layer on average.
    """
    mean = less.mean(axis=0), more.mean(axis=0)
    lower, on_average = less < more, mean[0] < mean[1]
    listed = ", ".join(
        f"{a:.1f} < {b:.1f}" if a < b else f"{a:.1f} ≥ {b:.1f}" for a, b in zip(*mean, strict=True)
    )
    shown_ = f"{listed}; " if len(on_average) <= LISTED else ""
    obtained = (
        f"{shown_}on average at {on_average.sum()} of {on_average.size}, in {lower.sum()} of "
        f"{lower.size} comparisons"
    )
    return relation(claim, expected, obtained, true=bool(on_average.all()), clear=bool(lower.all()))


def cheaper_at(claim: str, less: Matrix, more: Matrix, counts: tuple[int, int]) -> Check:
    """Hold where penalties (p, k) are below others, on average, at the first count of layers; in
    direction, at the second.
    """
    mean = less.mean(axis=0), more.mean(axis=0)
    count, (clear, least) = int((mean[0] < mean[1]).sum()), counts
    middle = f"in median {np.median(mean[0]):.1f} against {np.median(mean[1]):.1f}"
    expected = (
        f"on average at {clear} of {less.shape[1]} "
        f"layers{', or more' if clear < less.shape[1] else ''}"
    )
    return relation(
        claim, expected, f"at {count}; {middle}", true=count >= least, clear=count >= clear
    )


def same_order(claim: str, found: Matrix, paper: Sequence[float]) -> Check:
    """Hold where the means over the pairs (p, k) and the paper's numbers have a rank correlation of
    0.8; in direction, 0.5.
    """
    mean = found.mean(axis=0)
    known = bool(np.isfinite(mean).all()) and len(set(mean.tolist())) > 1
    rank = float(spearmanr(mean, paper).statistic) if known else float("nan")
    expected = f"rank correlation of {ALIKE[0]} or more"
    return relation(claim, expected, f"{rank:.3f}", true=rank >= ALIKE[1], clear=rank >= ALIKE[0])


def trained_beats_computed(stitches: Stitches, layers: Sequence[str]) -> Check:
    """The relu group holds all permutations, so that a trained element should cost no more than the
    one of Procrustes.
    """
    trained, computed = (
        penalties_at(stitches, label, layers) for label in ("relu-group", "permutation")
    )
    claim = "ours: relu-group, trained, costs less than the permutation of Procrustes, computed"
    return cheaper(claim, trained, computed, "at every layer, in every pair")


def inside_the_group(stitches: Stitches, label: str = "relu-group") -> Check:
    """Training may bring scales to 0, which leaves the group: such a channel is cut. In direction,
    up to a quarter of them.
    """
    channels = stitches.values("channels", label)
    cut = np.round(stitches.values("sparsity", label) * channels**2 - channels * (channels - 1))
    share = cut / channels
    obtained = (
        f"{int((cut > 0).sum())} of {cut.size} stitches have scales of 0, at most "
        f"{np.max(share):.0%} of them"
    )
    holds = bool((share <= CUT).all()), bool((cut == 0).all())
    return relation(
        "ours: trained elements stay inside the group",
        "no scale is 0",
        obtained,
        true=holds[0],
        clear=holds[1],
    )


@styled()
def draw_penalties(
    stitches: Stitches,
    labels: Sequence[str],
    paper: Mapping[str, Mapping[str, float]] = {},
    *,
    over: str = "activation, * inside a residual block",
) -> Drawn:
    """Draw penalties by layer, the mean over the pairs with its population standard deviation, and
    the paper's as crosses.

    A layer without a stitch, in any of the pairs, is a gap. A family looks the same in all figures.

    Args:
        stitches: what all pairs gave.
        labels: of the stitches, one curve for each.
        paper: label -> layer -> penalty; layers that were not stitched are left out.
        over: what the layers are.
    """
    figure = new_figure(PAGE, 3.0)
    panel = figure.subplots()
    places = np.arange(len(stitches.layers))
    for place in places[[layer.endswith("*") for layer in stitches.layers]]:
        panel.axvspan(place - 0.5, place + 0.5, color="0.5", alpha=0.1, linewidth=0)
    table: list[dict[str, Any]] = []
    for label, number in _numbers(labels).items():
        table += _draw_curve(panel, stitches, label, look(number))
        table += _draw_crosses(panel, stitches.layers, label, paper.get(label, {}), look(number))
    if any(row["curve"].endswith(PAPERS) for row in table):
        panel.plot([], [], "x", color="0.3", markersize=4.5, label=PAPERS)
    panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
    panel.set(
        xlabel=over, ylabel="stitching penalty, percentage points", xlim=(-0.5, len(places) - 0.5)
    )
    panel.set_xticks(places, [shown(layer) for layer in stitches.layers])
    add_panel_legend(figure, [panel])
    return Drawn(figure, (panel,), table)


def _draw_curve(panel: Axes, stitches: Stitches, label: str, looks: Look) -> list[dict[str, Any]]:
    """Draw one family and return its rows; one pair has no deviation."""
    found = stitches.penalties(label)
    places, mean, deviation = np.arange(found.shape[1]), found.mean(axis=0), found.std(axis=0)
    width, size = (0.7, 3.0) if label in COMPUTED else (1.4, 4.5)
    style: dict[str, Any] = {
        "color": looks.color,
        "marker": looks.marker,
        "linestyle": looks.line,
        "markeredgewidth": 0,
    }
    panel.plot(places, mean, label=shown(label), linewidth=width, markersize=size, **style)
    if len(found) > 1:
        panel.errorbar(places, mean, deviation, fmt="none", ecolor=looks.color, elinewidth=0.8)
    else:
        deviation = np.full_like(mean, np.nan)
    rows = zip(stitches.layers, mean.tolist(), deviation.tolist(), strict=True)
    return [
        {"layer": layer, "curve": label, "mean": m, "std": d, "pairs": len(found)}
        for layer, m, d in rows
    ]


def _draw_crosses(
    panel: Axes, layers: Sequence[str], label: str, paper: Mapping[str, float], looks: Look
) -> list[dict[str, Any]]:
    """Draw the paper's numbers of one family and return their rows."""
    known = {layer: paper[layer] for layer in layers if layer in paper}
    if known:
        at = [layers.index(layer) + ASIDE * len(layers) for layer in known]
        panel.plot(at, list(known.values()), "x", color=looks.color, markersize=4.5)
    return [
        {"layer": layer, "curve": f"{label}, {PAPERS}", "mean": value}
        for layer, value in known.items()
    ]


def _numbers(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each label's look: families have theirs, others get those that are left."""
    known = list(FAMILIES)
    others = [label for label in labels if label not in known]
    taken = {known.index(label) for label in labels if label in known}
    left = iter(number for number in range(len(labels) + len(known)) if number not in taken)
    numbers = {label: next(left) for label in others}
    return {label: known.index(label) if label in known else numbers[label] for label in labels}
