"""Figure 15: the signatures of ResNets of different depths.

ResNets of 20, 32 and 56 layers, or the paper's five; five batches of 512 images, Ledoit–Wolf
covariance. The last activation call of a block follows the addition; the others lie inside, and
those outside of all blocks do not count. The gap is the median after the addition less that inside;
the separation is that of Figure 7, the share of pairs in which the former scores higher.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, draw_signature, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, short_names
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig7 import CLEAR, NONE
from sigmascope_papers.nonlinearity.lineup import Lineup, line_up
from sigmascope_papers.nonlinearity.places import END, INSIDE, STEM, by_place, places_in, separation
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Residual", "gap"]

GROUP, SEEDED = "ResNets", "sigmascope/resnet20:0"
SEEDS = range(3)
CLOSE_TO_1 = 0.95


@dataclass(frozen=True, eq=False)
class Residual:
    """Signatures of ResNets by depth, and of seeds of the shallowest (none for the paper's)."""

    lineup: Lineup
    seeds: list[Signature]

    @property
    def deep(self) -> list[Signature]:
        """The ResNets, the shallowest first."""
        return sorted(self.lineup.of(GROUP), key=len)


def measure(setting: Setting) -> Residual:
    """Read or measure the ResNets and the seeds."""
    names = setting.cast.names(GROUP)
    seeds = setting.runs([f"resnet20:{seed}" for seed in SEEDS]) if SEEDED in names else []
    return Residual(line_up(setting, names), [run.signature for run in seeds])


def gap(signature: Signature) -> float:
    """Return how far the median at the end of a block is above that inside."""
    found = by_place(signature)
    return float(np.median(found[END]) - np.median(found[INSIDE]))


def judge(found: Residual) -> list[Check]:
    """Gap and level grow from the shallowest to the deepest, clearly if at every step; the
    separation is 0.9 or more.
    """
    return [_gap_grows(found), _approaches_1(found), _stays_apart(found)]


def _one_depth(found: Residual) -> str:
    return "" if len(found.deep) > 1 else "needs ResNets of two depths"


def _grows(values: Sequence[float]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _gap_grows(found: Residual) -> Check:
    claim, expected = "the gap widens with depth", "at every step"
    if reason := _one_depth(found):
        return untried(claim, expected, reason)
    gaps, seeds = [gap(one) for one in found.deep], [gap(one) for one in found.seeds]
    beside = (
        f"; {len(seeds)} seeds of the first {min(seeds):.3f} to {max(seeds):.3f}" if seeds else ""
    )
    return relation(
        claim, expected, _listed(gaps) + beside, true=gaps[-1] > gaps[0], clear=_grows(gaps)
    )


def _approaches_1(found: Residual) -> Check:
    """The median at the end of the blocks grows with depth; clearly if at every step, to 0.95 or more."""
    claim, expected = (
        "after the addition the score approaches 1",
        f"at every step, to {CLOSE_TO_1} or more",
    )
    if reason := _one_depth(found):
        return untried(claim, expected, reason)
    levels = [float(np.median(by_place(one)[END])) for one in found.deep]
    clear = _grows(levels) and levels[-1] >= CLOSE_TO_1
    return relation(claim, expected, _listed(levels), true=levels[-1] > levels[0], clear=clear)


def _stays_apart(found: Residual) -> Check:
    claim, expected = "the two are apart at every depth", f"separation at least {CLEAR}"
    if reason := found.lineup.lacks(GROUP):
        return untried(claim, expected, reason)
    shares = [separation(one) for one in found.deep]
    return relation(
        claim, expected, _listed(shares), true=min(shares) > NONE, clear=min(shares) >= CLEAR
    )


@styled()
def draw(found: Residual) -> dict[str, Drawn]:
    """Draw each depth in a panel of its own, on one scale; nothing where there is no ResNet."""
    if not found.deep:
        return {}
    figure = new_figure(PAGE, 0.3 + 1.5 * len(found.deep))
    panels = figure.subplots(len(found.deep), 1, sharey=True, squeeze=False).ravel()
    table: list[Mapping[str, Any]] = []
    names = short_names([one.name for one in found.deep])
    for panel, one, name in zip(panels, found.deep, names, strict=True):
        table += draw_signature(one, panel, groups=places_in(one), order=(INSIDE, END, STEM)).table
        panel.set(xlabel="", ylabel="", title=name)
    figure.supxlabel("activation call, in order of execution", fontsize=8)
    figure.supylabel("affinity score ± std", fontsize=8)
    add_panel_legend(figure, panels)
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
