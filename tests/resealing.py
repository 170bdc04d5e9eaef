"""Stored files changed by hand: with a digest that fits again, or without one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sigmascope.store import Journal

Change = Callable[[Any], object]


def without_digest(text: str) -> str:
    """Return the text of a document without its digest."""
    return re.sub(r'\s*"digest": "[0-9a-f]+",', "", text, count=1)


def edit(path: Path, change: Change) -> None:
    """Change a document in place and remove its digest, as a user may."""
    document = json.loads(path.read_text("utf-8"))
    document.pop("digest", None)
    change(document)
    path.write_text(json.dumps(document), "utf-8")


def edit_record(path: Path, number: int, change: Change) -> None:
    """Change one record of a journal in place; all lines get digests that fit."""
    header, *lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    records = [line["record"] for line in lines]
    change(records[number])
    path.unlink()
    with Journal.open(path, header["content"]) as journal:
        for record in records:
            journal.append(record)
