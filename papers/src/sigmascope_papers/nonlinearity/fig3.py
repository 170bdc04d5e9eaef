"""Figure 3: why the score of ReLU is not symmetric: its two parts over the range of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import add_legend, look
from sigmascope.measure.affinity import affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Item, agrees, conclude
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "PARTS", "Parts", "closed_forms"]

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
    """Distance, bound and score, each (k,), by the formula and as measured, at k shifts."""

    shifts: Array
    formula: dict[str, Array]
    measured: dict[str, Array]


def closed_forms(low: Array, high: Array) -> dict[str, Array]:
    """Return distance, bound and score of ReLU for inputs uniform on [low, high], low < 0 < high."""
    b, a = low, high
    variance = a**3 * (a - 4 * b) / (12 * (a - b) ** 2)
    root = np.sqrt(a * (a - 4 * b)) * (3 * b - a) / (a - b)
    distance = np.sqrt(a**3 / (6 * (a - b) ** 2) * ((a - 4 * b) + root))
    bound = np.sqrt(2 * variance)
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
    """Formula and measurement agree; the distance is symmetric within a quarter, the bound is not.

    Clearly if the asymmetry of the bound is four times as large; and the score falls.
    """
    checks, score = [], parts.measured["score"]
    for name in PARTS:
        gap = float(np.abs(parts.measured[name] - parts.formula[name]).max())
        told = f"{name}, as measured", "the closed form ± 0.005"
        checks.append(conclude(*told, (f"± {gap:.1g}", gap <= 0.005)))
    for shift, expected in DISTANCES.items():
        value = float(np.interp(shift, parts.shifts, parts.measured["distance"]))
        claim = f"distance at s = {shift:g}"
        checks.append(agrees(claim, expected, value, tolerance=0.001, digits=3))
    at_half = float(np.interp(0.5, parts.shifts, score))
    checks.append(agrees("score at s = 0.5", SCORE, at_half, tolerance=0.001, digits=4))
    distance, bound, _ = (
        float(np.abs(part - part[::-1]).max() / part.max()) for part in parts.measured.values()
    )
    told = "the distance is roughly symmetric", "at most a quarter off"
    checks.append(conclude(*told, (f"{distance:.0%} of its largest value", distance <= 0.25)))
    told = "the asymmetry is that of the bound", "4 times as large"
    obtained = f"{bound:.0%} against {distance:.0%}"
    checks.append(conclude(*told, (obtained, bound > distance, bound > 4 * distance)))
    fading = bool((np.diff(score) < 0).all() and score[-1] > 0)
    claim = "the score nears 0 only as all inputs become negative"
    finding = f"from {score[0]:.3f} to {score[-1]:.3f}", fading, score[-1] < 0.1
    return [*checks, conclude(claim, "falls all the way, stays above 0", finding)]


@styled()
def draw(parts: Parts) -> dict[str, Drawn]:
    """Draw the three parts over s: the formula as a line, what was measured as points."""
    figure = new_figure(7, 2.2)
    panels = figure.subplots(1, 3, squeeze=False)[0].tolist()
    color, marker, _ = look(1)
    points = {"color": color, "marker": marker, "markersize": 3.5, "linestyle": "none"}
    table = []
    for panel, (name, title) in zip(panels, PARTS.items(), strict=True):
        formula, measured = parts.formula[name], parts.measured[name]
        panel.plot(parts.shifts, formula, color=look(0).color, label="closed form")
        label = f"measured, {POINTS} points"
        panel.plot(parts.shifts[4::10], measured[4::10], label=label, **points)
        panel.set_title(title)
        panel.set_ylim(bottom=0)
        rows = zip(parts.shifts.tolist(), formula.tolist(), measured.tolist(), strict=True)
        table += [{"part": name, "s": s, "closed form": a, "measured": b} for s, a, b in rows]
    figure.supxlabel("s, for inputs uniform on [−s, 5 − s]", fontsize=8)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return {"": finished(panels, table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
