"""Verdicts on claims by published and by population scores, and what the scores differ in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sigmascope.compare.statistics import statistics
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import (
    PAGE,
    SMALL,
    add_legend,
    look,
    new_figure,
    short_names,
    shown,
    styled,
)
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import VERDICTS

SIGNS = (("#009E73", "o"), ("#E69F00", "D"), ("#D55E00", "X"), ("0.6", "_"))
MARKS = dict(zip(VERDICTS, SIGNS, strict=True))
"""Verdict -> color and marker."""
COLUMNS = ("published", "population", "where rows move, published")
HEADS = ("published", "population", "mixed")
LONGEST, LINE = 100, 0.135  # letters of a claim, and inches of a row
STEADY = 0.95  # of the draws
STAY, MOVE = WHERE = "rows stay", "rows move"
"""Sites where the identity coupling is optimal on the sampled rows, and others."""


@styled()
def draw_claims(rows: Sequence[Mapping[str, Any]]) -> Drawn:
    """Draw the verdicts on each claim, in rows under the name of the item that it is from."""
    lines: list[Mapping[str, Any] | str] = []
    for name, own in itertools.groupby(rows, key=lambda row: row["item"]):
        lines += [name, *own]
    figure = new_figure(PAGE, 0.45 + LINE * len(lines))
    axes = figure.subplots()
    for place, line in enumerate(lines):
        if not isinstance(line, str):
            _draw_claim(axes, place, line)
    labels = [line if isinstance(line, str) else shown(line["claim"], LONGEST) for line in lines]
    axes.set_yticks(range(len(lines)), labels, fontsize=SMALL)
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if isinstance(line, str) else "normal")
    axes.set_xticks([0, 1, 2, 3], [*HEADS, "draws"])
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.4, 3.4), ylim=(len(lines) - 0.4, -0.6))
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", markersize=5)
        for color, marker in MARKS.values()
    ]
    add_legend(figure, handles, list(MARKS))
    return finished([axes], list(rows))


def _draw_claim(axes: Axes, place: int, row: Mapping[str, Any]) -> None:
    if row["published"] != row["population"]:
        axes.axhspan(place - 0.5, place + 0.5, color="0.9", linewidth=0, zorder=0)
        head = {"arrowstyle": "->", "color": "0.3", "linewidth": 0.8, "shrinkA": 5, "shrinkB": 5}
        axes.annotate("", (1, place), (0, place), arrowprops=head)
    for column, key in enumerate(COLUMNS):
        color, marker = MARKS[row[key]]
        axes.plot(column, place, marker, color=color, markersize=4.2, markeredgewidth=1)
    kept, count = row["draws with this verdict"], row["draws"]
    told: dict[str, Any] = {"fontsize": SMALL, "ha": "center", "va": "center"}
    told["fontweight"] = "normal" if kept >= STEADY * count else "bold"
    axes.text(3, place, f"{kept} / {count}", **told)


@styled()
def draw_widths(
    widths: Sequence[int], tables: Mapping[str, Mapping[str, Mapping[str, Array]]]
) -> Drawn:
    """Draw the scores by width, a row for each law and a column for each function.

    `tables` has law -> estimator -> function -> repetitions (r, k); the last estimator has low,
    score and high (3, k).
    """
    functions = list(next(iter(next(iter(tables.values())).values())))
    figure = new_figure(PAGE, 0.3 + 1.7 * len(tables))
    panels = figure.subplots(len(tables), len(functions), sharex=True, sharey="col", squeeze=False)
    table: list[dict[str, Any]] = []
    for row, (law, estimators) in zip(panels, tables.items(), strict=True):
        for axes, name in zip(row, functions, strict=True):
            for number, (estimator, scores) in enumerate(estimators.items()):
                last = number == len(estimators) - 1
                low, middle, high = scores[name] if last else _spread(scores[name])
                color, marker, dashes = look((1, 4, 0)[number])
                axes.fill_between(widths, low, high, color=color, alpha=0.2, linewidth=0)
                how: dict[str, Any] = {"color": color, "marker": marker, "linestyle": dashes}
                axes.plot(widths, middle, label=estimator, markersize=3, **how)
                told = {"law": law, "function": name, "estimator": estimator}
                for place, d in enumerate(widths):
                    numbers = {"low": low[place], "score": middle[place], "high": high[place]}
                    table.append({**told, "d": d, **{k: float(v) for k, v in numbers.items()}})
            axes.set_xscale("log", base=2)
            axes.set_xticks(widths, [str(width) for width in widths], rotation=60, fontsize=SMALL)
            axes.minorticks_off()
        row[0].set_ylabel(law)
    for axes, name in zip(panels[0], functions, strict=True):
        axes.set_title(name)
    figure.supxlabel("channels d", fontsize=8)
    add_legend(figure, *panels[0, 0].get_legend_handles_labels())
    return finished(panels.ravel(), table)


def _spread(draws: Array) -> tuple[Array, Array, Array]:
    return draws.min(axis=0), draws.mean(axis=0), draws.max(axis=0)


@styled()
def draw_gaps(
    published: Sequence[Signature],
    population: Sequence[Signature],
    rows: Sequence[Mapping[str, Any]],
) -> Drawn:
    """Draw the medians of networks by either score, and by how much their sites differ.

    `rows` has the width of every site, its gap, and whether rows move there.
    """
    figure = new_figure(PAGE, 0.7 + 0.14 * len(published))
    left, right = panels = figure.subplots(1, 2, width_ratios=(1.3, 1))
    one, other = statistics(published), statistics(population, by="population")
    places = np.arange(len(published))
    half = np.array(other.half_width["median"])
    points = {
        "published": (one.table["median"], None, look(4)),
        "population, 95 %": (other.table["median"], half, look(0)),
    }
    for label, (values, error, own) in points.items():
        left.errorbar(values, places, xerr=error, label=label, elinewidth=1.2, **own.points(4))
    left.set_yticks(places, short_names(one.names), fontsize=SMALL)
    left.invert_yaxis()
    left.set(xlabel="median score")
    left.legend(loc="best")
    for number, where in enumerate(WHERE):
        points_of = [(row["d"], row["gap"]) for row in rows if row["where"] == where]
        x, y = np.array(points_of).reshape(-1, 2).T
        right.plot(x, y, label=where, alpha=0.6, **look(number).points(3))
    right.axhline(0, color="0.5", linewidth=0.6)
    right.set_xscale("log", base=2)
    ticks = [2**k for k in range(0, 11, 2)]
    right.set_xticks(ticks, [str(tick) for tick in ticks])
    right.minorticks_off()
    right.set(xlabel="channels d", ylabel="published − population")
    right.legend(loc="best")
    medians = zip(one.names, one.table["median"], other.table["median"], half, strict=True)
    table = [
        {"network": name, "published": a, "population": b, "population ±": float(c)}
        for name, a, b, c in medians
    ]
    return finished(panels, [*table, *rows])
