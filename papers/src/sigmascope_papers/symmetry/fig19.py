"""Figure 19: how many units inside a residual block stay interpretable when its basis is
rotated.

As Figure 3, at the ReLU inside the last block, of ResNet-20 and of the same without ReLU after
its additions. The paper finds that, surprisingly, the share tends to increase away from the basis
of the activation. The rule for "increases" is that of Figure 3: by 0.15 of the share, in direction
by anything.
"""

from __future__ import annotations

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.dissections import CONCEPTS, INSIDE, Found, dissections_of
from sigmascope_papers.symmetry.fig3 import KNOWN, draw_parts, draw_shares, rises, told

__all__ = ["ITEM"]


def measure(setting: Setting) -> Found:
    """Read or make the dissections inside the last blocks."""
    return dissections_of(setting, INSIDE)


def judge(found: Found) -> list[Check]:
    """The share rises with rotation, in both networks."""
    return [
        rises(
            f"inside a block, {label}: more units are interpretable away from its "
            f"basis{told(name)}",
            one,
        )
        for name, some in found.items()
        for label, one in some.items()
    ]


def draw(found: Found) -> dict[str, Drawn]:
    """Draw both subjects."""
    return draw_parts(found, draw_shares)


ITEM = Item(
    title="units inside the last block that stay interpretable under rotations",
    budget="3 ResNet-20 (64 units each), 1 without ReLU after its additions; 5 rotations, 11 "
    "powers, 2,000 images",
    exact="rotations, powers, thresholds and IoU are the paper's, beside other thresholds of ours "
    "(top 1 %, where the paper's "
    "is the top 0.5 %); ResNet-20 of CIFAR-10 instead of ResNet-50 of ImageNet; "
    f"{CONCEPTS}",
    uncertainty="standard deviations over networks and rotations are given; the share in the own basis "
    "of one network of 64 "
    "units is right to about a seventh of it",
    measure=measure,
    judge=judge,
    draw=draw,
    rule=KNOWN,
    reason="not known. The fall inside blocks is clear in all four networks, and the paper calls "
    "its rise "
    "surprising; its networks, its images and its concepts are others",
)
