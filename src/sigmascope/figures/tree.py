"""A clustering as a tree, with the names of the networks at its leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import dendrogram

from sigmascope.checks import check_kind, check_mapping
from sigmascope.compare.distances import Clustering
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished

LINE = 0.17  # inches, the least height of a line of text


@style.styled()
def draw_tree(
    tree: Clustering, axes: Axes | None = None, *, families: Mapping[str, str] | None = None
) -> Drawn:
    """Draw the merges of a clustering as a tree, with the names beside its leaves.

    Args:
        tree: see `Distances.cluster`.
        axes: to draw in, without a legend; by default a new figure with one.
        families: network -> family; each has a color and a marker.

    Raises:
        InputTypeError: something other than a clustering; families that are not a mapping.

    >>> import numpy as np
    >>> from sigmascope.compare.distances import Distances
    >>> found = Distances(("a", "b", "c"), np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0.0]]), None)
    >>> [row["network"] for row in draw_tree(found.cluster()).table if row["drawn"] == "leaf"]
    ['c', 'b', 'a']
    """
    check_kind("tree", tree, Clustering, "sigmascope.distances(…).cluster()")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    leaves = [tree.names[place] for place in tree.order]
    names = style.short_names(leaves)
    width = min(style.PAGE, style.COLUMN + 0.056 * max(map(len, names)))
    panel = style.panel_in(axes, width, 0.7 + LINE * len(names))
    draw_branches(panel, tree)
    _mark_leaves(panel, tree, families or {})
    highest = float(tree.linkage[:, 2].max()) or 1.0
    panel.set(xlim=(1.04 * highest, -0.03 * highest), ylim=(len(names) - 0.5, -0.5))
    panel.set_yticks(range(len(names)), names, fontsize=style.SMALL)
    panel.tick_params(axis="y", length=0, labelright=True, labelleft=False)
    label = f"distance of the merge, {tree.method} linkage"
    label += ", per step of the path" if tree.normalize else ""
    panel.set_xlabel(label + (", population scores" if tree.by == "population" else ""))
    panel.grid(visible=False, axis="y")
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    rows = [
        {"drawn": "leaf", "network": name, "family": (families or {}).get(name, "")}
        for name in leaves
    ]
    return finished([panel], [*rows, *merge_rows(tree)])


def draw_branches(axes: Axes, tree: Clustering) -> None:
    """Draw the merges; leaf number n stands at height n, its distance is 0."""
    shape = dendrogram(tree.linkage, no_plot=True)
    for heights, leaves in zip(shape["dcoord"], shape["icoord"], strict=True):  # leaves at 5, 15, …
        ends = np.array(leaves) / 10 - 0.5
        axes.plot(heights, ends, color="0.25", linewidth=0.9, solid_joinstyle="miter")
    axes.spines["left"].set_visible(False)


def merge_rows(tree: Clustering) -> list[dict[str, Any]]:
    """Return the rows of a figure's table that describe the merges."""
    return [
        {"drawn": "merge", "network": one, "other": other, "value": height}
        for one, other, height, _ in tree.merges()
    ]


def _mark_leaves(axes: Axes, tree: Clustering, families: Mapping[str, str]) -> None:
    """Put the marker of its family at each leaf."""
    groups = [families.get(tree.names[place], "") for place in tree.order]
    for number, family in enumerate(dict.fromkeys(families.get(name, "") for name in tree.names)):
        if family:
            places = [place for place, group in enumerate(groups) if group == family]
            how = style.look(number).points(5) | {"clip_on": False, "zorder": 3}
            axes.plot([0] * len(places), places, label=style.shown(family), **how)
