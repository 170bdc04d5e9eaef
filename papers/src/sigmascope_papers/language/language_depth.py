"""How linear the blocks of language models are by depth, and their activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, draw_blocks, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import add_legend
from sigmascope.measure.block_result import Blocks
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.language.measuring import ABSENT, available
from sigmascope_papers.language.ranks import correlation
from sigmascope_papers.setting import Setting

ALMOST, ENOUGH, NEAR = 0.99, 0.95, 0.05


@dataclass(frozen=True, eq=False)
class Depths:
    """The blocks of each measurement."""

    blocks: Mapping[str, Blocks]

    @property
    def decoders(self) -> dict[str, Blocks]:
        """Those of decoders, which predict the next token."""
        return {name: one for name, one in self.blocks.items() if not name.startswith("MiniLM")}

    @property
    def deep(self) -> Blocks | None:
        """Those of SmolLM2, if they are stored."""
        some = (one for name, one in self.blocks.items() if name.startswith("SmolLM2"))
        return next(some, None)


def measure(setting: Setting) -> Depths:
    """Read or measure the blocks of all models."""
    return Depths({name: one for name, (one, _) in available(setting).items()})


def _medians(found: Mapping[str, Blocks], values: Any) -> dict[str, float]:
    return {name: float(np.median(values(one))) for name, one in found.items()}


def _told(medians: Mapping[str, float]) -> str:
    return "; ".join(f"{name}: {value:.3f}" for name, value in medians.items())


def _stream(found: Depths) -> Finding:
    medians = _medians(found.decoders, lambda one: one.values("procrustes"))
    enough = [value >= ENOUGH for value in medians.values()]
    return _told(medians), any(enough), all(enough)


def _without(found: Depths) -> Finding:
    lower = np.concatenate(
        [
            one.values("procrustes_increment") < one.values("procrustes")
            for one in found.decoders.values()
        ]
    )
    return f"{lower.sum()} of {len(lower)} blocks", lower.mean() >= 0.9, lower.all()


def _held_out(found: Depths) -> Finding:
    gaps = _medians(found.blocks, lambda one: one.values("procrustes") - one.values("stream"))
    near = [gap <= NEAR for gap in gaps.values()]
    return _told(gaps), sum(near) > len(near) / 2, all(near)


def _activation(found: Depths) -> Finding:
    if found.deep is None:
        return ABSENT
    rho = correlation(found.deep.values("activation"), found.deep.values("increment"))
    return str(rho), rho.value > 0, rho.low > 0


def _feed_forward(found: Depths) -> Finding:
    above = np.concatenate(
        [one.values("feed_forward") > one.values("increment") for one in found.blocks.values()]
    )
    return f"{above.sum()} of {len(above)} blocks", above.mean() > 0.5, above.mean() >= 0.75


@styled()
def draw(found: Depths) -> dict[str, Drawn]:
    """Draw the measures over depth, a panel for each measurement."""
    rows = -(-len(found.blocks) // 2)
    figure = new_figure(7.0, 0.6 + 2.0 * rows)
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).flatten()
    table: list[Mapping[str, Any]] = []
    for panel, blocks in zip(panels, found.blocks.values(), strict=False):
        table += draw_blocks(blocks, panel).table
    for panel in panels[len(found.blocks) :]:
        panel.set_axis_off()
    for panel in panels[: len(found.blocks)]:
        panel.label_outer()
        panel.tick_params(labelbottom=True)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return {"": finished(panels, table)}


RULES = (_stream, _without, _held_out, _activation, _feed_forward)
ITEM = Item(measure, judge_by("language.language_depth", *RULES), draw)
