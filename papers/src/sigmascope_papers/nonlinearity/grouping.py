"""Figures 16 and 17: distances between all networks, as a matrix and in the plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.choices import Embedded
from sigmascope.compare.distances import Distances, Embedding, distances
from sigmascope.figures import Drawn, draw_distances, draw_embedding
from sigmascope_papers.chance import (
    Array,
    Labels,
    group_gap,
    neighbor_share,
    numbered,
    p_value,
    silhouette,
)
from sigmascope_papers.item import Check, Finding, Item, conclude
from sigmascope_papers.setting import Setting

__all__ = ["ITEMS", "Apart", "Plane", "remoteness"]

LEVEL = 0.05
FEWEST_GROUPS = 3  # of fewer groups none can be said to be the most remote
FIRST, LATER = ("AlexNets", "VGGs"), ("ViTs", "Swins", "ConvNeXts")
CLEAR = 0.8  # nearer by a fifth
READINGS: dict[Embedded, str] = {"distances": "distances", "cophenetic": "heights of the tree"}
# By Rousseeuw's words a silhouette of up to 0.25 shows no substantial groups; by Kruskal's a stress
# of 0.1 is fair, 0.2 poor.
GROUPS, FAIR, POOR = 0.25, 0.1, 0.2


@dataclass(frozen=True, eq=False)
class Apart:
    """Distances of all networks, as in the paper and per step of the path; network -> group."""

    plain: Distances
    per_step: Distances
    groups: dict[str, str]


@dataclass(frozen=True, eq=False)
class Plane:
    """Networks in the plane by both readings (none for a single network); network -> group."""

    embeddings: dict[str, Embedding]
    groups: dict[str, str]


def measure_distances(setting: Setting) -> Apart:
    """Compare every two networks of the cast."""
    signatures = [run.signature for run in setting.runs(setting.cast.names())]
    both = distances(signatures), distances(signatures, normalize="path")
    return Apart(*both, setting.cast.groups())


def measure_plane(setting: Setting) -> Plane:
    """Place all networks of the cast in the plane."""
    found = measure_distances(setting)
    several = len(found.plain.names) > 1
    return Plane({of: found.plain.embed(of) for of in READINGS} if several else {}, found.groups)


def judge_distances(found: Apart) -> list[Check]:
    """Groups are nearer than to others, their neighbors mostly their own, ViTs the most remote.

    Swins and ConvNeXts are nearer to AlexNets and VGGs than ViTs are, clearly if by a fifth.
    """
    matrix, names = found.plain.matrix, [found.groups[name] for name in found.plain.names]
    nearer = f"than to others, p < {LEVEL}"
    returned = (
        "Swins and ConvNeXts are nearer to the first networks than ViTs",
        f"both, below {CLEAR:g} of the distance",
    )
    return [
        conclude("networks of one group are nearer to each other", nearer, _gap(matrix, names)),
        conclude("the same, per step of the path", nearer, _gap(found.per_step.matrix, names)),
        conclude(
            "the nearest neighbor is of the same group",
            f"for more than half, p < {LEVEL}",
            _neighbors(matrix, names),
        ),
        _remote("ViTs are the most remote group", matrix, names),
        conclude(*returned, _returned(matrix, np.array(names))),
    ]


def judge_plane(found: Plane) -> list[Check]:
    """Groups separate, ViTs are remote as in Figure 16, and the stress is at most 0.1, weakly 0.2."""
    return [check for of in READINGS for check in _plane_checks(of, found)]


def _plane_checks(of: Embedded, found: Plane) -> list[Check]:
    reading, embedding = READINGS[of], found.embeddings.get(of)
    told = f"groups separate in the plane, by {reading}", f"silhouette above {GROUPS}, p < {LEVEL}"
    if embedding is None:
        return [conclude(*told, "there is one network")]
    names = [found.groups[name] for name in embedding.names]
    apart: Array = np.linalg.norm(embedding.points[:, None] - embedding.points, axis=2)
    stress = embedding.stress
    return [
        conclude(*told, _separate(apart, names)),
        _remote(f"ViTs are the most remote group in the plane, by {reading}", apart, names),
        conclude(
            f"the plane shows the {reading}",
            f"stress up to {FAIR}",
            (f"{stress:.3f}", stress <= POOR, stress <= FAIR),
        ),
    ]


def _tested(
    matrix: Array, names: Sequence[str], statistic: Callable[[Array, Labels], float]
) -> tuple[float, float, Labels] | str:
    """Return a statistic of the groups, its p-value by permutation, and the labels; or a reason."""
    labels = numbered(names)
    if not np.isfinite(group_gap(matrix, labels)):
        return "there are no two groups, one of them with two networks"
    p = p_value(lambda shuffled: statistic(matrix, shuffled), labels)
    return statistic(matrix, labels), p, labels


def _gap(matrix: Array, names: Sequence[str]) -> Finding:
    """Distances within groups are smaller than between them; clearly if p is below 0.05."""
    tested = _tested(matrix, names, group_gap)
    if isinstance(tested, str):
        return tested
    gap, p, labels = tested
    within = matrix[(labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)].mean()
    return f"{within:.3f} within, {within + gap:.3f} between, p = {p:.4f}", gap > 0, p < LEVEL


def _neighbors(matrix: Array, names: Sequence[str]) -> Finding:
    """More nearest neighbors are of the same group than by chance; clearly if more than half."""
    tested = _tested(matrix, names, neighbor_share)
    if isinstance(tested, str):
        return tested
    share, p, labels = tested
    count = int((np.bincount(labels)[labels] > 1).sum())
    obtained = f"{share:.0%} of {count} networks whose group has others, p = {p:.4f}"
    return obtained, p < LEVEL, share > 0.5


def _separate(apart: Array, names: Sequence[str]) -> Finding:
    """The silhouette is larger than for 95 % of the orders of names; clearly if above 0.25."""
    tested = _tested(apart, names, silhouette)
    if isinstance(tested, str):
        return tested
    value, p, _ = tested
    return f"{value:.2f}, p = {p:.4f}", p < LEVEL, value > GROUPS


def remoteness(matrix: Array, labels: Sequence[str]) -> dict[str, float]:
    """Return for each group the mean distance of its networks to those of all other groups."""
    own = np.array(labels)
    groups = dict.fromkeys(labels)
    return {group: float(matrix[own == group][:, own != group].mean()) for group in groups}


def _remote(text: str, matrix: Array, labels: Sequence[str]) -> Check:
    """ViTs have a mean distance to the others above the median group; clearly if the largest."""
    expected = "largest mean distance to the others"
    if "ViTs" not in labels or len(set(labels)) < FEWEST_GROUPS:
        return conclude(text, expected, f"no ViTs, or fewer than {FEWEST_GROUPS} groups")
    far = remoteness(matrix, labels)
    order = sorted(far, key=far.__getitem__, reverse=True)
    place, vits = order.index("ViTs") + 1, far["ViTs"]
    first = ", ".join(f"{group} {far[group]:.3f}" for group in order[:2])
    obtained = f"ViTs {vits:.3f}, place {place} of {len(order)}; first {first}"
    return conclude(text, expected, (obtained, vits > np.median(list(far.values())), place == 1))


def _returned(matrix: Array, own: np.ndarray) -> Finding:
    first = np.isin(own, FIRST)
    if not first.any() or not set(LATER) <= set(own):
        return "one of the groups is not among the networks"
    apart = {group: float(matrix[own == group][:, first].mean()) for group in LATER}
    largest = max(apart["Swins"], apart["ConvNeXts"])
    told = ", ".join(f"{group} {value:.3f}" for group, value in apart.items())
    return told, largest < apart["ViTs"], largest < CLEAR * apart["ViTs"]


def draw_matrices(found: Apart) -> dict[str, Drawn]:
    """Draw the matrices with their trees."""
    return {"": draw_distances(found.plain), "path": draw_distances(found.per_step)}


def draw_planes(found: Plane) -> dict[str, Drawn]:
    """Draw both planes."""
    parts = {of.replace("distances", ""): one for of, one in found.embeddings.items()}
    return {part: draw_embedding(one, families=found.groups) for part, one in parts.items()}


ITEMS = {
    "fig16": Item(measure_distances, judge_distances, draw_matrices),
    "fig17": Item(measure_plane, judge_plane, draw_planes),
}
