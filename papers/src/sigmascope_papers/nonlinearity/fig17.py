"""Figure 17: all networks as points in the plane, by their distances.

The paper applies multidimensional scaling "to the linkage matrix", which has no row for a network.
Two readings are tried: of the distances by dynamic time warping, and of the heights at which the
clustering merges two networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigmascope.choices import Embedded
from sigmascope.compare.distances import Embedding
from sigmascope.figures import Drawn, draw_embedding
from sigmascope_papers.chance import group_gap, numbered, p_value, silhouette
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig16 import LEVEL, measure_distances, remote
from sigmascope_papers.nonlinearity.lineup import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Plane"]

READINGS: dict[Embedded, str] = {"distances": "distances", "cophenetic": "heights of the tree"}
# By Rousseeuw's words a silhouette of up to 0.25 shows no substantial groups; by Kruskal's a stress
# of 0.1 is fair, 0.2 poor.
GROUPS, FAIR, POOR = 0.25, 0.1, 0.2


@dataclass(frozen=True, eq=False)
class Plane:
    """Networks in the plane, by both readings, and network -> group; no embedding for a single network."""

    embeddings: dict[str, Embedding]
    groups: dict[str, str]


def measure(setting: Setting) -> Plane:
    """Place all networks of the cast in the plane."""
    found = measure_distances(setting)
    several = len(found.plain.names) > 1
    return Plane({of: found.plain.embed(of) for of in READINGS} if several else {}, found.groups)


def judge(found: Plane) -> list[Check]:
    """Groups separate: more than in 95 % of the orders of their names, in direction; by a
    silhouette of 0.25 too, clearly.

    ViTs: as in Figure 16. The plane shows the distances: stress at most 0.1, in direction 0.2.
    """
    return [check for of in READINGS for check in _checks(of, found)]


def _checks(of: Embedded, found: Plane) -> list[Check]:
    reading = READINGS[of]
    claim, expected = (
        f"groups separate in the plane, by {reading}",
        f"silhouette above {GROUPS}, p < {LEVEL}",
    )
    embedding = found.embeddings.get(of)
    if embedding is None:
        return [untried(claim, expected, "there is one network")]
    names = [found.groups[name] for name in embedding.names]
    apart: Array = np.linalg.norm(embedding.points[:, None] - embedding.points, axis=2)
    stress = embedding.stress
    return [
        _separate(claim, expected, apart, names),
        remote(f"ViTs are the most remote group in the plane, by {reading}", apart, names),
        relation(
            f"the plane shows the {reading}",
            f"stress up to {FAIR}",
            f"{stress:.3f}",
            true=stress <= POOR,
            clear=stress <= FAIR,
        ),
    ]


def _separate(claim: str, expected: str, apart: Array, names: list[str]) -> Check:
    labels = numbered(names)
    if not np.isfinite(group_gap(apart, labels)):
        return untried(claim, expected, "there are no two groups, one of them with two networks")
    value = silhouette(apart, labels)
    p = p_value(lambda shuffled: silhouette(apart, shuffled), labels)
    return relation(
        claim, expected, f"{value:.2f}, p = {p:.4f}", true=p < LEVEL, clear=value > GROUPS
    )


def draw(found: Plane) -> dict[str, Drawn]:
    """Draw both planes."""
    parts = {"distances": "", "cophenetic": "cophenetic"}
    return {
        parts[of]: draw_embedding(one, families=found.groups)
        for of, one in found.embeddings.items()
    }


ITEM = Item(measure=measure, judge=judge, draw=draw)
