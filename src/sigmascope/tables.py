"""Results as tables: aligned text, HTML for notebooks, pandas frames, numbers for loggers."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sigmascope.errors import MissingExtraError, printable

if TYPE_CHECKING:
    import pandas

Columns: TypeAlias = Mapping[str, Sequence[Any]]

LONGEST = 40  # characters of a cell


@dataclass(frozen=True)
class Table:
    """Columns of equal length, with a title above and notes below."""

    columns: Columns
    title: str = ""
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Return the table as aligned text."""
        above = [self.title, ""] if self.title else []
        below = ["", *self.notes] if self.notes else []
        return printable("\n".join([*above, *as_lines(self.columns), *below]))

    def html(self) -> str:
        """Return the table as HTML, with the same texts."""
        head, *rows = _cells(self.columns)
        title = html.escape(printable(self.title))
        caption = f"<caption>{title}</caption>" if title else ""
        body = "".join(_html_row(row, "td") for row in rows)
        notes = "<br>".join(html.escape(printable(note)) for note in self.notes)
        return (
            f"<table>{caption}<thead>{_html_row(head, 'th')}</thead><tbody>{body}</tbody></table>"
            + (f"<p>{notes}</p>" if notes else "")
        )


class Preformatted:
    """A result that a notebook shows as its text."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class Tabular:
    """A result that shows itself as tables; it defines `_columns`, and `_tables` for more."""

    def _columns(self) -> Columns:
        raise NotImplementedError

    def _tables(self) -> Sequence[Table]:
        return [Table(self._columns())]

    def __repr__(self) -> str:
        return "\n\n".join(table.text() for table in self._tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self._tables())

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with the rows and columns of the printed table.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(self._columns())

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger, one level deep: `{prefix}{row}/{column}` -> number.

        Args:
            prefix: put before every key, such as "compare/".
        """
        keys, *columns = self._columns().items()
        return {
            f"{prefix}{key}/{name}": value
            for name, values in columns
            for key, value in zip(keys[1], values, strict=True)
            if not isinstance(value, str)
        }


def as_lines(columns: Columns) -> list[str]:
    r"""Return the lines of an aligned table, with numbers to the right.

    >>> print(*as_lines({"network": ["resnet18", "vgg11"], "mean": [0.912, math.nan]}), sep="\n")
    network     mean
    resnet18  0.9120
    vgg11          –
    """
    texts = [
        place
        for place, column in enumerate(columns.values())
        if any(isinstance(cell, str) for cell in column)
    ]
    return aligned(_cells(columns), set(range(len(columns))) - set(texts))


def aligned(rows: list[list[str]], numeric: set[int]) -> list[str]:
    """Return rows of equal length as lines; the columns in `numeric` are aligned to the right.

    >>> aligned([["site", "dim"], ["relu", "64"]], {1})
    ['site  dim', 'relu   64']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if column in numeric else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def number(value: int | float) -> str:
    """Return a number as a table shows it: four decimals unless it is whole, a dash for NaN.

    >>> number(3), number(0.12345), number(25557032.0), number(-1e-9), number(math.nan)
    ('3', '0.1235', '2.556e+07', '0.0000', '–')
    """
    if math.isnan(value):
        return "–"
    if isinstance(value, float):
        return f"{value:z.4f}" if abs(value) < 1e4 else f"{value:.4g}"
    return str(value)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text on one line, cut in its middle: names come from files that anybody may write.

    >>> shortened("layer1.0.relu", 8)
    'lay…relu'
    """
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    front = (longest - 1) // 2
    return line if len(line) <= longest else f"{line[:front]}…{line[-(longest - 1 - front) :]}"


def as_frame(columns: Columns, index: Sequence[str] | None = None) -> pandas.DataFrame:
    """Return a pandas DataFrame of these columns."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "to_frame needs pandas: pip install 'sigmascope[analysis]'."
        ) from error
    return pandas.DataFrame(dict(columns), index=None if index is None else list(index))


def _cells(columns: Columns) -> list[list[str]]:
    """Return the names of the columns, then one list of texts per row."""
    texts = [
        [shortened(cell) if isinstance(cell, str) else number(cell) for cell in column]
        for column in columns.values()
    ]
    head = [printable(name) for name in columns]
    return [head, *(list(row) for row in zip(*texts, strict=True))]


def _html_row(texts: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"
