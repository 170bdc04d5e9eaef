"""Write docs/reliability.md from the lines that the tests under faults have left.

Run as `python -m tests.faults.table`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import torch

import sigmascope

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
OPENING = """# Reliability

`make test-faults` breaks things on purpose: it kills processes, measures in several threads, \
changes files, and runs networks that fail. This is what came out, with {versions}. `make test` \
tries the same in a short form.

| trial | tried | failed | | date |
|---|---:|---:|---|---|
"""


def main() -> None:
    """Write the table of the file SIGMASCOPE_FAULTS_RESULTS."""
    lines = Path(os.environ["SIGMASCOPE_FAULTS_RESULTS"]).read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: str(row["trial"]))
    if not rows:
        sys.exit("No test left a line: run make test-faults.")
    versions = (
        f"sigmascope {sigmascope.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()} on {platform.system()}"
    )
    table = "".join(
        "| {trial} | {tried:,} | {failed:,} | {note} | {date} |\n".format(**row) for row in rows
    )
    DOCUMENT.write_text(OPENING.format(versions=versions) + table, encoding="utf-8")
    print(DOCUMENT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
