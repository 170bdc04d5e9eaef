"""Figure 3: why the score of ReLU is not symmetric: its two parts over the range of the input.

X uniform on [b, a] = [-s, 5 - s], 0 < s < 5, and Y = ReLU(X), by the closed forms of the paper's
appendix A.2 and by the library on 2000 evenly spaced points (unbiased covariance, eps = 0). The
caption's W2(X, Y) is the distance W2(TX, Y) of Y from the image of X under the affine map, as in
the definition of the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import add_legend, look
from sigmascope.measure.affinity import affinity
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Parts", "closed_forms"]

WIDTH, POINTS = 5.0, 2000
SHIFTS = np.linspace(0.05, 4.95, 99)
PARTS = {
    "distance": "$W_2(TX, Y)$",
    "bound": r"$\sqrt{2\,\mathrm{Var}\,Y}$",
    "score": r"affinity score $\rho$",
}
# Of the appendix, computed independently: the distance at s = 1 and 4, the score at s = 0.5.
DISTANCES, SCORE = {1.0: 0.185, 4.0: 0.205}, 0.9607616668


@dataclass(frozen=True, eq=False)
class Parts:
    """The distance, its bound and the score, each by s (k,), by the formula and as measured.

    Attributes:
        shifts: (k,), the values of s, symmetric about the middle.
        formula: name of the part -> (k,).
        measured: the same.
    """

    shifts: Array
    formula: dict[str, Array]
    measured: dict[str, Array]


def closed_forms(low: Array, high: Array) -> dict[str, Array]:
    """Return the distance, the bound and the score of ReLU for inputs uniform on [low, high], low <
    0 < high.
    """
    b, a = low, high
    variance = a**3 * (a - 4 * b) / (12 * (a - b) ** 2)
    squared = (
        a**3 / (6 * (a - b) ** 2) * ((a - 4 * b) + np.sqrt(a * (a - 4 * b)) * (3 * b - a) / (a - b))
    )
    distance, bound = np.sqrt(squared), np.sqrt(2 * variance)
    return {"distance": distance, "bound": bound, "score": 1 - distance / bound}


def measure(setting: Setting) -> Parts:
    """Return the formula, and what the library measures."""
    spaced = (np.arange(POINTS) + 0.5) / POINTS * WIDTH
    found = []
    for shift in SHIFTS:
        x = (spaced - shift)[:, None]
        one = affinity(x, np.maximum(x, 0), covariance="unbiased", eps=0)
        found.append((float(one.w2), float(one.bound), float(one)))
    columns = dict(zip(PARTS, np.array(found).T, strict=True))
    return Parts(SHIFTS, closed_forms(-SHIFTS, WIDTH - SHIFTS), columns)


def judge(parts: Parts) -> list[Check]:
    """Formula and measurement agree; the distance is symmetric within a quarter, the bound four
    times less; the score falls.
    """
    checks = []
    for name in PARTS:
        gap = float(np.abs(parts.measured[name] - parts.formula[name]).max())
        checks.append(
            relation(
                f"{name}, as measured", "the closed form ± 0.005", f"± {gap:.1g}", true=gap <= 0.005
            )
        )
    for shift, expected in DISTANCES.items():
        value = float(np.interp(shift, parts.shifts, parts.measured["distance"]))
        checks.append(
            agrees(f"distance at s = {shift:g}", expected, value, tolerance=0.001, digits=3)
        )
    score = parts.measured["score"]
    checks.append(
        agrees(
            "score at s = 0.5",
            SCORE,
            float(np.interp(0.5, parts.shifts, score)),
            tolerance=0.001,
            digits=4,
        )
    )
    skew = {
        name: float(np.abs(part - part[::-1]).max() / part.max())
        for name, part in parts.measured.items()
    }
    obtained = f"{skew['distance']:.0%} of its largest value"
    claim = "the distance is roughly symmetric"
    checks.append(relation(claim, "at most a quarter off", obtained, true=skew["distance"] <= 0.25))
    obtained = f"{skew['bound']:.0%} against {skew['distance']:.0%}"
    larger = skew["bound"] > skew["distance"]
    clear = skew["bound"] > 4 * skew["distance"]
    checks.append(
        relation(
            "the asymmetry is that of the bound",
            "4 times as large",
            obtained,
            true=larger,
            clear=clear,
        )
    )
    fading = bool((np.diff(score) < 0).all() and score[-1] > 0)
    claim = "the score nears 0 only as all inputs become negative"
    obtained = f"from {score[0]:.3f} to {score[-1]:.3f}"
    checks.append(
        relation(
            claim,
            "falls all the way, stays above 0",
            obtained,
            true=fading,
            clear=bool(score[-1] < 0.1),
        )
    )
    return checks


@styled()
def draw(parts: Parts) -> dict[str, Drawn]:
    """Draw the three parts over s: the formula as a line, what was measured as points."""
    figure = new_figure(7, 2.2)
    panels = figure.subplots(1, 3, squeeze=False)[0].tolist()
    first, second = look(0), look(1)
    for panel, (name, title) in zip(panels, PARTS.items(), strict=True):
        panel.plot(parts.shifts, parts.formula[name], color=first.color, label="closed form")
        points = {
            "color": second.color,
            "marker": second.marker,
            "markersize": 3.5,
            "linestyle": "none",
        }
        panel.plot(
            parts.shifts[4::10],
            parts.measured[name][4::10],
            label=f"measured, {POINTS} points",
            **points,
        )
        panel.set_title(title)
        panel.set_ylim(bottom=0)
    figure.supxlabel("s, for inputs uniform on [−s, 5 − s]", fontsize=8)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    table = [
        {"part": name, "s": shift, "closed form": formula, "measured": measured}
        for name in PARTS
        for shift, formula, measured in zip(
            parts.shifts.tolist(),
            parts.formula[name].tolist(),
            parts.measured[name].tolist(),
            strict=True,
        )
    ]
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
