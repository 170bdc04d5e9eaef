"""Figure 2: CKA of every layer of one Myrtle CNN with every layer of another, by the max kernel and
by the linear one.

Four pairs of our Myrtle CNNs, trained with other seeds, on all test images of CIFAR-10; channels
are centered and normalised and HSIC is unbiased, as in the paper. The kernels are symmetric under
the group of ReLU (the maximum over channels), or, as published, their sum, called orthogonal though
its normalisation is not blind to rotations. The paper's main text was not at
hand: what Figure 2 shows is read from its appendix, and the numbers are the labels of its authors'
    heat maps.

The rule: within 0.1 of the paper's numbers, as far as its own network of constant width is from
this one; in direction within 0.2. In 7 of 8 rows and columns the paper's largest entry is on the
diagonal, by the linear kernel in all. It was not blind: on 200 images the four diagonals had been
seen, 0.82 to 0.92, 0.74 to 0.83, 0.46 to 0.59 and 0.54 to 0.57 for ReLU, 0.92 or more otherwise.
"""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.pairs import GROUPS, MYRTLE, Pairs, draw_matrices, pairs_of
from sigmascope_papers.symmetry.rules import below_orthogonal, decays_faster, like_their_own, near

__all__ = ["ITEM", "LIMITS", "PAPER"]

PAPER = {
    "relu": (
        (0.84, 0.60, 0.31, 0.21),
        (0.62, 0.61, 0.31, 0.21),
        (0.31, 0.31, 0.45, 0.34),
        (0.20, 0.21, 0.35, 0.43),
    ),
    "orthogonal": (
        (0.98, 0.91, 0.53, 0.37),
        (0.90, 0.97, 0.66, 0.49),
        (0.52, 0.66, 0.92, 0.83),
        (0.37, 0.49, 0.83, 0.93),
    ),
}
"""Group -> similarities of the layers of the one network (rows) with those of the other."""
LIMITS = (0.1, 0.2)
# Rows and columns with the largest entry on the diagonal: as many as in the paper's numbers, and at
# least six.
ON_DIAGONAL = {"relu": (7, 6), "orthogonal": (8, 6)}


def measure(setting: Setting) -> Pairs:
    """Read or measure all pairs."""
    return pairs_of(setting, MYRTLE, "cka")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.1, in direction 0.2; diagonals as in the paper; relu below orthogonal; its
    decay twice as large.
    """
    checks = []
    for group in GROUPS:
        found, paper = pairs.matrices(group), np.array(PAPER[group])
        other = ~np.eye(len(paper), dtype=bool)
        checks += [
            near(
                f"{group} group, layers at the same place",
                paper.diagonal().tolist(),
                pairs.same_place(group),
                LIMITS,
            ),
            near(
                f"{group} group, layers at other places",
                paper[other].tolist(),
                found[:, other],
                LIMITS,
            ),
        ]
    checks += [like_their_own(pairs, group, ON_DIAGONAL[group], "") for group in GROUPS]
    return [*checks, below_orthogonal(pairs), decays_faster(pairs)]


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw the mean matrices."""
    return {"": draw_matrices(pairs)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
