"""Functions of the plane as gray images, in rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import PAGE, SMALL, new_figure, shown, styled
from sigmascope_papers.chance import Array

LARGEST = 1.3  # inches
Texts = Sequence[Sequence[str]]


@styled()
def draw_images(
    images: Sequence[Sequence[Any]],
    *,
    titles: Texts | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Drawn:
    """Draw r rows of c images, each (h, w): 0 is black, 1 is white, NaN is tinted.

    Titles, (r, c), are above the images; names of the rows at the left, of the columns at the top.
    """
    pictures = [[np.asarray(image, dtype=np.float64) for image in row] for row in images]
    _check(pictures, titles, rows, columns)
    down, across = len(pictures), len(pictures[0])
    texts = titles if titles is not None else [[""] * across] * down
    side = min(LARGEST, (PAGE - 0.3) / across)
    letters = int(18 * side)  # that fit above an image
    height = 0.25 * bool(columns) + (side + 0.2 * (titles is not None)) * down
    panels: Any = new_figure(0.3 + side * across, height).subplots(down, across, squeeze=False)
    for row, column in np.ndindex(down, across):
        panel, title = panels[row, column], texts[row][column]
        panel.set_facecolor("#E8C9A0")
        panel.imshow(pictures[row][column], cmap="gray", vmin=0, vmax=1, interpolation="none")
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set(visible=True, linewidth=0.5)
        head = f"{shown(columns[column], letters)}\n" if columns and row == 0 else ""
        panel.set_title(head + (title and shown(title, letters)), fontsize=SMALL, pad=2.5)
        if rows and column == 0:
            panel.set_ylabel(shown(rows[row], int(14 * side)), fontsize=8)
    table = [  # a row for each line of each image, with a column for each of its pixels
        {
            "row": rows[row] if rows else row + 1,
            "column": columns[column] if columns else column + 1,
            "title": texts[row][column],
            "line": number,
            **{f"x{place}": value for place, value in enumerate(line, 1)},
        }
        for row, column in np.ndindex(down, across)
        for number, line in enumerate(pictures[row][column].tolist(), 1)
    ]
    return finished(panels.ravel().tolist(), table)


def _check(
    pictures: list[list[Array]], titles: Texts | None, rows: Sequence[str], columns: Sequence[str]
) -> None:
    if not pictures or not pictures[0] or len({len(row) for row in pictures}) != 1:
        raise InputError("The images are not r rows of c images each. Pass lists of one length.")
    down, across = len(pictures), len(pictures[0])
    for row, column in np.ndindex(down, across):
        image, name = pictures[row][column], f"Image {column} of row {row}"
        if image.ndim != 2 or not image.size:
            raise InputError(f"{name} has shape {image.shape}. Pass (h, w).")
        if np.nanmin(image, initial=0.0) < 0 or np.nanmax(image, initial=1.0) > 1:
            raise InputError(f"{name} has values outside [0, 1]. Scale it first.")
    if titles is not None and [len(line) for line in titles] != [across] * down:
        raise InputError(f"The titles are not {down} rows of {across}. Pass one for each image.")
    if len(rows) not in (0, down) or len(columns) not in (0, across):
        named = f"{len(rows)} and {len(columns)} names for them"
        raise InputError(f"There are {down} rows and {across} columns, but {named}.")
