"""The one look: names fit to be drawn, colors that differ for everybody."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from sigmascope.figures.style import (
    COLORS,
    LINES,
    MARKERS,
    figure_of,
    look,
    new_figure,
    short_names,
    shown,
    styled,
)
from tests.figures.examples import HOSTILE

# Machado, Oliveira and Fernandes (2009): how the colors of a screen look without one kind of cone,
# in linear light.
VISION = {
    "usual": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def light(color: str) -> np.ndarray:
    values = np.array(to_rgb(color))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(linear, 0, 1) / [0.95047, 1, 1.08883]
    roots = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * roots[1] - 16, 500 * (roots[0] - roots[1]), 200 * (roots[1] - roots[2])])


def least_difference(colors: tuple[str, ...], vision: str) -> float:
    seen = [lab(np.array(VISION[vision]) @ light(color)) for color in colors]
    return min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_the_colors_differ_for_everybody(vision: str) -> None:
    assert least_difference(COLORS, vision) > 15


def test_a_careless_palette_does_not() -> None:
    assert least_difference(("#d62728", "#2ca02c", "#8c564b"), "deuteranopia") < 15


def test_the_colors_are_seen_on_paper() -> None:
    contrast = [1.05 / (float(light(color) @ [0.2126, 0.7152, 0.0722]) + 0.05) for color in COLORS]
    assert min(contrast) > 2


def test_many_things_have_different_looks() -> None:
    assert len({look(number)[:2] for number in range(72)}) == len(COLORS) * len(MARKERS) == 72
    assert (
        len({(look(number).color, str(look(number).line)) for number in range(56)})
        == len(COLORS) * len(LINES)
        == 56
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_drawn_as_it_reads(name: str) -> None:
    text = shown(name)
    assert 0 < len(text.replace("\\$", "$").strip()) <= 32
    assert text.isprintable()
    assert not text.startswith("_")
    assert not mpl.cbook.is_math_text(text)


def test_a_formula_would_be_one_without_it() -> None:
    assert mpl.cbook.is_math_text("$x^2$")


def test_a_long_name_keeps_both_its_ends() -> None:
    name = "front" + "x" * 100 + "back"
    assert (shown(name, 21)[:5], shown(name, 21)[-4:], len(shown(name, 21))) == (
        "front",
        "back",
        21,
    )
    assert shown("x" * 32) == "x" * 32


def test_names_lose_only_what_all_of_them_share() -> None:
    assert short_names(["a/b/c", "a/b/d"]) == ["c", "d"]
    assert short_names(["a/b/c", "a/d"]) == ["b/c", "d"]
    assert short_names(["a/b"]) == ["a/b"]
    assert short_names(["ab/c", "a/c"]) == ["ab/c", "a/c"]


def test_the_style_is_put_back() -> None:
    before = dict(mpl.rcParams)
    with styled():
        assert mpl.rcParams["axes.spines.top"] is False
    assert dict(mpl.rcParams) == before


def test_the_figure_of_a_part_of_a_figure() -> None:
    figure = new_figure(3, 3)
    left, _ = figure.subfigures(1, 2)
    assert figure_of(left.subplots()) is figure
    assert figure_of(figure.subplots()) is figure
