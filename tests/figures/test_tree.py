"""A tree has a leaf for each network and a joint for each merge."""

from __future__ import annotations

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.compare.distances import distances
from sigmascope.figures import draw_tree, new_figure
from tests.figures.examples import networks

NAMES = ("zoo/a", "zoo/b", "zoo/c", "zoo/d")


def test_joints_stand_at_the_heights_of_the_merges() -> None:
    tree = distances(networks(NAMES)).cluster()
    (axes,) = draw_tree(tree).axes
    joints = [line for line in axes.lines if len(line.get_xdata()) == 4]
    assert sorted(max(line.get_xdata()) for line in joints) == pytest.approx(
        sorted(tree.linkage[:, 2])
    )
    ends = np.concatenate(
        [np.asarray(line.get_ydata())[np.asarray(line.get_xdata()) == 0] for line in joints]
    )
    assert sorted(set(ends)) == [0, 1, 2, 3]
    assert axes.get_xlim()[0] > axes.get_xlim()[1]  # the leaves are on the right


def test_leaves_have_names_and_families_in_the_order_of_the_tree() -> None:
    tree = distances(networks(NAMES)).cluster()
    families = {"zoo/a": "first", "zoo/b": "second", "zoo/d": "first"}
    drawn = draw_tree(tree, families=families)
    labels = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert labels == [NAMES[place].removeprefix("zoo/") for place in tree.order]
    marked = {
        line.get_label(): list(line.get_ydata())
        for line in drawn.axes[0].lines
        if line.get_label() in ("first", "second")
    }
    assert marked == {
        "first": [
            place for place, one in enumerate(tree.order) if NAMES[one] in ("zoo/a", "zoo/d")
        ],
        "second": [tree.order.index(1)],
    }
    leaves = [row for row in drawn.table if row["drawn"] == "leaf"]
    assert [row["family"] for row in leaves] == [
        families.get(NAMES[place], "") for place in tree.order
    ]


def test_it_draws_in_a_panel_without_a_legend() -> None:
    panel = new_figure(4, 3).subplots()
    drawn = draw_tree(
        distances(networks(NAMES)).cluster(), panel, families=dict.fromkeys(NAMES, "all")
    )
    assert drawn.axes == (panel,)
    assert not drawn.figure.legends


def test_other_things_are_refused() -> None:
    with pytest.raises(
        sg.InputTypeError, match=r"tree must be of type Clustering, got Distances.*\.cluster"
    ):
        draw_tree(distances(networks(NAMES)))  # type: ignore[arg-type]
