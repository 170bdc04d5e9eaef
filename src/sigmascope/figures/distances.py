"""Distances between networks as a heat map, in the order of the tree that is drawn beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.cluster.hierarchy import dendrogram

from sigmascope.compare.distances import Clustering, Distances
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_kind
from sigmascope.figures.style import COLUMN, PAGE, SMALL, new_figure, short_names, styled

__all__ = ["draw_distances"]

# Near is dark. Its lightness grows evenly, for every kind of color vision and in gray.
COLORS = "cividis"
TITLES = {"dtw": "DTW distance", "cophenetic": "cophenetic distance"}
# The largest side of a cell, and the least height of a line of text, in inches.
SIDE, LINE = 0.34, 0.135
# Up to so many networks there is room for numbers in the cells.
WITH_NUMBERS = 10


@styled()
def draw_distances(distances: Distances, *, method: str = "average") -> Drawn:
    """Draw the distance of every two networks as a color, ordered by a clustering, with its tree.

    Rows and columns have the same order. A row has the network's name, a column its number.

    Args:
        distances: see `sigmascope.distances`; for a single network there is no tree.
        method: of the clustering; see `Distances.cluster`.

    Raises:
        InputTypeError: other things than distances.
        OptionError: another method.
    """
    check_kind("distances", distances, Distances, "sigmascope.distances")
    tree = distances.cluster(method) if len(distances.names) > 1 else None
    order = tree.order if tree is not None else [0]
    figure, branches, heat = _panels([distances.names[place] for place in order])
    mesh = _draw_cells(heat, distances.matrix[np.ix_(order, order)])
    _name_rows(heat, [distances.names[place] for place in order])
    if tree is None:
        branches.set_axis_off()
    else:
        _draw_tree(branches, tree)
    title = TITLES[distances.kind] + (", per step of the path" if distances.normalize else "")
    _add_scale(figure, mesh, [branches, heat], title)
    return finished([heat, branches], _rows(distances, order, tree))


def _panels(names: Sequence[str]) -> tuple[Figure, Axes, Axes]:
    """Make room for the names first, then for cells that are square, as long as their names fit
    beside them.
    """
    count, tree = len(names), 0.8  # inches, as all below
    written = 0.3 + 0.056 * max(map(len, short_names(names)))
    width = min(PAGE, max(COLUMN, tree + written + SIDE * count))
    cells = width - tree - written
    figure = new_figure(width, 0.95 + count * min(SIDE, max(cells / count, LINE)))
    branches, heat = figure.subplots(1, 2, width_ratios=(tree, cells), gridspec_kw={"wspace": 0.01})
    return figure, branches, heat


def _draw_cells(axes: Axes, matrix: np.ndarray[Any, Any]) -> QuadMesh:
    count = len(matrix)
    edges = np.arange(count + 1) - 0.5
    # Without lines of their own color, viewers of PDF show hairs between the cells.
    lines: dict[str, Any] = {"edgecolors": "white" if count <= 30 else "face", "linewidth": 0.5}
    mesh = axes.pcolormesh(
        edges, edges, matrix, cmap=COLORS, vmin=0, vmax=float(matrix.max()) or 1.0, **lines
    )
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5))
    axes.grid(visible=False)
    if count <= WITH_NUMBERS:
        middle = 0.55 * float(matrix.max())
        for row, column in np.ndindex(matrix.shape):
            value = float(matrix[row, column])
            ink = "black" if value > middle else "white"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=SMALL, color=ink
            )
    return mesh


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    count = len(names)
    size = SMALL if count <= 75 else max(2.5, SMALL * 75 / count)
    axes.set_yticks(
        range(count),
        [f"{place} {name}" for place, name in enumerate(short_names(names), 1)],
        fontsize=size,
    )
    every = 1 if count <= 20 else 5
    places = range(every - 1 if every > 1 else 0, count, every)
    axes.set_xticks(places, [str(place + 1) for place in places], fontsize=SMALL)
    axes.tick_params(length=0, labelright=True, labelleft=False)
    axes.spines[:].set_visible(False)


def _draw_tree(axes: Axes, tree: Clustering) -> None:
    shape = dendrogram(tree.linkage, no_plot=True)
    for heights, leaves in zip(shape["dcoord"], shape["icoord"], strict=True):
        axes.plot(
            heights,
            np.array(leaves) / 10 - 0.5,
            color="0.25",
            linewidth=0.8,
            solid_joinstyle="miter",
        )  # leaves at 5, 15, …
    count = len(tree.names)
    axes.set(ylim=(count - 0.5, -0.5), yticks=[])
    axes.set_xlim(1.03 * float(tree.linkage[:, 2].max()) or 1.0, 0)
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.set_xlabel(f"{tree.method}\nlinkage", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    axes.spines["left"].set_visible(False)


def _add_scale(figure: Figure, mesh: QuadMesh, axes: Sequence[Axes], title: str) -> None:
    width, height = figure.get_size_inches()
    thin = {"aspect": 0.6 * width / 0.09, "pad": 0.1 / height}  # inches
    bar = figure.colorbar(mesh, ax=list(axes), location="top", shrink=0.6, fraction=0.02, **thin)
    bar.set_label(title, fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2)


def _rows(
    distances: Distances, order: Sequence[int], tree: Clustering | None
) -> list[dict[str, Any]]:
    names = [distances.names[place] for place in order]
    rows: list[dict[str, Any]] = [
        {
            "drawn": "distance",
            "network": distances.names[one],
            "other": distances.names[other],
            "value": float(distances.matrix[one, other]),
        }
        for one in order
        for other in order
    ]
    if tree is None:
        return rows
    labels = [*distances.names, *(f"merge {number}" for number in range(1, len(names)))]
    for left, right, height, _ in tree.linkage.tolist():
        rows.append(
            {
                "drawn": "merge",
                "network": labels[int(left)],
                "other": labels[int(right)],
                "value": height,
            }
        )
    return rows
