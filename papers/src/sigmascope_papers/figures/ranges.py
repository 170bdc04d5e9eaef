"""Scores over the range of the input: a box for every mean, over the widths of the input around it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_mapping
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import (
    COLUMN,
    PAGE,
    add_panel_legend,
    look,
    mark_missing,
    new_figure,
    shown,
    styled,
)

__all__ = ["draw_ranges"]

Array = np.ndarray[Any, np.dtype[np.float64]]
COLUMNS = 3


@styled()
def draw_ranges(
    means: Sequence[float] | Array,
    scores: Mapping[str, Array],
    baselines: Mapping[str, float] | None = None,
) -> Drawn:
    """Draw for each function, over the mean of its input, the median, the quartiles and the whole
    range of its scores.

    Args:
        means: (m,) of the inputs, increasing.
        scores: function -> (m, s), one column for each width of the input; NaN where there is no
            score.
        baselines: function -> the score of an input that covers the whole range, drawn as a line.

    Raises:
        InputTypeError: scores or baselines that are no mapping.
        InputError: no function, or shapes that do not fit.
    """
    check_mapping("scores", scores, "{'relu': scores} with one row for each mean")
    check_mapping("baselines", baselines or {}, "{'relu': 0.6}")
    places = np.asarray(means, dtype=np.float64)
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    _check(places, columns)
    count = len(columns)
    across = min(COLUMNS, count)
    down = math.ceil(count / across)
    figure = new_figure(COLUMN if across == 1 else PAGE, 0.3 + 1.6 * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    rows: list[dict[str, Any]] = []
    for panel, (name, values) in zip(panels.ravel(), columns.items(), strict=False):
        boxes = [_box(mean, of) for mean, of in zip(places.tolist(), values, strict=True)]
        baseline = (baselines or {}).get(name, math.nan)
        _draw_boxes(panel, boxes, baseline)
        panel.set_title(shown(name, 26))
        rows += [{"function": name, **box, "baseline": baseline} for box in boxes]
    for place in range(count, across * down):
        panels.flat[place].set_axis_off()
        panels.flat[place - across].tick_params(labelbottom=True)
    figure.supxlabel("mean of the input", fontsize=8)
    figure.supylabel("affinity score", fontsize=8)
    add_panel_legend(figure, panels.ravel())
    return finished(panels.ravel()[:count].tolist(), rows)


def _check(means: Array, scores: Mapping[str, Array]) -> None:
    if means.ndim != 1 or not len(means) or not scores:
        raise InputError(
            "There is nothing to draw. Pass at least one mean, and the scores of at least "
            "one function."
        )
    if (np.diff(means) <= 0).any() or not np.isfinite(means).all():
        raise InputError(
            "The means are not increasing numbers. Sort them, and the rows of the scores with them."
        )
    for name, values in scores.items():
        if values.ndim != 2 or len(values) != len(means):
            raise InputError(
                f"The scores of {name} have shape {values.shape}. Pass ({len(means)}, s): "
                "one row for each mean."
            )


def _box(mean: float, values: Array) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    five = np.percentile(known, [0, 25, 50, 75, 100]).tolist() if len(known) else [math.nan] * 5
    return {
        "mean": mean,
        **dict(zip(("min", "q1", "median", "q3", "max"), five, strict=True)),
        "scores": len(known),
    }


def _draw_boxes(axes: Axes, boxes: Sequence[Mapping[str, float]], baseline: float) -> None:
    color, other = look(0).color, look(1).color
    drawn = [box for box in boxes if box["scores"]]
    wide = float(np.diff([box["mean"] for box in boxes]).min()) if len(boxes) > 1 else 1.0
    axes.bxp(
        [
            {
                "med": box["median"],
                "q1": box["q1"],
                "q3": box["q3"],
                "whislo": box["min"],
                "whishi": box["max"],
            }
            for box in drawn
        ],
        positions=[box["mean"] for box in drawn],
        widths=0.6 * wide,
        showfliers=False,
        showcaps=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": "#BBD9EC", "edgecolor": color, "linewidth": 0.6},
        whiskerprops={"color": color, "linewidth": 0.8},
        medianprops={"color": "black", "linewidth": 1.2},
    )
    means = [box["mean"] for box in boxes]
    axes.plot(means, [box["median"] for box in boxes], color="black", linewidth=0.5, label="median")
    axes.fill_between(
        [], [], facecolor="#BBD9EC", edgecolor=color, linewidth=0.6, label="quartiles"
    )
    axes.plot([], [], "|", color=color, markersize=8, label="whole range")
    if math.isfinite(baseline):
        axes.axhline(
            baseline,
            color=other,
            linestyle="--",
            linewidth=1,
            label="input over the whole interval",
        )
    mark_missing(axes, [box["mean"] for box in boxes if not box["scores"]])
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    axes.set_xlim(means[0] - wide, means[-1] + wide)
