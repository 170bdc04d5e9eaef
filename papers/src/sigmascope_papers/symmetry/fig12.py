"""Figure 12: what it costs to stitch two vision transformers after each block, by any matrix and by
the group of ReLU.

The paper's transformers are compact convolutional ones of six blocks, ours are small ViTs of six
blocks; both end their blocks by an addition, without an activation, so that nothing ties the
channels to the symmetries of ReLU. The paper prints no numbers.

The rule: any matrix costs at most 3 points after every block, which is what it costs CNNs, in
direction 6; the group of ReLU costs more after every block, clearly if 10 points more; and it costs
10 points or more, clearly after every block and in direction on average, where it costs the paper's
Myrtle CNN 5.8 to 16.7.
"""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.penalties import draw_penalties
from sigmascope_papers.symmetry.plans import TRANSFORMER
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of

__all__ = ["ITEM"]

LITTLE, MUCH = (3.0, 6.0), 10.0


def measure(setting: Setting) -> Stitches:
    """Read or train all stitches."""
    return stitches_of(setting, TRANSFORMER)


def judge(found: Stitches) -> list[Check]:
    """Any matrix costs little; the group costs more, and much."""
    full, group = (found.penalties(label).mean(axis=0) for label in ("full", "relu-group"))
    more = group - full
    listed = ", ".join(f"{value:.1f}" for value in group)
    return [
        relation(
            "any matrix costs little after every block",
            f"at most {LITTLE[0]:g} points",
            ", ".join(f"{value:.1f}" for value in full),
            true=bool((full <= LITTLE[1]).all()),
            clear=bool((full <= LITTLE[0]).all()),
        ),
        relation(
            "the group of ReLU costs more than any matrix, after every block",
            f"{MUCH:g} points more",
            f"{more.min():.1f} to {more.max():.1f} more",
            true=bool((more > 0).all()),
            clear=bool((more >= MUCH).all()),
        ),
        relation(
            "the group of ReLU costs much",
            f"{MUCH:g} points or more after every block",
            listed,
            true=bool(np.mean(group) >= MUCH),
            clear=bool((group >= MUCH).all()),
        ),
    ]


def draw(found: Stitches) -> dict[str, Drawn]:
    """Draw the penalties by block; those of low rank and those that are computed are ours."""
    return {"": draw_penalties(found, list(found.plan.tasks), over="stitched after")}


ITEM = Item(measure=measure, judge=judge, draw=draw)
