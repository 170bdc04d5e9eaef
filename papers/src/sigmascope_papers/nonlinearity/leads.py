"""Figures 5B and 5C: the representatives of a decade of networks, and their scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.signal import find_peaks

from sigmascope.compare.density import Densities, Density, densities
from sigmascope.compare.distances import Distances, distances
from sigmascope.figures import (
    Drawn,
    draw_curves,
    draw_densities,
    draw_distances,
    new_figure,
    styled,
)
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import SMALL, short_names
from sigmascope_papers.chance import Array, trend
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.fig5a import FEWEST, LAST, RARE
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, measure_leads

FIRST, UNIQUE, TURNED = "AlexNets", "ViTs", ("Swins", "ConvNeXts")
NOTHING = Distances((), np.zeros((0, 0)), None)
RESIDUAL, BEFORE = "ResNets", ("AlexNets", "VGGs", "Inceptions")
DEEP = 0.1  # of the highest peak; smaller ones are ripples of a few scores
POINTS = 2000


@dataclass(frozen=True, eq=False)
class Between(Lineup):
    """The distances (k, k) between the k representatives, as they are and per step of the path."""

    dtw: Distances
    per_step: Distances

    @property
    def groups(self) -> list[str]:
        """The groups of the representatives."""
        return [self.cast.groups()[one.name] for one in self.leads()]

    def from_first(self, groups: Sequence[str], *, per_step: bool = False) -> Array:
        """Return the distances of some groups from the first one."""
        matrix: Array = (self.per_step if per_step else self.dtw).matrix
        return matrix[self.groups.index(FIRST), [self.groups.index(group) for group in groups]]

    def years(self, groups: Sequence[str]) -> list[float]:
        """Return the years of the representatives of some groups."""
        return [self.cast.years()[str(self.cast.lead(group))] for group in groups]

    def until(self) -> list[str]:
        """Return the groups after the first one, until the ViTs."""
        later = [group for group in self.groups if group != FIRST]
        years = dict(zip(later, self.years(later), strict=True))
        return [group for group in later if years[group] <= LAST or group == UNIQUE]


def compared(lineup: Lineup) -> Between:
    """Return the distances between the representatives."""
    leads = lineup.leads()
    both = (distances(leads), distances(leads, normalize="path")) if leads else (NOTHING, NOTHING)
    return Between(lineup.cast, lineup.signatures, *both)


def _grows(found: Between) -> Finding:
    groups = found.until()
    if len(groups) < FEWEST:
        return f"there are {len(groups)} groups, and a trend needs {FEWEST}"
    at = found.years(groups)
    tau, chance = trend(at, found.from_first(groups).tolist())
    other, _ = trend(at, found.from_first(groups, per_step=True).tolist())
    obtained = f"tau {tau:.2f}, p = {chance:.3f}, {len(groups)} networks; per step tau {other:.2f}"
    return obtained, tau > 0, chance <= RARE


def _turns(found: Between) -> Finding:
    back, between = found.from_first(TURNED), found.from_first(found.until())
    (vit,) = found.from_first([UNIQUE])
    steps = found.from_first([*TURNED, UNIQUE], per_step=True)
    obtained = (
        f"{back[0]:.2f} and {back[1]:.2f}; ViT {vit:.2f}, median {np.median(between):.2f}; "
        f"per step {steps[0]:.3f} and {steps[1]:.3f}, ViT {steps[2]:.3f}"
    )
    return obtained, back.max() < vit, back.max() < np.median(between)


def _is_unique(found: Between) -> Finding:
    count = len(found.groups)
    if count < FEWEST:
        return f"there are {count} networks, and that needs {FEWEST}"
    own, matrix = found.groups.index(UNIQUE), found.dtw.matrix
    means = matrix.sum(axis=1) / (count - 1)
    to_others = np.delete(matrix[own], own)
    rest = np.delete(np.delete(matrix, own, axis=0), own, axis=1)
    typical = float(np.median(rest[np.triu_indices(len(rest), 1)]))
    farthest, by_step = (
        found.groups[int(sums.argmax())] for sums in (means, found.per_step.matrix.sum(axis=1))
    )
    obtained = (
        f"largest mean: {farthest} {means.max():.2f}, ViT {means[own]:.2f}; its least "
        f"{to_others.min():.2f}, others {typical:.2f}; per step largest: {by_step}"
    )
    return obtained, means.argmax() == own, to_others.min() > typical


def draw_between(found: Between) -> dict[str, Drawn]:
    """Draw the matrix with its tree, and the distances from AlexNet through the years."""
    drawn = {"": draw_distances(found.dtw)} if found.groups else {}
    others = [group for group in found.groups if group != FIRST]
    if FIRST in found.groups and others:
        drawn["from-first"] = _draw_column(found, others)
    return drawn


@styled()
def _draw_column(found: Between, groups: Sequence[str]) -> Drawn:
    panels = new_figure(4.2, 3.4).subplots(2, 1, sharex=True)
    names = [str(found.cast.lead(group)) for group in groups]
    table: list[dict[str, Any]] = []
    for panel, kind in zip(panels, ("DTW distance", "per step of the path"), strict=True):
        values = found.from_first(groups, per_step=panel is panels[1])
        draw_curves(range(len(groups)), {kind: values}, panel)
        panel.set(ylabel=kind, ylim=(0, None))
        rows = zip(names, values.tolist(), strict=True)
        table += [{"network": name, "distance": kind, "value": value} for name, value in rows]
    years = zip(short_names(names), found.years(groups), strict=True)
    labels = [f"{name} ({year:.0f})" for name, year in years]
    panels[1].set_xticks(range(len(groups)), labels, rotation=30, ha="right", fontsize=SMALL)
    first = short_names([str(found.cast.lead(FIRST)), *names])[0]
    panels[0].set_title(f"distance from {first}")
    return finished(panels, table)


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
    found = densities(leads, boundary="unbounded") if leads else Densities((), (), {})
    return Spread(lineup, found)


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


def draw_spread(found: Spread) -> dict[str, Drawn]:
    """Draw the densities of all, each in a row of its own; nothing without representatives."""
    drawn = found.densities
    return {"": draw_densities(drawn, layout="stacked")} if drawn.names else {}


SWINS = partial(_alike, group="AlexNets", other="Swins")
CONVNEXTS = partial(_alike, group="VGGs", other="ConvNeXts")
RULES_B = (_grows, _turns, _is_unique)
RULES_C = (_two_modes, _alone_with_them, SWINS, _heavier, CONVNEXTS)
ITEMS = {
    "fig5b": item_of("fig5b", lambda own: compared(measure_leads(own)), draw_between, *RULES_B),
    "fig5c": item_of("fig5c", lambda own: spread_of(measure_leads(own)), draw_spread, *RULES_C),
}
