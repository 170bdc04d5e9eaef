"""The similarity of the layers of two networks as a map of colors."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_kind
from sigmascope.figures.style import COLUMN, PAGE, SMALL, figure_of, panel_in, shown, styled
from sigmascope.symmetry.layer_similarity import LayerSimilarity

__all__ = ["draw_similarity"]

MEASURES = {"procrustes": "Procrustes", "cka": "CKA"}
# Its lightness grows evenly, for every kind of color vision and in gray: the more alike, the
# lighter.
COLORS = "cividis"
# More rows or columns than this leave no room for a number in each cell, or for a name beside each.
NUMBERED, NAMED = 12, 40
# The side of a cell and the least one, in inches; the longest name, in letters.
SIDE, LINE, LONGEST = 0.3, 0.13, 24


@styled()
def draw_similarity(result: LayerSimilarity, *, axes: Axes | None = None) -> Drawn:
    """Draw the similarity of every two layers as a color, lighter for more alike; pairs without
    one stay gray.

    Args:
        result: see `sigmascope.symmetry.compare`; its first network goes down, its second across.
        axes: to draw in; by default those of a new figure.

    Raises:
        InputTypeError: other things than the similarity of layers.
    """
    check_kind("result", result, LayerSimilarity, "sigmascope.symmetry.compare")
    panel = panel_in(axes, *_size(result))
    values = result.similarity
    low = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
    image = panel.imshow(
        np.ma.masked_invalid(values),
        vmin=low,
        vmax=1,
        cmap=COLORS,
        aspect="auto",
        interpolation="nearest",
    )
    panel.set_facecolor("0.85")
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    _name_layers(panel, result)
    if max(values.shape) <= NUMBERED:
        _write_numbers(panel, values, low)
    _add_scale(panel, image)
    panel.set_title(f"{MEASURES[result.measure]} similarity, {result.group} group")
    return finished([panel], _rows(result))


def _size(result: LayerSimilarity) -> tuple[float, float]:
    """Give each cell its side, as far as a page has room."""
    names = [
        min(LONGEST, max((len(one) for one in side), default=1)) * 0.06
        for side in (result.rows, result.columns)
    ]
    cells = [
        max(LINE, min(SIDE, 5 / max(1, len(side)))) * len(side)
        for side in (result.rows, result.columns)
    ]
    width = min(PAGE, max(COLUMN, 1.2 + names[0] + cells[1]))
    return width, 1.0 + names[1] + max(1.7, min(cells[0], 8.0))


def _name_layers(panel: Axes, result: LayerSimilarity) -> None:
    for axis, names, network in (
        (panel.yaxis, result.rows, result.networks[0]),
        (panel.xaxis, result.columns, result.networks[1]),
    ):
        places = range(0, len(names), 1 + (len(names) - 1) // NAMED)
        axis.set_ticks(
            list(places), [shown(names[place], LONGEST) for place in places], fontsize=SMALL
        )
        axis.set_label_text(shown(network, LONGEST))
    panel.tick_params(length=0)
    panel.tick_params(axis="x", rotation=90)


def _write_numbers(panel: Axes, values: np.ndarray[Any, Any], low: float) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if value < low + 0.55 * (1 - low) else "black"
            panel.text(
                column, row, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=SMALL
            )


def _add_scale(panel: Axes, image: AxesImage) -> None:
    bar = figure_of(panel).colorbar(image, ax=panel, fraction=0.05, pad=0.03)
    bar.set_label("similarity", fontsize=8)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


def _rows(result: LayerSimilarity) -> list[dict[str, Any]]:
    reasons = {(one.row, one.column): one.reason for one in result.missing}
    one, other = result.networks
    return [
        {
            "network": one,
            "layer": row,
            "other network": other,
            "other layer": column,
            "channels": channels,
            "live channels": live,
            "other channels": other_channels,
            "other live channels": other_live,
            "similarity": float(value),
            "distance": float(1 - value),
            "reason": reasons.get((row, column), ""),
        }
        for row, channels, live, values in zip(
            result.rows, result.channels[0], result.live[0], result.similarity, strict=True
        )
        for column, other_channels, other_live, value in zip(
            result.columns, result.channels[1], result.live[1], values, strict=True
        )
    ]
