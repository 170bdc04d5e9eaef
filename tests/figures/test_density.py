"""What the figures of densities hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.compare.density import densities
from sigmascope.errors import InputError, OptionError
from sigmascope.figures import draw_densities, new_figure, parts_of
from tests.compare.made import made, many, populated

SCORES = np.array([0.2, 0.5, 0.55, 0.9])


def test_the_curve_is_that_of_the_comparison() -> None:
    network = made("a", SCORES)
    drawn = draw_densities([network])
    (curve,) = densities([network]).curves
    ((handle,), (label,)) = drawn.axes[0].get_legend_handles_labels()
    assert label == "a"
    assert handle.get_xdata().tolist() == curve.grid.tolist()
    assert handle.get_ydata().tolist() == curve.values.tolist()
    rows = [row for row in drawn.table if row["drawn"] == "curve"]
    assert [row["score"] for row in rows] == curve.grid.tolist()
    assert [row["density"] for row in rows] == curve.values.tolist()


def test_the_scores_are_ticks() -> None:
    drawn = draw_densities([made("a", [0.2, math.nan, 0.9])])
    (ticks,) = [line for line in drawn.axes[0].get_lines() if line.get_marker() == "|"]
    assert ticks.get_xdata().tolist() == [0.2, 0.9]
    assert [row["score"] for row in drawn.table if row["drawn"] == "score"] == [0.2, 0.9]


def test_the_axis_names_the_score() -> None:
    network = populated(made("a", SCORES))
    assert draw_densities([network]).axes[0].get_xlabel() == "affinity score"
    found = densities([network], by="population")
    assert repr(found).startswith("Densities of population scores\n")
    for drawn in (found.plot(), draw_densities([network], by="population")):
        assert drawn.axes[0].get_xlabel() == "population score"


@pytest.mark.parametrize("layout", ["overlaid", "stacked"])
def test_equal_scores_have_ticks_and_a_reason(layout: str) -> None:
    drawn = draw_densities([made("a", SCORES), made("same", [0.5, 0.5])], layout=layout)
    own = [row for row in drawn.table if row["network"] == "same"]
    assert [(row["drawn"], row["reason"]) for row in own] == [
        ("score", "all 2 scores are equal, 0.5000")
    ] * 2
    if layout == "overlaid":
        assert drawn.axes[0].get_legend_handles_labels()[1] == ["a", "same (no density)"]


def test_all_equal_is_drawn_too() -> None:
    assert len(draw_densities([made(str(n), [0.5]) for n in range(8)]).table) == 8


def test_many_are_stacked_in_rows_of_one_height() -> None:
    networks = many(60)
    drawn = draw_densities(networks)
    axes = drawn.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [one.name for one in networks]
    curves = [line for line in axes.get_lines() if line.get_marker() != "|"]
    assert len(curves) == 60
    for number, line in enumerate(curves):
        assert number - line.get_ydata().min() == pytest.approx(0.85)
        assert line.get_ydata().max() <= number
    assert drawn.figure.get_figheight() < 11


def test_few_are_overlaid_with_different_lines() -> None:
    handles, labels = draw_densities(many(6)).axes[0].get_legend_handles_labels()
    assert (
        len({(str(handle.get_linestyle()), handle.get_color()) for handle in handles})
        == len(labels)
        == 6
    )


def test_the_parts_of_a_signature() -> None:
    network = made("residual", [0.5, 0.9, math.nan, 0.8, 0.6])
    assert [(part.name, part.scores.tolist()) for part in parts_of(network, list("abcab"))] == [
        ("a", [0.5, 0.8]),
        ("b", [0.9, 0.6]),
    ]
    assert [part.name for part in parts_of(network, list("abcab"), ("b", "z", "a"))] == ["b", "a"]
    assert [part.name for part in parts_of(network)] == ["relu", "relu#1"]


def test_axes_of_ones_own_have_no_legend() -> None:
    figure = new_figure(3, 3)
    drawn = draw_densities([made("a", SCORES)], figure.subplots())
    assert drawn.figure is figure
    assert not figure.legends


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(OptionError, match="layout='piled' is not a valid choice"):
        draw_densities([made("a", SCORES)], layout="piled")
    with pytest.raises(InputError, match="The signature of a has no score at all"):
        draw_densities([made("a", [math.nan])])
    with pytest.raises(InputError, match="There are 1 groups and 4 sites"):
        parts_of(made("a", SCORES), ["x"])
