"""The colors of the page, as people with every kind of color vision see them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import sigmascope.reporting.page

CSS = (Path(sigmascope.reporting.page.__file__).parent / "styles" / "theme.css").read_text(
    encoding="utf-8"
)
COLORS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", CSS)
}
SLOTS = [f"slot-{number}" for number in range(8)]
THEMES = {"light": 0, "dark": 1}

# Linear RGB to cones and back, and what each kind of dichromat sees instead (Viénot, Brettel and
# Mollon 1999).
CONES = np.array(
    [[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]]
)
VISION = {
    "trichromat": np.eye(3),
    "protanope": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deuteranope": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    "tritanope": np.array([[1, 0, 0], [0, 1, 0], [-0.395913, 0.801109, 0]]),
}
# Ottosson's OKLab, in which distances are what the eye sees.
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(color: str) -> np.ndarray:
    values = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(rgb: np.ndarray) -> float:
    return float(rgb @ [0.2126, 0.7152, 0.0722])


def ratio(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def contrast(one: str, other: str) -> float:
    return ratio(luminance(linear(one)), luminance(linear(other)))


def seen(color: str, vision: str) -> np.ndarray:
    received = np.clip(np.linalg.inv(CONES) @ VISION[vision] @ CONES @ linear(color), 0, 1)
    return TO_LAB @ np.cbrt(TO_LMS @ received)


def nearest(colors: list[str], vision: str) -> float:
    lab = [seen(color, vision) for color in colors]
    return min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(lab, 2))


def test_contrast_and_vision_are_what_they_claim() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert seen("#ffffff", "trichromat") == pytest.approx([1, 0, 0], abs=1e-3)
    # The negative control: a red and an olive that protanopes cannot tell apart.
    assert nearest(["#b03030", "#4d4d31"], "protanope") < 0.01
    assert nearest(["#b03030", "#4d4d31"], "trichromat") > 0.15


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", VISION)
def test_colors_of_networks_are_told_apart(vision: str, theme: str) -> None:
    assert nearest([COLORS[slot][THEMES[theme]] for slot in SLOTS], vision) > 0.08


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("ink", "paper", "least"),
    [
        *((slot, "surface", 3.0) for slot in SLOTS),
        *(
            (ink, paper, 4.5)
            for ink in ("ink", "muted", "accent", "warn")
            for paper in ("page", "surface", "raised")
        ),
        ("control", "surface", 3.0),
    ],
)
def test_contrast(ink: str, paper: str, least: float, theme: str) -> None:
    assert contrast(COLORS[ink][THEMES[theme]], COLORS[paper][THEMES[theme]]) >= least


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("share", np.linspace(0, 1, 21))
def test_numbers_on_the_heat_map_are_legible(share: float, theme: str) -> None:
    # as inkOn in distances.js has it
    ink = "on-near" if share < 0.35 else "on-middle" if share < 0.49 else "on-far"
    near, far = (
        TO_LAB @ np.cbrt(TO_LMS @ linear(COLORS[end][THEMES[theme]])) for end in ("near", "far")
    )
    mixed = (
        np.linalg.inv(TO_LMS) @ (np.linalg.inv(TO_LAB) @ ((1 - share) * near + share * far)) ** 3
    )
    assert ratio(luminance(mixed), luminance(linear(COLORS[ink][THEMES[theme]]))) >= 4.45
