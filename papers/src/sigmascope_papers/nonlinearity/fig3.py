"""Figure 3: why the score of ReLU is not symmetric: its two parts over the range of the input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import add_legend, look
from sigmascope.measure.affinity import affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, agrees
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import Setting

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
    """Return distance, bound and score of ReLU for inputs uniform on [low, high] around 0."""
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


def _agree(parts: Parts, name: str) -> Finding:
    gap = float(np.abs(parts.measured[name] - parts.formula[name]).max())
    return f"± {gap:.1g}", gap <= 0.005


def _known(parts: Parts) -> list[Check]:
    measured, checks = parts.measured, []
    for shift, expected in DISTANCES.items():
        value = float(np.interp(shift, parts.shifts, measured["distance"]))
        claim = f"distance at s = {shift:g}"
        checks.append(agrees(claim, expected, value, tolerance=0.001, digits=3))
    at_half = float(np.interp(0.5, parts.shifts, measured["score"]))
    return [*checks, agrees("score at s = 0.5", SCORE, at_half, tolerance=0.001, digits=4)]


def _skew(parts: Parts, name: str) -> float:
    """Return how far a part is from symmetric, as a share of its largest value."""
    part = parts.measured[name]
    return float(np.abs(part - part[::-1]).max() / part.max())


def _symmetric(parts: Parts) -> Finding:
    skew = _skew(parts, "distance")
    return f"{skew:.0%} of its largest value", skew <= 0.25


def _asymmetric(parts: Parts) -> Finding:
    bound, distance = _skew(parts, "bound"), _skew(parts, "distance")
    return f"{bound:.0%} against {distance:.0%}", bound > distance, bound > 4 * distance


def _falls(parts: Parts) -> Finding:
    score = parts.measured["score"]
    fading = (np.diff(score) < 0).all() and score[-1] > 0
    return f"from {score[0]:.3f} to {score[-1]:.3f}", fading, score[-1] < 0.1


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


AGREE = [partial(_agree, name=name) for name in PARTS]
ITEM = item_of("fig3", measure, draw, *AGREE, _known, _symmetric, _asymmetric, _falls)
