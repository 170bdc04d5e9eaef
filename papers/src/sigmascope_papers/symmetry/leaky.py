"""Figure 8 and Table 3: ResNet-20 with LeakyReLU, its stitches and its accuracy by slope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import COLUMN, PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.rules import at_most
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.curves import draw_means, label_layers, rows_of
from sigmascope_papers.symmetry.data import PRINTED
from sigmascope_papers.symmetry.penalties import GROUP
from sigmascope_papers.symmetry.plans import LEAKY, SLOPES
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of

BySlope = Mapping[str, Stitches]
SMALL_SLOPES, SMOKE_SLOPES = SLOPES[:4], ("0.0001", "1")
LAST = ("72*", "75")
CHANCE = 10.0
HALF = 0.5
ACCURACIES: Mapping[str, float] = PRINTED["accuracies"]
"""Slope -> accuracy in Table 3, in percent, the mean of two networks."""
NUMBERS, FLAT, TWINS = (4.0, 8.0), (1.0, 2.0), (1.0, 3.0)
ASIDE = 0.22  # the paper's crosses stand beside our points


def _measure(setting: Setting) -> dict[str, Stitches]:
    """Return the stitches of all slopes; in a smoke run of two."""
    slopes = SMOKE_SLOPES if setting.smoke else SLOPES
    return {slope: stitches_of(setting, LEAKY[slope]) for slope in slopes}


def _find_ranges(found: BySlope) -> dict[str, Finding]:
    ranges = {one: float(np.ptp(some.penalties(GROUP).mean(axis=0))) for one, some in found.items()}
    room = {slope: float(one.accuracies.mean()) - CHANCE for slope, one in found.items()}
    shares = {slope: ranges[slope] / room[slope] if room[slope] > 0 else np.nan for slope in found}
    least, least_share = (
        _least([some[slope] for slope in SMALL_SLOPES if slope in some])
        for some in (ranges, shares)
    )
    at_one, near_one, share = ranges["1"], ranges.get("0.9", np.nan), shares["1"]
    told = "penalties range over {:.1f} points; for small slopes over {:.1f} at least"
    lost = f"{share:.0%} of accuracy minus chance; for small slopes {least_share:.0%} at least"
    return {
        "constant": (told.format(at_one, least), at_one < least, at_one <= HALF * least),
        "lesser": (told.format(near_one, least), near_one < least, at_one <= near_one),
        "as_shares": (lost, share < least_share, share <= HALF * least_share),
    }


def _lowest_last(found: BySlope) -> Finding:
    small = [found[slope] for slope in SMALL_SLOPES if slope in found]
    rest = np.array([layer not in LAST for layer in small[0].layers])
    last = np.array([one.penalties(GROUP, LAST).mean(axis=0) for one in small])
    others = np.array([one.penalties(GROUP).mean(axis=0) for one in small])[:, rest]
    lower = [bool(np.max(pair) < _least(row)) for pair, row in zip(last, others, strict=True)]
    average, beside = last.mean(axis=0), _least(others.mean(axis=0))
    at_one = found["1"].penalties(GROUP, LAST).mean(axis=0)
    obtained = (
        f"for {sum(lower)} of {len(small)} slopes; {average[0]:.1f} and {average[1]:.1f} there "
        f"on average, {beside:.1f} at the least of the others; slope 1: {at_one[0]:.1f} and "
        f"{at_one[1]:.1f}"
    )
    return obtained, np.max(average) < beside, all(lower)


def _least(values: Sequence[float] | Matrix) -> float:
    """Return the least of several values, NaN if one is or if there is none."""
    return float(np.min(values)) if len(values) else float("nan")


@styled()
def _draw_penalties(found: BySlope) -> dict[str, Drawn]:
    """Draw the penalties by layer, a curve for each slope; those of any matrix are ours."""
    figure = new_figure(PAGE, 2.7)
    panels = figure.subplots(1, 2).tolist()
    layers = next(iter(found.values())).layers
    table: list[dict[str, Any]] = []
    titles = {GROUP: "by the group of ReLU", "full": "by any matrix (ours)"}
    for panel, (family, title) in zip(panels, titles.items(), strict=True):
        label_layers(panel, layers)
        panel.set_title(title)
        for slope, one in found.items():
            looks, name = look(SLOPES.index(slope)), f"slope {slope}"
            places, penalties = range(len(layers)), one.penalties(family)
            mean, _ = draw_means(panel, places, penalties, looks, label=name)
            table += rows_of(family=family, slope=slope, layer=layers, penalty=mean)
    panels[0].set_ylabel("stitching penalty, percentage points")
    add_panel_legend(figure, panels)
    return {"": Drawn(figure, tuple(panels), table)}


def _accuracies(setting: Setting) -> dict[str, Matrix]:
    """Return slope -> (n,), the accuracies of its networks."""
    return {
        slope: np.array([each for pair in one.pairs for each in pair.accuracies])
        for slope, one in _measure(setting).items()
    }


def _judge_accuracies(found: Mapping[str, Matrix]) -> list[Check]:
    """Near the paper's numbers; flat up to 0.1; falling from there on; networks alike."""
    mean = {slope: float(values.mean()) for slope, values in found.items()}
    # NumPy's max and min, unlike Python's, do not skip a NaN.
    gap = np.max([abs(mean[slope] - ACCURACIES[slope]) for slope in mean])
    spread = np.ptp([mean[slope] for slope in SMALL_SLOPES if slope in mean])
    apart = np.max([np.ptp(values) for values in found.values()])
    slopes = [slope for slope in SLOPES[len(SMALL_SLOPES) - 1 :] if slope in mean]
    falls, paper = (-np.diff([some[slope] for slope in slopes]) for some in (mean, ACCURACIES))
    printed, ours, halves, fall = (
        ", ".join(f"{value:.1f}" for value in values)
        for values in ([ACCURACIES[slope] for slope in mean], mean.values(), paper, falls)
    )
    limit, number, flat, twins = SMALL_SLOPES[-1], NUMBERS[0], FLAT[0], TWINS[0]
    falling = f"by {fall}", (falls > 0).all(), (falls >= HALF * paper).all()
    near = at_most(f"{ours}; off by {gap:.1f} at most", gap, NUMBERS)
    nothing, alike = f"slopes up to {limit} cost nothing", "two networks of one slope are alike"
    halved, faster = (
        f"by half of {halves} or more",
        f"from {limit} on accuracy falls with the slope",
    )
    return [
        conclude("accuracy by slope", f"{printed}, each ± {number:g}", near),
        conclude(
            nothing, f"all within {flat:g} point", at_most(f"within {spread:.2f}", spread, FLAT)
        ),
        conclude(faster, halved, falling),
        conclude(alike, f"within {twins:g} point", at_most(f"within {apart:.2f}", apart, TWINS)),
    ]


@styled()
def _draw_accuracies(found: Mapping[str, Matrix]) -> dict[str, Drawn]:
    """Draw all networks as points by slope, and the paper's means as crosses."""
    figure = new_figure(COLUMN, 2.3)
    panel, places, (color, marker, _) = figure.subplots(), np.arange(len(found)), look(0)
    at, values = np.repeat(places, [len(one) for one in found.values()]), list(found.values())
    style: dict[str, Any] = {"markersize": 4.5, "alpha": 0.7, "markeredgewidth": 0}
    panel.plot(at, np.concatenate(values), marker, color=color, label="our networks", **style)
    paper, label = [ACCURACIES[slope] for slope in found], "the paper's mean"
    panel.plot(places + ASIDE, paper, "x", color="0.2", markersize=5, label=label)
    panel.set(xlabel="slope of LeakyReLU", ylabel="accuracy, %", ylim=(0, 100))
    panel.set_xticks(places, list(found))
    add_panel_legend(figure, [panel])
    table = []
    for slope, some in found.items():
        table += rows_of(slope=slope, network=np.arange(len(some)), accuracy=some)
    table += rows_of(slope=list(found), network=label, accuracy=paper)
    return {"": Drawn(figure, (panel,), table)}


ITEMS: Mapping[str, Item] = {
    "sym-fig8": Item(
        _measure, judge_by("symmetry.fig8", _lowest_last, _find_ranges), _draw_penalties
    ),
    "sym-table3": Item(_accuracies, _judge_accuracies, _draw_accuracies),
}
