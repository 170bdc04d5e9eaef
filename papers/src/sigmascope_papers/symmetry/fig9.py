"""Figure 9: how alike the layers of two ResNet-20 are, by Procrustes, up to the symmetries of ReLU
and up to rotations.

Four pairs of our four ResNet-20, trained with other seeds, on all test images of CIFAR-10; the
normaliser is the authors'. The paper prints no numbers: those here were read off its figure, to
about 0.01.

The rule is that of Table 2: within 0.05 of the paper's numbers, in direction within 0.1, for the
layers at the ends of blocks one by one and for those inside as a range. That the paper finds the
two measures alike, by eye, is read as a rank correlation of 0.8 over the layers, in direction 0.5.
It was not blind: on 200 images the similarities had been seen, 0.45 to 0.70 at the ends of blocks
and 0.40 to 0.60 inside for ReLU, 0.52 to 0.86 and 0.44 to 0.74 for rotations.
"""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.pairs import GROUPS, RESNET20, Pairs, draw_layers, pairs_of
from sigmascope_papers.symmetry.rules import (
    below_orthogonal,
    inner_lower,
    near,
    ordered_alike,
    within_range,
)
from sigmascope_papers.symmetry.table2 import LIMITS

__all__ = ["INSIDE", "ITEM", "PAPER"]

OUTER = RESNET20.layers[::2]
PAPER: Mapping[str, Mapping[str, float]] = {
    "relu": dict(
        zip(OUTER, (0.62, 0.60, 0.60, 0.61, 0.55, 0.54, 0.54, 0.49, 0.49, 0.55), strict=True)
    ),
    "orthogonal": dict(
        zip(OUTER, (0.72, 0.66, 0.66, 0.64, 0.67, 0.64, 0.61, 0.60, 0.58, 0.62), strict=True)
    ),
}
"""Group -> layer at the end of a block, or before all -> similarity, the mean of 32 pairs."""
INSIDE = {"relu": (0.42, 0.55), "orthogonal": (0.49, 0.62)}
"""Group -> least and largest similarity of the layers inside."""
ALIKE = (0.8, 0.5)


def measure(setting: Setting) -> Pairs:
    """Read or measure all pairs."""
    return pairs_of(setting, RESNET20, "procrustes")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.05, in direction 0.1; relu below orthogonal; layers inside below their
    neighbors; ranks alike.
    """
    checks = []
    for group in GROUPS:
        found = pairs.same_place(group)
        checks += [
            near(
                f"{group} group, layers at the ends of blocks",
                list(PAPER[group].values()),
                found[:, ::2],
                LIMITS,
            ),
            within_range(f"{group} group, layers inside", INSIDE[group], found[:, 1::2], LIMITS),
            inner_lower(pairs, group),
        ]
    return [*checks, below_orthogonal(pairs), ordered_alike(pairs, pairs.layers, ALIKE)]


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw both groups by layer, beside the paper's numbers."""
    return {"": draw_layers(pairs, PAPER)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
