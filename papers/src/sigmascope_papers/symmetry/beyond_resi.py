"""Beyond the paper: do measures of similarity find the differences that were made?"""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, look
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.similarity_tests import (
    COUNTERPARTS,
    OURS,
    Ends,
    SimilarityTests,
    against_chance,
    rank_spread,
    restricted,
    rivaled,
    verdict,
)

FILE = "trainings/resi.json"
AGAIN = (
    "It trains dozens of networks: python zoo/resi_experiment.py run --data DATA --out OUT "
    "--scratch DIR in the repository, then python zoo/resi_experiment.py summary OUT --store "
    f"results/{FILE} of this package."
)
DESIGNS = ("label", "shortcut", "augmentation")
NESTED = 0.9
TITLES = {
    "label": "labels",
    "shortcut": "shortcuts",
    "augmentation": "augmentation",
    "monotonicity": "layer order",
    "accuracy": "accuracies",
    "output": "predictions",
}
SCORES = dict.fromkeys(DESIGNS, "AUPRC") | {
    "monotonicity": "share",
    "accuracy": "Spearman",
    "output": "Spearman",
}
DIGITS = {"monotonicity": 3}


def measure(setting: Setting) -> SimilarityTests:
    """Read the stored outcome of the tests."""
    return SimilarityTests.load(setting.stored(FILE, written_by=AGAIN))


def treatments(found: SimilarityTests) -> Finding:
    """Judge whether what was done to the networks shows."""
    worked = [found.treatments[name].worked for name in DESIGNS]
    told = "; ".join(
        f"{TITLES[name]} {', '.join(f'{100 * one:.0f} %' for one in found.treatments[name].means)}"
        for name in DESIGNS
    )
    return told, sum(worked) >= len(DESIGNS) - 1, all(worked)


def against(found: SimilarityTests) -> list[Check]:
    """Judge ours against the best rival in each test that counts."""
    checks = []
    for measure in OURS:
        words, told = [], []
        for name in found.counted:
            rival, (difference, low, high) = rivaled(found.scores, name, measure)
            words.append(verdict(low, high, ("loses", "wins")))
            told.append(f"{TITLES[name]} {words[-1]} ({difference:+.2f} to {rival})")
        claim = f"ours: {measure} of the group of ReLU loses no test to the best other measure"
        expected = "no interval of the difference below 0; clearly if one lies above"
        finding = "; ".join(told), "loses" not in words, "loses" not in words and "wins" in words
        checks.append(conclude(claim, expected, finding))
    return checks


def group(found: SimilarityTests) -> list[Check]:
    """Judge what it costs to allow the symmetries of ReLU only."""
    checks = []
    for measure, other in COUNTERPARTS.items():
        ends = restricted(found.scores, found.counted, measure)
        word = verdict(ends[1], ends[2], ("hurts", "helps"))
        claim = f"ours: allowing only the symmetries of ReLU costs nothing: {measure}, {other}"
        expected = "a mean difference over the tests that count with an interval above 0; weakly "
        expected += "if it contains 0"
        each = ", ".join(
            f"{TITLES[name]} {restricted(found.scores, [name], measure)[0]:+.2f}"
            for name in found.counted
        )
        finding = f"{_shown(ends)}: {word}; {each}", word != "hurts", word == "helps"
        checks.append(conclude(claim, expected, finding))
    return checks


def _shown(ends: Ends) -> str:
    return f"{ends[0]:+.3f} ({ends[1]:+.3f} to {ends[2]:+.3f})"


def nested(found: SimilarityTests) -> Finding:
    """Judge the order of layers, in which all measures were expected to be good."""
    scores = {name: one.value for name, one in found.scores["monotonicity"].items()}
    worst = min(scores, key=lambda name: -math.inf if math.isnan(scores[name]) else scores[name])
    low = {name: one for name, one in scores.items() if not one > NESTED}
    return f"{len(low)} below; {worst} {scores[worst]:.3f}", len(low) <= 1, not low


def chance(found: SimilarityTests) -> Finding:
    """Judge the test of accuracies, in which nothing was expected."""
    above = [
        f"{name} {one.value:.2f}"
        for name, one in found.scores["accuracy"].items()
        if against_chance(one)[1] > 0
    ]
    return f"above 0: {', '.join(above) or 'none'}", not above


@styled()
def draw(found: SimilarityTests) -> dict[str, Drawn]:
    """Draw the rank of every measure in every test, and its mean with its spread."""
    spread = rank_spread(found.scores, found.counted)
    order = sorted(spread, key=lambda name: spread[name])
    figure = new_figure(PAGE, 0.95 + 0.27 * len(order))
    table_axes, mean_axes = figure.subplots(
        1, 2, sharey=True, gridspec_kw={"width_ratios": (len(found.scores), 2.2)}
    )
    _draw_scores(table_axes, found, order)
    _draw_means(mean_axes, spread, order)
    table = [
        {"measure": name, "mean rank": spread[name][0], "least": spread[name][1]}
        | {"largest": spread[name][2]}
        | {TITLES[test]: own[name].value for test, own in found.scores.items()}
        for name in order
    ]
    return {"": finished([table_axes, mean_axes], table)}


def _draw_scores(axes: Axes, found: SimilarityTests, order: list[str]) -> None:
    """Write every score, the darker the better its place among the measures."""
    for column, (test, own) in enumerate(found.scores.items()):
        known = sorted(one.value for one in own.values() if not math.isnan(one.value))
        for row, name in enumerate(order):
            value = own[name].value
            place = known.index(value) / max(len(known) - 1, 1) if value in known else 0.0
            box: dict[str, Any] = {
                "color": look(0).color,
                "alpha": 0.08 + 0.5 * place,
                "linewidth": 0,
            }
            axes.barh(row, 0.94, left=column - 0.47, height=0.9, **box)
            told = f"{value:.{DIGITS.get(test, 2)}f}".replace("-", "−")
            axes.text(column, row, told, ha="center", va="center", fontsize="small")
        mark = SCORES[test] if test in found.counted else "(not counted)"
        head: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": "small"}
        axes.text(column, -0.6, f"{TITLES[test]}\n{mark}", **head)
    axes.set_yticks(range(len(order)), order)
    for label, name in zip(axes.get_yticklabels(), order, strict=True):
        if name in OURS:
            label.set(color=look(1).color, fontweight="bold")
    axes.set_xticks([])
    axes.set(xlim=(-0.5, len(found.scores) - 0.5), ylim=(len(order) - 0.4, -0.6))
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _draw_means(axes: Axes, spread: dict[str, Ends], order: list[str]) -> None:
    for row, name in enumerate(order):
        mean, low, high = spread[name]
        color = look(1 if name in OURS else 0).color
        axes.plot([low, high], [row, row], color=color, linewidth=1.2)
        axes.plot([mean], [row], "o", color=color, markersize=4)
    axes.set_xlabel("mean rank, 1 is best")
    axes.set_xlim(0.7, len(order) + 0.3)
    axes.set_xticks(range(1, len(order) + 1, 2))
    axes.tick_params(axis="y", length=0)


RULES = (treatments, against, group, nested, chance)
ITEM = Item(measure, judge_by("symmetry.beyond_resi", *RULES), draw)
