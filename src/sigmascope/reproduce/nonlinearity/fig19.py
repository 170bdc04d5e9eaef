"""Figure 19: trainings of one architecture cluster by their kind.

A tree of 14 trainings of one architecture (see `trainings`) by dynamic time warping and average linkage. Seeds of one
training are alike whatever the kinds mean, so that the kinds are judged on trainings, averaged over seeds: six trainings
fall into three pairs in 15 ways, and the three kinds are one of them.

The rule was written before the networks were measured.
"""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn, draw_tree
from sigmascope.reproduce.chance import Labels, adjusted_rand, group_gap, numbered, p_value, shuffles
from sigmascope.reproduce.item import Check, Item, relation
from sigmascope.reproduce.nonlinearity.trainings import KINDS, Trainings, measure_trainings

__all__ = ["ITEM"]

# By the usual words for the adjusted Rand index, 0.8 and more is good agreement.
GOOD, LEVEL = 0.8, 0.05


def judge(found: Trainings) -> list[Check]:
    """Kinds: of all ways to group the trainings the tightest, in direction tighter than the average way.

    The tree cut into three: adjusted Rand index with the kinds 0.8, in direction if it is positive and better than 95 % of the
    orders of the networks. That test counts seeds as networks, so it alone does not make the claim hold.
    """
    return [_kinds(found), _cut(found, found.kinds, "kinds"), _cut(found, _own(found), "trainings")]


def _own(found: Trainings) -> dict[str, str]:
    return {one.name: training for one, training in zip(found.trained, found.trainings, strict=True)}


def _kinds(found: Trainings) -> Check:
    names, matrix = found.averaged()
    labels = numbered([KINDS[name] for name in names])
    gaps = np.array([group_gap(matrix, labels[order]) for order in shuffles(len(labels))])
    share = float((gaps >= gaps[0] - 1e-12).mean())
    count = len({tuple(numbered([str(one) for one in labels[order]])) for order in shuffles(len(labels))})
    off = ~np.eye(len(names), dtype=bool)
    within = matrix[(labels[:, None] == labels) & off].mean()
    between = matrix[labels[:, None] != labels].mean()
    return relation(
        "trainings of one kind are nearest to each other",
        f"the tightest of {count} groupings",
        f"{round(share * count)} of {count} as tight; {within:.3f} within kinds, {between:.3f} between",
        true=bool(within < between),
        clear=share * count < 1.5,
    )


def _cut(found: Trainings, groups: dict[str, str], what: str) -> Check:
    """Compare the groups of networks with the tree, cut into as many."""
    tree = found.distances().cluster()
    labels = numbered([groups[name] for name in tree.names])
    count = int(labels.max()) + 1
    cut: Labels = np.array(tree.groups(count), dtype=np.int64)
    agreement = adjusted_rand(labels, cut)
    p = p_value(lambda shuffled: adjusted_rand(shuffled, cut), labels)
    return relation(
        f"the tree, cut into {count}, has the {what}",
        f"adjusted Rand index {GOOD} or more",
        f"{agreement:.2f}, p = {p:.4f}",
        true=agreement > 0 and p < LEVEL,
        clear=agreement >= GOOD,
    )


def draw(found: Trainings) -> dict[str, Drawn]:
    """Draw the tree, with the kind of each network."""
    return {"": draw_tree(found.distances().cluster(), families=found.kinds)}


ITEM = Item(
    title="trainings of one architecture cluster by their kind",
    budget=(
        "14 networks: 6 trainings of ResNet-20, 2 or 4 seeds each; 2560 test images of CIFAR-10 in 5 batches; 10 000 "
        "permutations"
    ),
    exact=(
        "dynamic time warping as in the paper; its linkage is not told, ours is average; 6 trainings on CIFAR-10 instead "
        "of 17 checkpoints on ImageNet, other kinds of them, and the kinds are our choice"
    ),
    uncertainty="with six trainings no grouping can be rarer than 1 in 15; two seeds show how far one training varies",
    measure=measure_trainings,
    judge=judge,
    draw=draw,
)
