"""Figures 16 and 17: distances between all networks, as a matrix and in the plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sigmascope.choices import Embedded
from sigmascope.compare.distances import Distances, Embedding, distances
from sigmascope.figures import Drawn, draw_distances, draw_embedding
from sigmascope_papers import chance
from sigmascope_papers.chance import Array, Labels
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import Setting

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
    """All networks by their distances: plain and per step, or in the plane by `READINGS`."""

    found: Mapping[str, Distances | Embedding]
    groups: dict[str, str]

    @property
    def labels(self) -> list[str]:
        """The group of each network."""
        one = next(iter(self.found.values()))
        return [self.groups[name] for name in one.names]

    def matrix(self, of: str) -> Array:
        """Return the distances (k, k)."""
        one = self.found[of]
        if isinstance(one, Distances):
            return one.matrix
        apart: Array = np.linalg.norm(one.points[:, None] - one.points, axis=2)
        return apart

    def lacks(self, of: str) -> str:
        """Say why there are no distances; empty if there are."""
        return "" if of in self.found else "there is one network"


def measure_distances(setting: Setting) -> Apart:
    """Compare every two networks of the cast."""
    signatures = [run.signature for run in setting.runs(setting.cast.names())]
    plain, per_step = distances(signatures), distances(signatures, normalize="path")
    return Apart({"plain": plain, "per_step": per_step}, setting.cast.groups())


def measure_plane(setting: Setting) -> Apart:
    """Place all networks of the cast in the plane."""
    plain = measure_distances(setting).found["plain"]
    assert isinstance(plain, Distances)
    several = len(plain.names) > 1
    return Apart({of: plain.embed(of) for of in READINGS if several}, setting.cast.groups())


def _tested(
    found: Apart, of: str, statistic: Callable[[Array, Labels], float]
) -> tuple[float, float, Labels] | str:
    """Return a statistic of the groups, its p-value by permutation, and the labels; or a reason."""
    labels, matrix = chance.numbered(found.labels), found.matrix(of)
    if not np.isfinite(chance.group_gap(matrix, labels)):
        return "there are no two groups, one of them with two networks"
    p = chance.p_value(lambda shuffled: statistic(matrix, shuffled), labels)
    return statistic(matrix, labels), p, labels


def _nearer(found: Apart, of: str, words: str) -> Finding:
    tested, matrix = _tested(found, of, chance.group_gap), found.matrix(of)
    if isinstance(tested, str):
        return tested
    gap, p, labels = tested
    within = matrix[(labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)].mean()
    return f"{within:.3f} within, {within + gap:.3f} between, p = {p:.4f}", gap > 0, p < LEVEL


def _neighbors(found: Apart) -> Finding:
    tested = _tested(found, "plain", chance.neighbor_share)
    if isinstance(tested, str):
        return tested
    share, p, labels = tested
    count = int((np.bincount(labels)[labels] > 1).sum())
    obtained = f"{share:.0%} of {count} networks whose group has others, p = {p:.4f}"
    return obtained, p < LEVEL, share > 0.5


def _returned(found: Apart) -> Finding:
    own, matrix = np.array(found.labels), found.matrix("plain")
    first = np.isin(own, FIRST)
    if not first.any() or not set(LATER) <= set(own):
        return "one of the groups is not among the networks"
    apart = {group: float(matrix[own == group][:, first].mean()) for group in LATER}
    largest = max(apart["Swins"], apart["ConvNeXts"])
    told = ", ".join(f"{group} {value:.3f}" for group, value in apart.items())
    return told, largest < apart["ViTs"], largest < CLEAR * apart["ViTs"]


def _separate(found: Apart, of: str, words: str) -> Finding:
    tested = _tested(found, of, chance.silhouette)
    if isinstance(tested, str):
        return tested
    value, p, _ = tested
    return f"{value:.2f}, p = {p:.4f}", p < LEVEL, value > GROUPS


def _faithful(found: Apart, of: str, words: str) -> Finding:
    stress = getattr(found.found[of], "stress", np.nan)
    return f"{stress:.3f}", stress <= POOR, stress <= FAIR


def remoteness(matrix: Array, labels: Sequence[str]) -> dict[str, float]:
    """Return for each group the mean distance of its networks to those of all other groups."""
    own = np.array(labels)
    groups = dict.fromkeys(labels)
    return {group: float(matrix[own == group][:, own != group].mean()) for group in groups}


def _remote(found: Apart, of: str, words: str) -> Finding:
    labels = found.labels
    if "ViTs" not in labels or len(set(labels)) < FEWEST_GROUPS:
        return f"no ViTs, or fewer than {FEWEST_GROUPS} groups"
    far = remoteness(found.matrix(of), labels)
    order = sorted(far, key=far.__getitem__, reverse=True)
    place, vits = order.index("ViTs") + 1, far["ViTs"]
    first = ", ".join(f"{group} {far[group]:.3f}" for group in order[:2])
    obtained = f"ViTs {vits:.3f}, place {place} of {len(order)}; first {first}"
    return obtained, vits > np.median(list(far.values())), place == 1


def draw(found: Apart) -> dict[str, Drawn]:
    """Draw the matrices with their trees, or the planes."""
    return {
        PARTS[of]: draw_distances(one)
        if isinstance(one, Distances)
        else draw_embedding(one, families=found.groups)
        for of, one in found.found.items()
    }


PARTS = {"plain": "", "per_step": "path", "distances": "", "cophenetic": "cophenetic"}
PLANE = [
    partial(rule, of=of, words=words)
    for of, words in READINGS.items()
    for rule in (_separate, _remote, _faithful)
]
NEARER = [
    partial(_nearer, of="plain", words="networks of one group are nearer to each other"),
    partial(_nearer, of="per_step", words="the same, per step of the path"),
]
REMOTE = partial(_remote, of="plain", words="")
ITEMS = {
    "fig16": item_of("fig16", measure_distances, draw, *NEARER, _neighbors, REMOTE, _returned),
    "fig17": item_of("fig17", measure_plane, draw, *PLANE),
}
