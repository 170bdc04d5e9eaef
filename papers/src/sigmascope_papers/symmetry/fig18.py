"""Figure 18: which categories the interpretable units of Figure 3 belong to, under rotations.

The paper says that concepts of objects and scenes dominate in its ResNet-50 and ConvNeXt. Here the
class of an image, which covers all of its pixels, stands for both; beside it are only colors and
edges. The rule: more than half of all interpretable units, over all bases; in direction, more than
of any other category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import COLORS, PAGE, add_panel_legend
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.dissections import (
    CATEGORIES,
    CONVNEXT,
    RELU,
    STREAM,
    Dissected,
    Found,
    dissections_of,
)
from sigmascope_papers.symmetry.fig3 import draw_parts, told

__all__ = ["ITEM"]

OBJECTS = CATEGORIES.index("class")
NAMES = {RELU: "ResNet-20", CONVNEXT: "ConvNeXt"}
HATCHES = ("////", "....", "")


def measure(setting: Setting) -> Found:
    """Read or make the dissections of Figure 3."""
    return dissections_of(setting, STREAM)


def counted(found: Sequence[Dissected], field: str) -> Matrix:
    """(categories, powers), detectors or distinct concepts, on average over networks and rotations."""
    tables = np.concatenate([one.table(getattr(one, field)) for one in found], axis=1)
    mean: Matrix = tables.mean(axis=1)
    return mean


def judge(found: Found) -> list[Check]:
    """Classes have more than half of the interpretable units; in direction, more than the other
    categories.
    """
    return [
        _dominated(some[label], name, told(part))
        for part, some in found.items()
        for label, name in NAMES.items()
    ]


def _dominated(found: Sequence[Dissected], name: str, of: str) -> Check:
    units = counted(found, "detectors").mean(axis=1)
    share = units[OBJECTS] / units.sum() if units.sum() > 0 else np.nan
    others = np.delete(units, OBJECTS)
    listed = ", ".join(
        f"{category} {count:.1f}" for category, count in zip(CATEGORIES, units, strict=True)
    )
    return relation(
        f"{name}: interpretable units are dominated by objects and scenes, here classes{of}",
        "more than half of them, over all bases",
        f"{share:.2f} of them; units on average: {listed}",
        true=bool(units[OBJECTS] > others.max()),
        clear=bool(share > 0.5),
    )


@styled()
def draw_categories(found: Mapping[str, Sequence[Dissected]]) -> Drawn:
    """Draw interpretable units, as shares of all, and distinct concepts, by category and power."""
    figure = new_figure(PAGE, 4.0)
    panels = figure.subplots(2, len(found), sharex=True, sharey="row", squeeze=False)
    table: list[dict[str, Any]] = []
    for column, (label, some) in enumerate(found.items()):
        powers = np.array(some[0].powers)
        width = 0.8 * float(np.diff(powers).min())
        panels[0, column].set_title(some[0].network.partition(":")[0].removeprefix("sigmascope/"))
        for panel, field, per in (
            (panels[0, column], "detectors", some[0].units),
            (panels[1, column], "concepts", 1),
        ):
            values = counted(some, field) / per
            below = np.zeros(len(powers))
            for name, color, hatch, row in zip(
                CATEGORIES, COLORS[1:], HATCHES, values, strict=False
            ):
                style: dict[str, Any] = {
                    "color": color,
                    "hatch": hatch,
                    "edgecolor": "white",
                    "linewidth": 0,
                    "label": name,
                }
                panel.bar(powers, row, width, below, **style)
                below = below + row
                rows = zip(powers.tolist(), row.tolist(), strict=True)
                table += [
                    {"curve": label, "value": field, "category": name, "power": p, "mean": m}
                    for p, m in rows
                ]
        panels[1, column].set(xlabel="power of the rotation")
    panels[0, 0].set(ylabel="share of all units")
    panels[1, 0].set(ylabel="distinct concepts")
    add_panel_legend(figure, panels.ravel().tolist())
    return Drawn(figure, tuple(panels.ravel().tolist()), table)


def draw(found: Found) -> dict[str, Drawn]:
    """Draw all subjects side by side."""
    return draw_parts(found, draw_categories)


ITEM = Item(measure=measure, judge=judge, draw=draw)
