"""What the figures of the papers hold: boxes over the input range, gray images."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.compare.statistics import statistics
from sigmascope.errors import InputError
from sigmascope.figures import Drawn
from sigmascope_papers.figures.images import draw_images
from sigmascope_papers.figures.ranges import draw_ranges
from sigmascope_papers.figures.years import draw_years
from tests.figures import test_every as laws
from tests.figures.examples import networks


def of_images(names: Sequence[str]) -> Drawn:
    rows = [[np.full((2, 3), place / len(names))] * 2 for place in range(len(names))]
    return draw_images(rows, titles=[[name, name] for name in names], rows=names, columns=names[:2])


def of_ranges(names: Sequence[str]) -> Drawn:
    return draw_ranges(
        [-1.0, 0.0, 2.0],
        {name: np.array([[0.1, 0.5], [0.7, math.nan], [math.nan] * 2]) for name in names},
    )


def of_years(names: Sequence[str]) -> Drawn:
    found = statistics(networks(names))
    years = {name: 2012 + place // 3 for place, name in enumerate(found.names)}
    return draw_years(found, years, families=dict(zip(found.names, names, strict=True)))


EXAMPLES = {"images": of_images, "ranges": of_ranges, "years": of_years}
LAWS = (
    laws.test_it_returns_a_figure_with_its_axes_and_data,
    laws.test_every_name_is_in_the_table,
    laws.test_names_that_mean_harm_are_only_names,
    laws.test_long_names_stay_inside_the_figure,
    laws.test_the_same_figure_is_the_same_file,
    laws.test_the_settings_of_matplotlib_stay_as_they_were,
    laws.test_no_two_things_differ_by_color_alone,
)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_laws_of_all_figures(
    law: Callable[..., None], example: Callable[[Sequence[str]], Drawn], tmp_path: Path
) -> None:
    law(example, *([tmp_path] if "tmp_path" in inspect.signature(law).parameters else []))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: draw_years(networks("ab"), {"a": 1}),  # type: ignore[arg-type]
            "statistics must be of type Statistics, got list",
        ),
        (
            lambda: draw_years(sg.statistics(networks("ab")), [2015]),  # type: ignore[arg-type]
            "years must be a mapping such as .*, got list",
        ),
        (lambda: draw_ranges([1, 2], 3), "scores must be a mapping such as .*, got int"),  # type: ignore[arg-type]
    ],
)
def test_the_wrong_thing_is_refused_with_a_remedy(draw: Callable[[], object], message: str) -> None:
    with pytest.raises(sg.InputTypeError, match=message):
        draw()


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
