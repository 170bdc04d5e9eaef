"""Numbers over the steps of a training as a CSV file: a row for each step."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError
from sigmascope.store.files import write_atomic

STEP = "step"


class CsvLog:
    r"""A CSV file with a row for each step that was logged, and a column for each number.

    A file that exists is continued: its rows from the first step that is logged again on belong to
    a training that was started again from a checkpoint, and are left out. The file is always whole.

    Args:
        path: the file, which ends in .csv.

    Raises:
        InputError: it ends otherwise.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = CsvLog(f"{folder}/run.csv")
    ...     log.log_metrics({"sigmascope/mean": 0.5}, step=10)
    ...     Path(folder, "run.csv").read_text()
    'step,sigmascope/mean\n10,0.5\n'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() != ".csv":
            raise InputError(
                f"log={str(path)!r:.120} does not end in .csv. A path is a CSV file; pass a logger "
                "as an object."
            )
        self._rows: list[dict[str, str]] | None = None

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        """Add a row, and write the file."""
        if self._rows is None:
            self._rows = self._read()
        row = {STEP: str(step)} | {name: repr(float(value)) for name, value in values.items()}
        self._rows = [one for one in self._rows if int(one[STEP]) < step] + [row]
        columns = list(dict.fromkeys(name for one in self._rows for name in one))
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        write_atomic(self.path, buffer.getvalue().encode("utf-8", errors="backslashreplace"))

    def _read(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        try:
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            for row in rows:
                int(row[STEP])
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise FileFormatError(
                f"{self.path} exists and is not a CSV file with a column {STEP!r} of whole "
                "numbers. Choose another path, or remove it first."
            ) from error
        return [{name: value for name, value in row.items() if value} for row in rows]
