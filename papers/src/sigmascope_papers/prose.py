"""The description of an item: the Markdown file beside it, read into sections."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Prose", "prose_of"]


@dataclass(frozen=True)
class Prose:
    """The sections of a Markdown file, each one line of text; empty if a section is missing.

    Attributes:
        title: the heading: what the item shows.
        shows: the first paragraph: the same in a few words, for lists.
        protocol: how the item is measured, and how claims of the paper are read.
        budget: networks, batches, seeds: the cost of the measurement.
        exact: what is exactly as in the paper, and what stands in for something else.
        uncertainty: how far the numbers may be off, and why.
        rule: what was known when the rule was written.
        reason: why our networks do not show what the paper says, as far as it is known.
    """

    title: str
    shows: str
    protocol: str = ""
    budget: str = ""
    exact: str = ""
    uncertainty: str = ""
    rule: str = ""
    reason: str = ""


@functools.cache
def prose_of(file: str) -> Prose:
    """Return the description of an item by its file, such as `nonlinearity.fig7`."""
    folder, _, name = file.partition(".")
    text = (files("sigmascope_papers") / folder / f"{name}.md").read_text(encoding="utf-8")
    title, _, body = text.removeprefix("# ").partition("\n")
    shows, *sections = (" ".join(part.split()) for part in re.split(r"^## ", body, flags=re.M))
    parts = (section.partition(" ") for section in sections)
    return Prose(title.strip(), shows, **{heading.lower(): body for heading, _, body in parts})
