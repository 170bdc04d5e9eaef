"""Figure 19: trainings of one architecture cluster by their kind.

A tree of 14 trainings of one architecture (see `trainings`) by dynamic time warping and average
linkage. Seeds of one training are alike whatever the kinds mean, so that the kinds are judged on
trainings, averaged over seeds: six trainings fall into three pairs in 15 ways, and the three kinds
are one of them. That holds for the distances, and for the tree.
"""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn, draw_tree
from sigmascope_papers.chance import (
    SAME,
    Labels,
    adjusted_rand,
    group_gap,
    numbered,
    p_value,
    shuffles,
)
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.nonlinearity.trainings import KINDS, Trainings, measure_trainings

__all__ = ["ITEM"]

# By the usual words for the adjusted Rand index, 0.8 and more is good agreement.
GOOD, LEVEL = 0.8, 0.05


def judge(found: Trainings) -> list[Check]:
    """Judge the kinds by distances and by the tree, and the trainings by the tree; see the
    functions below.
    """
    return [_kinds(found), _cut_into_kinds(found), _cut_into_trainings(found)]


def _groupings(labels: Labels) -> list[Labels]:
    """Return all ways to group things into groups of these sizes, the given one first."""
    ways = dict.fromkeys(
        tuple(numbered([str(one) for one in labels[order]]).tolist())
        for order in shuffles(len(labels))
    )
    return [np.array(way, dtype=np.int64) for way in ways]


def _kinds(found: Trainings) -> Check:
    """The kinds are tighter than the average grouping of trainings; clearly if the tightest of all."""
    names, matrix = found.averaged()
    labels = numbered([KINDS[name] for name in names])
    gaps = np.array([group_gap(matrix, way) for way in _groupings(labels)])
    tight = int((gaps >= gaps[0] - SAME).sum())
    off = ~np.eye(len(names), dtype=bool)
    within = matrix[(labels[:, None] == labels) & off].mean()
    between = matrix[labels[:, None] != labels].mean()
    return relation(
        "trainings of one kind are nearest to each other",
        f"the tightest of {len(gaps)} groupings",
        f"{tight} of {len(gaps)} as tight; {within:.3f} within kinds, {between:.3f} between",
        true=bool(within < between),
        clear=tight == 1,
    )


def _cut(found: Trainings, count: int) -> Labels:
    """Cut the tree of all networks into so many groups."""
    return np.array(found.distances().cluster().groups(count), dtype=np.int64)


def _cut_into_kinds(found: Trainings) -> Check:
    """The kinds agree with the tree better than the median grouping of trainings; clearly if best
    of all, and by 0.8.
    """
    trainings = numbered(found.trainings)
    labels = numbered([KINDS[name] for name in dict.fromkeys(found.trainings)])
    count = int(labels.max()) + 1
    cut = _cut(found, count)
    agreements = np.array([adjusted_rand(way[trainings], cut) for way in _groupings(labels)])
    good, own, typical = (
        int((agreements >= agreements[0] - SAME).sum()),
        agreements[0],
        float(np.median(agreements)),
    )
    return relation(
        f"the tree, cut into {count}, has the kinds",
        f"adjusted Rand index {GOOD} or more, the best of {len(agreements)} groupings",
        f"{own:.2f}; {good} of {len(agreements)} as good, median {typical:.2f}",
        true=bool(own > typical + SAME),
        clear=bool(own >= GOOD) and good == 1,
    )


def _cut_into_trainings(found: Trainings) -> Check:
    """The trainings agree with the tree better than 95 % of the orders of the networks; clearly if
    by 0.8.
    """
    labels = numbered(found.trainings)
    count = int(labels.max()) + 1
    cut = _cut(found, count)
    agreement = adjusted_rand(labels, cut)
    p = p_value(lambda shuffled: adjusted_rand(shuffled, cut), labels)
    return relation(
        f"the tree, cut into {count}, has the trainings",
        f"adjusted Rand index {GOOD} or more",
        f"{agreement:.2f}, p = {p:.4f}",
        true=agreement > 0 and p < LEVEL,
        clear=agreement >= GOOD,
    )


def draw(found: Trainings) -> dict[str, Drawn]:
    """Draw the tree, with the kind of each network."""
    return {"": draw_tree(found.distances().cluster(), families=found.kinds)}


ITEM = Item(measure=measure_trainings, judge=judge, draw=draw)
