"""Figure 6: what it costs to stitch two ResNet-20, at the ends of residual blocks and inside of
them.

Two pairs of our four ResNet-20. The paper prints no numbers: those here were read off its authors'
figure, to about 0.4 points, and only for full stitches and the group of ReLU.

The rule counts layers, on average over the pairs. Where the paper says "consistently", all layers
are asked for; where it says "in general", all but 72, the last inside a block; in direction two
fewer. Numbers are asked for within 5 points, in direction 10, those of full stitches at the ends of
blocks within 2 and 4; the order of the layers by a rank correlation of 0.8, in direction 0.5. It
was not blind: `NOT_BLIND`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.penalties import (
    FULL_LIMITS,
    LIMITS,
    cheaper_at,
    draw_penalties,
    inside_of,
    inside_the_group,
    near_paper,
    outside_of,
    penalties_at,
    same_order,
    trained_beats_computed,
)
from sigmascope_papers.symmetry.plans import RESNET20
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of

__all__ = ["INSIDE", "ITEM", "LAYERS", "NOT_BLIND", "OUTSIDE", "PAPER"]

LAYERS = tuple(RESNET20.layers.values())
OUTSIDE, INSIDE = outside_of(LAYERS), inside_of(LAYERS)
_FULL = (2.7, 7.1, 3.6, 14, 4.8, 17, 3.2, 5.7, 2.7, 18, 3.4, 21, 3.4, 5.3, 5.0, 5.3, 1.5, 0.4, 0.0)
_RELU = (13, 25, 17, 39, 24, 49, 34, 38, 31, 62, 35, 64, 38, 43, 38, 43, 24, 15, 5.3)
PAPER: Mapping[str, Mapping[str, float]] = {
    "full": dict(zip(LAYERS, _FULL, strict=True)),
    "relu-group": dict(zip(LAYERS, _RELU, strict=True)),
}
"""Family -> layer -> penalty, the mean of 16 pairs."""
OTHERS = ("full", "rank 4", "rank 2", "rank 1")
NOT_BLIND = (
    "written when a pilot of one pair, trained for four epochs, had been seen at layers 3, "
    "11, 35, 51, 75: full 1.7, 1.8, 1.9, "
    "1.7, -0.1; rank 1 10, 16, 64, 64, 61; rank 2 5, 12, 29, 42, 17; relu-group 3.0, 13.4, "
    "24.6, 35.2, 0.4; and inside, at 8, "
    "32, 48, 72: full 5.0, 13.1, 46.6, 0.3; relu-group 22.7, 62, 72.6, 8.4; not changed afterwards"
)


def measure(setting: Setting) -> Stitches:
    """Read or train all stitches."""
    return stitches_of(setting, RESNET20)


def judge(stitches: Stitches) -> list[Check]:
    """Orders of families outside and inside blocks; layers inside above both neighbors; numbers
    and their order.
    """
    outside = {
        label: penalties_at(stitches, label, OUTSIDE)
        for label in ("relu-group", "rank 1", "rank 2")
    }
    relu, *others = (penalties_at(stitches, label, INSIDE) for label in ("relu-group", *OTHERS))
    first = "relu-group costs less than rank 1 at the ends of blocks"
    some = "relu-group costs less than rank 2 at some ends of blocks"
    last = "inside blocks relu-group costs more than any other family of the paper"
    checks = [
        cheaper_at(
            first, outside["relu-group"], outside["rank 1"], (len(OUTSIDE), len(OUTSIDE) - 2)
        ),
        cheaper_at(some, outside["relu-group"], outside["rank 2"], (2, 1)),
        cheaper_at(last, np.max(others, axis=0), relu, (len(INSIDE), len(INSIDE) - 2)),
        *(_dearer_inside(stitches, label) for label in ("relu-group", "full")),
    ]
    for label, numbers in PAPER.items():
        for where, layers in (("at the ends of blocks", OUTSIDE), ("inside blocks", INSIDE)):
            limits = FULL_LIMITS if label == "full" and layers is OUTSIDE else LIMITS
            found, printed = (
                penalties_at(stitches, label, layers),
                [numbers[layer] for layer in layers],
            )
            checks.append(near_paper(f"{label} {where}", found, printed, limits))
        found = penalties_at(stitches, label, LAYERS)
        checks.append(
            same_order(
                f"{label}: layers in the paper's order of cost", found, list(numbers.values())
            )
        )
    return [*checks, trained_beats_computed(stitches, OUTSIDE), inside_the_group(stitches)]


def _dearer_inside(stitches: Stitches, label: str) -> Check:
    """A layer inside a block costs more than both of its neighbors, but for 72, the last."""
    ends = penalties_at(stitches, label, OUTSIDE[:-1])
    inside = penalties_at(stitches, label, INSIDE[:-1])
    dearest = np.maximum(ends[:, :-1], ends[:, 1:])
    claim = f"{label}: layers inside blocks cost more than both neighbors (72* excepted)"
    return cheaper_at(claim, dearest, inside, (len(INSIDE) - 1, len(INSIDE) - 3))


def draw(stitches: Stitches) -> dict[str, Drawn]:
    """Draw all families by layer, beside the paper's numbers."""
    return {"": draw_penalties(stitches, list(RESNET20.tasks), PAPER)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
