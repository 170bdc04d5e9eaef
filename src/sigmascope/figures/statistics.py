"""Range, median and mean of the scores of each network."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind
from sigmascope.compare.networks import SCORE_NAMES
from sigmascope.compare.statistics import Statistics
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished

LINE = 0.17  # inches, the height of a row


@style.styled()
def draw_statistics(statistics: Statistics, axes: Axes | None = None) -> Drawn:
    """Draw a row per network, from its least to its largest score, with median and mean.

    The mean of population scores has its 95 % interval.

    Args:
        statistics: see `sigmascope.statistics`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: something other than statistics.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = signature(network, torch.randn(256, 4), name="small")
    >>> from sigmascope.compare.statistics import statistics
    >>> [row["sites"] for row in draw_statistics(statistics([measured])).table]
    [2]
    """
    check_kind("statistics", statistics, Statistics, "sigmascope.statistics")
    names, table = style.short_names(statistics.names), statistics.table
    width = min(style.PAGE, style.COLUMN + 0.056 * max(map(len, names)))
    panel = style.panel_in(axes, width, 0.7 + LINE * len(names))
    rows = range(len(names))
    color = style.look(0).color
    panel.hlines(rows, table["min"], table["max"], color=color, alpha=0.4, label="min to max")
    ink = mpl.rcParams["text.color"]
    panel.plot(table["median"], rows, "|", color=ink, markersize=7, label="median")
    if statistics.half_width:
        mean, half = np.array([table["mean"], statistics.half_width["mean"]])
        bar: dict[str, Any] = {"color": color, "linewidth": 3, "label": "95 % interval of the mean"}
        panel.hlines(rows, mean - half, mean + half, **bar)
    panel.plot(table["mean"], rows, label="mean", **style.look(0).points(4.0))
    panel.axvline(1, color="0.5", linewidth=0.5, zorder=0.5)
    panel.set(xlabel=SCORE_NAMES[statistics.by], ylim=(len(names) - 0.5, -0.5))
    panel.set_yticks(rows, names, fontsize=style.SMALL)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    return finished(
        [panel],
        [
            {key: values[row] for key, values in statistics._columns().items()}
            for row in range(len(names))
        ],
    )
