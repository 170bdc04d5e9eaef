"""Figure 5: CKA of every layer of one ResNet-20 with every layer of another, by the max kernel and
by the linear one.

Four pairs of our four ResNet-20, trained with other seeds, on all test images of CIFAR-10;
otherwise as Figure 2. The paper's main text was not at hand: what Figure 5 shows is read from its
appendix. Of its numbers only the ends of the diagonals are known, read off the figure to about
0.01.

The rule is that of Figure 2 where it applies: ends within 0.1, in direction 0.2; the decay. The
rest has no numbers beside it: layers are called most like their own if that is so in three quarters
of the rows and columns, in direction in half of them; and layers inside blocks are expected
below their neighbors, as in Figure 9. It was not blind: diagonals on 200 images had been seen,
from 0.9 to 0.8 for ReLU and 0.9 at both ends otherwise, lower inside blocks.
"""

from __future__ import annotations

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.fig2 import LIMITS
from sigmascope_papers.symmetry.pairs import GROUPS, RESNET20, Pairs, draw_matrices, pairs_of
from sigmascope_papers.symmetry.rules import (
    below_orthogonal,
    decays_faster,
    inner_lower,
    like_their_own,
    near,
)

__all__ = ["ITEM", "PAPER"]

PAPER = {"relu": (0.79, 0.38), "orthogonal": (0.96, 0.78)}
"""Group -> similarity of the first layers, and of the last."""
# Of 38 rows and columns: three quarters, and half.
ON_DIAGONAL = (29, 19)


def measure(setting: Setting) -> Pairs:
    """Read or measure all pairs."""
    return pairs_of(setting, RESNET20, "cka")


def judge(pairs: Pairs) -> list[Check]:
    """Ends within 0.1, in direction 0.2; three quarters on the diagonal; inside below neighbors;
    relu decays twice as much.
    """
    checks = []
    for group in GROUPS:
        ends = pairs.same_place(group)[:, [0, -1]]
        checks += [
            near(f"{group} group, layers 3 and 75 at the same place", PAPER[group], ends, LIMITS),
            like_their_own(pairs, group, ON_DIAGONAL, ", our limit"),
            inner_lower(pairs, group),
        ]
    return [*checks, below_orthogonal(pairs), decays_faster(pairs)]


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw the mean matrices."""
    return {"": draw_matrices(pairs)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
