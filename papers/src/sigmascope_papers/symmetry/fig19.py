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
from sigmascope_papers.symmetry.dissections import INSIDE, Found, dissections_of
from sigmascope_papers.symmetry.fig3 import draw_parts, draw_shares, rises, told

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


ITEM = Item(measure=measure, judge=judge, draw=draw)
