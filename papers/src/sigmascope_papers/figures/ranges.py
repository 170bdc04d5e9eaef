"""Scores over the range of the input: a box for every mean, over the widths of the input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_mapping
from sigmascope.errors import InputError
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope_papers.chance import Array

COLUMNS = 3
FIVE = ("min", "q1", "median", "q3", "max")


@style.styled()
def draw_ranges(
    means: Sequence[float] | Array,
    scores: Mapping[str, Array],
    baselines: Mapping[str, float] | None = None,
) -> Drawn:
    """Draw median, quartiles and range of the scores of each function, over the input mean (m,).

    Scores are (m, s) for s widths of the input; a baseline is that of an input over all the range.
    """
    check_mapping("scores", scores, "{'relu': scores} with one row for each mean")
    check_mapping("baselines", baselines or {}, "{'relu': 0.6}")
    places = np.asarray(means, dtype=np.float64)
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    _check(places, columns)
    count, across = len(columns), min(COLUMNS, len(columns))
    down = math.ceil(count / across)
    figure = style.new_figure(style.COLUMN if across == 1 else style.PAGE, 0.3 + 1.6 * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    rows: list[dict[str, Any]] = []
    for panel, (name, values) in zip(panels.ravel(), columns.items(), strict=False):
        boxes = [_box(mean, of) for mean, of in zip(places.tolist(), values, strict=True)]
        baseline = (baselines or {}).get(name, math.nan)
        _draw_boxes(panel, boxes, baseline)
        panel.set_title(style.shown(name, 26))
        rows += [{"function": name, **box, "baseline": baseline} for box in boxes]
    for place in range(count, across * down):
        panels.flat[place].set_axis_off()
        panels.flat[place - across].tick_params(labelbottom=True)
    figure.supxlabel("mean of the input", fontsize=8)
    figure.supylabel("affinity score", fontsize=8)
    style.add_panel_legend(figure, panels.ravel())
    return finished(panels.ravel()[:count].tolist(), rows)


def _check(means: Array, scores: Mapping[str, Array]) -> None:
    if means.ndim != 1 or not len(means) or not scores:
        raise InputError("There is nothing to draw. Pass a mean, and the scores of a function.")
    if (np.diff(means) <= 0).any() or not np.isfinite(means).all():
        raise InputError("The means are not increasing numbers. Sort them, and the scores too.")
    for name, values in scores.items():
        if values.ndim != 2 or len(values) != len(means):
            told = f"The scores of {name} have shape {values.shape}."
            raise InputError(f"{told} Pass ({len(means)}, s): one row for each mean.")


def _box(mean: float, values: Array) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    five = np.percentile(known, [0, 25, 50, 75, 100]).tolist() if len(known) else [math.nan] * 5
    return {"mean": mean, **dict(zip(FIVE, five, strict=True)), "scores": len(known)}


def _draw_boxes(axes: Axes, boxes: Sequence[Mapping[str, float]], baseline: float) -> None:
    color, other = style.look(0).color, style.look(1).color
    drawn = [box for box in boxes if box["scores"]]
    means = [box["mean"] for box in boxes]
    wide = float(np.diff(means).min()) if len(boxes) > 1 else 1.0
    names = dict(zip(("whislo", "q1", "med", "q3", "whishi"), FIVE, strict=True))
    plain: dict[str, Any] = {"showfliers": False, "showcaps": False, "manage_ticks": False}
    quartiles: dict[str, Any] = {"facecolor": "#BBD9EC", "edgecolor": color, "linewidth": 0.6}
    axes.bxp(
        [{name: box[key] for name, key in names.items()} for box in drawn],
        positions=[box["mean"] for box in drawn],
        widths=0.6 * wide,
        patch_artist=True,
        boxprops=quartiles,
        whiskerprops={"color": color, "linewidth": 0.8},
        medianprops={"color": "black", "linewidth": 1.2},
        **plain,
    )
    axes.plot(means, [box["median"] for box in boxes], color="black", linewidth=0.5, label="median")
    axes.fill_between([], [], label="quartiles", **quartiles)
    axes.plot([], [], "|", color=color, markersize=8, label="whole range")
    if math.isfinite(baseline):
        label = "input over the whole interval"
        axes.axhline(baseline, color=other, linestyle="--", linewidth=1, label=label)
    style.mark_missing(axes, [box["mean"] for box in boxes if not box["scores"]])
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    axes.set_xlim(means[0] - wide, means[-1] + wide)
