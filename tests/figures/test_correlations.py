"""Tables of correlations: each number in its cell, gaps left empty."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.figures import draw_correlations

TABLES = {"paper": {"a": [0.5, -1.0]}, "here": {"b": [math.nan, 0.25], "a": [-0.004, 1.0]}}


def test_rows_of_one_name_stand_on_one_line() -> None:
    drawn = draw_correlations(TABLES, ["cka", "r2"])
    paper, here = (
        np.ma.getdata(axes.collections[0].get_array()).reshape(2, 2) for axes in drawn.axes
    )
    np.testing.assert_array_equal(paper, [[0.5, -1.0], [math.nan, math.nan]])
    np.testing.assert_array_equal(here, [[-0.004, 1.0], [math.nan, 0.25]])
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["a", "b"]
    assert [axes.get_title() for axes in drawn.axes] == ["paper", "here"]


def test_every_number_is_written_and_a_gap_is_not() -> None:
    drawn = draw_correlations(TABLES, ["cka", "r2"])
    assert [[text.get_text() for text in axes.texts] for axes in drawn.axes] == [
        ["0.50", "−1.00"],
        ["0.00", "1.00", "0.25"],
    ]
    inks = {text.get_text(): text.get_color() for text in drawn.axes[0].texts + drawn.axes[1].texts}
    assert inks["−1.00"] == inks["1.00"] == "white"
    assert inks["0.25"] == "black"


def test_colors_have_the_scale_of_correlations() -> None:
    mesh = draw_correlations({"here": {"a": [0.1, 0.2]}}, ["cka", "r2"]).axes[0].collections[0]
    assert mesh.get_clim() == (-1, 1)


def test_the_table_has_a_row_for_each() -> None:
    table = draw_correlations(TABLES, ["cka", "r2"]).table
    assert table[0] == {"table": "paper", "row": "a", "cka": 0.5, "r2": -1.0}
    assert len(table) == 3


def test_bad_tables_are_refused() -> None:
    with pytest.raises(sg.InputError, match="Row 'a' of 'here' has 1 numbers for 2 columns"):
        draw_correlations({"here": {"a": [0.1]}}, ["cka", "r2"])
    with pytest.raises(sg.InputError, match="no row to draw"):
        draw_correlations({"here": {}}, ["cka"])
    with pytest.raises(sg.InputTypeError, match=r"tables must be a mapping .* got list"):
        draw_correlations([], ["cka"])  # type: ignore[arg-type]
