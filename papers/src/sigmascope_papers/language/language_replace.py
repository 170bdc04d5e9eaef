"""Which measure of a block predicts what it costs to replace the block by its linear map."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import look
from sigmascope.measure.block_result import Blocks
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding, Item, Rule, judge_by
from sigmascope_papers.language.measuring import ABSENT, Replacements, available
from sigmascope_papers.language.ranks import Correlation, correlation, difference
from sigmascope_papers.setting import Setting

SMALL, TOLERABLE, CLEAR, APART = 0.05, 0.15, 0.5, 20.0
OURS = ("stream", "increment", "feed_forward")
RIVALS = ("position", "influence")
LABELS = {
    "stream": "stream, 1 − R²",
    "increment": "increment, 1 − R²",
    "feed_forward": "feed-forward, 1 − R²",
    "procrustes": "1 − Procrustes",
    "procrustes_increment": "1 − Procrustes of increment",
    "activation": "activation, 1 − score",
    "influence": "cosine block influence",
    "position": "position, last first",
}


@dataclass(frozen=True, eq=False)
class Costs:
    """The blocks and replacements of each decoder."""

    found: Mapping[str, tuple[Blocks, Replacements]]

    @property
    def deep(self) -> tuple[Blocks, Replacements] | None:
        """Those of SmolLM2, if they are stored."""
        some = (both for name, both in self.found.items() if name.startswith("SmolLM2"))
        return next(some, None)


def measure(setting: Setting) -> Costs:
    """Read or measure all decoders."""
    both = available(setting).items()
    return Costs({name: (one, other) for name, (one, other) in both if other is not None})


def predictor(blocks: Blocks, name: str) -> Array:
    """Return a measure of all blocks (k,), turned so that more should cost more."""
    if name == "position":
        return -np.arange(len(blocks), dtype=np.float64)
    if name == "influence":
        return blocks.values("influence")
    return 1 - blocks.values(name)


def rises(costs: Replacements) -> Array:
    """Return the rise of the loss per token (k,) with each block replaced."""
    found: Array = costs.rises().double().numpy()
    return found


@functools.cache  # several rules ask for the same draws
def correlations(costs: Costs) -> dict[str, Correlation]:
    """Return the correlation of every predictor with the rise, over the blocks of SmolLM2."""
    if costs.deep is None:
        return {}
    blocks, replaced = costs.deep
    return {name: correlation(predictor(blocks, name), rises(replaced)) for name in LABELS}


def _proves(costs: Costs) -> Finding:
    pairs = {
        name: (math.exp(one.mean_loss), one.shuffled) for name, (_, one) in costs.found.items()
    }
    told = "; ".join(f"{name}: {own:.3g}, {mixed:.4g}" for name, (own, mixed) in pairs.items())
    return told, all(mixed >= APART * own for own, mixed in pairs.values())


def _cheap(costs: Costs) -> Finding:
    if costs.deep is None:
        return ABSENT
    blocks, replaced = costs.deep
    place = int(np.argmax(blocks.values("procrustes")))
    share = float(rises(replaced)[place]) / replaced.mean_loss
    least = float(rises(replaced).min()) / replaced.mean_loss
    told = f"{share:.1%} for {blocks.blocks[place].name}; the cheapest block {least:.1%}"
    return told, share <= TOLERABLE, share <= SMALL


def _predicts(costs: Costs, measure: str) -> Finding:
    if costs.deep is None:
        return ABSENT
    found = correlations(costs)[measure]
    return str(found), found.value > 0, found.value >= CLEAR and found.low > 0


def _best(costs: Costs) -> Finding:
    if costs.deep is None:
        return ABSENT
    blocks, replaced = costs.deep
    known, target = correlations(costs), rises(replaced)
    name = max(OURS, key=lambda one: np.nan_to_num(known[one].value, nan=-1))
    apart = {
        rival: difference(predictor(blocks, name), predictor(blocks, rival), target)
        for rival in RIVALS
    }
    told = "; ".join(
        f"less {rival}: {one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
        for rival, one in apart.items()
    )
    true = all(one.value > 0 for one in apart.values())
    return f"{name}: {known[name]}; {told}", true, all(one.low > 0 for one in apart.values())


@styled()
def draw(costs: Costs) -> dict[str, Drawn]:
    """Draw the rise of the loss by depth, and the correlations of the predictors with it."""
    figure = new_figure(7.0, 3.0)
    left, right = panels = figure.subplots(1, 2, width_ratios=(1.2, 1))
    table: list[dict[str, Any]] = []
    for number, (name, (blocks, replaced)) in enumerate(costs.found.items()):
        how, rise = look(number), rises(replaced)
        depth = (np.arange(len(rise)) + 0.5) / len(rise)
        left.plot(depth, rise, label=name, **how.points(3.5) | {"linestyle": how.line})
        for row, block in enumerate(blocks):
            told = {"panel": "rise", "measurement": name, "block": block.name, "rise": rise[row]}
            told |= {one: float(predictor(blocks, one)[row]) for one in LABELS}
            table.append(told)
    left.axhline(0, color="0.5", linewidth=0.6)  # on text unlike that of its training it may fall
    left.set(xlabel="relative depth of the replaced block", ylabel="rise of the loss (nats/token)")
    left.margins(y=0.2)
    left.legend(fontsize=6.5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    table += _draw_correlations(right, correlations(costs))
    return {"": finished(panels, table)}


def _draw_correlations(axes: Axes, found: Mapping[str, Correlation]) -> list[dict[str, Any]]:
    if not found:
        axes.set_axis_off()
        return []
    for row, (name, one) in enumerate(found.items()):
        color = look(1 if name in RIVALS else 0).color
        axes.hlines(row, one.low, one.high, color=color, linewidth=1.5)
        axes.plot(one.value, row, "o", color=color, markersize=4)
    axes.axvline(0, color="0.5", linewidth=0.6)
    axes.set_yticks(range(len(found)), [LABELS[name] for name in found], fontsize=6.5)
    axes.set(xlabel="Spearman with the rise, SmolLM2-135M", ylim=(len(found) - 0.5, -0.5))
    return [
        {"panel": "correlation", "predictor": name, "rho": one.value, "low": one.low}
        | {"high": one.high}
        for name, one in found.items()
    ]


PREDICTED = [functools.partial(_predicts, measure=name) for name in LABELS]
RULES: tuple[Rule, ...] = (_proves, _cheap, *PREDICTED, _best)
ITEM = Item(measure, judge_by("language.language_replace", *RULES), draw)
