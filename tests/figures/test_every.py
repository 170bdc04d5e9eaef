"""What holds for figures of every kind: files, tables, hostile names, nothing left behind."""

from __future__ import annotations

import csv
import functools
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from sigmascope.figures import FIGURES
from sigmascope.figures.drawn import Drawn, table_bytes
from tests.figures.examples import EXAMPLES, HOSTILE

Example = Callable[[Sequence[str]], Drawn]
every_figure = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
PLAIN = ("alpha", "beta", "gamma")


@functools.cache
def plain(example: Example) -> Drawn:
    """Return one that is looked at, and not changed."""
    return example(PLAIN)


def test_every_figure_has_an_example() -> None:
    assert list(EXAMPLES) == list(FIGURES)
    names = [function.__name__ for function in FIGURES.values()]
    assert names == [f"draw_{kind}" for kind in FIGURES]


@every_figure
def test_it_returns_a_figure_with_its_axes_and_data(example: Example) -> None:
    drawn = plain(example)
    assert isinstance(drawn.figure, Figure)
    assert set(drawn.axes) <= set(drawn.figure.axes)
    assert drawn.table
    assert drawn._repr_png_().startswith(b"\x89PNG")
    assert drawn.figure.get_figwidth() <= 7
    assert len(repr(drawn)) < 500


@every_figure
def test_every_name_is_in_the_table(example: Example) -> None:
    cells = {str(cell) for row in plain(example).table for cell in row.values()}
    assert set(PLAIN) <= cells
    assert "delta" not in cells


@every_figure
def test_names_that_mean_harm_are_only_names(example: Example, tmp_path: Path) -> None:
    drawn = example(HOSTILE)
    # warnings are errors: no missing letter, no broken formula
    for ending in ("png", "pdf", "svg"):
        drawn.save(tmp_path / f"figure.{ending}")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    assert not [
        element for element in root.iter() if element.tag.endswith(("script", "foreignObject"))
    ]
    lines = list(
        csv.reader(io.StringIO((tmp_path / "figure.csv").read_bytes().decode(), newline=""))
    )
    assert len(lines) == len(drawn.table) + 1
    assert not [
        cell
        for line in lines
        for cell in line
        if cell.startswith(("=", "@", "+")) or cell == "-1+1"
    ]
    assert "'-1+1" in {cell for line in lines for cell in line}


@every_figure
def test_long_names_stay_inside_the_figure(example: Example) -> None:
    drawn = example([f"{letter}/" + letter * 90 for letter in "abc"])
    drawn.figure.draw_without_rendering()
    box = drawn.figure.get_tightbbox()  # inches
    assert box.x0 > -0.02
    assert box.x1 < drawn.figure.get_figwidth() + 0.02
    assert box.y0 > -0.02
    assert box.y1 < drawn.figure.get_figheight() + 0.02


@every_figure
def test_the_same_figure_is_the_same_file(example: Example, tmp_path: Path) -> None:
    one, two = example(PLAIN), example(PLAIN)
    for ending in ("pdf", "png", "svg"):
        first, second = one.save(tmp_path / f"1.{ending}"), two.save(tmp_path / f"2.{ending}")
        assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "1.csv").read_bytes() == table_bytes(two.table)


@every_figure
def test_the_settings_of_matplotlib_stay_as_they_were(example: Example) -> None:
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "axes.grid": False}):
        before = dict(mpl.rcParams)
        drawn = example(PLAIN)
        drawn._repr_png_()
        assert dict(mpl.rcParams) == before
        sizes = [
            text.get_fontsize() for text in drawn.figure.findobj(mpl.text.Text) if text.get_text()
        ]
    assert max(sizes) < 10
    assert min(sizes) >= 6


def test_no_window_is_opened() -> None:
    code = (
        "import sys; from sigmascope.figures import draw_curves; "
        "draw_curves([1, 2], {'a': [0.1, 0.2]})._repr_png_(); print('matplotlib.pyplot' in "
        "sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    assert run.stdout.strip() == "False"


@every_figure
def test_no_two_things_differ_by_color_alone(example: Example) -> None:
    """Whatever a legend names differs in its marker, its kind of line, or its kind at all."""
    drawn = plain(example)
    handles = [handle for legend in drawn.figure.legends for handle in legend.legend_handles]
    looks = [
        (
            type(handle).__name__,
            str(getattr(handle, "get_marker", str)()),
            str(handle.get_linestyle()),
        )
        for handle in handles
    ]
    colors = [
        str(np.round(mpl.colors.to_rgba(getattr(handle, "get_color", lambda: "k")()), 3))
        for handle in handles
    ]
    apart = {look for look, _ in set(zip(looks, colors, strict=True))}
    assert len(apart) == len(set(zip(looks, colors, strict=True)))
