"""Figure 11 on networks that others have trained: before training, and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from sigmascope.figures import Drawn
from sigmascope.measure.result import Signature
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.nonlinearity import places
from sigmascope_papers.nonlinearity.lineup import known
from sigmascope_papers.real.measuring import by_population, is_scored, judged_twice, signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import Setting

PLAIN = ("alexnet", "mobilenet_v1")
LIGHT = (*PLAIN, "resnet18", "mobilenet_v2", "efficientnet-lite0", "cifar-resnet20")
INCREASING, MOST = 0.9, 0.5
BEFORE, AFTER = "before training", "trained"


@dataclass(frozen=True, eq=False)
class Trainings:
    """Signatures with random weights, and with those of the authors, by name."""

    before: dict[str, Signature]
    after: dict[str, Signature]


def measure_trainings(setting: Setting) -> Trainings:
    """Read or measure networks before and after training."""
    before = signatures(setting, LIGHT, form="untrained")
    return Trainings(before, signatures(setting, LIGHT))


def _population(found: Trainings) -> Trainings:
    names = [n for n in found.after if is_scored(found.after[n]) and is_scored(found.before[n])]
    both = ({n: by_population(some[n]) for n in names} for some in (found.before, found.after))
    return Trainings(*both)


def _increases(found: Trainings) -> Finding:
    ranks = {}
    for name in PLAIN:
        if name in found.before:
            scores = known(found.before[name])
            ranks[name] = float(spearmanr(np.arange(len(scores)), scores).statistic)
    if not ranks:
        return "no plain network has enough scores"
    told = ", ".join(f"{NETWORKS[name].title} {rank:.2f}" for name, rank in ranks.items())
    return told, min(ranks.values()) > 0, min(ranks.values()) >= INCREASING


def _gets_non_linear(found: Trainings) -> Finding:
    if not found.after:
        return "no network has enough scores"
    pairs = {
        name: (float(known(found.before[name]).mean()), float(known(one).mean()))
        for name, one in found.after.items()
    }
    told = ", ".join(f"{NETWORKS[n].title} {a:.3f} to {b:.3f}" for n, (a, b) in pairs.items())
    falls = [after < before for before, after in pairs.values()]
    return told, np.mean(falls) > MOST, all(falls)


def _changes(found: Trainings) -> Finding:
    """Judge the mean change of a call by training."""
    if not found.after:
        return "no network has enough scores"
    changes = {
        name: float(np.nanmean(np.abs(one.scores - found.before[name].scores)))
        for name, one in found.after.items()
    }
    told = ", ".join(f"{NETWORKS[name].title} {value:.3f}" for name, value in changes.items())
    return told, min(changes.values()) >= 0.02, min(changes.values()) >= 0.05


def draw_trainings(found: Trainings) -> dict[str, Drawn]:
    """Draw each network before and after training."""
    rows = [(name, kind) for name in found.after for kind in (BEFORE, AFTER)]
    some = [(found.before if kind == BEFORE else found.after)[name] for name, kind in rows]
    titles = [f"{NETWORKS[name].title}, {kind}" for name, kind in rows]
    kinds = [[kind] * len(one.sites) for (_, kind), one in zip(rows, some, strict=True)]
    return {"": places.draw_panels(some, kinds, titles, order=(BEFORE, AFTER), columns=2)}


_FIGURE_11 = judge_by("real.real_fig11", _increases, _gets_non_linear, _changes)
ITEM = Item(measure_trainings, judged_twice(_FIGURE_11, _population), draw_trainings)
ITEMS = {"real-fig11": ITEM}
