"""Figures 2 and 3: functions of one variable, their affine maps, and the parts of the score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import SMALL, add_legend, figure_of, look, shown
from sigmascope.maths.affine_fit import affine_map
from sigmascope.measure.affinity import affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, agrees
from sigmascope_papers.nonlinearity.items import Rules, item_of
from sigmascope_papers.setting import EPS, Setting

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ReLU": lambda x: np.maximum(x, 0),
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
SAMPLES, SEED = 1000, 987
MEANS = np.linspace(-4, 4, 20).tolist()
PRINTED_A = {MEANS[5]: 0.13387674, MEANS[8]: 0.52627778, MEANS[11]: 0.79208457}
PRINTED_A |= {MEANS[13]: 0.94012433}
PRINTED_B = {"ReLU": 0.49, "Tanh": 0.67, "Sigmoid": 0.77}
PRINTED_C = {1: 1.0, 3: 0.71, 5: 0.58, 11: 0.40, 21: 0.29, 41: 0.20}
FLOOR = 0.16  # of a panel's height shows where the inputs are
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
class Case:
    """A sample (n,), its outputs, its image under the affine map, and the score (NaN: none)."""

    x: Array
    y: Array
    mapped: Array
    score: float


def _case(x: Array, y: Array) -> Case:
    rows = x.reshape(-1, 1), y.reshape(-1, 1)
    score = float(affinity(*rows, covariance="unbiased", eps=EPS))
    best = affine_map(*rows, covariance="unbiased", eps=EPS)
    return Case(x, y, np.asarray(best(rows[0]), dtype=np.float64).ravel(), score)


def _by_function(setting: Setting) -> dict[str, Case]:
    generator = np.random.RandomState(SEED)
    inputs = {name: generator.normal(-1, 2, size=SAMPLES) for name in FUNCTIONS}
    return {name: _case(x, FUNCTIONS[name](x)) for name, x in inputs.items()}


def _by_mean(setting: Setting) -> dict[float, Case]:
    generator = np.random.RandomState(SEED)
    generator.normal(size=len(FUNCTIONS) * SAMPLES)  # the authors drew those of Figure 2B first
    inputs = {mean: generator.uniform(mean - 2, mean + 2, size=SAMPLES) for mean in MEANS}
    return {mean: _case(x, FUNCTIONS["ReLU"](x)) for mean, x in inputs.items()}


def _by_degree(setting: Setting) -> dict[int, Case]:
    x = np.linspace(-1, 1, SAMPLES)
    return {degree: _case(x, x**degree) for degree in PRINTED_C}


def population_score(degree: int) -> float:
    """Return the score of x^k, k odd, for x uniform on [-1, 1].

    >>> round(population_score(3), 4)
    0.7111
    """
    return 1 - math.sqrt(1 - min(math.sqrt(3 * (2 * degree + 1)) / (degree + 2), 1))


def _affine_above_0(cases: Mapping[float, Case]) -> Finding:
    least = float(np.min([case.score for mean, case in cases.items() if mean >= 2]))
    return f"{least:.8f} at least", least > 1 - 1e-9


def _rises(cases: Mapping[float, Case]) -> Finding:
    least = np.diff([case.score for mean, case in cases.items() if mean > -2]).min()
    return f"smallest step {least:.1g}", least > -1e-9


def _order(cases: Mapping[str, Case]) -> Finding:
    ranked = sorted(cases, key=lambda name: cases[name].score)
    return " < ".join(ranked), ranked == list(PRINTED_B)


def _falls(cases: Mapping[int, Case]) -> Finding:
    ranked = sorted(cases, key=lambda k: -cases[k].score)
    return " > ".join(f"x^{k}" for k in ranked), ranked == sorted(cases)


def _closed_form(cases: Mapping[int, Case]) -> Check:
    """The score of each degree is that of the closed form up to 1/n."""
    worst = max(cases, key=lambda k: abs(cases[k].score - population_score(k)))
    text = f"closed form, at degree {worst}, the furthest from it"
    exact, score = population_score(worst), cases[worst].score
    return agrees(text, exact, score, tolerance=1 / SAMPLES, digits=4)


def _draw_cases(cases: Mapping[str, Case], panels: Sequence[Axes]) -> list[dict[str, Any]]:
    """Draw one case in each panel, with its score; return the points as rows of a table."""
    rows: list[dict[str, Any]] = []
    for panel, (name, case) in zip(panels, cases.items(), strict=True):
        _draw_case(panel, case)
        panel.set_title(f"{shown(name)}\n$\\rho$ = {case.score:.3f}")
        points = zip(case.x.tolist(), case.y.tolist(), case.mapped.tolist(), strict=True)
        told = {"panel": name, "score": case.score}
        rows += [{**told, "x": x, "y": y, "mapped": mapped} for x, y, mapped in points]
    panels[0].set_ylabel("output")
    add_legend(figure_of(panels[0]), *panels[0].get_legend_handles_labels())
    return rows


def _draw_case(panel: Axes, case: Case) -> None:
    order = np.argsort(case.x)
    x, y, mapped = case.x[order], case.y[order], case.mapped[order]
    panel.plot(x, y, color=look(0).color, linewidth=2, label=r"output $\sigma(x)$")
    panel.plot(x, mapped, color=look(1).color, linestyle="--", label="affine map $T(x)$")
    counts, edges = np.histogram(case.x, bins=24)
    bars: dict[str, Any] = {"fill": True, "color": "0.75", "transform": panel.get_xaxis_transform()}
    panel.stairs(FLOOR * counts / counts.max(), edges, label="inputs", **bars)
    low, high = min(y.min(), mapped.min()), max(y.max(), mapped.max())
    # the curves stay above the inputs
    panel.set_ylim(low - 1.6 * FLOOR * (high - low), high + 0.08 * (high - low))
    panel.tick_params(labelsize=SMALL)


@styled()
def _draw_means(cases: Mapping[float, Case]) -> dict[str, Drawn]:
    """Draw the four inputs whose scores are printed, and below the scores of all inputs."""
    figure = new_figure(7, 3.9)
    panels = figure.subplot_mosaic([["a", "b", "c", "d"], ["scores"] * 4], height_ratios=[1.15, 1])
    below = panels.pop("scores")
    picked = {f"mean {mean:.2f}".replace("-", "−"): cases[mean] for mean in PRINTED_A}
    table = _draw_cases(picked, list(panels.values()))
    scores = {"ReLU": [case.score for case in cases.values()]}
    drawn = draw_curves(MEANS, scores, below, over="mean of the input, uniform of width 4")
    table += [{"panel": "scores", **row} for row in drawn.table]
    circles: dict[str, Any] = {"markersize": 8, "fillstyle": "none", "color": look(1).color}
    below.plot(list(PRINTED_A), list(PRINTED_A.values()), "o", **circles)
    dead = max(mean for mean, case in cases.items() if not math.isfinite(case.score))
    below.axvspan(MEANS[0] - 0.2, dead + 0.2, color="0.9", linewidth=0)
    center: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
    below.text((MEANS[0] + dead) / 2, 0.5, "all inputs below 0:\nno score", **center)
    below.set(ylim=(0, 1.05), xlim=(MEANS[0] - 0.2, MEANS[-1] + 0.2))
    below.set_title("circles: printed in the paper", fontsize=SMALL, loc="right")
    return {"": finished([below, *panels.values()], table)}


@styled()
def _draw_row(cases: Mapping[Any, Case]) -> dict[str, Drawn]:
    """Draw each function on its inputs, beside its affine map."""
    degrees = len(cases) == len(PRINTED_C)
    figure = new_figure(*((7, 1.9) if degrees else (5.2, 2.2)))
    panels = figure.subplots(1, len(cases), sharey=degrees, squeeze=False)[0].tolist()
    named = {f"degree {key}" if degrees else str(key): case for key, case in cases.items()}
    table = _draw_cases(named, panels)
    figure.supxlabel("input", fontsize=8)
    return {"": finished(panels, table)}


def _printed(
    cases: Mapping[Any, Case], printed: Mapping[Any, float], words: str, **within: Any
) -> list[Check]:
    rows = [(words.format(key), score, cases[key].score) for key, score in printed.items()]
    return [agrees(*row, **within) for row in rows]


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


def measure_parts(setting: Setting) -> Parts:
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


def _known_parts(parts: Parts) -> list[Check]:
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


def _score_falls(parts: Parts) -> Finding:
    score = parts.measured["score"]
    fading = (np.diff(score) < 0).all() and score[-1] > 0
    return f"from {score[0]:.3f} to {score[-1]:.3f}", fading, score[-1] < 0.1


@styled()
def draw_parts(parts: Parts) -> dict[str, Drawn]:
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
PARTS_RULES: Rules = (*AGREE, _known_parts, _symmetric, _asymmetric, _score_falls)
# 5e-6 is the noise of the authors' float32
EXACT: Any = {"words": "score at mean {:.2f}", "tolerance": 5e-6, "digits": 6}
SCORES_A = partial(_printed, printed=PRINTED_A, **EXACT)
SCORES_B = partial(_printed, printed=PRINTED_B, words="score of {}", tolerance=0.005)
SCORES_C = partial(_printed, printed=PRINTED_C, words="score of degree {}", tolerance=0.005)
ITEMS = {
    "fig2a": item_of("fig2a", _by_mean, _draw_means, SCORES_A, _affine_above_0, _rises),
    "fig2b": item_of("fig2b", _by_function, _draw_row, SCORES_B, _order),
    "fig2c": item_of("fig2c", _by_degree, _draw_row, SCORES_C, _closed_form, _falls),
    "fig3": item_of("fig3", measure_parts, draw_parts, *PARTS_RULES),
}
