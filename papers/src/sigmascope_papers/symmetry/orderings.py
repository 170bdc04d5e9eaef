"""What the paper says without numbers: which family, layer or group comes before which.

Networks that are trained by another recipe have other numbers, so these claims are the ones that
count. They are those of the figures, by the rules of the figures; here they stand together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import fig1, fig2, fig4, fig5, fig6

__all__ = ["ITEM"]

# Module -> how the claims begin.
ORDERINGS: Mapping[ModuleType, tuple[str, ...]] = {
    fig1: ("relu-group costs less than rank", "full stitches cost little"),
    fig6: ("relu-group costs less than rank 1", "relu-group: layers inside", "full: layers inside"),
    fig4: ("a rotation costs more", "the penalty of a rotation grows"),
    fig2: ("by the relu group similarity decays faster",),
    fig5: ("by the relu group similarity decays faster",),
}


def measure(setting: Setting) -> dict[ModuleType, Any]:
    """Read or measure what the figures need."""
    return {module: module.ITEM.measure(setting) for module in ORDERINGS}


def judge(found: Mapping[ModuleType, Any]) -> list[Check]:
    """Judge as the figures do."""
    return [
        replace(check, claim=f"{_named(module)}: {check.claim}")
        for module, begins in ORDERINGS.items()
        for check in module.ITEM.judge(found[module])
        if check.claim.startswith(begins)
    ]


def draw(_: object) -> dict[str, Drawn]:
    """Draw nothing: the figures do."""
    return {}


def _named(module: ModuleType) -> str:
    return f"Figure {module.__name__.rpartition('fig')[2]}"


ITEM = Item(measure=measure, judge=judge, draw=draw)
