"""Figure 20: one architecture stays near itself, however it is trained.

Distances by dynamic time warping between 14 trainings of one architecture (see `trainings`), and
between these and one network of each other group of the cast. Distances grow with the number of
activations, so that they are also judged per step of the path.
"""

from __future__ import annotations

import numpy as np

from sigmascope.choices import Normalize
from sigmascope.compare.distances import distances
from sigmascope.figures import Drawn, draw_distances
from sigmascope_papers.chance import neighbor_share, numbered, p_value
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.trainings import Trainings, measure_trainings

__all__ = ["ITEM"]

# The share of pairs: one distance between trainings, one to another architecture.
NEARLY_ALL, MORE_OFTEN = 0.95, 0.75
LEVEL = 0.05


def judge(found: Trainings) -> list[Check]:
    """Distances between trainings are smaller in 95 % of pairs, in direction in 75 %: half-way from
    chance to always.

    Distinct clusters: the nearest neighbor of most networks has the same training, more often than
    in 95 % of the orders of the names; in direction if only the latter.
    """
    matrix, labels = found.distances().matrix, numbered(found.trainings)
    share = neighbor_share(matrix, labels)
    p = p_value(lambda shuffled: neighbor_share(matrix, shuffled), labels)
    return [
        _nearer(
            found,
            None,
            "distances between trainings are small against those to other architectures",
        ),
        _nearer(found, "path", "the same, per step of the path"),
        relation(
            "the nearest neighbor of a network has the same training",
            "more than half of them",
            f"{share:.0%}, p = {p:.4f}",
            true=p < LEVEL,
            clear=share > 0.5,
        ),
    ]


def _nearer(found: Trainings, normalize: Normalize | None, claim: str) -> Check:
    expected = f"smaller in {NEARLY_ALL:.0%} of pairs"
    if not found.others:
        return untried(claim, expected, "there is no network of another group")
    count = len(found.trained)
    matrix = distances([*found.trained, *found.others], normalize=normalize).matrix
    own, other = matrix[:count, :count][np.triu_indices(count, 1)], matrix[:count, count:].ravel()
    share = float((own[:, None] < other).mean())
    obtained = (
        f"{share:.1%}; medians {np.median(own):.3f} and {np.median(other):.3f}, largest own "
        f"{own.max():.3f}"
    )
    return relation(claim, expected, obtained, true=share >= MORE_OFTEN, clear=share >= NEARLY_ALL)


def draw(found: Trainings) -> dict[str, Drawn]:
    """Draw the distances between the trainings, and with the other architectures."""
    drawn = {"": draw_distances(found.distances())}
    return drawn | (
        {"others": draw_distances(distances([*found.trained, *found.others]))}
        if found.others
        else {}
    )


ITEM = Item(measure=measure_trainings, judge=judge, draw=draw)
