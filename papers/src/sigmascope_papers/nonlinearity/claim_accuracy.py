"""A claim of public summaries of the paper: a Pearson correlation above 0.92 between signature and
accuracy.

The paper itself prints no such number. Here it is tried for all seven statistics of the signature,
over the whole cast with every further classifier of the zoo, and family by family. The p-value is
that of the *best* |r| of the seven: the share of permutations of the accuracies (all, or 10 000 of
them and the own one) in which the best is as large, so the search is paid for.

Two traps are avoided by trying three sets. Leaky networks of slope 0.5 or more are poor by
construction and have scores near 1, so that a few outliers can carry a correlation: a second set
leaves them out. Seeds of one recipe are no independent
networks: the third set, and the families, have each recipe once, averaged over its seeds. Networks
    that were trained on
another task than the classes are in none. In a set with seeds or such slopes a small p alone says
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.accuracy import AccuracyFit, AccuracyFits
from sigmascope.compare.networks import is_constant
from sigmascope.compare.regression import regress
from sigmascope.figures import Drawn, draw_accuracy, draw_correlations
from sigmascope.measure.signature import STATISTICS
from sigmascope.runs import Run
from sigmascope_papers.chance import correlation_p
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Trial", "trial"]

CLAIMED, LEVEL = 0.92, 0.05
FEWEST = 4
TRIED = tuple(STATISTICS)


def _seeds(network: str, *seeds: int) -> list[str]:
    return [f"sigmascope/{network}:{seed}" for seed in seeds]


STRONG = [name for slope in ("0.5", "0.9", "1") for name in _seeds(f"resnet20-leaky{slope}", 0)]
MORE: dict[str, str] = {
    **dict.fromkeys(_seeds("myrtle", *range(1, 8)), "pre-residual"),
    **dict.fromkeys(_seeds("myrtle-nobn", 1, 2), "pre-residual"),
    **dict.fromkeys(_seeds("vgg", 0), "pre-residual"),
    **dict.fromkeys(_seeds("vgg16", *range(2, 10)), "pre-residual"),
    **dict.fromkeys(
        [*_seeds("plain20", 0, 1, 2), *_seeds("plain32", 0), *_seeds("plain56", 0)], "pre-residual"
    ),
    **dict.fromkeys(_seeds("resnet20", 1, 2, 3), "residual"),
    **{
        name: "residual"
        for slope in ("0.0001", "0.001", "0.01", "0.1")
        for name in _seeds(f"resnet20-leaky{slope}", 0)
    },
    **{
        name: "residual"
        for training in ("noaug", "noisy", "adversarial")
        for name in _seeds(f"resnet20-{training}", 0, 1)
    },
    **dict.fromkeys(STRONG, "residual"),
}
"""Classifiers of the zoo that are not in the cast -> family."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One set of networks.

    Attributes:
        names: of the n networks or recipes.
        values: statistic -> (n,).
        accuracies: (n,), in percent.
        r: statistic -> its correlation with the accuracy; only those that are not the same for all.
        p: of the best |r|; NaN where there is none.
    """

    names: tuple[str, ...]
    values: dict[str, Array]
    accuracies: Array
    r: dict[str, float]
    p: float

    @property
    def best(self) -> str | None:
        """The statistic with the largest |r|."""
        return max(self.r, key=lambda key: abs(self.r[key]), default=None)

    @property
    def independent(self) -> bool:
        """Whether each recipe is there once, and none that makes networks poor by construction."""
        return len({_recipe(name) for name in self.names}) == len(self.names) and not set(
            STRONG
        ) & set(self.names)


def measure(setting: Setting) -> dict[str, Trial]:
    """Correlate every statistic with accuracy in every set."""
    families = setting.cast.families()
    if setting.ours and not setting.networks:
        families |= MORE
    points = {
        run.signature.name: point for run in setting.runs(list(families)) if (point := _point(run))
    }
    usual = {name: point for name, point in points.items() if name not in STRONG}
    sets = {"all networks": points}
    if len(usual) < len(points):
        sets["without leaky slopes ≥ 0.5"] = usual
    recipes = _by_recipe(usual)
    if len(recipes) < len(usual):
        sets["each recipe once"] = recipes
    kinds = {_recipe(name): family for name, family in families.items()}
    for family in dict.fromkeys(families.values()):
        sets[family] = {name: point for name, point in recipes.items() if kinds[name] == family}
    return {title: trial(points) for title, points in sets.items()}


def _point(run: Run) -> dict[str, float] | None:
    """Return accuracy and statistics of a network, or None where the accuracy is unknown."""
    accuracy = run.facts.accuracy if run.facts is not None else None
    return None if accuracy is None else {"accuracy": accuracy, **run.signature.summary()}


def _recipe(name: str) -> str:
    return name.partition(":")[0]


def _by_recipe(points: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Average the networks that differ by their seed alone."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for name, point in points.items():
        groups.setdefault(_recipe(name), []).append(point)
    return {
        name: {key: float(np.mean([one[key] for one in own])) for key in own[0]}
        for name, own in groups.items()
    }


def trial(points: Mapping[str, Mapping[str, float]]) -> Trial:
    """Correlate the statistics of networks with their accuracies."""
    accuracies = np.array([point["accuracy"] for point in points.values()])
    values = {key: np.array([point[key] for point in points.values()]) for key in TRIED}
    varying = [key for key in TRIED if len(points) >= FEWEST and not is_constant(values[key])]
    if not varying or is_constant(accuracies):
        return Trial(tuple(points), values, accuracies, {}, float("nan"))
    found, p = correlation_p(np.stack([values[key] for key in varying]), accuracies)
    return Trial(
        tuple(points), values, accuracies, dict(zip(varying, found.tolist(), strict=True)), p
    )


def judge(trials: Mapping[str, Trial]) -> list[Check]:
    """In every set: holds if some |r| exceeds 0.92 with p below 0.05.

    In direction with p below 0.05 alone, where each recipe is in the set once, and if a line
    through the others predicts the accuracy of a network better than their mean does: a positive
    leave-one-out R².
    """
    return [_check(title, one) for title, one in trials.items()]


def _check(title: str, one: Trial) -> Check:
    claim, expected = f"{title}: signature and accuracy correlate", f"|r| > {CLAIMED}, p < {LEVEL}"
    if one.best is None:
        n = len(one.names)
        few = f"{n} network{'s' * (n != 1)} with a known accuracy, {FEWEST} are needed"
        return untried(
            claim, expected, few if n < FEWEST else "accuracies or statistics are the same for all"
        )
    r, loo = one.r[one.best], regress(one.values[one.best], one.accuracies, 1).r2_loo
    obtained = (
        f"n = {len(one.names)}; best of {len(one.r)}: {one.best}, r = {r:.2f}, p = {one.p:.4f}, "
        f"leave-one-out R² = {loo:.2f}"
    )
    claimed, useful = abs(r) > CLAIMED, one.independent and loo > 0
    return relation(
        claim, expected, obtained, true=one.p < LEVEL and (claimed or useful), clear=claimed
    )


def draw(trials: Mapping[str, Trial]) -> dict[str, Drawn]:
    """Draw all correlations as a table of colors, and accuracy against the best statistic of each set."""
    known = {title: one for title, one in trials.items() if one.r}
    if not known:
        return {}
    rows = {
        f"{title} ({len(one.names)})": [one.r.get(key, float("nan")) for key in TRIED]
        for title, one in known.items()
    }
    fits = tuple(_fit(title, one) for title, one in known.items())
    return {
        "": draw_correlations({"correlation with accuracy": rows}, TRIED),
        "best": draw_accuracy(AccuracyFits(fits, {})),
    }


def _fit(title: str, one: Trial) -> AccuracyFit:
    on = str(one.best)
    found = regress(one.values[on], one.accuracies, 1)
    return AccuracyFit(
        title,
        on,
        1,
        one.names,
        one.values[on],
        one.accuracies,
        *found[:3],
        len(one.r),
        found.reason,
    )


ITEM = Item(measure=measure, judge=judge, draw=draw)
