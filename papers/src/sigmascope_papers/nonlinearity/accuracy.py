"""Figure 6, and a claim of public summaries of the paper: the signature and accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sigmascope.compare.accuracy import SEARCHED, SIZES, AccuracyFit, AccuracyFits, fit_accuracy
from sigmascope.compare.networks import is_constant
from sigmascope.compare.regression import regress
from sigmascope.figures import Drawn, draw_accuracy, draw_correlations
from sigmascope.measure.result import STATISTICS
from sigmascope_papers.chance import Array, correlation_p
from sigmascope_papers.item import Check, Finding, Item, conclude
from sigmascope_papers.nonlinearity.items import Rules, item_of
from sigmascope_papers.nonlinearity.published import NETWORKS
from sigmascope_papers.setting import Setting, facts_of

EARLY, LATE = ("pre-residual", "residual", "NAS"), ("ViTs", "post-ViT")
FEWEST = 4  # a line through three points leaves a single one to judge it by
# What counts as similar, and as an explanation at all.
SIMILAR, EXPLAINS = 0.1, 0.5
CLAIMED, LEVEL = 0.92, 0.05
TRIED = tuple(STATISTICS)
STRONG = [f"sigmascope/resnet20-leaky{slope}:0" for slope in ("0.5", "0.9", "1")]
MORE: dict[str, str] = {
    name: family for family, names in NETWORKS["classifiers"].items() for name in names
}
"""Classifiers of the zoo that are not in the cast -> family."""
Points = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Family:
    """The fits of one family: predictor -> fit, for every statistic and every size."""

    fits: dict[str, AccuracyFit]

    @property
    def n(self) -> int:
        """How many networks have an accuracy and scores."""
        return self.fits[SEARCHED[0]].n

    def best(self, among: tuple[str, ...]) -> AccuracyFit | None:
        """Return the fit with the highest R² of some predictors, or None if none has one."""
        fitted = [self.fits[key] for key in among if math.isfinite(self.fits[key].r2)]
        return replace(max(fitted, key=lambda fit: fit.r2), tried=len(fitted)) if fitted else None


Families = Mapping[str, Family]


def measure_families(setting: Setting) -> dict[str, Family]:
    """Fit every family of the cast on everything."""
    runs = setting.runs(setting.cast.names())
    facts = {name: asdict(one) for name, one in facts_of(runs).items()}
    signatures, families = [run.signature for run in runs], setting.cast.families()
    found = {
        on: fit_accuracy(signatures, facts, on=on, families=families).fits
        for on in (*SEARCHED, *SIZES)
    }
    names = [fit.family for fit in found[SEARCHED[0]]]
    return {
        name: Family({on: fits[place] for on, fits in found.items()})
        for place, name in enumerate(names)
    }


def _rivals(family: Family | None) -> tuple[AccuracyFit, AccuracyFit] | str:
    """Return the best statistic and the best size, or why the family cannot be judged."""
    if family is None:
        return "the family is not among the networks"
    if family.n < FEWEST:
        few = f"{family.n} network{'s' * (family.n != 1)} with a known accuracy"
        return f"{few}; a line needs {FEWEST} to be judged"
    statistic, size = family.best(SEARCHED), family.best(SIZES)
    missing = "no fit: the accuracies, the statistics or the sizes do not differ"
    return (statistic, size) if statistic and size else missing


def _told(fit: AccuracyFit) -> str:
    slope = "rising" if fit.coefficients[1] > 0 else "falling"
    return f"{fit.on} R² {fit.r2:.2f} (leave-one-out {fit.r2_loo:.2f}, {slope})"


def _told_both(statistic: AccuracyFit, size: AccuracyFit) -> str:
    return f"best of {statistic.tried}: {_told(statistic)}; best of {size.tried}: {_told(size)}"


def _signature_wins(families: Families, name: str) -> Finding:
    rivals = _rivals(families.get(name))
    if isinstance(rivals, str):
        return rivals
    statistic, size = rivals
    obtained = f"n = {statistic.n}; {_told_both(*rivals)}"
    return obtained, statistic.r2 > size.r2, statistic.r2_loo > max(size.r2_loo, 0)


def _parameters_win(families: Families) -> Finding:
    rivals = _rivals(families.get("NAS"))
    if isinstance(rivals, str):
        return rivals
    statistic, size = rivals
    r2 = families["NAS"].fits["parameters"].r2
    obtained = f"n = {statistic.n}; parameters R² {r2:.2f}; {_told_both(*rivals)}"
    return obtained, r2 > statistic.r2, size.on == "parameters"


def _spread_like_depth(families: Families) -> Finding:
    rivals = _rivals(families.get("pre-residual"))
    if isinstance(rivals, str):
        return rivals
    family, best = families["pre-residual"], rivals[0]
    spread, depth = family.fits["spread"].r2, family.fits["depth"].r2
    obtained = f"n = {family.n}; spread R² {spread:.2f}, depth R² {depth:.2f}; "
    obtained += f"best statistic: {_told(best)}"
    true = abs(spread - depth) <= SIMILAR and min(spread, depth) >= EXPLAINS
    return obtained, true, best.on == "spread"


def _chosen(
    families: Families, names: Sequence[str], wanted: Sequence[str], **_: object
) -> Finding:
    rivals = {name: _rivals(families.get(name)) for name in names}
    missing = [f"{name}: {reason}" for name, reason in rivals.items() if isinstance(reason, str)]
    if missing:
        return "; ".join(missing)
    found = {name: both[0].on for name, both in rivals.items() if not isinstance(both, str)}
    hits, count = sum(on in wanted for on in found.values()), len(names)
    obtained = ", ".join(f"{name} {on}" for name, on in found.items())
    return obtained, hits >= count - (names == EARLY), hits == count


def draw_families(families: Families) -> dict[str, Drawn]:
    """Draw accuracy against the best statistic of each family, and against the best size."""
    known = [family for family in families.values() if family.n]
    fits = {
        part: tuple(family.best(among) or family.fits[among[0]] for family in known)
        for part, among in (("", SEARCHED), ("size", SIZES))
    }
    return {part: draw_accuracy(AccuracyFits(some, {})) for part, some in fits.items() if some}


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


def measure_trials(setting: Setting) -> dict[str, Trial]:
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


def judge_trials(trials: Mapping[str, Trial]) -> list[Check]:
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


def draw_trials(trials: Mapping[str, Trial]) -> dict[str, Drawn]:
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


WORDS: Any = {"when": "before ViTs", "best": "the spread", "all_of": ", ".join(EARLY)}
LATER: Any = {"when": "from ViTs on", "best": "the median or the min", "all_of": ", ".join(LATE)}
RULES: Rules = (
    *(partial(_signature_wins, name=name) for name in ("residual", *LATE)),
    *(_parameters_win, _spread_like_depth),
    partial(_chosen, names=EARLY, wanted=("spread",), **WORDS),
    partial(_chosen, names=LATE, wanted=("median", "min"), **LATER),
)
ITEMS = {
    "fig6": item_of("fig6", measure_families, draw_families, *RULES),
    "claim-accuracy": Item(measure_trials, judge_trials, draw_trials),
}
