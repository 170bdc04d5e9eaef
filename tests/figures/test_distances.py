"""What the heat map and the map of networks hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes

from sigmascope.compare.distances import Distances, Embedding, distances
from sigmascope.errors import OptionError
from sigmascope.figures import draw_distances, draw_embedding, new_figure
from sigmascope.figures.labels import label_points
from tests.compare.made import many

APART = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.5], [1.0, 2.5, 0.0]])
THREE = Distances(("a", "b", "c"), APART, None)


def cells(axes: Axes) -> np.ndarray:
    (mesh,) = axes.collections
    return np.asarray(mesh.get_array())


def test_the_cells_are_the_distances_in_the_order_of_the_tree() -> None:
    drawn = draw_distances(THREE)
    heat, _ = drawn.axes
    order = THREE.cluster().order
    assert cells(heat) == pytest.approx(APART[np.ix_(order, order)])
    assert [text.get_text() for text in heat.get_yticklabels()] == [
        f"{n} {'abc'[leaf]}" for n, leaf in enumerate(order, 1)
    ]
    assert heat.get_ylim() == (2.5, -0.5)
    assert [text.get_text() for text in heat.texts] == [
        f"{value:.2f}" for value in APART[np.ix_(order, order)].ravel()
    ]


def test_the_tree_has_the_heights_of_the_merges() -> None:
    _, branches = draw_distances(THREE).axes
    merges = THREE.cluster().linkage
    assert sorted(line.get_xdata().max() for line in branches.get_lines()) == pytest.approx(
        merges[:, 2].tolist()
    )
    heat_leaves = {
        round(float(y)) for line in branches.get_lines() for x, y in line.get_xydata() if x == 0
    }
    assert heat_leaves == {0, 1, 2}
    assert branches.get_xlabel() == "average\nlinkage"


def test_the_method_changes_the_tree() -> None:
    single, complete = (
        draw_distances(THREE, method=method).table[-1] for method in ("single", "complete")
    )
    assert (single["value"], complete["value"]) == (2.5, 3.0)


def test_the_table_holds_distances_and_merges() -> None:
    table = draw_distances(THREE).table
    found = {
        (row["network"], row["other"]): row["value"] for row in table if row["drawn"] == "distance"
    }
    assert found == {
        (one, other): APART["abc".index(one), "abc".index(other)]
        for one in "abc"
        for other in "abc"
    }
    merges = [row for row in table if row["drawn"] == "merge"]
    assert [({row["network"], row["other"]}, row["value"]) for row in merges] == [
        ({"a", "c"}, 1.0),
        ({"b", "merge 1"}, 2.75),
    ]


def test_a_single_network_has_no_tree() -> None:
    drawn = draw_distances(Distances(("a",), np.zeros((1, 1)), None))
    assert not drawn.axes[1].axison
    assert [row["value"] for row in drawn.table] == [0.0]


def test_equal_networks_are_drawn() -> None:
    assert cells(
        draw_distances(Distances(("a", "b"), np.zeros((2, 2)), None)).axes[0]
    ).tolist() == [[0, 0], [0, 0]]


def test_sixty_names_do_not_overlap() -> None:
    found = distances(many(60))
    long = Distances(
        tuple(f"library/some_very_long_name_of_a_network_{name}" for name in found.names),
        found.matrix,
        None,
    )
    drawn = draw_distances(long)
    drawn.figure.draw_without_rendering()
    labels = drawn.axes[0].get_yticklabels()
    boxes = [text.get_window_extent() for text in labels]
    assert len({text.get_text() for text in labels}) == 60
    assert all(upper.y0 >= lower.y1 - 0.5 for upper, lower in itertools.pairwise(boxes))
    assert min(text.get_fontsize() for text in labels) >= 6
    assert drawn.figure.get_figheight() < 10
    assert drawn.axes[0].get_window_extent().width > 0.4 * drawn.figure.bbox.width


@pytest.mark.parametrize(
    ("found", "title"),
    [
        (THREE, "DTW distance"),
        (Distances(("a", "b", "c"), APART, "path"), "DTW distance, per step of the path"),
        (THREE.cluster().cophenetic(), "cophenetic distance"),
        (replace(THREE, by="population"), "DTW distance, population scores"),
    ],
)
def test_the_scale_says_what_it_is(found: Distances, title: str) -> None:
    assert title in [axes.get_xlabel() for axes in draw_distances(found).figure.axes]


def test_another_linkage_is_refused() -> None:
    with pytest.raises(OptionError, match="method='mean' is not a valid choice"):
        draw_distances(THREE, method="mean")


def test_the_points_are_those_of_the_embedding() -> None:
    embedding = Embedding(
        ("a", "b", "c"), np.array([[0.0, 1.0], [2.0, 0.0], [-2.0, -1.0]]), 0.125, "cophenetic"
    )
    drawn = draw_embedding(embedding, families={"a": "x", "c": "x"})
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    assert labels == ["x", "other"]
    assert handles[0].get_xydata().tolist() == [[0, 1], [-2, -1]]
    assert handles[0].get_marker() != handles[1].get_marker()
    assert {"a", "b", "c"} <= {text.get_text() for text in drawn.axes[0].texts}
    assert drawn.table[1] == {"number": 2, "network": "b", "family": "", "x": 2.0, "y": 0.0}
    assert "cophenetic distance; stress 0.125" in drawn.axes[0].get_xlabel()
    assert drawn.axes[0].get_aspect() == 1


@pytest.mark.parametrize(
    "points",
    [np.zeros((2, 2)), np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])],
)
def test_points_on_a_line_or_on_one_spot(points: np.ndarray) -> None:
    drawn = draw_embedding(Embedding(("a", "b"), points, 0.0, "distances"))
    drawn.figure.draw_without_rendering()
    box = drawn.axes[0].get_window_extent()
    assert min(box.width, box.height) > 50
    assert [line.get_xydata().tolist() for line in drawn.axes[0].get_lines()] == [points.tolist()]


def test_sixty_networks_have_numbers_and_a_key() -> None:
    generator = np.random.default_rng(0)
    names = tuple(f"library/some_very_long_name_of_a_network_{n:02d}" for n in range(60))
    drawn = draw_embedding(Embedding(names, generator.standard_normal((60, 2)), 0.1, "distances"))
    drawn.figure.draw_without_rendering()
    assert {text.get_text() for text in drawn.axes[0].texts} - {""} == {
        str(n) for n in range(1, 61)
    }
    (key,) = drawn.figure.legends
    assert [text.get_text().split()[0] for text in key.get_texts()] == [
        str(n) for n in range(1, 61)
    ]
    assert key.get_window_extent().x1 <= drawn.figure.bbox.x1
    assert key.get_window_extent().y1 <= drawn.axes[0].get_window_extent().y0


def overlaps(axes: Axes) -> int:
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    return sum(
        one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[place + 1 :]
    )


def test_labels_make_way_for_each_other() -> None:
    generator = np.random.default_rng(1)
    points, labels = generator.random((30, 2)), [f"network-{n}" for n in range(30)]
    placed, naive = (new_figure(7, 5).subplots() for _ in range(2))
    for axes in (placed, naive):
        axes.plot(*points.T, "o")
    label_points(placed, points, labels)
    for point, label in zip(points, labels, strict=True):
        naive.annotate(label, tuple(point), fontsize=6.5)
    assert [text.get_text() for text in placed.texts if text.get_text()] != []
    assert overlaps(placed) == 0
    assert overlaps(naive) > 0


def test_a_label_far_from_its_point_is_joined_to_it() -> None:
    axes = new_figure(4, 4).subplots()
    axes.plot([0] * 8, [0] * 8, "o")
    label_points(axes, np.zeros((8, 2)), ["the same place"] * 8)
    joints = [text for text in axes.texts if not text.get_text()]
    assert joints
    assert all(text.arrow_patch is not None for text in joints)
    assert overlaps(axes) == 0


def test_labels_keep_off_a_line() -> None:
    line = np.stack([np.linspace(0, 1, 50)] * 2, axis=1)
    free, keeping = (new_figure(4, 4).subplots() for _ in range(2))
    for axes, avoid in ((free, None), (keeping, line)):
        axes.plot([0, 0.5, 1], [0, 0.5, 1], "o")
        label_points(axes, np.array([[0.5, 0.5]]), ["a label " * 2], avoid=avoid)
    box = keeping.texts[0].get_window_extent()
    on_line = keeping.transData.transform(line)
    assert not any(box.contains(*point) for point in on_line)
    assert math.isfinite(free.texts[0].get_window_extent().width)
