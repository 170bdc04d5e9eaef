"""A drawn figure with its data, both of which can be saved."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from sigmascope.checks import check_choice
from sigmascope.figures.style import figure_of, styled
from sigmascope.store.files import write_atomic

Table = Sequence[Mapping[str, Any]]

# Metadata left out, so that the same figure gives the same bytes on another day.
FORMATS: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}
# Spreadsheets read text that begins so as a formula, at the start of a cell and, where they divide
# lines by semicolons or tabs, behind these; full-width signs count as the plain ones.
FORMULA = re.compile(r"(?:^|(?<=[;\t\n\v\f\x85\u2028\u2029]))(?=[=+@\-\t＝＋＠－])")


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a draw function returns.

    Attributes:
        figure: the whole figure, which you may change. Notebooks show it.
        axes: the axes that were drawn in, the main ones first.
        table: the data shown, one mapping per row.

    >>> import tempfile
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> drawn = sg.signature(network, torch.randn(256, 4), name="small").plot()
    >>> [row["site"] for row in drawn.table], drawn.axes[0].get_ylabel()
    (['1', '2'], 'affinity score')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn.save(f"{folder}/small.pdf").name
    'small.pdf'
    """

    figure: Figure
    axes: tuple[Axes, ...]
    table: Table = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the figure, and its data beside it; see `save`."""
        return save(self.figure, path, self.table)

    def pixels(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the figure as an image (height, width, 3), for loggers that take arrays."""
        colors = imread(io.BytesIO(_picture(self.figure, "png")))
        return np.round(255 * colors[..., :3]).astype(np.uint8)

    def _repr_png_(self) -> bytes:
        return _picture(self.figure, "png")


def finished(axes: Iterable[Axes], table: Table) -> Drawn:
    """Return the result of drawing in these axes of one figure."""
    panels = tuple(axes)
    return Drawn(figure_of(panels[0]), panels, table)


def save(figure: Figure, path: str | Path, table: Table | None = None) -> Path:
    """Write a figure to a file, whole or not at all, and its data beside it as `name.csv`.

    The same figure gives the same bytes. In the table NaN is an empty cell, and text that a
    spreadsheet would read as a formula gets an apostrophe: where it begins with = + - @ or a tab,
    also full-width, and where such a sign follows a semicolon, a tab or a line feed. Numbers are
    never changed.

    Args:
        figure: to write.
        path: ends in .pdf, .png or .svg.
        table: the data shown; rows may have different columns.

    Returns:
        The path of the figure.

    Raises:
        OptionError: another file extension.
        InputError: the path is a directory, a device or a pipe.

    >>> import tempfile
    >>> from sigmascope.figures.style import new_figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(new_figure(4, 3), f"{folder}/empty.png", [{"site": "1", "score": 0.5}])
    ...     path.with_suffix(".csv").read_text().splitlines()
    ['site,score', '1,0.5']
    """
    target = Path(path)
    ending = target.suffix[1:].lower()
    check_choice("format", ending, FORMATS)
    write_atomic(target, _picture(figure, ending))
    if table is not None:
        write_atomic(target.with_suffix(".csv"), table_bytes(table))
    return target


@styled()
def _picture(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, metadata=FORMATS[ending])
    return buffer.getvalue()


def table_bytes(table: Table) -> bytes:
    r"""Return a table as CSV (UTF-8) with all columns, in the order in which they first occur.

    >>> table_bytes([{"network": "=1+1", "score": -0.5}, {"network": "b", "why": "dead"}])
    b"network,score,why\n'=1+1,-0.5,\nb,,dead\n"
    """
    columns = list(dict.fromkeys(column for row in table for column in row))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_cell(column) for column in columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in table)
    # a name may hold half a letter
    return buffer.getvalue().encode("utf-8", errors="backslashreplace")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        # the csv module would leave it bare, and readers end the line there
        text = value.replace("\r", "\\r")
        return FORMULA.sub("'", text)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
