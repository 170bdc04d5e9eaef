"""Table 3: the accuracy of ResNet-20 on CIFAR-10, by the slope of LeakyReLU.

The accuracies of the two networks of each slope that Figure 8 stitches, on all test images.

The rule: means within 4 points of the paper's, in direction 8; up to 0.1 all within 1 point of each
other, in direction 2, where the paper's differ by 0.2; from 0.1 on a fall at each step, clearly if
by half of the paper's fall; two networks of one slope within 1 point of each other, in direction 3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import COLUMN, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.alphas import smaller
from sigmascope_papers.symmetry.fig8 import SMALL_SLOPES, slopes_of
from sigmascope_papers.symmetry.plans import LEAKY, SLOPES
from sigmascope_papers.symmetry.stitches import stitches_of

__all__ = ["ITEM", "PAPER"]

PAPER: Mapping[str, float] = dict(
    zip(SLOPES, (89.3, 89.4, 89.2, 89.4, 86.6, 73.0, 41.8), strict=True)
)
"""Slope -> accuracy in percent, the mean of two networks."""
NUMBERS, FLAT, TWINS = (4.0, 8.0), (1.0, 2.0), (1.0, 3.0)
CLEAR = 0.5
ASIDE = 0.22  # the paper's crosses stand beside ours, so that neither hides the other


def measure(setting: Setting) -> dict[str, Matrix]:
    """Read or measure the accuracies of the networks of each slope, slope -> (n,)."""
    plans = {slope: smaller(setting, LEAKY[slope], ("full",)) for slope in slopes_of(setting)}
    found = {slope: stitches_of(setting, plan) for slope, plan in plans.items()}
    return {
        slope: np.array([each for pair in one.pairs for each in pair.accuracies])
        for slope, one in found.items()
    }


def judge(found: Mapping[str, Matrix]) -> list[Check]:
    """Near the paper's numbers; flat up to 0.1; falling from there on; two networks alike."""
    mean = {slope: float(values.mean()) for slope, values in found.items()}
    # Of NumPy, as max and min of Python pass over a NaN.
    gap = float(np.max([abs(mean[slope] - PAPER[slope]) for slope in mean]))
    spread = float(np.ptp([mean[slope] for slope in SMALL_SLOPES if slope in mean]))
    apart = float(np.max([np.ptp(values) for values in found.values()]))
    return [
        relation(
            "accuracy by slope",
            ", ".join(f"{PAPER[slope]:.1f}" for slope in mean) + f", each ± {NUMBERS[0]:g}",
            ", ".join(f"{value:.1f}" for value in mean.values()) + f"; off by {gap:.1f} at most",
            true=gap <= NUMBERS[1],
            clear=gap <= NUMBERS[0],
        ),
        relation(
            f"slopes up to {SMALL_SLOPES[-1]} cost nothing",
            f"all within {FLAT[0]:g} point",
            f"within {spread:.2f}",
            true=spread <= FLAT[1],
            clear=spread <= FLAT[0],
        ),
        _falls(mean),
        relation(
            "two networks of one slope are alike",
            f"within {TWINS[0]:g} point",
            f"within {apart:.2f}",
            true=apart <= TWINS[1],
            clear=apart <= TWINS[0],
        ),
    ]


def _falls(mean: Mapping[str, float]) -> Check:
    """The accuracy falls from 0.1 on at each step; clearly by half of what the paper's does."""
    slopes = [slope for slope in SLOPES[len(SMALL_SLOPES) - 1 :] if slope in mean]
    falls = -np.diff([mean[slope] for slope in slopes])
    paper = -np.diff([PAPER[slope] for slope in slopes])
    return relation(
        f"from {SMALL_SLOPES[-1]} on accuracy falls with the slope",
        "by half of " + ", ".join(f"{fall:.1f}" for fall in paper) + " or more",
        "by " + ", ".join(f"{fall:.1f}" for fall in falls),
        true=bool((falls > 0).all()),
        clear=bool((falls >= CLEAR * paper).all()),
    )


@styled()
def draw(found: Mapping[str, Matrix]) -> dict[str, Drawn]:
    """Draw all networks as points by slope, and the paper's means as crosses."""
    figure = new_figure(COLUMN, 2.3)
    panel = figure.subplots()
    color, marker, _ = look(0)
    places = np.arange(len(found))
    points = np.array(
        [
            (place, value)
            for place, values in zip(places, found.values(), strict=True)
            for value in values
        ]
    )
    panel.plot(
        *points.T,
        marker,
        color=color,
        markersize=4.5,
        alpha=0.7,
        markeredgewidth=0,
        label="our networks",
    )
    beside = places + ASIDE
    panel.plot(
        beside,
        [PAPER[slope] for slope in found],
        "x",
        color="0.2",
        markersize=5,
        label="the paper's mean",
    )
    panel.set(xlabel="slope of LeakyReLU", ylabel="accuracy, %", ylim=(0, 100))
    panel.set_xticks(places, list(found))
    add_panel_legend(figure, [panel])
    table = [
        {"slope": slope, "network": n, "accuracy": float(v)}
        for slope, values in found.items()
        for n, v in enumerate(values)
    ]
    table += [
        {"slope": slope, "network": "the paper's mean", "accuracy": PAPER[slope]} for slope in found
    ]
    return {"": Drawn(figure, (panel,), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
