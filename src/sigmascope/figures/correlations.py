"""Tables of correlations as colors, one beside the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_mapping
from sigmascope.figures.style import PAGE, SMALL, new_figure, short_names, shown, styled

__all__ = ["draw_correlations"]

# White in the middle; orange and purple differ for every kind of color vision.
COLORS = "PuOr"
# The lightness, from 0 to 1, below which the number in a cell is white.
DARK = 0.43
# The sides of a cell, in inches.
CELL, LINE = 0.44, 0.19

Rows = Mapping[str, Sequence[float]]


@styled()
def draw_correlations(tables: Mapping[str, Rows], columns: Sequence[str]) -> Drawn:
    """Draw tables of correlations side by side, a color and a number for each.

    Args:
        tables: title -> row -> one correlation per column, NaN where there is none. Rows with the
            same name stand on one line; where a table lacks one, its line is empty.
        columns: their names.

    Raises:
        InputTypeError: tables that are no mapping.
        InputError: no row at all, or one with more or fewer numbers than columns.
    """
    check_mapping("tables", tables, "{'obtained': {'ResNets': [0.5, -0.4]}}")
    rows = list(dict.fromkeys(row for table in tables.values() for row in table))
    if not rows:
        raise InputError(
            "There is no row to draw. Pass tables such as {'obtained': {'ResNets': [0.5, -0.4]}}."
        )
    for title, table in tables.items():
        for row, values in table.items():
            if len(values) != len(columns):
                raise InputError(
                    f"Row {row!r} of {title!r} has {len(values)} numbers for {len(columns)} "
                    "columns."
                )
    names = short_names(rows)
    written = 0.25 + 0.056 * max(map(len, names))
    width = min(PAGE, written + 0.35 + len(tables) * (0.15 + CELL * len(columns)))
    figure = new_figure(width, 1.05 + LINE * len(rows))
    panels = figure.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    for panel, (title, table) in zip(panels, tables.items(), strict=True):
        cells = np.array(
            [table.get(row, [math.nan] * len(columns)) for row in rows], dtype=np.float64
        )
        mesh = _draw_cells(panel, cells, columns)
        panel.set_title(shown(title, max(8, int(12 * (width - written) / len(tables)))))
    panels[0].set_yticks(range(len(rows)), names, fontsize=SMALL)
    thin: dict[str, Any] = {
        "shrink": 0.6,
        "fraction": 0.02,
        "aspect": 40,
        "pad": 0.2 / figure.get_figheight(),
    }
    bar = figure.colorbar(
        mesh, ax=list(panels), location="bottom", ticks=[-1, -0.5, 0, 0.5, 1], **thin
    )
    bar.set_label("Pearson correlation", fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2)
    return finished(list(panels), _rows(tables, columns))


def _draw_cells(axes: Axes, cells: np.ndarray[Any, Any], columns: Sequence[str]) -> QuadMesh:
    down, across = cells.shape
    edges = np.arange(across + 1) - 0.5, np.arange(down + 1) - 0.5
    masked = np.ma.masked_invalid(cells)
    mesh = axes.pcolormesh(
        *edges, masked, cmap=COLORS, vmin=-1, vmax=1, edgecolors="white", linewidth=0.5
    )
    for row, column in zip(*np.nonzero(np.isfinite(cells)), strict=True):
        value = float(cells[row, column])
        ink = "white" if _lightness(mesh, value) < DARK else "black"
        text = f"{value:z.2f}".replace("-", "−")
        axes.text(
            float(column), float(row), text, ha="center", va="center", fontsize=SMALL, color=ink
        )
    axes.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5))
    axes.set_xticks(range(across), [shown(column, 10) for column in columns], fontsize=SMALL)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return mesh


def _lightness(mesh: QuadMesh, value: float) -> float:
    red, green, blue, _ = mesh.to_rgba(np.array([value]))[0].tolist()
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def _rows(tables: Mapping[str, Rows], columns: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"table": title, "row": row, **dict(zip(columns, map(float, values), strict=True))}
        for title, table in tables.items()
        for row, values in table.items()
    ]
