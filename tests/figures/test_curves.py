"""What curves hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.errors import InputError, OptionError
from sigmascope.figures import draw_curves, new_figure


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
    with pytest.raises(OptionError, match="spread='sem' is not a valid choice"):
        draw_curves([1], {"a": [0.5]}, spread="sem")
