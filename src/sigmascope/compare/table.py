"""Results as lines of text and as frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sigmascope.errors import MissingExtraError
from sigmascope.measure.table import aligned

if TYPE_CHECKING:
    import pandas

__all__ = ["as_frame", "as_lines", "number"]

LONGEST = 40


def as_lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    r"""Lay columns out as an aligned table: numbers to the right, with four decimals unless they
    are whole.

    >>> print(*as_lines({"network": ["resnet18", "vgg11"], "sites": [17, 10], "mean": [0.912, math.nan]}), sep="\n")
    network   sites    mean
    resnet18     17  0.9120
    vgg11        10       –
    """
    texts = [
        [_shortened(cell) if isinstance(cell, str) else number(cell) for cell in column]
        for column in columns.values()
    ]
    numeric = {
        place
        for place, column in enumerate(columns.values())
        if not any(isinstance(cell, str) for cell in column)
    }
    return aligned([list(columns), *(list(row) for row in zip(*texts, strict=True))], numeric)


def number(value: int | float) -> str:
    """Write a number for a table; a dash for NaN.

    >>> number(3), number(0.12345), number(25557032.0), number(-1e-9), number(math.nan)
    ('3', '0.1235', '2.556e+07', '0.0000', '–')
    """
    if math.isnan(value):
        return "–"
    if isinstance(value, float):
        return f"{value:z.4f}" if abs(value) < 1e4 else f"{value:.4g}"
    return str(value)


def as_frame(
    columns: Mapping[str, Sequence[Any]], index: Sequence[str] | None = None
) -> pandas.DataFrame:
    """Return a pandas DataFrame of these columns.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "to_frame needs pandas: pip install 'sigmascope[analysis]'."
        ) from error
    return pandas.DataFrame(dict(columns), index=None if index is None else list(index))


def _shortened(text: str) -> str:
    """Cut a long name in its middle, and keep it on its line: a name comes from a file that anybody
    may have written.
    """
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    front = (LONGEST - 1) // 2
    return line if len(line) <= LONGEST else f"{line[:front]}…{line[-(LONGEST - 1 - front) :]}"
