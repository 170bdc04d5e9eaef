"""The similarity of the layers of two networks as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import COLUMN, PAGE, SMALL, add_scale, panel_in, shown, styled
from sigmascope.symmetry.layer_similarity import LayerSimilarity

MEASURES = {"procrustes": "Procrustes", "cka": "CKA"}
# More alike is lighter. Lightness grows evenly, for every kind of color vision and in gray.
COLORS = "cividis"
# Up to so many rows and columns there is room for a number in each cell, a name beside each.
NUMBERED, NAMED = 12, 40
# Inches: the largest and the least side of a cell. Characters: the longest name.
SIDE, LINE, LONGEST = 0.3, 0.13, 24


@styled()
def draw_similarity(result: LayerSimilarity, *, axes: Axes | None = None) -> Drawn:
    """Draw the similarity of every two layers as a color; pairs without one are gray.

    Args:
        result: see `sigmascope.symmetry.compare`; its first network is in rows, its second in
            columns.
        axes: to draw in; by default those of a new figure.

    Raises:
        InputTypeError: something other than the similarity of layers.

    >>> import torch
    >>> from sigmascope import figures, symmetry
    >>> a = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> drawn = figures.draw_similarity(symmetry.compare(a, a, torch.randn(64, 4)))
    >>> [(row["layer"], row["other layer"]) for row in drawn.table]
    [('1', '1'), ('1', '2'), ('2', '1'), ('2', '2')]
    """
    check_kind("result", result, LayerSimilarity, "sigmascope.symmetry.compare")
    panel = panel_in(axes, *_size(result))
    values = result.similarity
    low = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
    scale: dict[str, Any] = {"vmin": low, "vmax": 1, "cmap": COLORS}
    masked = np.ma.masked_invalid(values)
    image = panel.imshow(masked, aspect="auto", interpolation="nearest", **scale)
    panel.set_facecolor("0.85")
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    _name_layers(panel, result)
    if max(values.shape) <= NUMBERED:
        _write_numbers(panel, values, low)
    add_scale(image, [panel], "similarity", fraction=0.05, pad=0.03)
    panel.set_title(f"{MEASURES[result.measure]} similarity, {result.group} group")
    return finished([panel], _rows(result))


def _size(result: LayerSimilarity) -> tuple[float, float]:
    """Return width and height that give each cell its side, as far as a page has room."""
    sides = (result.rows, result.columns)
    names = [min(LONGEST, max(map(len, side), default=1)) * 0.06 for side in sides]
    cells = [max(LINE, min(SIDE, 5 / max(1, len(side)))) * len(side) for side in sides]
    width = min(PAGE, max(COLUMN, 1.2 + names[0] + cells[1]))
    return width, 1.0 + names[1] + max(1.7, min(cells[0], 8.0))


def _name_layers(panel: Axes, result: LayerSimilarity) -> None:
    for axis, names, network in (
        (panel.yaxis, result.rows, result.networks[0]),
        (panel.xaxis, result.columns, result.networks[1]),
    ):
        places = range(0, len(names), 1 + (len(names) - 1) // NAMED)
        labels = [shown(names[place], LONGEST) for place in places]
        axis.set_ticks(list(places), labels, fontsize=SMALL)
        axis.set_label_text(shown(network, LONGEST))
    panel.tick_params(length=0)
    panel.tick_params(axis="x", rotation=90)


def _write_numbers(panel: Axes, values: np.ndarray[Any, Any], low: float) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if value < low + 0.55 * (1 - low) else "black"
            where: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
            panel.text(column, row, f"{value:.2f}", color=ink, **where)


def _rows(result: LayerSimilarity) -> list[dict[str, Any]]:
    reasons = {(one.row, one.column): one.reason for one in result.missing}
    rows, columns = (
        list(zip(layers, channels, live, strict=True))
        for layers, channels, live in zip(
            (result.rows, result.columns), result.channels, result.live, strict=True
        )
    )
    return [
        {
            "network": result.networks[0],
            "layer": row,
            "other network": result.networks[1],
            "other layer": column,
            "channels": channels,
            "live channels": live,
            "other channels": other_channels,
            "other live channels": other_live,
            "similarity": float(value),
            "distance": float(1 - value),
            "reason": reasons.get((row, column), ""),
        }
        for (row, channels, live), values in zip(rows, result.similarity, strict=True)
        for (column, other_channels, other_live), value in zip(columns, values, strict=True)
    ]
