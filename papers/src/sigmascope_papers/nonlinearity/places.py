"""Where the activations of a network are: inside a block, at its end, or before the blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, draw_signature, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_panel_legend
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array

INSIDE, END, STEM = ORDER = "inside a block", "at the end of a block", "before the blocks"
MANY = 120  # calls in a panel, from where on lines between them get thinner: they would fill it


def places_in(signature: Signature) -> list[str]:
    """Return the place of each call: inside a block, at its end, or before the blocks.

    A block is the module that contains the activation: `layer1.0` for `layer1.0.relu`, `blocks.0`
    for `blocks.0.act2`. The last of its calls is its end.
    """
    blocks = [site.path.rpartition(".")[0] for site in signature.sites]
    last = {block: number for number, block in enumerate(blocks)}
    return [
        STEM if not block else END if last[block] == number else INSIDE
        for number, block in enumerate(blocks)
    ]


def by_place(signature: Signature) -> dict[str, Array]:
    """Return the scores that are not NaN, by place."""
    places, scores = np.array(places_in(signature)), signature.scores
    return {place: scores[(places == place) & np.isfinite(scores)] for place in (INSIDE, END)}


def separation(signature: Signature) -> float:
    """Return the share of pairs of calls in which the one at an end scores above the one inside."""
    found = by_place(signature)
    return float((found[END][:, None] > found[INSIDE]).mean())


@styled()
def draw_panels(
    signatures: Sequence[Signature],
    kinds: Sequence[Sequence[str]],
    titles: Sequence[str],
    *,
    order: Sequence[str] = ORDER,
    columns: int = 1,
) -> Drawn:
    """Draw each signature in a panel of its own, on one scale, by kinds of places."""
    rows, count = math.ceil(len(signatures) / columns), len(signatures)
    figure = new_figure(PAGE, 0.4 + 1.4 * rows)
    panels = figure.subplots(rows, min(columns, count), sharey=True, squeeze=False).ravel()
    table: list[Mapping[str, Any]] = []
    for panel, one, groups, title in zip(panels, signatures, kinds, titles, strict=False):
        table += draw_signature(one, panel, groups=groups, order=order).table
        for line in panel.lines:
            line.set_markersize(line.get_markersize() / columns**0.4)
            line.set_linewidth(line.get_linewidth() * min(1, MANY / len(one.sites)))
        panel.set(xlabel="", ylabel="")
        panel.set_title(title, fontsize=8, pad=3)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.supxlabel("activation call, in order of execution", fontsize=8)
    figure.supylabel("affinity score ± std", fontsize=8)
    add_panel_legend(figure, panels[:count])
    return finished(panels[:count], table)
