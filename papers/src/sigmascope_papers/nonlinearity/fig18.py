"""Figure 18: how far the signature of a network moves on data that it was not trained on.

One network of each group; its signature on its own data, against those on other data and on
standard normal noise: by dynamic time warping, as the text says, and by the Euclidean distance, as
the caption says. Calls that have no score on one of the two data sets are left out of the
comparison. 2560 images in batches of 512, Ledoit–Wolf covariance.

The paper's sentence is that the overall deviation is lower for natural images than for random ones.
"Overall" is the mean over the networks. It is clear where a sign test over the networks, one-sided
at 0.05, agrees; for nine of them that means eight. As a floor, the distance between the first two
and the other batches of a network's own data is drawn too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.maths.warping import dtw
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Deviations", "floor_of"]

OURS, PAPERS = ("fashion-mnist", "mnist"), ("cifar10", "cifar100")
RANDOM, FLOOR = "random", "its own data, other images"
FIRST = 2  # batches, of five


def _euclidean(one: Array, other: Array) -> float:
    return float(np.linalg.norm(one - other))


DISTANCES: dict[str, Callable[[Array, Array], float]] = {"DTW": dtw, "Euclidean": _euclidean}


@dataclass(frozen=True, eq=False)
class Deviations:
    """Distances from the signatures on the networks' own data.

    Attributes:
        names: of the m networks.
        distances: kind of distance -> data -> (m,).
        floor: kind of distance -> (m,), between two parts of the own data; NaN where there is one
            batch.
        missing: data -> why there is no signature on them.
    """

    names: tuple[str, ...]
    distances: dict[str, dict[str, Array]]
    floor: dict[str, Array]
    missing: dict[str, str]


def measure(setting: Setting) -> Deviations:
    """Compare the signatures of the networks that lead their groups; for the paper's own, data may
    be missing.
    """
    names = setting.cast.leads or tuple(setting.cast.names())
    own = [run.signature for run in setting.runs(names)]
    others: dict[str, list[Signature]] = {}
    missing = {
        "cifar100": "Fashion-MNIST and MNIST stand in: CIFAR-100 is in no package that can be had here"
    }
    missing = missing if setting.ours else {}
    for data in (*(OURS if setting.ours else PAPERS), RANDOM):
        try:
            others[data] = [run.signature for run in setting.runs(names, data=data, metrics=())]
        except InputError as error:
            if setting.ours:  # they are stored, or can be measured
                raise
            missing[data] = str(error)
    found = {
        kind: {
            data: np.array([_between(measured, *pair) for pair in zip(own, seen, strict=True)])
            for data, seen in others.items()
        }
        for kind, measured in DISTANCES.items()
    }
    floor = {
        kind: np.array([floor_of(one, measured) for one in own])
        for kind, measured in DISTANCES.items()
    }
    return Deviations(tuple(names), found, floor, missing)


def _between(distance: Callable[[Array, Array], float], one: Signature, other: Signature) -> float:
    both = np.isfinite(one.scores) & np.isfinite(other.scores)
    return distance(one.scores[both], other.scores[both]) if both.any() else np.nan


def floor_of(signature: Signature, distance: Callable[[Array, Array], float]) -> float:
    """Return the distance between the signatures of the first two and of the other batches; NaN
    without others.
    """
    batches = np.array(
        [site.scores for site in signature.sites if site.batches == signature.batches]
    )
    if not len(batches) or batches.shape[1] <= FIRST:
        return np.nan
    return distance(batches[:, :FIRST].mean(axis=1), batches[:, FIRST:].mean(axis=1))


def judge(found: Deviations) -> list[Check]:
    """The mean distance is lower than on noise; clearly where that is so for enough networks, by a
    sign test at 0.05.
    """
    claims = {data: f"{data} deviates less than noise" for data in (*OURS, *PAPERS)}
    expected = "lower in the mean and in most networks"
    checks = []
    for kind, by_data in found.distances.items():
        natural = [data for data in by_data if data != RANDOM]
        checks += [
            _lower(found, kind, data, claims[data], expected)
            for data in natural
            if RANDOM in by_data
        ]
    absent = [data for data in found.missing if data != RANDOM]
    checks += [untried(claims[data], expected, found.missing[data]) for data in absent]
    if RANDOM in found.missing:
        checks.append(
            untried("natural images deviate less than noise", expected, found.missing[RANDOM])
        )
    return checks


def _lower(found: Deviations, kind: str, data: str, claim: str, expected: str) -> Check:
    there, noise = found.distances[kind][data], found.distances[kind][RANDOM]
    known = np.isfinite(there) & np.isfinite(noise)
    if not known.any():
        return untried(f"{claim}, {kind}", expected, "no network has scores on both")
    count, lower = int(known.sum()), int((there < noise)[known].sum())
    means = there[known].mean(), noise[known].mean()
    p = float(binomtest(lower, count, alternative="greater").pvalue)
    return relation(
        f"{claim}, {kind}",
        expected,
        f"{means[0]:.3f} against {means[1]:.3f}; in {lower} of {count} networks, p = {p:.3f}",
        true=bool(means[0] < means[1]),
        clear=p <= 0.05,
    )


@styled()
def draw(found: Deviations) -> dict[str, Drawn]:
    """Draw for each network its distances, one panel for each kind."""
    figure = new_figure(7, 3.1)
    panels = figure.subplots(1, len(found.distances))
    places = range(len(found.names))
    table: list[dict[str, Any]] = []
    for panel, (kind, by_data) in zip(panels, found.distances.items(), strict=True):
        curves = {**by_data, FLOOR: found.floor[kind]}
        drawn = draw_curves(places, curves, panel)
        for line in panel.lines:
            line.set_linestyle("none")  # the networks have no order
        panel.set_title(f"{kind} distance")
        panel.set(ylabel="from the signature on its own data", ylim=(0, None))
        panel.set_xticks(
            places, [name.rpartition("/")[2] for name in found.names], rotation=40, ha="right"
        )
        for row in drawn.table:
            network = found.names[int(row["at"])]
            table.append(
                {"distance": kind, "network": network, "data": row["curve"], "value": row["mean"]}
            )
    panels[1].set_ylabel("")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
