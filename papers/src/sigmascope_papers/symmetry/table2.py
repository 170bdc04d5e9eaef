"""Table 2: how alike the layers of two Myrtle CNNs are, by Procrustes, up to the symmetries of ReLU
and up to rotations.

Four pairs of our Myrtle CNNs, trained with other seeds, on all test images of CIFAR-10; the
normaliser is the authors'. The paper's main text was not at hand: that this is its Table 2 is read
from its appendix, which numbers the tables beside it, and its numbers are those that its authors
printed beside their code.

The rule: within 0.05 of the paper's numbers, a seventh of what they span over layers and groups; in
direction within 0.1. Channels are normalised one by one for ReLU and all together for rotations, so
that no theorem puts one below the other; with channels of equal norms one would, and in the paper's
numbers it is so. The rule was not blind: on 200 images the similarities had been seen, about 0.68,
0.52, 0.44, 0.43 for ReLU and 0.84, 0.66, 0.55, 0.55 for rotations.
"""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.pairs import GROUPS, MYRTLE, Pairs, draw_layers, pairs_of
from sigmascope_papers.symmetry.rules import (
    below_orthogonal,
    differ_little,
    falls,
    near,
    rises_last,
)

__all__ = ["ITEM", "LIMITS", "PAPER"]

PAPER: Mapping[str, Mapping[str, float]] = {
    "relu": {"3": 0.6208, "6": 0.5106, "10": 0.4432, "14": 0.4899},
    "orthogonal": {"3": 0.7724, "6": 0.5743, "10": 0.5087, "14": 0.5825},
}
"""Group -> layer -> similarity, the mean of 32 pairs."""
LIMITS = (0.05, 0.1)
# The largest standard deviation that the paper has.
SPREAD = 0.04


def measure(setting: Setting) -> Pairs:
    """Read or measure all pairs."""
    return pairs_of(setting, MYRTLE, "procrustes")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.05, in direction 0.1; falling over three layers, rising at the last; relu
    below; small spread.
    """
    checks = [
        near(
            f"{group} group, layers {', '.join(pairs.layers)}",
            list(PAPER[group].values()),
            pairs.same_place(group),
            LIMITS,
        )
        for group in GROUPS
    ]
    checks.append(below_orthogonal(pairs))
    for group in GROUPS:
        checks += [
            falls(pairs, group, pairs.layers[:3], "the first three layers"),
            rises_last(pairs, group),
        ]
    return [*checks, differ_little(pairs, SPREAD)]


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw both groups by layer, beside the paper's numbers."""
    return {"": draw_layers(pairs, PAPER)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
