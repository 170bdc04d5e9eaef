"""Networks as points in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.compare.distances import Embedding
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_kind, check_mapping
from sigmascope.figures.labels import label_points
from sigmascope.figures.style import (
    COLUMN,
    PAGE,
    SMALL,
    add_legend,
    figure_of,
    look,
    new_figure,
    short_names,
    shown,
    styled,
)

__all__ = ["draw_embedding"]

# Up to so many networks stand with their names; more have numbers, and a key beside the map.
MOST_NAMED = 20
STEEPEST = 0.75  # height of the map over its width
UNITS = {"distances": "distance", "cophenetic": "cophenetic distance"}


@styled()
def draw_embedding(embedding: Embedding, *, families: Mapping[str, str] | None = None) -> Drawn:
    """Draw networks as points: near each other where their signatures are alike. Only distances
    mean something, not axes.

    Args:
        embedding: see `Distances.embed`.
        families: network -> family; each has a color and a marker.

    Raises:
        InputTypeError: another thing than an embedding; families that are no mapping.
    """
    check_kind("embedding", embedding, Embedding, "sigmascope.distances(…).embed()")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    names = embedding.names
    groups = [(families or {}).get(name, "") for name in names]
    axes = _panel(embedding.points)
    for number, group in enumerate(dict.fromkeys(groups)):
        color, marker, _ = look(number)
        own = embedding.points[[one == group for one in groups]]
        label = shown(group) if group else "other" if families else None
        axes.plot(*own.T, marker, color=color, markersize=5, markeredgewidth=0, label=label)
    axes.set_xlabel(f"the unit is that of the {UNITS[embedding.of]}; stress {embedding.stress:.3f}")
    figure = figure_of(axes)
    add_legend(figure, *axes.get_legend_handles_labels())
    named = len(names) <= MOST_NAMED
    if not named:
        _add_key(axes, names)
    label_points(axes, embedding.points, short_names(names, 28) if named else _numbers(names))
    return finished([axes], _rows(embedding, groups))


def _panel(points: np.ndarray[Any, Any]) -> Axes:
    """Make a panel about as high as the points need, on equal scales, with room for labels around them."""
    width = COLUMN if len(points) <= 8 else PAGE
    middle, extent = (points.max(axis=0) + points.min(axis=0)) / 2, np.ptp(points, axis=0)
    largest = float(extent.max()) or 1.0
    half = np.maximum(extent, 0.3 * largest) / 2 + 0.08 * largest
    half[0] = max(half[0], half[1] / STEEPEST)
    axes = new_figure(width, 0.6 + (width - 0.5) * half[1] / half[0]).subplots()
    axes.set_aspect("equal", adjustable="box")
    axes.set(
        xlim=(middle[0] - half[0], middle[0] + half[0]),
        ylim=(middle[1] - half[1], middle[1] + half[1]),
    )
    axes.tick_params(labelsize=SMALL)
    return axes


def _numbers(names: Sequence[str]) -> list[str]:
    return [str(number) for number in range(1, len(names) + 1)]


def _add_key(axes: Axes, names: Sequence[str]) -> None:
    """Write the numbers with their names below the map."""
    entries = [f"{number} {name}" for number, name in enumerate(short_names(names, 30), 1)]
    widest = max(map(len, entries)) * 3.9 + 12  # points
    columns = max(1, int(72 * PAGE / widest))
    rows = -(-len(entries) // columns)
    figure = figure_of(axes)
    figure.set_figheight(figure.get_figheight() + 0.125 * rows)
    empty: list[Any] = axes.plot([], [], linestyle="none") * len(entries)
    figure.legend(
        empty,
        entries,
        loc="outside lower left",
        ncols=columns,
        fontsize=SMALL,
        handlelength=0,
        handletextpad=0,
        labelspacing=0.25,
        columnspacing=1,
    )


def _rows(embedding: Embedding, groups: Sequence[str]) -> list[dict[str, Any]]:
    numbered = enumerate(
        zip(embedding.names, groups, np.asarray(embedding.points).tolist(), strict=True), 1
    )
    return [
        {"number": number, "network": name, "family": group, "x": x, "y": y}
        for number, (name, group, (x, y)) in numbered
    ]
