"""Penalties of stitches by layer: the rules and the drawing that several items share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, styled
from sigmascope.figures.style import look, shown
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, conclude
from sigmascope_papers.rules import at_least, at_most, below, near, ordered_alike
from sigmascope_papers.symmetry.curves import (
    OVER_BLOCKS,
    draw_means,
    label_layers,
    page,
    rows_of,
    with_legend,
)
from sigmascope_papers.symmetry.plans import FAMILIES
from sigmascope_papers.symmetry.stitches import Stitches

Numbers = Mapping[str, Mapping[str, float]]
"""Label -> layer -> the paper's penalty."""
NONE: Numbers = {}
COMPUTED = ("permutation", "least-squares")
"""Families that are ours: computed instead of trained, and drawn thinner."""
GROUP, PAPERS = "relu-group", "the paper's"
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
    or_more = ", or more" if counts[0] < layers else ""
    expected = f"on average at {counts[0]} of {layers} layers{or_more}"
    obtained = f"at {count}; in median {np.median(mean[0]):.1f} against {np.median(mean[1]):.1f}"
    return conclude(claim, expected, at_least(obtained, count, counts))


def group_checks(stitches: Stitches, layers: Sequence[str]) -> list[Check]:
    """Judge if trained elements of the relu group beat permutations, and have no scale of 0."""
    claim = "ours: relu-group, trained, costs less than the permutation of Procrustes, computed"
    cheaper = below(claim, *(stitches.penalties(one, layers) for one in (GROUP, "permutation")))
    channels, sparsity = (stitches.values(one, GROUP) for one in ("channels", "sparsity"))
    share = np.round(sparsity * channels**2 - channels * (channels - 1)) / channels
    counts = f"{int((share > 0).sum())} of {share.size}"
    obtained = f"{counts} stitches have scales of 0, at most {np.max(share):.0%} of them"
    claim = "ours: trained elements stay inside the group"
    inside = at_most(obtained, np.abs(share), (0.0, CUT))
    return [cheaper, conclude(claim, "no scale is 0", inside)]


@styled()
def draw_penalties(
    stitches: Stitches, labels: Sequence[str], *, paper: Numbers = NONE, over: str = OVER_BLOCKS
) -> dict[str, Drawn]:
    """Draw penalties by layer, with deviations and the paper's; a missing stitch is a gap."""
    (panel,), layers = page(3.0), stitches.layers
    label_layers(panel, layers, over)
    panel.set_ylabel("stitching penalty, percentage points")
    table: list[dict[str, Any]] = []
    for label, number in _numbers(labels).items():
        found = stitches.penalties(label)
        style = (0.7, 3.0) if label in COMPUTED else (1.4, 4.5)
        sizes = dict(zip(("linewidth", "markersize"), style, strict=True))
        places = range(len(layers))
        mean, std = draw_means(panel, places, found, look(number), label=shown(label), **sizes)
        std = std if len(found) > 1 else np.full_like(std, np.nan)  # one pair has no deviation
        table += rows_of(layer=layers, curve=label, mean=mean, std=std, pairs=len(found))
        printed = {one: value for one, value in paper.get(label, {}).items() if one in layers}
        at = [layers.index(layer) + ASIDE * len(layers) for layer in printed]
        values = list(printed.values())
        panel.plot(at, values, "x", color=look(number).color, markersize=4.5)
        table += rows_of(layer=list(printed), curve=f"{label}, {PAPERS}", mean=values)
    if any(row["curve"].endswith(PAPERS) for row in table):
        panel.plot([], [], "x", color="0.3", markersize=4.5, label=PAPERS)
    return {"": with_legend([panel], table)}


def _numbers(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each label's look: families have theirs, others get what is left."""
    own = {label: number for number, label in enumerate(FAMILIES) if label in labels}
    left = (number for number in range(len(labels) + len(FAMILIES)) if number not in own.values())
    return {label: own[label] if label in own else next(left) for label in labels}
