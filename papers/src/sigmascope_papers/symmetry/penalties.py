"""Penalties of stitches by layer: the rules and the drawing that several items share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look, shown
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check
from sigmascope_papers.rules import at_least, at_most, below, near, ordered_alike
from sigmascope_papers.symmetry.curves import OVER_BLOCKS, draw_means, label_layers
from sigmascope_papers.symmetry.plans import FAMILIES
from sigmascope_papers.symmetry.stitches import Stitches

__all__ = [
    "ALIKE",
    "FULL_LIMITS",
    "LIMITS",
    "Numbers",
    "cheaper_at",
    "draw_penalties",
    "inside_the_group",
    "near_paper",
    "same_order",
    "trained_beats_computed",
]

Numbers = Mapping[str, Mapping[str, float]]
"""Label -> layer -> the paper's penalty."""
COMPUTED = ("permutation", "least-squares")
"""Families that are ours: computed instead of trained, and drawn thinner."""
PAPERS = "the paper's"
LIMITS = (5.0, 10.0)
"""Points that a penalty may be off the paper's: to hold, and to hold weakly."""
FULL_LIMITS = (2.0, 4.0)
"""The same for full stitches, which cost a few points only."""
ALIKE = (0.8, 0.5)
ASIDE = 0.009  # of the width: the paper's crosses stand beside our points
CUT = 0.25  # of the scales may be 0 for the claim to hold weakly
LISTED = 6


def near_paper(
    stitches: Stitches, label: str, paper: Mapping[str, float], *, claim: str, full: bool = False
) -> Check:
    """Judge whether the penalties of a family are near the paper's at these layers."""
    found, limits = stitches.penalties(label, list(paper)), FULL_LIMITS if full else LIMITS
    return near(claim, list(paper.values()), found, limits, digits=1, listed=LISTED)


def same_order(stitches: Stitches, label: str, paper: Mapping[str, float], *, claim: str) -> Check:
    """Judge whether a family ranks these layers as the paper does."""
    mean = stitches.penalties(label, list(paper)).mean(axis=0)
    return ordered_alike(claim, mean, list(paper.values()), ALIKE, digits=3)


def cheaper_at(claim: str, less: Matrix, more: Matrix, counts: tuple[int, int]) -> Check:
    """Judge at how many layers penalties (p, k) are below others, on average over the pairs."""
    mean = less.mean(axis=0), more.mean(axis=0)
    count, layers = int((mean[0] < mean[1]).sum()), less.shape[1]
    expected = (
        f"on average at {counts[0]} of {layers} layers{', or more' if counts[0] < layers else ''}"
    )
    obtained = f"at {count}; in median {np.median(mean[0]):.1f} against {np.median(mean[1]):.1f}"
    return at_least(claim, expected, obtained, count, counts)


def trained_beats_computed(stitches: Stitches, layers: Sequence[str]) -> Check:
    """Judge whether a trained element of the relu group costs less than the computed permutation.

    The group contains all permutations, so it should.
    """
    claim = "ours: relu-group, trained, costs less than the permutation of Procrustes, computed"
    return below(claim, *(stitches.penalties(one, layers) for one in ("relu-group", "permutation")))


def inside_the_group(stitches: Stitches) -> Check:
    """Judge whether trained elements have no scale of 0, which would leave the group."""
    channels = stitches.values("channels", "relu-group")
    sparsity = stitches.values("sparsity", "relu-group")
    share = np.round(sparsity * channels**2 - channels * (channels - 1)) / channels
    obtained = (
        f"{int((share > 0).sum())} of {share.size} stitches have scales of 0, at most "
        f"{np.max(share):.0%} of them"
    )
    claim = "ours: trained elements stay inside the group"
    return at_most(claim, "no scale is 0", obtained, np.abs(share), (0.0, CUT))


@styled()
def draw_penalties(
    stitches: Stitches, labels: Sequence[str], paper: Numbers = {}, *, over: str = OVER_BLOCKS
) -> dict[str, Drawn]:
    """Draw penalties by layer: means over the pairs with deviations, and the paper's as crosses.

    A layer without a stitch, in any of the pairs, is a gap. A family looks the same in all figures.

    Args:
        stitches: of all pairs.
        labels: of the stitches, one curve for each.
        paper: layers that were not stitched are left out.
        over: the label of the axis of the layers.
    """
    figure = new_figure(PAGE, 3.0)
    panel = figure.subplots()
    layers = stitches.layers
    label_layers(panel, layers, over)
    panel.set_ylabel("stitching penalty, percentage points")
    table: list[dict[str, Any]] = []
    for label, number in _numbers(labels).items():
        found, width, size = stitches.penalties(label), 1.4, 4.5
        if label in COMPUTED:
            width, size = 0.7, 3.0
        style: dict[str, Any] = {"linewidth": width, "markersize": size, "label": shown(label)}
        drawn = draw_means(panel, range(len(layers)), found, look(number), **style)
        table += [
            {
                "layer": layer,
                "curve": label,
                "mean": mean,
                "std": deviation if len(found) > 1 else np.nan,
                "pairs": len(found),
            }
            for layer, (mean, deviation) in zip(layers, drawn, strict=True)
        ]
        known = {one: value for one, value in paper.get(label, {}).items() if one in layers}
        if known:
            at = [layers.index(layer) + ASIDE * len(layers) for layer in known]
            panel.plot(at, list(known.values()), "x", color=look(number).color, markersize=4.5)
        table += [
            {"layer": layer, "curve": f"{label}, {PAPERS}", "mean": value}
            for layer, value in known.items()
        ]
    if any(row["curve"].endswith(PAPERS) for row in table):
        panel.plot([], [], "x", color="0.3", markersize=4.5, label=PAPERS)
    add_panel_legend(figure, [panel])
    return {"": Drawn(figure, (panel,), table)}


def _numbers(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each label's look: families have theirs, others get what is left."""
    known = list(FAMILIES)
    taken = {known.index(label) for label in labels if label in known}
    left = iter(number for number in range(len(labels) + len(known)) if number not in taken)
    numbers = {label: next(left) for label in labels if label not in known}
    return {label: known.index(label) if label in known else numbers[label] for label in labels}
