"""Networks as points in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind, check_mapping
from sigmascope.compare.distances import Embedding
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.labels import label_points

# Up to so many networks have their names beside them; more have numbers, and a key below the map.
MOST_NAMED = 20
STEEPEST = 0.75  # height of the map over its width
UNITS = {"distances": "distance", "cophenetic": "cophenetic distance"}


@style.styled()
def draw_embedding(embedding: Embedding, *, families: Mapping[str, str] | None = None) -> Drawn:
    """Draw networks as points, near each other where their signatures are alike.

    Only distances have a meaning; the axes have none.

    Args:
        embedding: see `Distances.embed`.
        families: network -> family; each has a color and a marker.

    Raises:
        InputTypeError: something other than an embedding; families that are not a mapping.

    >>> import numpy as np
    >>> from sigmascope.compare.distances import Distances
    >>> found = Distances(("a", "b", "c"), np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0.0]]), None)
    >>> [row["network"] for row in draw_embedding(found.embed()).table]
    ['a', 'b', 'c']
    """
    check_kind("embedding", embedding, Embedding, "sigmascope.distances(…).embed()")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    names, points = embedding.names, embedding.points
    groups = [(families or {}).get(name, "") for name in names]
    axes = _panel(points)
    for number, group in enumerate(dict.fromkeys(groups)):
        own = points[[one == group for one in groups]]
        label = style.shown(group) if group else "other" if families else None
        axes.plot(*own.T, label=label, **style.look(number).points(5))
    unit = UNITS[embedding.of] + (" of population scores" if embedding.by == "population" else "")
    axes.set_xlabel(f"in units of the {unit}; stress {embedding.stress:.3f}")
    style.add_legend(style.figure_of(axes), *axes.get_legend_handles_labels())
    if len(names) <= MOST_NAMED:
        labels = style.short_names(names, 28)
    else:
        labels = [str(number) for number in range(1, len(names) + 1)]
        _add_key(axes, names)
    label_points(axes, points, labels)
    rows = [
        {"number": number, "network": name, "family": group, "x": x, "y": y}
        for number, (name, group, (x, y)) in enumerate(
            zip(names, groups, np.asarray(points).tolist(), strict=True), 1
        )
    ]
    return finished([axes], rows)


def _panel(points: np.ndarray[Any, Any]) -> Axes:
    """Return axes with equal scales, as high as the points need, with room for labels."""
    width = style.COLUMN if len(points) <= 8 else style.PAGE
    middle, extent = (points.max(axis=0) + points.min(axis=0)) / 2, np.ptp(points, axis=0)
    largest = float(extent.max()) or 1.0
    half = np.maximum(extent, 0.3 * largest) / 2 + 0.08 * largest
    half[0] = max(half[0], half[1] / STEEPEST)
    axes = style.new_figure(width, 0.6 + (width - 0.5) * half[1] / half[0]).subplots()
    axes.set_aspect("equal", adjustable="box")
    (left, bottom), (right, top) = middle - half, middle + half
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.tick_params(labelsize=style.SMALL)
    return axes


def _add_key(axes: Axes, names: Sequence[str]) -> None:
    """Write the numbers with their names below the map."""
    entries = [f"{number} {name}" for number, name in enumerate(style.short_names(names, 30), 1)]
    widest = max(map(len, entries)) * 3.9 + 12  # points
    columns = max(1, int(72 * style.PAGE / widest))
    rows = -(-len(entries) // columns)
    figure = style.figure_of(axes)
    figure.set_figheight(figure.get_figheight() + 0.125 * rows)
    empty: list[Any] = axes.plot([], [], linestyle="none") * len(entries)
    tight: dict[str, Any] = {
        "handlelength": 0,
        "handletextpad": 0,
        "labelspacing": 0.25,
        "columnspacing": 1,
    }
    where: dict[str, Any] = {"loc": "outside lower left", "ncols": columns}
    figure.legend(empty, entries, fontsize=style.SMALL, **where, **tight)
