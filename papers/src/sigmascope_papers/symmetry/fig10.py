"""Figure 10: how alike the layers of two ResNet-18 are, by Procrustes, up to the symmetries of ReLU
and up to rotations.

One pair of our ResNet-18, trained with other seeds, on all test images of CIFAR-10; the normaliser
is the authors'. The paper prints no numbers: those here were read off its figure, to about 0.01,
for the layers at the ends of blocks and for two inside, marked `*`.

The paper finds both groups alike but for layer 70*, where the relu group gives 0.98 though stitches
fail there and CKA is low, and leaves that open. Two channels without output are alike to the
authors' normaliser, so that a layer of which little is left comes out near 1: that is our reading,
and the numbers of live channels decide about it.

The rule is that of Figure 9: within 0.05 of the paper's numbers, in direction within 0.1, and a
rank correlation of 0.8, in direction 0.5; that is over the ends of blocks, where the paper's
numbers have 0.83. What falls or rises in the paper is to do so half as much, in direction at all.
With one pair nothing can be asked of every pair: at two of the nine ends of blocks the paper's
groups differ by no more than can be read, so that seven hold in direction.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.fig9 import ALIKE
from sigmascope_papers.symmetry.pairs import GROUPS, RESNET18, Pairs, draw_layers, pairs_of
from sigmascope_papers.symmetry.rules import near, of_dead_channels, ordered_alike
from sigmascope_papers.symmetry.table2 import LIMITS

__all__ = ["INSIDE", "ITEM", "PAPER"]

OUTER = RESNET18.layers[::2]
INSIDE = ("60*", "70*")
"""The layers inside blocks with known numbers, those that stand out."""
PAPER: Mapping[str, Mapping[str, float]] = {
    "relu": dict(zip(OUTER, (0.62, 0.56, 0.54, 0.51, 0.49, 0.52, 0.50, 0.69, 0.69), strict=True))
    | {"60*": 0.83, "70*": 0.98},
    "orthogonal": dict(
        zip(OUTER, (0.75, 0.67, 0.62, 0.63, 0.58, 0.53, 0.51, 0.71, 0.71), strict=True)
    )
    | {"60*": 0.57, "70*": 0.73},
}
"""Group -> layer -> similarity, the mean of 32 pairs."""
# Of the nine ends of blocks, as many as are lower in the paper, and clearly so.
LOWER = (9, 7)
# By how much more alike a layer is by the relu group, to be clear; in the paper by 0.25.
EXCESS = 0.1


def measure(setting: Setting) -> Pairs:
    """Read or measure the pair."""
    return pairs_of(setting, RESNET18, "procrustes")


def judge(pairs: Pairs) -> list[Check]:
    """Numbers within 0.05, in direction 0.1; the shape of the curves; layers 60* and 70* stand out;
    live channels.
    """
    checks = []
    for group in GROUPS:
        checks += [
            _numbers(pairs, group, "layers at the ends of blocks", OUTER),
            _numbers(pairs, group, "layers", INSIDE),
        ]
        checks.append(_falls_and_rises(pairs, group))
    checks += [_below_at_ends(pairs), ordered_alike(pairs, OUTER, ALIKE), _stand_out(pairs)]
    return [*checks, of_dead_channels(pairs, "70*")]


def _at(
    pairs: Pairs, group: str, layers: tuple[str, ...]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(p, len(layers)), the similarities of some layers."""
    return pairs.same_place(group)[:, [pairs.layers.index(layer) for layer in layers]]


def _numbers(pairs: Pairs, group: str, words: str, layers: tuple[str, ...]) -> Check:
    named = f" {' and '.join(layers)}" if len(layers) == 2 else ""
    return near(
        f"{group} group, {words}{named}",
        [PAPER[group][layer] for layer in layers],
        _at(pairs, group, layers),
        LIMITS,
    )


def _falls_and_rises(pairs: Pairs, group: str) -> Check:
    """Similarity falls up to the end of the third stage and rises in the fourth; clearly if by half
    of what the paper has.
    """
    ends = ("3", "55", "73")
    (first, low, last), (paper_first, paper_low, paper_last) = (
        _at(pairs, group, ends).mean(axis=0).tolist(),
        [PAPER[group][layer] for layer in ends],
    )
    fall, rise = first - low, last - low
    wanted = (paper_first - paper_low, paper_last - paper_low)
    return relation(
        f"{group} group: similarity falls over three stages and rises in the fourth",
        f"by {wanted[0]:.2f} and {wanted[1]:.2f}, or half of that",
        f"{fall:.2f} and {rise:.2f}, from {first:.2f} over {low:.2f} to {last:.2f}",
        true=fall > 0 and rise > 0,
        clear=fall >= wanted[0] / 2 and rise >= wanted[1] / 2,
    )


def _below_at_ends(pairs: Pairs) -> Check:
    """The relu group is below the orthogonal one at all ends of blocks; in direction, at seven."""
    relu, orthogonal = (_at(pairs, group, OUTER).mean(axis=0) for group in GROUPS)
    count = int((relu < orthogonal).sum())
    claim = "at the ends of blocks the relu group finds layers less alike than the orthogonal one"
    expected = f"at {LOWER[0]} of {len(OUTER)}, at two of them by 0.01"
    return relation(claim, expected, str(count), true=count >= LOWER[1], clear=count >= LOWER[0])


def _stand_out(pairs: Pairs) -> Check:
    """Layer 70* is more alike by the relu group; clearly if 60* is too, and each by 0.1."""
    relu, orthogonal = (_at(pairs, group, INSIDE).mean(axis=0) for group in GROUPS)
    more = relu - orthogonal
    paper = [f"{PAPER['relu'][layer] - PAPER['orthogonal'][layer]:+.2f}" for layer in INSIDE]
    return relation(
        "layers 60* and 70* are more alike by the relu group",
        f"{' and '.join(paper)}; at least {EXCESS:+.2f}",
        " and ".join(f"{value:+.2f}" for value in more),
        true=bool(more[1] > 0),
        clear=bool((more >= EXCESS).all()),
    )


def draw(pairs: Pairs) -> dict[str, Drawn]:
    """Draw both groups by layer, beside the paper's numbers, and the live channels."""
    return {"": draw_layers(pairs, PAPER, live=True)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
