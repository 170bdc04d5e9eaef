"""Figure 14: the signatures of VGGs of different depths.

VGG11, 13, 16 and 19; five batches of 512 images, Ledoit–Wolf covariance. They are compared by
dynamic time warping per step of the path, since otherwise the depth itself would make the distances
grow. Two yardsticks say what is little: the distances to the representatives of the other groups,
and, for our networks, those between nine trainings of VGG16 from different seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.distances import distances
from sigmascope.figures import Drawn, draw_signatures
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.lineup import Array, Lineup, line_up
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Depths"]

GROUP, SEEDED = "VGGs", "sigmascope/vgg16:1"
SEEDS = range(1, 10)
NEAR, ABOUT = 0.05, 0.1


@dataclass(frozen=True, eq=False)
class Depths:
    """Signatures of VGGs by depth, of the leads of the other groups, and of seeds of one network
    (none for the paper's).
    """

    lineup: Lineup
    seeds: list[Signature]

    @property
    def deep(self) -> list[Signature]:
        """The VGGs, the shallowest first."""
        return sorted(self.lineup.of(GROUP), key=len)

    @property
    def others(self) -> list[Signature]:
        """The leads of the other groups."""
        groups = self.lineup.cast.groups()
        return [one for one in self.lineup.leads() if groups[one.name] != GROUP]


def measure(setting: Setting) -> Depths:
    """Read or measure the VGGs, the leads and the seeds."""
    names = setting.cast.names(GROUP)
    seeds = setting.runs([f"vgg16:{seed}" for seed in SEEDS]) if SEEDED in names else []
    lineup = line_up(setting, list(dict.fromkeys([*names, *setting.cast.leads])))
    return Depths(lineup, [run.signature for run in seeds])


def judge(found: Depths) -> list[Check]:
    """Little by each of three measures: the distances to other groups, those between seeds, and the
    level.
    """
    return [_little_beside_others(found), _little_beside_seeds(found), _keeps_its_level(found)]


def _among(signatures: Sequence[Signature]) -> Array:
    matrix = distances(signatures, normalize="path").matrix
    return matrix[np.triu_indices(len(matrix), 1)]


def _one_depth(found: Depths) -> str:
    return "" if len(found.deep) > 1 else "needs VGGs of two depths"


def _little_beside_others(found: Depths) -> Check:
    """VGGs are nearer to each other than to the others in the median; clearly if the farthest two
    by half of that.
    """
    claim, expected = (
        "VGGs of all depths have one signature, beside other groups",
        "at most half the median to others",
    )
    if (reason := _one_depth(found)) or not found.others:
        return untried(claim, expected, reason or "there is no other group")
    own, count = _among(found.deep), len(found.deep)
    across = distances([*found.deep, *found.others], normalize="path").matrix[:count, count:]
    obtained = (
        f"median {np.median(own):.3f}, largest {own.max():.3f}; to others "
        f"{np.median(across):.3f}, least {across.min():.3f}"
    )
    typical = float(np.median(across))
    return relation(
        claim,
        expected,
        obtained,
        true=float(np.median(own)) < typical,
        clear=float(own.max()) <= typical / 2,
    )


def _little_beside_seeds(found: Depths) -> Check:
    """The median distance between depths is within the largest between seeds; clearly if the
    largest one is.
    """
    claim, expected = (
        "depth changes no more than another seed does",
        "within the largest between seeds",
    )
    if reason := _one_depth(found) or (
        "" if found.seeds else "there are no other seeds of these networks"
    ):
        return untried(claim, expected, reason)
    own, seeds = _among(found.deep), _among(found.seeds)
    obtained = (
        f"median {np.median(own):.3f}, largest {own.max():.3f}; seeds {np.median(seeds):.3f}, "
        f"{seeds.max():.3f}"
    )
    return relation(
        claim,
        expected,
        obtained,
        true=bool(np.median(own) <= seeds.max()),
        clear=bool(own.max() <= seeds.max()),
    )


def _keeps_its_level(found: Depths) -> Check:
    """The medians of the networks lie within 0.1; clearly if within 0.05, a tenth of what scores of
    networks mostly span.
    """
    claim, expected = "the median does not change with depth", f"all within {NEAR}"
    if reason := _one_depth(found):
        return untried(claim, expected, reason)
    medians = [one.summary()["median"] for one in found.deep]
    spread = max(medians) - min(medians)
    obtained = ", ".join(f"{median:.3f}" for median in medians)
    return relation(claim, expected, obtained, true=spread <= ABOUT, clear=spread <= NEAR)


def draw(found: Depths) -> dict[str, Drawn]:
    """Draw all depths on top of each other; nothing where there is no VGG."""
    return {"": draw_signatures(found.deep, layout="overlaid")} if found.deep else {}


ITEM = Item(measure=measure, judge=judge, draw=draw)
