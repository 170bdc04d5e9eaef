"""Tables of correlations as colors, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from sigmascope.checks import check_mapping
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import PAGE, SMALL, add_scale, new_figure, short_names, shown, styled

# White in the middle; orange and purple differ for every kind of color vision.
COLORS = "PuOr"
DARK = 0.43  # lightness, from 0 to 1, below which the number in a cell is white
CELL, LINE = 0.44, 0.19  # inches: width and height of a cell
EXAMPLE = "{'obtained': {'ResNets': [0.5, -0.4]}}"

Rows = Mapping[str, Sequence[float]]


@styled()
def draw_correlations(tables: Mapping[str, Rows], columns: Sequence[str]) -> Drawn:
    """Draw tables of correlations side by side, with a color and a number for each.

    Args:
        tables: title -> row -> one correlation per column, NaN where there is none. Rows with the
            same name share a line, which is empty where a table lacks the row.
        columns: their names.

    Raises:
        InputTypeError: tables that are not a mapping.
        InputError: no row at all, or one with more or fewer numbers than columns.

    >>> from sigmascope import figures
    >>> tables = {"ResNets": {"resnet20": [0.9, -0.2]}}
    >>> drawn = figures.draw_correlations(tables, ["r2", "sparsity"])
    >>> drawn.table
    [{'table': 'ResNets', 'row': 'resnet20', 'r2': 0.9, 'sparsity': -0.2}]
    """
    rows = _row_names(tables, columns)
    names = short_names(rows)
    written = 0.25 + 0.056 * max(map(len, names))
    width = min(PAGE, written + 0.35 + len(tables) * (0.15 + CELL * len(columns)))
    figure = new_figure(width, 1.05 + LINE * len(rows))
    panels = figure.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    empty = [math.nan] * len(columns)
    for panel, (title, table) in zip(panels, tables.items(), strict=True):
        cells = np.array([table.get(row, empty) for row in rows], dtype=np.float64)
        mesh = _draw_cells(panel, cells, columns)
        panel.set_title(shown(title, max(8, int(12 * (width - written) / len(tables)))))
    panels[0].set_yticks(range(len(rows)), names, fontsize=SMALL)
    thin = {"shrink": 0.6, "fraction": 0.02, "aspect": 40, "pad": 0.2 / figure.get_figheight()}
    ticks = [-1, 0, 1]  # more would run together in a narrow figure
    add_scale(mesh, panels, "Pearson correlation", location="bottom", ticks=ticks, **thin)
    return finished(
        list(panels),
        [
            {"table": title, "row": row, **dict(zip(columns, map(float, values), strict=True))}
            for title, table in tables.items()
            for row, values in table.items()
        ],
    )


def _row_names(tables: Mapping[str, Rows], columns: Sequence[str]) -> list[str]:
    """Return the names of all rows, once each, after a check of the tables."""
    check_mapping("tables", tables, EXAMPLE)
    for title, table in tables.items():
        for row, values in table.items():
            if len(values) != len(columns):
                numbers = f"{len(values)} numbers for {len(columns)} columns"
                raise InputError(f"Row {row!r} of {title!r} has {numbers}.")
    rows = list(dict.fromkeys(row for table in tables.values() for row in table))
    if not rows:
        raise InputError(f"There is no row to draw. Pass tables such as {EXAMPLE}.")
    return rows


def _draw_cells(axes: Axes, cells: np.ndarray[Any, Any], columns: Sequence[str]) -> QuadMesh:
    down, across = cells.shape
    edges = np.arange(across + 1) - 0.5, np.arange(down + 1) - 0.5
    scale: dict[str, Any] = {"cmap": COLORS, "vmin": -1, "vmax": 1}
    masked = np.ma.masked_invalid(cells)
    mesh = axes.pcolormesh(*edges, masked, edgecolors="white", linewidth=0.5, **scale)
    for (row, column), value in np.ndenumerate(cells):
        if math.isfinite(value):
            ink = "white" if _lightness(mesh, value) < DARK else "black"
            where: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
            axes.text(column, row, f"{value:z.2f}".replace("-", "−"), color=ink, **where)
    axes.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5))
    axes.set_xticks(range(across), [shown(column, 10) for column in columns], fontsize=SMALL)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return mesh


def _lightness(mesh: QuadMesh, value: float) -> float:
    red, green, blue, _ = mesh.to_rgba(np.array([value]))[0].tolist()
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
