"""Figure 5B: how far the representatives of a decade lie from each other.

Distances by dynamic time warping between the signatures of the networks that stand for their
groups, not normalised, as in the paper; five batches of 512 images, Ledoit–Wolf covariance. Such a
distance grows with the number of activations, so that deep networks are far from AlexNet for that
reason alone; what remains per step of the path is told beside it, but not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.compare.distances import Distances, distances
from sigmascope.figures import Drawn, draw_curves, draw_distances, new_figure, styled
from sigmascope.figures.style import SMALL, short_names
from sigmascope_papers.chance import trend
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig5a import FEWEST, LAST, RARE
from sigmascope_papers.nonlinearity.lineup import Array, Lineup, line_up
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "compared"]

FIRST, UNIQUE, TURNED = "AlexNets", "ViTs", ("Swins", "ConvNeXts")
NOTHING = Distances((), np.zeros((0, 0)), None)


@dataclass(frozen=True, eq=False)
class Between:
    """Distances between the leads of a cast, in order of their years.

    Attributes:
        lineup: their signatures.
        groups: of the k leads.
        dtw, per_step: (k, k), as they are and per step of the path.
    """

    lineup: Lineup
    groups: list[str]
    dtw: Distances
    per_step: Distances

    def from_first(self, groups: Sequence[str], *, per_step: bool = False) -> Array:
        """Return the distances of some groups from the first one."""
        matrix = (self.per_step if per_step else self.dtw).matrix
        return matrix[self.groups.index(FIRST), [self.groups.index(group) for group in groups]]

    def years(self, groups: Sequence[str]) -> list[float]:
        """Return the years of the leads of some groups."""
        cast = self.lineup.cast
        return [cast.years()[str(cast.lead(group))] for group in groups]


def measure(setting: Setting) -> Between:
    """Read or measure the signatures of the leads, and compare them."""
    return compared(line_up(setting, setting.cast.leads))


def compared(lineup: Lineup) -> Between:
    """Return the distances between the leads."""
    leads = lineup.leads()
    groups = [lineup.cast.groups()[one.name] for one in leads]
    if not leads:
        return Between(lineup, groups, NOTHING, NOTHING)
    return Between(lineup, groups, distances(leads), distances(leads, normalize="path"))


def judge(found: Between) -> list[Check]:
    """The growth holds with p at most 0.05, in direction with any tau above 0; the others as their
    functions say.
    """
    return [_grows(found), _turns(found), _is_unique(found)]


def _until(found: Between) -> list[str]:
    """Return the groups after the first one, until the ViTs."""
    later = [group for group in found.groups if group != FIRST]
    return [
        group
        for group, year in zip(later, found.years(later), strict=True)
        if year <= LAST or group == UNIQUE
    ]


def _grows(found: Between) -> Check:
    claim, expected = (
        "networks get ever farther from AlexNet until ViT",
        f"tau above 0, p at most {RARE}",
    )
    groups = _until(found)
    if (reason := found.lineup.lacks(FIRST, UNIQUE)) or len(groups) < FEWEST:
        return untried(
            claim, expected, reason or f"there are {len(groups)} groups, and a trend needs {FEWEST}"
        )
    at = found.years(groups)
    tau, chance = trend(at, found.from_first(groups).tolist())
    other, _ = trend(at, found.from_first(groups, per_step=True).tolist())
    obtained = f"tau {tau:.2f}, p = {chance:.3f}, {len(groups)} networks; per step tau {other:.2f}"
    return relation(claim, expected, obtained, true=tau > 0, clear=chance <= RARE)


def _turns(found: Between) -> Check:
    """Both are nearer to AlexNet than ViT; clearly if nearer than half of all that lie between, as
    a turn brings them back.
    """
    claim, expected = (
        "Swin and ConvNeXt turn back to AlexNet",
        "nearer than ViT, and than half of those between",
    )
    if reason := found.lineup.lacks(FIRST, UNIQUE, *TURNED):
        return untried(claim, expected, reason)
    back, between = found.from_first(TURNED), found.from_first(_until(found))
    (vit,) = found.from_first([UNIQUE])
    steps = found.from_first([*TURNED, UNIQUE], per_step=True)
    obtained = (
        f"{back[0]:.2f} and {back[1]:.2f}; ViT {vit:.2f}, median {np.median(between):.2f}; per "
        "step "
    )
    obtained += " and ".join(f"{one:.3f}" for one in steps[:2]) + f", ViT {steps[2]:.3f}"
    return relation(
        claim, expected, obtained, true=back.max() < vit, clear=back.max() < np.median(between)
    )


def _is_unique(found: Between) -> Check:
    """ViT has the largest mean distance; clearly if even its nearest is farther than two of the
    others mostly are.
    """
    claim, expected = (
        "ViT is highly dissimilar to all others",
        "largest mean; its least above the median of other pairs",
    )
    if (reason := found.lineup.lacks(UNIQUE)) or len(found.groups) < FEWEST:
        return untried(
            claim,
            expected,
            reason or f"there are {len(found.groups)} networks, and that needs {FEWEST}",
        )
    own = found.groups.index(UNIQUE)
    means = found.dtw.matrix.sum(axis=1) / (len(found.groups) - 1)
    to_others = np.delete(found.dtw.matrix[own], own)
    rest = np.delete(np.delete(found.dtw.matrix, own, axis=0), own, axis=1)
    typical = float(np.median(rest[np.triu_indices(len(rest), 1)]))
    farthest = found.groups[int(means.argmax())]
    steps = found.per_step.matrix.sum(axis=1)
    obtained = (
        f"largest mean: {farthest} {means.max():.2f}, ViT {means[own]:.2f}; its least "
        f"{to_others.min():.2f}, "
    )
    obtained += f"others {typical:.2f}; per step largest: {found.groups[int(steps.argmax())]}"
    return relation(
        claim,
        expected,
        obtained,
        true=means.argmax() == own,
        clear=float(to_others.min()) > typical,
    )


def draw(found: Between) -> dict[str, Drawn]:
    """Draw the matrix with its tree, and the distances from AlexNet through the years; nothing
    where there are no leads.
    """
    drawn = {"": draw_distances(found.dtw)} if found.groups else {}
    others = [group for group in found.groups if group != FIRST]
    if FIRST in found.groups and others:
        drawn["from-first"] = _draw_column(found, others)
    return drawn


@styled()
def _draw_column(found: Between, groups: Sequence[str]) -> Drawn:
    figure = new_figure(4.2, 3.4)
    panels = figure.subplots(2, 1, sharex=True)
    names = [str(found.lineup.cast.lead(group)) for group in groups]
    table: list[dict[str, Any]] = []
    for panel, kind in zip(panels, ("DTW distance", "per step of the path"), strict=True):
        values = found.from_first(groups, per_step=panel is panels[1])
        draw_curves(range(len(groups)), {kind: values}, panel)
        panel.set(ylabel=kind, ylim=(0, None))
        table += [
            {"network": name, "distance": kind, "value": value}
            for name, value in zip(names, values.tolist(), strict=True)
        ]
    labels = [
        f"{name} ({year:.0f})"
        for name, year in zip(short_names(names), found.years(groups), strict=True)
    ]
    panels[1].set_xticks(range(len(groups)), labels, rotation=30, ha="right", fontsize=SMALL)
    panels[0].set_title(
        f"distance from {short_names([str(found.lineup.cast.lead(FIRST)), *names])[0]}"
    )
    return Drawn(figure, tuple(panels), table)


ITEM = Item(measure=measure, judge=judge, draw=draw)
