"""How linear the blocks of a network are, by depth."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind
from sigmascope.errors import InputError
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.measure.block_result import MEASURES, Blocks

LABELS = {
    "activation": "activation (affinity score)",
    "feed_forward": "feed-forward part (held-out R²)",
    "increment": "increment y − x (held-out R²)",
    "stream": "stream y (held-out R²)",
    "procrustes": "stream (Procrustes, in sample)",
}
"""The measures that are drawn."""


@style.styled()
def draw_blocks(blocks: Blocks, axes: Axes | None = None) -> Drawn:
    """Draw the linearity of each block over its place, with a band for the 95 % interval.

    The table has all measures, `procrustes_increment` and `influence` too.

    Args:
        blocks: see `sigmascope.blocks`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: something other than blocks.
        InputError: there are none.

    >>> import torch
    >>> import sigmascope as sg
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> network = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> drawn = sg.figures.draw_blocks(sg.blocks(network, torch.randn(64, 10, 8)))
    >>> sorted({row["block"] for row in drawn.table})
    ['layers.0', 'layers.1']
    """
    check_kind("blocks", blocks, Blocks, "sigmascope.blocks")
    if not len(blocks):
        raise InputError("There is nothing to draw: the result has no block.")
    panel = style.panel_in(axes, style.PAGE * 0.7, 2.6)
    places = np.arange(1, len(blocks) + 1)
    for number, (measure, label) in enumerate(LABELS.items()):
        values = blocks.values(measure)
        if not np.isfinite(values).any():
            continue
        how = style.look(number)
        low, high = (
            np.array([getattr(getattr(block, measure), end) for block in blocks])
            for end in ("low", "high")
        )
        panel.fill_between(places, low, high, color=how.color, alpha=0.18, linewidth=0)
        panel.plot(places, values, label=label, **how.points(3.0) | {"linestyle": how.line})
    panel.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    panel.set(xlabel="block", ylabel="linearity", title=style.shown(blocks.name))
    panel.set_xticks(places if len(places) < 13 else np.arange(5, len(places) + 1, 5))
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _table(blocks))


def _table(blocks: Blocks) -> list[dict[str, Any]]:
    rows = []
    for number, block in enumerate(blocks, 1):
        row: dict[str, Any] = {"network": blocks.name, "place": number, "block": block.name}
        for measure in MEASURES:
            found = getattr(block, measure)
            row |= {measure: found.value}
            row |= {f"{measure}_low": found.low, f"{measure}_high": found.high}
        rows.append(row)
    return rows
