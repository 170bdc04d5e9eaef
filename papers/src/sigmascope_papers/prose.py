"""The description of an item: the Markdown file beside it, read into sections."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

ROW = re.compile(r"^\| _?(\w+) \| (.*?) \| (.*?) \| (.*?) \| ?(.*?) ?\|$", re.MULTILINE)
"""A row of the table of claims: rule, claim, expected, judged, needs."""


class Claim(NamedTuple):
    """A claim; its texts may have placeholders for constants and arguments of its rule."""

    claim: str
    expected: str
    judged: str
    needs: str


@dataclass(frozen=True)
class Prose:
    """The sections of a Markdown file, each one line of text; empty if a section is missing."""

    title: str  # what the item shows
    shows: str  # the first paragraph: the same in a few words, for lists
    protocol: str = ""  # how the item is measured, and how claims of the paper are read
    budget: str = ""  # networks, batches, seeds: the cost of the measurement
    exact: str = ""  # what is exactly as in the paper, and what stands in for something else
    uncertainty: str = ""  # how far the numbers may be off, and why
    rule: str = ""  # what was known when the rule was written
    reason: str = ""  # why our networks do not show what the paper says, as far as it is known
    claims: Mapping[str, Claim] = field(default_factory=dict)  # by the names of their rules


@functools.cache
def prose_of(file: str) -> Prose:
    """Return the description of an item by its file, such as `nonlinearity.fig7`."""
    folder, _, name = file.partition(".")
    text = (files("sigmascope_papers") / folder / f"{name}.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, shows = head.removeprefix("# ").partition("\n")
    found: dict[str, Any] = {}
    for section in sections:
        heading, _, body = section.partition("\n")
        found[heading.strip().lower()] = " ".join(body.split())
    rows = ([cell.replace("\\|", "|") for cell in row] for row in ROW.findall(text))
    found["claims"] = {rule: Claim(*texts) for rule, *texts in rows}
    return Prose(title.strip(), " ".join(shows.split()), **found)
