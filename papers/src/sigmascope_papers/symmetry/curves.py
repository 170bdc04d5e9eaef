"""Numbers by layer, drawn as curves and listed as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures.style import Look, shown
from sigmascope.maths.procrustes import Matrix

OVER_BLOCKS = "activation, * inside a residual block"


def rows_of(**columns: Any) -> list[dict[str, Any]]:
    """Return the rows of a table from its columns, of which some may be one value for all rows.

    >>> rows_of(layer=("3", "6"), curve="full")
    [{'layer': '3', 'curve': 'full'}, {'layer': '6', 'curve': 'full'}]
    """
    lists = {
        name: one.tolist() if isinstance(one, np.ndarray) else one
        for name, one in columns.items()
        if isinstance(one, (list, tuple, np.ndarray))
    }
    rows = zip(*lists.values(), strict=True)
    return [columns | dict(zip(lists, row, strict=True)) for row in rows]


def draw_means(
    panel: Axes, places: Any, found: Matrix, looks: Look, *, label: str = "_", **style: Any
) -> tuple[Matrix, Matrix]:
    """Draw means of repetitions (r, k), with bars of one population standard deviation if r > 1.

    Returns:
        (k,) and (k,), means and deviations.
    """
    color, marker, line = looks
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    style = {"markersize": 4.0, "markeredgewidth": 0, **style}
    panel.plot(places, mean, color=color, marker=marker, linestyle=line, label=label, **style)
    if len(found) > 1:
        order = style.get("zorder", 2)
        bars: dict[str, Any] = {"fmt": "none", "ecolor": color, "elinewidth": 0.8, "zorder": order}
        panel.errorbar(places, mean, deviation, **bars)
    return mean, deviation


def label_layers(panel: Axes, layers: Sequence[str], over: str = OVER_BLOCKS) -> None:
    """Prepare a panel for penalties by layer: a line at 0, and shades for layers inside blocks."""
    for place, layer in enumerate(layers):
        if layer.endswith("*"):
            panel.axvspan(place - 0.5, place + 0.5, color="0.5", alpha=0.1, linewidth=0)
    panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
    panel.set(xlabel=over, xlim=(-0.5, len(layers) - 0.5))
    panel.set_xticks(range(len(layers)), [shown(layer) for layer in layers])
