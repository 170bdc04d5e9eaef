"""What the figure through the years holds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sigmascope.compare.statistics import statistics
from sigmascope.errors import InputError, InputTypeError
from sigmascope_papers.figures.years import draw_years
from tests.compare.made import made, many

FOUND = statistics(
    [
        made("new", [0.3, 0.4, 0.9]),
        made("old", [0.1, 0.2, 0.6]),
        made("undated", [0.5]),
        made("newer", [0.5, 0.7]),
    ]
)
YEARS = {"new": 2015, "old": 2012, "newer": 2015}


def test_networks_stand_in_the_order_of_their_years() -> None:
    axes = draw_years(FOUND, YEARS).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["old", "new", "newer"]
    (bars,) = axes.collections
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [
        [0.1, 0.6],
        [0.3, 0.9],
        [0.5, 0.7],
    ]
    (medians,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert medians.get_ydata().tolist() == [0.2, 0.4, pytest.approx(0.6)]
    assert [text.get_text() for text in axes.texts] == ["2012", "2015"]


def test_the_line_of_a_year_is_the_median_of_its_medians() -> None:
    lines = [
        line
        for line in draw_years(FOUND, YEARS).axes[0].get_lines()
        if line.get_linestyle() == "--"
    ]
    assert [line.get_ydata().tolist() for line in lines] == [[0.2] * 2, [pytest.approx(0.5)] * 2]
    assert [line.get_xdata().tolist() for line in lines] == [[-0.5, 0.5], [0.5, 2.5]]


def test_the_table_names_also_those_without_a_year() -> None:
    rows = draw_years(FOUND, YEARS, families={"old": "convnets"}).table
    assert [(row["network"], row["family"]) for row in rows] == [
        ("old", "convnets"),
        ("new", ""),
        ("newer", ""),
        ("undated", ""),
    ]
    assert [row["year"] for row in rows[:3]] == [2012, 2015, 2015]
    assert math.isnan(rows[3]["year"])
    assert (rows[1]["min"], rows[1]["median"], rows[1]["max"]) == (0.3, 0.4, 0.9)


def test_families_have_colors_and_markers() -> None:
    handles, labels = (
        draw_years(FOUND, YEARS, families={"old": "convnets"}).axes[0].get_legend_handles_labels()
    )
    assert labels == ["convnets", "other", "median of the year"]
    assert [handle.get_marker() for handle in handles[:2]] == ["o", "s"]


@pytest.mark.parametrize("count", [1, 60])
def test_one_and_sixty_networks(count: int) -> None:
    found = statistics(many(count))
    drawn = draw_years(found, {name: 2012 + place % 11 for place, name in enumerate(found.names)})
    drawn.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in drawn.axes[0].get_xticklabels()]
    assert len(boxes) == count
    assert all(left.x1 <= right.x0 + 0.5 for left, right in itertools.pairwise(boxes))
    years = [text.get_window_extent() for text in drawn.axes[0].texts]
    assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(years))


def test_half_a_year_is_a_year() -> None:
    assert draw_years(FOUND, {"old": np.float64(2012.5)}).table[0]["year"] == 2012.5


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="years names none of the networks: new, old"):
        draw_years(FOUND, {"other": 2012})
    with pytest.raises(InputTypeError, match=r"The year of old is '2012'\. Pass a number"):
        draw_years(FOUND, {"old": "2012"})  # type: ignore[dict-item]
