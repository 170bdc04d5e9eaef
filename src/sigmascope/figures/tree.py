"""A clustering as a tree, with the names of the networks at its leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import dendrogram

from sigmascope.compare.distances import Clustering
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_kind, check_mapping
from sigmascope.figures.style import (
    COLUMN,
    PAGE,
    SMALL,
    add_legend,
    figure_of,
    look,
    panel_in,
    short_names,
    shown,
    styled,
)

__all__ = ["draw_tree"]

# The least height of a line of text, in inches.
LINE = 0.17


@styled()
def draw_tree(
    tree: Clustering, axes: Axes | None = None, *, families: Mapping[str, str] | None = None
) -> Drawn:
    """Draw the merges of a clustering as a tree; the names stand beside its leaves.

    Args:
        tree: see `Distances.cluster`.
        axes: to draw in, without a legend; by default a new figure with one.
        families: network -> family; each has a color and a marker.

    Raises:
        InputTypeError: another thing than a clustering; families that are no mapping.
    """
    check_kind("tree", tree, Clustering, "sigmascope.distances(…).cluster()")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    names = short_names([tree.names[place] for place in tree.order])
    panel = panel_in(
        axes, min(PAGE, COLUMN + 0.056 * max(map(len, names))), 0.7 + LINE * len(names)
    )
    shape = dendrogram(tree.linkage, no_plot=True)
    for heights, leaves in zip(shape["dcoord"], shape["icoord"], strict=True):  # leaves at 5, 15, …
        panel.plot(
            heights,
            np.array(leaves) / 10 - 0.5,
            color="0.25",
            linewidth=0.9,
            solid_joinstyle="miter",
        )
    highest = float(tree.linkage[:, 2].max()) or 1.0
    _mark_leaves(panel, tree, families or {})
    panel.set(xlim=(1.04 * highest, -0.03 * highest), ylim=(len(names) - 0.5, -0.5))
    panel.set_yticks(range(len(names)), names, fontsize=SMALL)
    panel.tick_params(axis="y", length=0, labelright=True, labelleft=False)
    panel.set_xlabel(
        f"distance of the merge, {tree.method} linkage"
        + (", per step of the path" if tree.normalize else "")
    )
    panel.spines["left"].set_visible(False)
    panel.grid(visible=False, axis="y")
    if axes is None:
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(tree, families or {}))


def _mark_leaves(axes: Axes, tree: Clustering, families: Mapping[str, str]) -> None:
    """Put the marker of its family at each leaf, above the bottom of the axes."""
    groups = [families.get(tree.names[place], "") for place in tree.order]
    for number, family in enumerate(dict.fromkeys(families.get(name, "") for name in tree.names)):
        if not family:
            continue
        color, marker, _ = look(number)
        places = [place for place, group in enumerate(groups) if group == family]
        axes.plot(
            [0] * len(places),
            places,
            marker,
            color=color,
            markersize=5,
            markeredgewidth=0,
            clip_on=False,
            zorder=3,
            label=shown(family),
        )


def _rows(tree: Clustering, families: Mapping[str, str]) -> list[dict[str, Any]]:
    labels = [*tree.names, *(f"merge {number}" for number in range(1, len(tree.names)))]
    leaves: Sequence[dict[str, Any]] = [
        {
            "drawn": "leaf",
            "network": tree.names[place],
            "family": families.get(tree.names[place], ""),
        }
        for place in tree.order
    ]
    return [
        *leaves,
        *(
            {
                "drawn": "merge",
                "network": labels[int(left)],
                "other": labels[int(right)],
                "value": height,
            }
            for left, right, height, _ in tree.linkage.tolist()
        ),
    ]
