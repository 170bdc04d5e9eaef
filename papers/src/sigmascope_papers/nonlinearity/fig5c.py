"""Figure 5C: the densities of the scores of the representatives of a decade of networks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.signal import find_peaks

from sigmascope.compare.density import Densities, Density, densities
from sigmascope.figures import Drawn, draw_densities
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, measure_leads

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
    first, second = (np.interp(grid, curve.grid, curve.values, 0, 0) for curve in (one, other))
    return float(1 - 0.5 * np.abs(first - second).sum() * (grid[1] - grid[0]))


@dataclass(frozen=True, eq=False)
class Spread:
    """The representatives of a cast and the densities of their scores."""

    lineup: Lineup
    densities: Densities

    @property
    def curves(self) -> dict[str, Density]:
        """The densities that there are, by group."""
        groups = self.lineup.cast.groups()
        return {groups[curve.name]: curve for curve in self.densities.curves}

    def lacks(self, *groups: str) -> str:
        """Say which groups are missing, or have no density; empty if none is."""
        missing = [group for group in groups if group not in self.curves]
        return f"there is no density of {' and of '.join(missing)}" if missing else ""


def spread_of(lineup: Lineup) -> Spread:
    """Return the densities of the representatives."""
    leads = lineup.leads()
    return Spread(lineup, densities(leads) if leads else Densities((), (), {}))


def _two_modes(found: Spread) -> Finding:
    clear, peaks = (modes(found.curves[RESIDUAL], deep) for deep in (DEEP, 0.0))
    places = ", ".join(f"{place:.2f}" for place in clear)
    return f"{len(clear)}, at {places}; all peaks {len(peaks)}", len(peaks) > 1, len(clear) == 2


def _alone_with_them(found: Spread) -> Finding:
    others = {group: curve for group, curve in found.curves.items() if group != RESIDUAL}
    counts = {group: len(modes(curve)) for group, curve in others.items()}
    peaks = {group: len(modes(curve, 0.0)) for group, curve in others.items()}
    told = ", ".join(f"{group} {count} ({peaks[group]})" for group, count in counts.items())
    alone = [group for group, count in counts.items() if count == 1]
    return f"modes (all peaks): {told}", set(BEFORE) <= set(alone), len(alone) == len(counts)


def _alike(found: Spread, group: str, other: str) -> Finding:
    curves = found.curves
    if len(curves) < 4:
        return f"there are {len(curves)} densities, and that needs 4"
    pairs = itertools.combinations(curves, 2)
    shared = {frozenset(pair): overlap(*(curves[one] for one in pair)) for pair in pairs}
    own = {one: shared[frozenset((group, one))] for one in curves if one != group}
    nearest = max(own, key=own.__getitem__)
    typical = float(np.median(list(shared.values())))
    most = f"most with {nearest}, {own[nearest]:.2f}; median of all pairs {typical:.2f}"
    return f"{own[other]:.2f}; {most}", own[other] > typical, nearest == other


def _heavier(found: Spread) -> Finding:
    if reason := found.lineup.lacks("AlexNets", "Swins"):
        return reason
    one, two = (known(found.lineup.lead(group)) for group in ("AlexNets", "Swins"))
    obtained = (
        f"std {two.std():.3f} against {one.std():.3f}, {two.min():.2f} to {two.max():.2f} "
        f"against {one.min():.2f} to {one.max():.2f}"
    )
    return obtained, two.std() > one.std(), two.min() < one.min() and two.max() > one.max()


def draw(found: Spread) -> dict[str, Drawn]:
    """Draw the densities of all, each in a row of its own; nothing without representatives."""
    leads = found.lineup.leads()
    return {"": draw_densities(leads, layout="stacked")} if leads else {}


SWINS = partial(_alike, group="AlexNets", other="Swins")
CONVNEXTS = partial(_alike, group="VGGs", other="ConvNeXts")
RULES = (_two_modes, _alone_with_them, SWINS, _heavier, CONVNEXTS)
ITEM = item_of("fig5c", lambda setting: spread_of(measure_leads(setting)), draw, *RULES)
