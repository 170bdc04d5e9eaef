"""Table 4: how alike the layers of two Myrtle CNNs of constant width are, by Procrustes, up to both
groups.

Two pairs of our Myrtle CNNs with 512 channels in all layers, trained with other seeds, on all test
images of CIFAR-10; the normaliser is the authors'. The numbers are printed in the paper.

The rule is that of Table 2: within 0.05 of the paper's numbers, in direction within 0.1. The paper
calls them much like those of growing width; yet by the relu group they fall up to the last layer,
and at layers 6 and 10 they are above the orthogonal ones. Both are expected here as the paper has
them; the scales of the two groups differ, so that no theorem forbids it. What live channels alone
give is told and drawn beside it, and not judged.
"""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.pairs import GROUPS, WIDE, Pairs, draw_layers, pairs_of
from sigmascope_papers.symmetry.rules import differ_little, falls, near, rises_last
from sigmascope_papers.symmetry.table2 import LIMITS

__all__ = ["ITEM", "PAPER"]

PAPER: Mapping[str, Mapping[str, float]] = {
    "relu": {"3": 0.8176, "6": 0.7602, "10": 0.5691, "14": 0.4971},
    "orthogonal": {"3": 0.8460, "6": 0.6735, "10": 0.5409, "14": 0.6050},
}
"""Group -> layer -> similarity, the mean of 4 pairs."""
# The largest standard deviation that the paper has.
SPREAD = 0.008


def measure(setting: Setting) -> Pairs:
    """Read or measure all pairs."""
    return pairs_of(setting, WIDE, "procrustes")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.05, in direction 0.1; relu falling to the end, orthogonal rising at last;
    which is above; spread.
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
    checks += [
        falls(pairs, "relu", pairs.layers, "all layers"),
        falls(pairs, "orthogonal", pairs.layers[:3], "the first three layers"),
        rises_last(pairs, "orthogonal"),
    ]
    return [*checks, _above_between(pairs), differ_little(pairs, SPREAD)]


def _above_between(pairs: Pairs) -> Check:
    """The relu group is above the orthogonal one at layers 6 and 10 only; in direction, three of
    four signs on average.
    """
    more = pairs.same_place("relu") - pairs.same_place("orthogonal")
    signs = [
        1 if PAPER["relu"][layer] > PAPER["orthogonal"][layer] else -1 for layer in pairs.layers
    ]
    live, counts = pairs.by_live_channels().mean(axis=0), pairs.live_channels()
    paper = ", ".join(
        f"{PAPER['relu'][layer] - PAPER['orthogonal'][layer]:+.2f}" for layer in pairs.layers
    )
    told = ", ".join(f"{value:+.2f}" for value in more.mean(axis=0))
    by_live = (
        f"by live channels only the relu group has {', '.join(f'{value:.2f}' for value in live)}"
    )
    return relation(
        "the relu group finds layers 6 and 10 more alike, 3 and 14 less alike than the "
        "orthogonal one",
        f"{paper}; these signs in every pair",
        f"{told}; {by_live}, of which there are {counts.min():.0f} or more in each layer",
        true=int((more.mean(axis=0) * signs > 0).sum()) >= len(signs) - 1,
        clear=bool((more * signs > 0).all()),
    )


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw both groups by layer, beside the paper's numbers, and the live channels."""
    return {"": draw_layers(pairs, PAPER, live=True)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
