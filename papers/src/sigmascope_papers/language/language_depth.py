"""How linear the blocks of language models are by depth, and their activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import add_legend, look
from sigmascope.measure.block_result import MEASURES, Blocks
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.language.measuring import CAST, measured
from sigmascope_papers.language.ranks import correlation
from sigmascope_papers.setting import Setting

ALMOST, ENOUGH, NEAR = 0.99, 0.95, 0.05
DRAWN = {
    "activation": "activation (affinity score)",
    "feed_forward": "feed-forward part (held-out R²)",
    "increment": "increment y − x (held-out R²)",
    "stream": "stream y (held-out R²)",
    "procrustes": "stream (Procrustes, in sample)",
}


@dataclass(frozen=True, eq=False)
class Depths:
    """The blocks of each measurement."""

    blocks: Mapping[str, Blocks]

    @property
    def decoders(self) -> dict[str, Blocks]:
        """Those of decoders, which predict the next token."""
        return {name: one for name, one in self.blocks.items() if not name.startswith("MiniLM")}

    @property
    def deep(self) -> Blocks:
        """Those of SmolLM2."""
        return next(one for name, one in self.blocks.items() if name.startswith("SmolLM2"))


def measure(setting: Setting) -> Depths:
    """Read or measure the blocks of all models."""
    return Depths({name: measured(setting, name)[0] for name in CAST})


def _medians(found: Mapping[str, Blocks], values: Any) -> dict[str, float]:
    return {name: float(np.median(values(one))) for name, one in found.items()}


def _told(medians: Mapping[str, float]) -> str:
    return "; ".join(f"{name}: {value:.3f}" for name, value in medians.items())


def stream(found: Depths) -> Finding:
    medians = _medians(found.decoders, lambda one: one.values("procrustes"))
    enough = [value >= ENOUGH for value in medians.values()]
    return _told(medians), any(enough), all(enough)


def without(found: Depths) -> Finding:
    lower = np.concatenate(
        [
            one.values("procrustes_increment") < one.values("procrustes")
            for one in found.decoders.values()
        ]
    )
    return f"{lower.sum()} of {len(lower)} blocks", lower.mean() >= 0.9, lower.all()


def held_out(found: Depths) -> Finding:
    gaps = _medians(found.blocks, lambda one: one.values("procrustes") - one.values("stream"))
    near = [gap <= NEAR for gap in gaps.values()]
    return _told(gaps), sum(near) > len(near) / 2, all(near)


def activation(found: Depths) -> Finding:
    rho = correlation(found.deep.values("activation"), found.deep.values("increment"))
    return str(rho), rho.value > 0, rho.low > 0


def feed_forward(found: Depths) -> Finding:
    above = np.concatenate(
        [one.values("feed_forward") > one.values("increment") for one in found.blocks.values()]
    )
    return f"{above.sum()} of {len(above)} blocks", above.mean() > 0.5, above.mean() >= 0.75


@styled()
def draw(found: Depths) -> dict[str, Drawn]:
    """Draw the measures over depth, a panel for each measurement."""
    figure = new_figure(7.0, 4.4)
    panels = figure.subplots(2, 2, sharey=True).flatten()
    table: list[dict[str, Any]] = []
    for panel, (name, blocks) in zip(panels, found.blocks.items(), strict=True):
        _draw_blocks(panel, name, blocks)
        for number, block in enumerate(blocks, 1):
            row = {"measurement": name, "block": number, "path": block.name}
            for measure in MEASURES:
                one = getattr(block, measure)
                row |= {measure: one.value, f"{measure}_low": one.low, f"{measure}_high": one.high}
            table.append(row)
    for panel in panels[::2]:
        panel.set_ylabel("linearity")
    for panel in panels[2:]:
        panel.set_xlabel("block")
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return {"": finished(panels, table)}


def _draw_blocks(panel: Axes, name: str, blocks: Blocks) -> None:
    places = np.arange(1, len(blocks) + 1)
    for number, (measure, label) in enumerate(DRAWN.items()):
        how = look(number)
        values = blocks.values(measure)
        low, high = (
            np.array([getattr(getattr(block, measure), end) for block in blocks])
            for end in ("low", "high")
        )
        panel.fill_between(places, low, high, color=how.color, alpha=0.18, linewidth=0)
        panel.plot(places, values, label=label, **how.points(3.0) | {"linestyle": how.line})
    panel.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    panel.set(title=name)
    panel.set_xticks(places if len(places) < 10 else np.arange(5, len(places) + 1, 5))


RULES = (stream, without, held_out, activation, feed_forward)
ITEM = Item(measure, judge_by("language.language_depth", *RULES), draw)
