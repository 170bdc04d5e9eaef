"""Figure 18: how far the signature of a network moves on data that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.maths.warping import dtw
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Item, conclude
from sigmascope_papers.setting import Setting

OURS, PAPERS = ("fashion-mnist", "mnist"), ("cifar10", "cifar100")
RANDOM, NOISE = "random", "noise"  # data of the catalog, and what items call it
FLOOR = "its own data, other images"
EXPECTED = "lower in the mean and in most networks"
STAND_IN = "Fashion-MNIST and MNIST stand in: CIFAR-100 is in no package that can be had here"
FIRST = 2  # batches, of five


def euclidean(one: Array, other: Array) -> float:
    """Return the Euclidean distance."""
    return float(np.linalg.norm(one - other))


Distance = Callable[[Array, Array], float]
DISTANCES: dict[str, Distance] = {"DTW": dtw, "Euclidean": euclidean}


@dataclass(frozen=True, eq=False)
class Deviations:
    """Distances from the signatures on the networks' own data."""

    names: tuple[str, ...]
    distances: dict[str, dict[str, Array]]  # kind of distance -> data -> (m,)
    floor: dict[str, Array]  # between two parts of the own data; NaN for one batch
    missing: dict[str, str]  # data -> why there is no signature on them


def measure(setting: Setting) -> Deviations:
    """Compare the representatives; for the paper's networks data may be missing."""
    names = setting.cast.leads or tuple(setting.cast.names())
    own = [run.signature for run in setting.runs(names)]
    others: dict[str, list[Signature]] = {}
    missing = {"cifar100": STAND_IN} if setting.ours else {}
    for data in (*(OURS if setting.ours else PAPERS), RANDOM):
        called = NOISE if data == RANDOM else data
        try:
            runs = setting.runs(names, data=data, metrics=())
        except InputError as error:
            if setting.ours:  # they are stored, or can be measured
                raise
            missing[called] = str(error)
        else:
            others[called] = [run.signature for run in runs]
    found, floor = {}, {}
    for kind, distance in DISTANCES.items():
        found[kind] = {
            data: np.array([between(distance, *pair) for pair in zip(own, seen, strict=True)])
            for data, seen in others.items()
        }
        floor[kind] = np.array([floor_of(one, distance) for one in own])
    return Deviations(tuple(names), found, floor, missing)


def between(distance: Distance, one: Signature, other: Signature) -> float:
    """Return the distance over the calls that both have scored; NaN if there is none."""
    both = np.isfinite(one.scores) & np.isfinite(other.scores)
    return distance(one.scores[both], other.scores[both]) if both.any() else np.nan


def floor_of(signature: Signature, distance: Distance) -> float:
    """Return the distance between the first two and the other batches; NaN without others."""
    scored = [site.scores for site in signature.sites if site.batches == signature.batches]
    batches = np.array(scored)
    if not len(batches) or batches.shape[1] <= FIRST:
        return np.nan
    return distance(batches[:, :FIRST].mean(axis=1), batches[:, FIRST:].mean(axis=1))


def judge(found: Deviations) -> list[Check]:
    """The mean distance is lower than on noise; clearly if in enough networks by a sign test."""
    checks = [
        _lower(found, kind, data)
        for kind, by_data in found.distances.items()
        for data in by_data
        if data != NOISE and NOISE in by_data
    ]
    for data in sorted(found.missing, key=lambda data: data == NOISE):
        name = "natural images deviate" if data == NOISE else f"{data} deviates"
        checks.append(conclude(f"{name} less than noise", EXPECTED, found.missing[data]))
    return checks


def _lower(found: Deviations, kind: str, data: str) -> Check:
    there, noise = found.distances[kind][data], found.distances[kind][NOISE]
    known = np.isfinite(there) & np.isfinite(noise)
    told = f"{data} deviates less than noise, {kind}", EXPECTED
    if not known.any():
        return conclude(*told, "no network has scores on both")
    count, lower = int(known.sum()), int((there < noise)[known].sum())
    means = there[known].mean(), noise[known].mean()
    p = float(binomtest(lower, count, alternative="greater").pvalue)
    obtained = f"{means[0]:.3f} against {means[1]:.3f}; "
    obtained += f"in {lower} of {count} networks, p = {p:.3f}"
    return conclude(*told, (obtained, means[0] < means[1], p <= 0.05))


@styled()
def draw(found: Deviations) -> dict[str, Drawn]:
    """Draw for each network its distances, one panel for each kind."""
    figure = new_figure(7, 3.1)
    panels = figure.subplots(1, len(found.distances))
    places = range(len(found.names))
    short = [name.rpartition("/")[2] for name in found.names]
    table: list[dict[str, Any]] = []
    for panel, (kind, by_data) in zip(panels, found.distances.items(), strict=True):
        floor = {FLOOR: found.floor[kind]} if np.isfinite(found.floor[kind]).any() else {}
        drawn = draw_curves(places, by_data | floor, panel)
        for line in panel.lines:
            line.set_linestyle("none")  # the networks have no order
        panel.set_title(f"{kind} distance")
        panel.set(ylabel="from the signature on its own data", ylim=(0, None))
        panel.set_xticks(places, short, rotation=40, ha="right")
        for row in drawn.table:
            told = {"distance": kind, "network": found.names[int(row["at"])]}
            table.append({**told, "data": row["curve"], "value": row["mean"]})
    panels[1].set_ylabel("")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return {"": finished(panels, table)}


ITEM = Item(measure, judge, draw)
