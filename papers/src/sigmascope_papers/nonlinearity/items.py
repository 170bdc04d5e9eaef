"""Items of this paper, each described by the Markdown file of its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sigmascope.figures import Drawn
from sigmascope_papers.item import Item, Rule, judge_by
from sigmascope_papers.setting import Setting

Rules = tuple[Rule, ...]
Measure = Callable[[Setting], Any]
Draw = Callable[[Any], dict[str, Drawn]]


def item_of(name: str, measure: Measure, draw: Draw, *rules: Rule) -> Item:
    """Return the item that measures, applies the rules to its claims in turn, and draws."""
    return Item(measure, judge_by(f"nonlinearity.{name}", *rules), draw)
