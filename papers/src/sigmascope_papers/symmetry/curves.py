"""Curves over layers that the figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures.style import Look, shown
from sigmascope.maths.procrustes import Matrix

__all__ = ["OVER_BLOCKS", "draw_means", "label_layers"]

OVER_BLOCKS = "activation, * inside a residual block"


def draw_means(
    panel: Axes, places: Any, found: Matrix, looks: Look, *, label: str = "", **style: Any
) -> list[tuple[float, float]]:
    """Draw the mean of repetitions (r, k) with bars of one population standard deviation.

    One repetition has no bars.

    Returns:
        k means and deviations.
    """
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    look: dict[str, Any] = {
        "color": looks.color,
        "marker": looks.marker,
        "linestyle": looks.line,
        "markersize": 4.0,
        "markeredgewidth": 0,
        **style,
    }
    panel.plot(places, mean, label=label or "_", **look)
    if len(found) > 1:
        order = {"zorder": style["zorder"]} if "zorder" in style else {}
        panel.errorbar(
            places, mean, deviation, fmt="none", ecolor=looks.color, elinewidth=0.8, **order
        )
    return list(zip(mean.tolist(), deviation.tolist(), strict=True))


def label_layers(panel: Axes, layers: Sequence[str], over: str = OVER_BLOCKS) -> None:
    """Prepare a panel for penalties by layer: a line at 0, and shades for layers inside blocks."""
    places = np.arange(len(layers))
    for place in places[[layer.endswith("*") for layer in layers]]:
        panel.axvspan(place - 0.5, place + 0.5, color="0.5", alpha=0.1, linewidth=0)
    panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
    panel.set(xlabel=over, xlim=(-0.5, len(places) - 0.5))
    panel.set_xticks(places, [shown(layer) for layer in layers])
