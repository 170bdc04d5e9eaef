"""What boxes over the input range, gray images and curves hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.errors import InputError, OptionError
from sigmascope.figures import draw_curves, draw_images, draw_ranges, new_figure

MEANS = [-2.0, 0.0, 2.0]
SCORES = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 1.0, math.nan, 0.8, 0.7], [math.nan] * 5])


def test_a_box_is_median_quartiles_and_whole_range() -> None:
    drawn = draw_ranges(MEANS, {"relu": SCORES}, {"relu": 0.6})
    rows = drawn.table
    assert [row["mean"] for row in rows] == MEANS
    first = [rows[0][key] for key in ("min", "q1", "median", "q3", "max")]
    assert first == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert [row["scores"] for row in rows] == [5, 4, 0]
    assert rows[1]["median"] == pytest.approx(0.85)
    assert math.isnan(rows[2]["median"])
    (axes,) = drawn.axes
    boxes = [patch.get_path().vertices for patch in axes.patches]
    assert len(boxes) == 2
    assert (boxes[0][:, 1].min(), boxes[0][:, 1].max()) == pytest.approx((0.2, 0.4))
    assert boxes[0][:, 0].mean() == pytest.approx(-2, abs=0.5)
    upright = [
        line
        for line in axes.get_lines()
        if len(line.get_xdata()) == 2 and np.ptp(line.get_xdata()) == 0
    ]
    whiskers = np.concatenate([line.get_ydata() for line in upright])
    assert (whiskers.min(), whiskers.max()) == pytest.approx((0.1, 1.0))


def test_the_baseline_and_what_is_missing_are_drawn() -> None:
    drawn = draw_ranges(MEANS, {"relu": SCORES, "tanh": SCORES}, {"relu": 0.6})
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    assert found["input over the whole interval"].get_ydata() == [0.6, 0.6]
    assert found["no score"].get_xdata().tolist() == [2.0]
    assert "input over the whole interval" not in drawn.axes[1].get_legend_handles_labels()[1]
    assert math.isnan(drawn.table[-1]["baseline"])
    assert len(drawn.figure.legends[0].get_texts()) == 5


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_every_function_has_a_panel_on_one_scale(count: int) -> None:
    functions = {f"function {n}": np.full((3, 2), (n + 1) / 10) for n in range(count)}
    drawn = draw_ranges(MEANS, functions)
    assert [axes.get_title() for axes in drawn.axes] == list(functions)
    assert len({axes.get_ylim() for axes in drawn.axes}) == 1
    assert drawn.axes[0].get_ylim()[0] < 0.1
    assert drawn.axes[0].get_ylim()[1] > 1
    assert drawn.axes[0].get_xlim() == (-4, 4)


@pytest.mark.parametrize(
    ("means", "scores", "message"),
    [
        ([], {}, "There is nothing to draw"),
        ([1.0], {}, "There is nothing to draw"),
        ([2.0, 1.0], {"a": np.zeros((2, 1))}, "The means are not increasing numbers"),
        ([1.0, math.nan], {"a": np.zeros((2, 1))}, "The means are not increasing numbers"),
        ([1.0, 2.0], {"a": np.zeros(2)}, r"The scores of a have shape \(2,\). Pass \(2, s\)"),
        ([1.0, 2.0], {"a": np.zeros((3, 2))}, r"The scores of a have shape \(3, 2\)"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(
    means: list[float], scores: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        draw_ranges(means, scores)


def test_images_are_drawn_as_they_are() -> None:
    first, second = np.array([[0.0, 0.5, 1.0], [0.25, math.nan, 0.75]]), np.ones((4, 4))
    drawn = draw_images(
        [[first, second]],
        titles=[["0.86 ± 0.03", "=1"]],
        rows=["relu"],
        columns=["seed 1", "seed 2"],
    )
    shown = [axes.get_images()[0] for axes in drawn.axes]
    assert np.ma.filled(shown[0].get_array(), math.nan) == pytest.approx(first, nan_ok=True)
    assert [image.get_clim() for image in shown] == [(0, 1)] * 2
    assert shown[0].origin == "upper"
    assert [axes.get_title() for axes in drawn.axes] == ["seed 1\n0.86 ± 0.03", "seed 2\n=1"]
    assert [axes.get_ylabel() for axes in drawn.axes] == ["relu", ""]


def test_the_table_holds_every_pixel() -> None:
    first, second = np.arange(6).reshape(2, 3) / 6, np.arange(2).reshape(1, 2)
    rows = draw_images([[first], [second]]).table
    assert [[row[f"x{n}"] for n in (1, 2, 3)] for row in rows[:2]] == first.tolist()
    assert (rows[2]["row"], rows[2]["column"], rows[2]["line"], rows[2]["x2"]) == (2, 1, 1, 1.0)
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        ([], {}, "not r rows of c images"),
        ([[]], {}, "not r rows of c images"),
        ([[np.zeros((2, 2))], []], {}, "not r rows of c images"),
        ([[np.zeros(4)]], {}, r"Image 0 of row 0 has shape \(4,\)"),
        ([[np.array([[1.5]])]], {}, r"Image 0 of row 0 has values outside \[0, 1\]"),
        ([[np.array([[-0.1]])]], {}, r"Image 0 of row 0 has values outside \[0, 1\]"),
        ([[np.zeros((2, 2))]], {"titles": [["a", "b"]]}, "The titles are not 1 rows of 1"),
        (
            [[np.zeros((2, 2))]],
            {"rows": ["a", "b"]},
            "There are 1 rows and 1 columns, but 2 and 0 names",
        ),
    ],
)
def test_images_that_do_not_fit_are_refused(
    images: list[list[np.ndarray]], options: dict[str, list], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        draw_images(images, **options)


def test_the_line_is_the_mean_and_the_band_its_spread() -> None:
    values = np.array([[0.1, 0.2, math.nan], [0.3, 0.6, math.nan], [0.5, 0.7, 0.9]])
    drawn = draw_curves(
        [128, 256, 512], {"seeds": values, "single": [0.5, 0.6, 0.7]}, over="batch size"
    )
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    assert labels == ["seeds", "single"]
    assert handles[0].get_xydata() == pytest.approx(np.array([[128, 0.3], [256, 0.5], [512, 0.9]]))
    (band,) = drawn.axes[0].collections
    heights = band.get_paths()[0].vertices
    assert heights[heights[:, 0] == 128][:, 1].min() == pytest.approx(0.3 - 0.2)
    assert heights[heights[:, 0] == 256][:, 1].max() == pytest.approx(
        0.5 + np.std([0.2, 0.6, 0.7], ddof=1)
    )
    assert (handles[0].get_marker(), handles[0].get_linestyle()) != (
        handles[1].get_marker(),
        handles[1].get_linestyle(),
    )
    assert drawn.axes[0].get_xlabel() == "batch size"
    row = drawn.table[2]
    assert (row["curve"], row["at"], row["mean"], row["repetitions"]) == ("seeds", 512, 0.9, 1)
    assert math.isnan(row["std"])


def test_the_band_can_be_the_whole_range() -> None:
    drawn = draw_curves([1, 2], {"seeds": [[0.1, 0.2], [0.4, 0.9], [0.2, 0.3]]}, spread="range")
    heights = drawn.axes[0].collections[0].get_paths()[0].vertices
    assert (heights[:, 1].min(), heights[:, 1].max()) == (0.1, 0.9)


def test_nothing_at_all_is_a_gap() -> None:
    drawn = draw_curves([1, 2, 3], {"a": [0.1, math.nan, 0.3]})
    assert drawn.table[1]["repetitions"] == 0
    assert np.isnan(drawn.axes[0].get_lines()[0].get_ydata()).tolist() == [False, True, False]


def test_a_logarithmic_scale_can_be_set_afterwards() -> None:
    drawn = draw_curves([2, 4, 1024], {"a": [0.1, 0.2, 0.3]})
    drawn.axes[0].set_xscale("log", base=2)
    assert drawn._repr_png_()


def test_curves_in_axes_of_ones_own() -> None:
    figure = new_figure(3, 3)
    assert draw_curves([1], {"a": [0.5]}, figure.subplots()).figure is figure
    assert not figure.legends


@pytest.mark.parametrize(
    ("at", "curves", "message"),
    [
        ([], {}, "There is nothing to draw"),
        ([1, 2], {"a": [0.5]}, r"The curve a has shape \(1, 1\). Pass \(2,\), or \(r, 2\)"),
        ([1], {"a": np.zeros((2, 2, 1))}, "The curve a has shape"),
    ],
)
def test_curves_that_do_not_fit_are_refused(
    at: list[float], curves: dict[str, list[float]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        draw_curves(at, curves)


def test_another_spread_is_refused() -> None:
    with pytest.raises(OptionError, match="spread='sem' is not known"):
        draw_curves([1], {"a": [0.5]}, spread="sem")
