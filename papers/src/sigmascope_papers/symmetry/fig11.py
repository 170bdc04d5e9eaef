"""Figure 11: CKA of every layer of one ResNet-18 with every layer of another, by the max kernel and
by the linear one.

One pair of our ResNet-18, trained with other seeds, on all test images of CIFAR-10; otherwise as
Figure 2. The paper prints no
numbers: those here were read off the diagonals of its figure, to about 0.01.

The paper says that the remarks on Figure 2 apply, and that layer 70* is extremely unlike itself by
both groups. The rule is that of Figures 2 and 5: numbers within 0.1, in direction 0.2; the relu
group decays faster; layers are called most like their own if that is so in three quarters of the
rows and columns, in direction in half of them. Layer 70* is expected below both neighbors, clearly
so by half of what the paper has.
"""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.fig2 import LIMITS
from sigmascope_papers.symmetry.pairs import GROUPS, RESNET18, Pairs, draw_matrices, pairs_of
from sigmascope_papers.symmetry.rules import below_orthogonal, decays_faster, like_their_own, near

__all__ = ["ITEM", "PAPER"]

ODD = "70*"
PAPER: Mapping[str, Mapping[str, float]] = {
    "relu": {
        **dict(
            zip(
                RESNET18.layers[::2],
                (0.84, 0.62, 0.55, 0.56, 0.48, 0.42, 0.39, 0.48, 0.46),
                strict=True,
            )
        ),
        ODD: 0.36,
    },
    "orthogonal": {"3": 0.98, "73": 0.85, ODD: 0.35},
}
"""Group -> layer -> similarity with the layer at the same place, where it is known."""
# Of 34 rows and columns: three quarters, and half.
ON_DIAGONAL = (26, 17)


def measure(setting: Setting) -> Pairs:
    """Read or measure the pair."""
    return pairs_of(setting, RESNET18, "cka")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.1, in direction 0.2; 70* below its neighbors; three quarters on the
    diagonal; relu decays faster.
    """
    checks = []
    for group in GROUPS:
        known = [layer for layer in PAPER[group] if layer != ODD]
        claim = f"{group} group, layers {', '.join(known)} at the same place"
        found = pairs.same_place(group)[:, [pairs.layers.index(layer) for layer in known]]
        checks += [
            near(claim, [PAPER[group][layer] for layer in known], found, LIMITS),
            _unlike_itself(pairs, group),
            like_their_own(pairs, group, ON_DIAGONAL, ", our limit"),
        ]
    return [*checks, below_orthogonal(pairs, but=(ODD,)), decays_faster(pairs)]


def _unlike_itself(pairs: Pairs, group: str) -> Check:
    """Layer 70* is below the layers before and after it; clearly if by half of what it is below the
    last one in the paper.
    """
    at = pairs.layers.index(ODD)
    before, odd, after = pairs.same_place(group).mean(axis=0)[at - 1 : at + 2].tolist()
    drop = min(before - odd, after - odd)
    wanted = PAPER[group]["73"] - PAPER[group][ODD]
    live = [one.live[side][at] for one in pairs.found[group] for side in (0, 1)]
    width = pairs.found[group][0].channels[0][at]
    return relation(
        f"{group} group: layer {ODD}, inside the last block, is unlike itself",
        f"{PAPER[group][ODD]:.2f}, below both neighbors by {wanted:.2f} or half of that",
        f"{odd:.2f} between {before:.2f} and {after:.2f}; {min(live)} to {max(live)} of its "
        f"{width} channels vary",
        true=before > odd and after > odd,  # a NaN is not
        clear=drop >= wanted / 2,
    )


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw the matrices."""
    return {"": draw_matrices(pairs)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
