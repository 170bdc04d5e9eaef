"""What is said of an item: the Markdown file beside it, read into sections."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Prose", "prose_of"]


@dataclass(frozen=True)
class Prose:
    """The sections of a Markdown file, each one line of text; empty where a section is missing.

    Attributes:
        title: the heading: what the item shows.
        shows: the first paragraph: the same in a few words, for lists.
        budget: networks, batches, seeds: what the measurement spends.
        exact: what is exactly the paper's and what stands in for something else.
        uncertainty: how far the numbers may be off, and why.
        rule: what was known when the rule was written.
        reason: where our networks do not show what the paper says, why, as far as it is known.
    """

    title: str
    shows: str
    budget: str = ""
    exact: str = ""
    uncertainty: str = ""
    rule: str = ""
    reason: str = ""


@functools.cache
def prose_of(file: str) -> Prose:
    """Return the prose of an item by its module, such as `nonlinearity.fig7`."""
    folder, _, name = file.partition(".")
    text = (files("sigmascope_papers") / folder / f"{name}.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, shows = head.removeprefix("# ").partition("\n")
    parts = (section.partition("\n") for section in sections)
    return Prose(
        _one_line(title),
        _one_line(shows),
        **{heading.strip().lower(): _one_line(body) for heading, _, body in parts},
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
