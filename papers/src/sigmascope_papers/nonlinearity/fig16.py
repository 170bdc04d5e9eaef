"""Figure 16: distances between the signatures of all networks, with a clustering.

Dynamic time warping between all networks of the cast. The paper shows the matrix with its
clustering and leaves it to the eye. Its text says of representatives that ViTs are unlike all
others, and that Swins and ConvNeXts have come back toward the first networks; that networks of one
group are alike goes without saying there, and is judged here. Distances grow with the number of
activations, and networks of a group have similar numbers of them, so that groups are also judged
per step of the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.distances import Distances, distances
from sigmascope.figures import Drawn, draw_distances
from sigmascope_papers.chance import group_gap, neighbor_share, numbered, p_value
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.lineup import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Apart", "measure_distances", "remoteness"]

LEVEL = 0.05
# Of fewer groups none can be said to be the most remote.
FEWEST_GROUPS = 3
FIRST = ("AlexNets", "VGGs")
# Nearer by a fifth.
CLEAR = 0.8


@dataclass(frozen=True, eq=False)
class Apart:
    """Distances of all networks of the cast.

    Attributes:
        plain: as in the paper.
        per_step: per step of the path.
        groups: network -> group.
    """

    plain: Distances
    per_step: Distances
    groups: dict[str, str]

    @property
    def labels(self) -> list[str]:
        """The group of each network, in the order of the distances."""
        return [self.groups[name] for name in self.plain.names]


def measure_distances(setting: Setting) -> Apart:
    """Compare every two networks of the cast."""
    signatures = [run.signature for run in setting.runs(setting.cast.names())]
    return Apart(
        distances(signatures), distances(signatures, normalize="path"), setting.cast.groups()
    )


def remoteness(matrix: Array, labels: Sequence[str]) -> dict[str, float]:
    """Return for each group the mean distance of its networks to those of all other groups."""
    own = np.array(labels)
    return {
        group: float(matrix[own == group][:, own != group].mean())
        for group in dict.fromkeys(labels)
    }


def judge(found: Apart) -> list[Check]:
    """Groups are nearer than chance by permutation of their names (p below 0.05), in direction if
    nearer at all.

    The nearest neighbor is of the same group for most, and more often than by chance; in direction
    if only the latter. ViTs: of all groups the largest mean distance to the others, in direction
    above the median. Swins and ConvNeXts: both nearer to AlexNets and VGGs than ViTs are, clearly
    if by a fifth.
    """
    return [
        _grouped(
            found.plain.matrix, found.labels, "networks of one group are nearer to each other"
        ),
        _grouped(found.per_step.matrix, found.labels, "the same, per step of the path"),
        _neighbors(found.plain.matrix, found.labels),
        remote("ViTs are the most remote group", found.plain.matrix, found.labels),
        _returned(found.plain.matrix, found.labels),
    ]


def _grouped(matrix: Array, names: Sequence[str], claim: str) -> Check:
    labels, expected = numbered(names), f"than to others, p < {LEVEL}"
    gap = group_gap(matrix, labels)
    if not np.isfinite(gap):
        return untried(claim, expected, "there are no two groups, one of them with two networks")
    p = p_value(lambda shuffled: group_gap(matrix, shuffled), labels)
    within = matrix[(labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)].mean()
    return relation(
        claim,
        expected,
        f"{within:.3f} within, {within + gap:.3f} between, p = {p:.4f}",
        true=gap > 0,
        clear=p < LEVEL,
    )


def _neighbors(matrix: Array, names: Sequence[str]) -> Check:
    claim, expected = (
        "the nearest neighbor is of the same group",
        f"for more than half, p < {LEVEL}",
    )
    labels = numbered(names)
    if not np.isfinite(group_gap(matrix, labels)):
        return untried(claim, expected, "there are no two groups, one of them with two networks")
    share = neighbor_share(matrix, labels)
    p = p_value(lambda shuffled: neighbor_share(matrix, shuffled), labels)
    count = int((np.bincount(labels)[labels] > 1).sum())
    obtained = f"{share:.0%} of {count} networks whose group has others, p = {p:.4f}"
    return relation(claim, expected, obtained, true=p < LEVEL, clear=share > 0.5)


def remote(claim: str, matrix: Array, labels: Sequence[str]) -> Check:
    """Judge whether ViTs are the group that is farthest from the others."""
    expected = "largest mean distance to the others"
    if "ViTs" not in labels or len(set(labels)) < FEWEST_GROUPS:
        return untried(claim, expected, f"no ViTs, or fewer than {FEWEST_GROUPS} groups")
    far = remoteness(matrix, labels)
    order = sorted(far, key=far.__getitem__, reverse=True)
    place = order.index("ViTs") + 1
    first = ", ".join(f"{group} {far[group]:.3f}" for group in order[:2])
    obtained = f"ViTs {far['ViTs']:.3f}, place {place} of {len(order)}; first {first}"
    return relation(
        claim,
        expected,
        obtained,
        true=far["ViTs"] > float(np.median(list(far.values()))),
        clear=place == 1,
    )


def _returned(matrix: Array, labels: Sequence[str]) -> Check:
    claim, expected = (
        "Swins and ConvNeXts are nearer to the first networks than ViTs",
        f"both, below {CLEAR:g} of the distance",
    )
    own = np.array(labels)
    first = np.isin(own, FIRST)
    if not first.any() or not {"ViTs", "Swins", "ConvNeXts"} <= set(labels):
        return untried(claim, expected, "one of the groups is not among the networks")
    apart = {
        group: float(matrix[own == group][:, first].mean())
        for group in ("ViTs", "Swins", "ConvNeXts")
    }
    largest = max(apart["Swins"], apart["ConvNeXts"])
    told = ", ".join(f"{group} {value:.3f}" for group, value in apart.items())
    return relation(
        claim, expected, told, true=largest < apart["ViTs"], clear=largest < CLEAR * apart["ViTs"]
    )


def draw(found: Apart) -> dict[str, Drawn]:
    """Draw the matrix with its tree."""
    return {"": draw_distances(found.plain), "path": draw_distances(found.per_step)}


ITEM = Item(measure=measure_distances, judge=judge, draw=draw)
