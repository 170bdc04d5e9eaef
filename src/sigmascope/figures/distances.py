"""Distances between networks as a heat map, in the order of the tree beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sigmascope.checks import check_kind
from sigmascope.choices import Linkage
from sigmascope.compare.distances import Clustering, Distances
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import COLUMN, PAGE, SMALL, add_scale, new_figure, short_names, styled
from sigmascope.figures.tree import draw_branches, merge_rows

# Near is dark. Lightness grows evenly, for every kind of color vision and in gray.
COLORS = "cividis"
TITLES = {"dtw": "DTW distance", "cophenetic": "cophenetic distance"}
# Inches: the largest side of a cell, the least height of a line of text, the width of the tree.
SIDE, LINE, TREE = 0.34, 0.135, 0.8
WITH_NUMBERS = 10  # up to so many networks, the cells have room for numbers


@styled()
def draw_distances(distances: Distances, *, method: Linkage = "average") -> Drawn:
    """Draw the distance between every two networks as a color, ordered by a clustering.

    Rows and columns have the same order. A row has the network's name, a column its number.

    Args:
        distances: see `sigmascope.distances`; for a single network there is no tree.
        method: linkage of the clustering; see `Distances.cluster`.

    Raises:
        InputTypeError: something other than distances.
        OptionError: another method.

    >>> import numpy as np
    >>> from sigmascope.compare.distances import Distances
    >>> found = Distances(("a", "b", "c"), np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0.0]]), None)
    >>> {row["value"] for row in draw_distances(found).table if row["drawn"] == "distance"}
    {0.0, 1.0, 2.0}
    """
    check_kind("distances", distances, Distances, "sigmascope.distances")
    tree = distances.cluster(method) if len(distances.names) > 1 else None
    order = tree.order if tree is not None else [0]
    names = [distances.names[place] for place in order]
    figure, branches, heat = _panels(names)
    mesh = _draw_cells(heat, distances.matrix[np.ix_(order, order)])
    _name_rows(heat, names)
    if tree is None:
        branches.set_axis_off()
    else:
        _draw_tree(branches, tree)
    title = TITLES[distances.kind] + (", per step of the path" if distances.normalize else "")
    title += ", population scores" if distances.by == "population" else ""
    width, height = figure.get_size_inches()
    thin = {"aspect": 0.6 * width / 0.09, "pad": 0.1 / height, "shrink": 0.6, "fraction": 0.02}
    add_scale(mesh, [branches, heat], title, location="top", **thin)
    rows = [
        {"drawn": "distance", "network": name, "other": other, "value": float(value)}
        for name, values in zip(names, distances.matrix[np.ix_(order, order)], strict=True)
        for other, value in zip(names, values, strict=True)
    ]
    return finished([heat, branches], rows + (merge_rows(tree) if tree is not None else []))


def _panels(names: Sequence[str]) -> tuple[Figure, Axes, Axes]:
    """Return a figure with room for the names, and for square cells as long as names fit."""
    count = len(names)
    written = 0.3 + 0.056 * max(map(len, short_names(names)))
    width = min(PAGE, max(COLUMN, TREE + written + SIDE * count))
    cells = width - TREE - written
    figure = new_figure(width, 0.95 + count * min(SIDE, max(cells / count, LINE)))
    branches, heat = figure.subplots(1, 2, width_ratios=(TREE, cells), gridspec_kw={"wspace": 0.01})
    return figure, branches, heat


def _draw_cells(axes: Axes, matrix: np.ndarray[Any, Any]) -> QuadMesh:
    count, largest = len(matrix), float(matrix.max())
    edges = np.arange(count + 1) - 0.5
    # Without lines of their own color, viewers of PDF show hairs between the cells.
    lines: dict[str, Any] = {"edgecolors": "white" if count <= 30 else "face", "linewidth": 0.5}
    mesh = axes.pcolormesh(edges, edges, matrix, cmap=COLORS, vmin=0, vmax=largest or 1.0, **lines)
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5))
    axes.grid(visible=False)
    if count <= WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(matrix):
            ink = "black" if value > 0.55 * largest else "white"
            where: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
            axes.text(column, row, f"{value:.2f}", color=ink, **where)
    return mesh


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    count = len(names)
    size = SMALL if count <= 75 else max(2.5, SMALL * 75 / count)
    labels = [f"{place} {name}" for place, name in enumerate(short_names(names), 1)]
    axes.set_yticks(range(count), labels, fontsize=size)
    every = 1 if count <= 20 else 5
    places = range(every - 1 if every > 1 else 0, count, every)
    axes.set_xticks(places, [str(place + 1) for place in places], fontsize=SMALL)
    axes.tick_params(length=0, labelright=True, labelleft=False)
    axes.spines[:].set_visible(False)


def _draw_tree(axes: Axes, tree: Clustering) -> None:
    draw_branches(axes, tree)
    axes.set(ylim=(len(tree.names) - 0.5, -0.5), yticks=[])
    axes.set_xlim(1.03 * float(tree.linkage[:, 2].max()) or 1.0, 0)
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.set_xlabel(f"{tree.method}\nlinkage", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
