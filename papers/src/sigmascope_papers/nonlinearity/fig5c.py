"""Figure 5C: how the scores of the representatives of a decade are spread.

Kernel densities (Scott's bandwidth) of the scores of the networks that stand for their groups; five
batches of 512 images, Ledoit–Wolf covariance. A mode is a peak of the density that stands out: one
has to descend from it by at least a tenth of the highest peak before one can climb to a higher one.
How alike two densities are is the area that they share, 1 for equal ones.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.signal import find_peaks

from sigmascope.compare.density import Densities, Density, densities
from sigmascope.figures import Drawn, draw_densities
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.lineup import Lineup, known, line_up
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "modes", "overlap"]

RESIDUAL, BEFORE = "ResNets", ("AlexNets", "VGGs", "Inceptions")
DEEP = 0.1  # of the highest peak; smaller ones are ripples of a few scores
POINTS = 2000


def modes(curve: Density, deep: float = DEEP) -> list[float]:
    """Return where a density has its modes: peaks that stand out by a share of the highest one."""
    peaks, _ = find_peaks(curve.values, prominence=deep * curve.values.max())
    return [float(curve.grid[peak]) for peak in peaks]


def overlap(one: Density, other: Density) -> float:
    """Return the area that two densities share: 1 less half the integral of their difference."""
    low, high = min(one.grid[0], other.grid[0]), max(one.grid[-1], other.grid[-1])
    grid = np.linspace(low, high, POINTS)
    apart = np.interp(grid, one.grid, one.values, 0, 0) - np.interp(
        grid, other.grid, other.values, 0, 0
    )
    return float(1 - 0.5 * np.abs(apart).sum() * (grid[1] - grid[0]))


@dataclass(frozen=True, eq=False)
class Spread:
    """The leads of a cast and the densities of their scores."""

    lineup: Lineup
    densities: Densities

    @property
    def curves(self) -> dict[str, Density]:
        """The densities that there are, by group."""
        groups = self.lineup.cast.groups()
        return {groups[curve.name]: curve for curve in self.densities.curves}

    def lacks(self, *groups: str) -> str:
        """Say which groups are missing, or have no density; empty where none is."""
        missing = [group for group in groups if group not in self.curves]
        return f"there is no density of {' and of '.join(missing)}" if missing else ""


def measure(setting: Setting) -> Spread:
    """Read or measure the signatures of the leads."""
    return spread_of(line_up(setting, setting.cast.leads))


def spread_of(lineup: Lineup) -> Spread:
    """Return the densities of the leads."""
    leads = lineup.leads()
    return Spread(lineup, densities(leads) if leads else Densities((), (), {}))


def judge(found: Spread) -> list[Check]:
    """Two modes in the ResNet and one in the others; AlexNet is most like Swin, VGG16 most like
    ConvNeXt.
    """
    return [
        _two_modes(found),
        _alone_with_them(found),
        _alike(found, "AlexNets", "Swins"),
        _heavier(found, "AlexNets", "Swins"),
        _alike(found, "VGGs", "ConvNeXts"),
    ]


def _two_modes(found: Spread) -> Check:
    """At least two peaks; clearly if the second one stands out."""
    claim, expected = (
        "the ResNet has two modes",
        f"2, the second standing out by {DEEP} of the highest",
    )
    if reason := found.lacks(RESIDUAL):
        return untried(claim, expected, reason)
    curve = found.curves[RESIDUAL]
    clear, all_peaks = modes(curve), modes(curve, 0.0)
    obtained = (
        f"{len(clear)}, at {', '.join(f'{place:.2f}' for place in clear)}; all peaks "
        f"{len(all_peaks)}"
    )
    return relation(claim, expected, obtained, true=len(all_peaks) > 1, clear=len(clear) == 2)


def _alone_with_them(found: Spread) -> Check:
    """None before the ResNet has two modes, it is the first; clearly if none after it either, it is
    the only one.
    """
    claim, expected = (
        "it is the first network with two modes, and the only one",
        "1 mode in all others",
    )
    if reason := found.lacks(RESIDUAL, *BEFORE):
        return untried(claim, expected, reason)
    others = {group: curve for group, curve in found.curves.items() if group != RESIDUAL}
    counts = {group: len(modes(curve)) for group, curve in others.items()}
    obtained = "modes (all peaks): "
    obtained += ", ".join(
        f"{group} {count} ({len(modes(others[group], 0.0))})" for group, count in counts.items()
    )
    alone = [group for group, count in counts.items() if count == 1]
    return relation(
        claim, expected, obtained, true=set(BEFORE) <= set(alone), clear=len(alone) == len(counts)
    )


def _alike(found: Spread, group: str, other: str) -> Check:
    """Two share more than pairs mostly do; clearly if the other is the one that shares most with
    the first.
    """
    claim, expected = f"{group} are spread like {other}", "share more than with any other"
    curves = found.curves
    if (reason := found.lacks(group, other)) or len(curves) < 4:
        return untried(
            claim, expected, reason or f"there are {len(curves)} densities, and that needs 4"
        )
    shared = {
        frozenset(pair): overlap(*(curves[one] for one in pair))
        for pair in itertools.combinations(curves, 2)
    }
    own = {one: shared[frozenset((group, one))] for one in curves if one != group}
    nearest = max(own, key=own.__getitem__)
    typical = float(np.median(list(shared.values())))
    obtained = (
        f"{own[other]:.2f}; most with {nearest}, {own[nearest]:.2f}; median of all pairs "
        f"{typical:.2f}"
    )
    return relation(claim, expected, obtained, true=own[other] > typical, clear=nearest == other)


def _heavier(found: Spread, group: str, other: str) -> Check:
    """The second has the larger standard deviation; clearly if it also goes beyond the first at
    both ends.
    """
    claim, expected = (
        f"{other} have heavier tails than {group}",
        "larger std, and beyond at both ends",
    )
    if reason := found.lineup.lacks(group, other):
        return untried(claim, expected, reason)
    one, two = known(found.lineup.lead(group)), known(found.lineup.lead(other))
    obtained = f"std {two.std():.3f} against {one.std():.3f}, {two.min():.2f} to {two.max():.2f} "
    obtained += f"against {one.min():.2f} to {one.max():.2f}"
    beyond = two.min() < one.min() and two.max() > one.max()
    return relation(claim, expected, obtained, true=two.std() > one.std(), clear=bool(beyond))


def draw(found: Spread) -> dict[str, Drawn]:
    """Draw the densities of all, each in a row of its own; nothing where there are no leads."""
    leads = found.lineup.leads()
    return {"": draw_densities(leads, layout="stacked")} if leads else {}


ITEM = Item(measure=measure, judge=judge, draw=draw)
