"""What the figure of fits holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.compare.accuracy import AccuracyFits, fit_accuracy
from sigmascope.figures import draw_accuracy
from tests.compare.made import made, many

NAMES = tuple("abcdefg")


def fits(**options: object) -> AccuracyFits:
    generator = np.random.default_rng(0)
    networks = [
        made(name, generator.random(9), parameters=10**6 * (place + 1))
        for place, name in enumerate(NAMES)
    ]
    facts = {name: 70 + 10 * float(generator.random()) for name in NAMES[:6]} | {"g": None}
    families = {name: "small" if name in "ab" else "large" for name in NAMES}
    return fit_accuracy(networks, facts, families=families, **options)  # type: ignore[arg-type]


def test_points_and_line_are_those_of_the_fit() -> None:
    found = fits(on="median", degree=2)
    drawn = draw_accuracy(found)
    large = found.fits[1]
    points, line = drawn.axes[1].get_lines()
    assert points.get_xydata().tolist() == np.stack([large.x, large.y], axis=1).tolist()
    assert line.get_ydata() == pytest.approx(large.predict(line.get_xdata()))
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (large.x.min(), large.x.max())
    assert drawn.axes[1].get_xlabel() == "median of the scores"


def test_it_says_what_the_fit_is_worth() -> None:
    found = fits()
    texts = [text.get_text() for text in draw_accuracy(found).axes[1].texts]
    large = found.fits[1]
    apart = f"{large.r2_loo:.2f}".replace("-", "−")
    assert f"R² {large.r2:.2f}, leave-one-out {apart}\nn = 4, best of 6" in texts
    assert set("cdef") <= set(texts)


def test_a_family_without_a_fit_has_points_and_the_reason() -> None:
    axes = draw_accuracy(fits()).axes[0]
    assert len(axes.get_lines()) == 1
    assert any(
        text.get_text().startswith("no fit: 2 points; a fit of degree 1") for text in axes.texts
    )


def test_the_table_holds_points_fits_and_those_left_out() -> None:
    found = fits(on="parameters")
    rows = {row["network"]: row for row in draw_accuracy(found).table}
    large = found.fits[1]
    assert rows["c"]["x"] == 3e6
    assert rows["c"]["fitted"] == pytest.approx(large.predict(np.array([3e6]))[0])
    assert (rows["c"]["r2"], rows["c"]["r2_loo"], rows["c"]["n"]) == (large.r2, large.r2_loo, 4)
    assert rows["c"]["coefficient_1"] == large.coefficients[1]
    assert math.isnan(rows["a"]["fitted"])
    assert rows["a"]["reason"].startswith("2 points")
    assert rows["g"] == {"network": "g", "reason": "accuracy unknown"}


def test_those_left_out_are_named() -> None:
    figure = draw_accuracy(fits()).figure
    assert figure.get_supxlabel() == "Not shown: g (accuracy unknown)"


def test_parameters_are_written_in_millions() -> None:
    drawn = draw_accuracy(fits(on="parameters"))
    drawn.figure.draw_without_rendering()
    assert all(
        text.get_text().endswith("M") for text in drawn.axes[1].get_xticklabels() if text.get_text()
    )


def test_sixty_networks_of_one_family_have_no_names() -> None:
    networks = many(60)
    drawn = draw_accuracy(
        fit_accuracy(networks, {one.name: 70.0 + place % 7 for place, one in enumerate(networks)})
    )
    assert len(drawn.axes[0].texts) == 1
    assert len(drawn.table) == 60
