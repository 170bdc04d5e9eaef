"""Which family, layer or group comes before which: claims of the figures that need no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sigmascope_papers.item import Check, Item
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import rotations, similarity_items, stitching_items
from sigmascope_papers.symmetry.data import PRINTED

ORDERINGS = {item: tuple(begins) for item, begins in PRINTED["orderings"].items()}
"""Item -> how its claims begin."""
ITEMS = {**stitching_items.ITEMS, **rotations.ITEMS, **similarity_items.ITEMS}


def _measure(setting: Setting) -> dict[str, Any]:
    return {name: ITEMS[name].measure(setting) for name in ORDERINGS}


def _judge(found: Mapping[str, Any]) -> list[Check]:
    """Judge as the figures do."""
    return [
        replace(check, claim=f"Figure {name.removeprefix('sym-fig')}: {check.claim}")
        for name, begins in ORDERINGS.items()
        for check in ITEMS[name].judge(found[name])
        if check.claim.startswith(begins)
    ]


ITEM = Item(measure=_measure, judge=_judge, draw=lambda found: {})
