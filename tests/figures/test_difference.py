"""What the figure of a difference holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.figures import draw_difference, new_figure
from tests.compare.made import made, many, populated

ONE = populated(made("zoo/a", [0.5, 0.6, math.nan, 0.8]))
OTHER = populated(made("zoo/b", [0.5, 0.3, 0.7, 0.8]), seed=1)
FOUND = sg.difference(ONE, OTHER)


def test_every_difference_is_a_point_with_its_interval() -> None:
    drawn = draw_difference(FOUND)
    (axes,) = drawn.axes
    contrasts = [*FOUND.sites, *FOUND.summary]
    ends = {
        row: segment[:, 0].tolist()
        for bars in axes.collections
        for segment in bars.get_segments()
        if len(segment)
        for row in segment[:1, 1].tolist()
    }
    known = [row for row, one in enumerate(contrasts) if math.isfinite(one.low)]
    assert sorted(ends) == known
    for row in known:
        assert ends[row] == pytest.approx([contrasts[row].low, contrasts[row].high])
    handles, labels = axes.get_legend_handles_labels()
    points = dict(zip(labels, (np.asarray(one.get_xydata()) for one in handles), strict=True))
    assert points["interval excludes 0"][:, 1].tolist() == [1]
    assert points["no difference known"][:, 1].tolist() == [2]
    assert points["over all sites"][:, 0].tolist() == [one.difference for one in FOUND.summary]
    assert [row["difference"] for row in drawn.table] == pytest.approx(
        [one.difference for one in contrasts], nan_ok=True
    )
    assert axes.get_title() == "a minus b"
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == [one.name for one in contrasts]


def test_of_many_sites_some_are_named() -> None:
    one, other = (populated(net) for net in many(2, shortest=250, longest=250))
    drawn = draw_difference(sg.difference(one, other))
    assert drawn.figure.get_figheight() < 11
    names = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert 50 < len(names) < 130
    assert names[-4:] == ["mean", "median", "min", "spread"]


def test_axes_of_ones_own_have_no_legend() -> None:
    figure = new_figure(4, 4)
    assert draw_difference(FOUND, figure.subplots()).figure is figure
    assert not figure.legends


def test_what_is_no_difference_is_refused() -> None:
    with pytest.raises(sg.InputTypeError, match="difference must be of type Difference, got list"):
        draw_difference([])  # type: ignore[arg-type]
