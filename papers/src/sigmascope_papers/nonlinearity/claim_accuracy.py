"""A claim of public summaries of the paper: signature and accuracy correlate above 0.92."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.accuracy import AccuracyFit, AccuracyFits
from sigmascope.compare.networks import is_constant
from sigmascope.compare.regression import regress
from sigmascope.figures import Drawn, draw_accuracy, draw_correlations
from sigmascope.measure.result import STATISTICS
from sigmascope_papers.chance import Array, correlation_p
from sigmascope_papers.item import Check, Item, conclude
from sigmascope_papers.nonlinearity.published import NETWORKS
from sigmascope_papers.setting import Setting

CLAIMED, LEVEL = 0.92, 0.05
FEWEST = 4
TRIED = tuple(STATISTICS)
STRONG = [f"sigmascope/resnet20-leaky{slope}:0" for slope in ("0.5", "0.9", "1")]
MORE: dict[str, str] = {
    name: family for family, names in NETWORKS["classifiers"].items() for name in names
}
"""Classifiers of the zoo that are not in the cast -> family."""
Points = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Trial:
    """One set of n networks or recipes: statistics and accuracies in percent, (n,)."""

    names: tuple[str, ...]
    values: dict[str, Array]
    accuracies: Array
    r: dict[str, float]  # of statistics that are not the same for all
    p: float  # of the best |r|; NaN if there is none

    @property
    def best(self) -> str | None:
        """The statistic with the largest |r|."""
        return max(self.r, key=lambda key: abs(self.r[key]), default=None)

    @property
    def independent(self) -> bool:
        """Whether each recipe occurs once, and none that makes networks poor by construction."""
        recipes = {_recipe(name) for name in self.names}
        return len(recipes) == len(self.names) and not set(STRONG) & set(self.names)


def measure(setting: Setting) -> dict[str, Trial]:
    """Correlate every statistic with accuracy in every set."""
    families = setting.cast.families()
    if setting.ours and not setting.networks:
        families |= MORE
    runs = setting.runs(list(families))
    points = {
        run.signature.name: {"accuracy": run.facts.accuracy, **run.signature.summary()}
        for run in runs
        if run.facts is not None and run.facts.accuracy is not None
    }
    usual = {name: point for name, point in points.items() if name not in STRONG}
    sets: dict[str, Points] = {"all networks": points}
    if len(usual) < len(points):
        sets["without leaky slopes ≥ 0.5"] = usual
    recipes = _by_recipe(usual)
    if len(recipes) < len(usual):
        sets["each recipe once"] = recipes
    kinds = {_recipe(name): family for name, family in families.items()}
    for family in dict.fromkeys(families.values()):
        sets[family] = {name: point for name, point in recipes.items() if kinds[name] == family}
    return {title: trial(points) for title, points in sets.items()}


def _recipe(name: str) -> str:
    return name.partition(":")[0]


def _by_recipe(points: Points) -> dict[str, dict[str, float]]:
    """Average the networks that differ only by their seed."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for name, point in points.items():
        groups.setdefault(_recipe(name), []).append(point)
    return {
        name: {key: float(np.mean([one[key] for one in own])) for key in own[0]}
        for name, own in groups.items()
    }


def trial(points: Points) -> Trial:
    """Correlate the statistics of networks with their accuracies."""
    accuracies = np.array([point["accuracy"] for point in points.values()])
    values = {key: np.array([point[key] for point in points.values()]) for key in TRIED}
    varying = [key for key in TRIED if len(points) >= FEWEST and not is_constant(values[key])]
    r, p = {}, float("nan")
    if varying and not is_constant(accuracies):
        found, p = correlation_p(np.stack([values[key] for key in varying]), accuracies)
        r = dict(zip(varying, found.tolist(), strict=True))
    return Trial(tuple(points), values, accuracies, r, p)


def judge(trials: Mapping[str, Trial]) -> list[Check]:
    """In every set: holds if some |r| exceeds 0.92 with p below 0.05.

    Weakly with p below 0.05 alone, if each recipe is in the set once, and a line through the others
    predicts the accuracy of a network better than their mean: a positive leave-one-out R².
    """
    return [_check(title, one) for title, one in trials.items()]


def _check(title: str, one: Trial) -> Check:
    told = f"{title}: signature and accuracy correlate", f"|r| > {CLAIMED}, p < {LEVEL}"
    n = len(one.names)
    if one.best is None:
        few = f"{n} network{'s' * (n != 1)} with a known accuracy, {FEWEST} are needed"
        same = "accuracies or statistics are the same for all"
        return conclude(*told, few if n < FEWEST else same)
    r, loo = one.r[one.best], regress(one.values[one.best], one.accuracies, 1).r2_loo
    obtained = f"n = {n}; best of {len(one.r)}: {one.best}, r = {r:.2f}, p = {one.p:.4f}, "
    obtained += f"leave-one-out R² = {loo:.2f}"
    claimed, useful = abs(r) > CLAIMED, one.independent and loo > 0
    return conclude(*told, (obtained, one.p < LEVEL and (claimed or useful), claimed))


def draw(trials: Mapping[str, Trial]) -> dict[str, Drawn]:
    """Draw all correlations as a table of colors, and accuracy against the best of each set."""
    known = {title: one for title, one in trials.items() if one.r}
    if not known:
        return {}
    rows = {
        f"{title} ({len(one.names)})": [one.r.get(key, float("nan")) for key in TRIED]
        for title, one in known.items()
    }
    fits = tuple(_fit(title, one) for title, one in known.items())
    table = draw_correlations({"correlation with accuracy": rows}, TRIED)
    return {"": table, "best": draw_accuracy(AccuracyFits(fits, {}))}


def _fit(title: str, one: Trial) -> AccuracyFit:
    on = str(one.best)
    found = regress(one.values[on], one.accuracies, 1)
    data = one.names, one.values[on], one.accuracies
    return AccuracyFit(title, on, 1, *data, *found[:3], len(one.r), found.reason)


ITEM = Item(measure, judge, draw)
