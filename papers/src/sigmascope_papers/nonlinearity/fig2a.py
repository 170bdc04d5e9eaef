"""Figure 2A: the same ReLU is affine or not, by the range of its inputs.

Twenty uniform inputs of width 4 with means from -4 to 4, one channel, 1000 samples each, drawn
after those of Figure 2B from one generator of NumPy seeded with 987; the unbiased covariance.
Inputs below 0 alone give a constant output, which has no score; the published code reports 1 for
it.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.style import SMALL, look
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Case, case_of, draw_cases
from sigmascope_papers.nonlinearity.fig2b import drawn_inputs
from sigmascope_papers.setting import Setting

__all__ = ["ITEM"]

MEANS = np.linspace(-4, 4, 20)
PRINTED = {5: 0.13387674, 8: 0.52627778, 11: 0.79208457, 13: 0.94012433}


def measure(setting: Setting) -> dict[float, Case]:
    """Return the case of each input, by its mean."""
    _, generator = drawn_inputs()
    drawn = {float(mean): generator.uniform(mean - 2, mean + 2, size=1000) for mean in MEANS}
    return {mean: case_of(x, np.maximum(x, 0)) for mean, x in drawn.items()}


def judge(cases: dict[float, Case]) -> list[Check]:
    """The printed scores agree to 5e-6, the noise of their float32; inputs above 0 score 1; scores
    rise with the mean.
    """
    scores = [case.score for case in cases.values()]
    checks = [
        agrees(f"score at mean {MEANS[k]:.2f}", expected, scores[k], tolerance=5e-6, digits=6)
        for k, expected in PRINTED.items()
    ]
    least = float(np.min([case.score for mean, case in cases.items() if mean >= 2]))
    checks.append(
        relation("inputs above 0 score 1", "1", f"{least:.8f} at least", true=least > 1 - 1e-9)
    )
    # a NaN there does not pass
    rises = np.diff([case.score for mean, case in cases.items() if mean > -2])
    obtained = f"smallest step {rises.min():.1g}"
    checks.append(
        relation(
            "the score rises with the mean",
            "no step below 0",
            obtained,
            true=bool(rises.min() > -1e-9),
        )
    )
    return checks


@styled()
def draw(cases: dict[float, Case]) -> dict[str, Drawn]:
    """Draw the four inputs whose scores are printed, and the scores of all over the mean."""
    figure = new_figure(7, 3.9)
    panels = figure.subplot_mosaic([["a", "b", "c", "d"], ["scores"] * 4], height_ratios=[1.15, 1])
    below = panels.pop("scores")
    values = list(cases.items())
    picked = {f"mean {values[k][0]:.2f}".replace("-", "−"): values[k][1] for k in PRINTED}
    table = draw_cases(picked, list(panels.values()))
    panels["a"].set_ylabel("output")
    table += [{"panel": "scores", **row} for row in _draw_scores(cases, below).table]
    return {"": Drawn(figure, (below, *panels.values()), table)}


def _draw_scores(cases: dict[float, Case], axes: Axes) -> Drawn:
    drawn = draw_curves(
        list(cases),
        {"ReLU": [case.score for case in cases.values()]},
        axes,
        over="mean of the input, uniform of width 4",
    )
    places = list(cases)
    axes.plot(
        [places[k] for k in PRINTED],
        list(PRINTED.values()),
        "o",
        markersize=8,
        fillstyle="none",
        color=look(1).color,
    )
    dead = max(mean for mean, case in cases.items() if not math.isfinite(case.score))
    axes.axvspan(places[0] - 0.2, dead + 0.2, color="0.9", linewidth=0)
    axes.text(
        (places[0] + dead) / 2,
        0.5,
        "all inputs below 0:\nno score",
        ha="center",
        va="center",
        fontsize=SMALL,
    )
    axes.set(ylim=(0, 1.05), xlim=(places[0] - 0.2, places[-1] + 0.2))
    axes.set_title("circles: printed in the paper", fontsize=SMALL, loc="right")
    return drawn


ITEM = Item(measure=measure, judge=judge, draw=draw)
