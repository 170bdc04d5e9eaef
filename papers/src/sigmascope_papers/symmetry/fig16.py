"""Figure 16: CKA of every layer of one Myrtle CNN of constant width with every layer of another, by
both kernels.

By the max kernel CKA decays with depth, and in all other networks of the paper the number of
channels, over which the maximum is taken, grows with depth. With 512 channels in all layers the
paper finds much the same, so that width is not the reason. Two pairs of our networks of constant
width are compared here, on all test images of CIFAR-10, beside the four of Figure 2. The numbers
are the labels of its authors' heat maps.

The rule is that of Figure 2: within 0.1 of the paper's numbers, in direction within 0.2, and as
many entries on the diagonal as in the paper. The same limits hold between our networks of constant
and of growing width, whose decay is to be alike: three quarters as large at constant width, in
direction half.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.fig2 import LIMITS
from sigmascope_papers.symmetry.pairs import (
    GROUPS,
    MYRTLE,
    WIDE,
    Pairs,
    draw_curve,
    draw_matrices,
    pairs_of,
)
from sigmascope_papers.symmetry.rules import below_orthogonal, decays_faster, like_their_own, near

__all__ = ["ITEM", "PAPER", "Widths"]

PAPER = {
    "relu": (
        (0.84, 0.60, 0.31, 0.18),
        (0.56, 0.51, 0.27, 0.16),
        (0.30, 0.28, 0.45, 0.32),
        (0.19, 0.19, 0.36, 0.44),
    ),
    "orthogonal": (
        (0.99, 0.88, 0.48, 0.33),
        (0.90, 0.96, 0.65, 0.48),
        (0.50, 0.65, 0.92, 0.82),
        (0.34, 0.48, 0.83, 0.94),
    ),
}
"""Group -> similarities of the layers of the one network (rows) with those of the other."""
# Rows and columns with the largest entry on the diagonal: as many as in the paper's numbers, and
# somewhat fewer.
ON_DIAGONAL = {"relu": (6, 5), "orthogonal": (8, 6)}
# The decay at constant width, in parts of that at growing width; in the paper 0.98.
DECAY = (0.75, 0.5)


class Widths(NamedTuple):
    """Pairs of networks of constant width, and of growing width."""

    constant: Pairs
    growing: Pairs


def measure(setting: Setting) -> Widths:
    """Read or measure all pairs."""
    return Widths(pairs_of(setting, WIDE, "cka"), pairs_of(setting, MYRTLE, "cka"))


def judge(widths: Widths) -> list[Check]:
    """Numbers within 0.1, in direction 0.2; diagonals as in the paper; relu below orthogonal; the
    decay is there, as large.
    """
    pairs, checks = widths.constant, []
    for group in GROUPS:
        found, paper = pairs.matrices(group), np.array(PAPER[group])
        other = ~np.eye(len(paper), dtype=bool)
        checks += [
            near(
                f"{group} group, layers at the same place",
                paper.diagonal().tolist(),
                pairs.same_place(group),
                LIMITS,
            ),
            near(
                f"{group} group, layers at other places",
                paper[other].tolist(),
                found[:, other],
                LIMITS,
            ),
            like_their_own(pairs, group, ON_DIAGONAL[group], ""),
        ]
    checks += [below_orthogonal(pairs), decays_faster(pairs)]
    return [*checks, *(_like_growing(widths, group) for group in GROUPS), _same_decay(widths)]


def _like_growing(widths: Widths, group: str) -> Check:
    """All entries are within 0.1 of those at growing width; in direction within 0.2."""
    constant, growing = (pairs.matrices(group).mean(axis=0) for pairs in widths)
    gap = np.abs(constant - growing)
    return relation(
        f"{group} group: constant width gives what growing width gives",
        f"each entry within {LIMITS[0]:g}",
        f"off by {gap.max():.2f} at most, {np.median(gap):.2f} in median",
        true=bool((gap <= LIMITS[1]).all()),
        clear=bool((gap <= LIMITS[0]).all()),
    )


def _same_decay(widths: Widths) -> Check:
    """By the relu group the decay at constant width is three quarters of that at growing width or
    more; in direction half.
    """
    diagonals = [pairs.same_place("relu").mean(axis=0) for pairs in widths]
    constant, growing = (float(diagonal[0] - diagonal[-1]) for diagonal in diagonals)
    return relation(
        "the decay by the relu group is not due to width",
        f"at constant width at least {DECAY[0]:g} of that at growing width, which is there",
        f"from first to last {constant:.2f} against {growing:.2f}",
        true=growing > 0 and constant >= DECAY[1] * growing,
        clear=constant >= DECAY[0] * growing,
    )


@styled()
def _draw_decay(widths: Widths) -> Drawn:
    """Draw the diagonals at constant and at growing width."""
    figure = new_figure(PAGE, 2.4)
    panels = figure.subplots(1, len(GROUPS), sharey=True).tolist()
    table: list[dict[str, Any]] = []
    for panel, group in zip(panels, GROUPS, strict=True):
        layers = widths.constant.layers
        for number, (name, pairs) in enumerate(
            zip(("constant width", "growing width"), widths, strict=True)
        ):
            table += [
                {"group": group, **row}
                for row in draw_curve(panel, layers, name, pairs.same_place(group), number)
            ]
        panel.plot(
            range(len(layers)),
            np.diagonal(PAPER[group]),
            "x",
            color="0.2",
            label="constant width, the paper's",
        )
        panel.set(title=f"{group} group", xlabel="activation")
        panel.set_xticks(range(len(layers)), list(layers))
    panels[0].set(ylabel="CKA similarity", ylim=(None, 1.05))
    add_panel_legend(figure, panels)
    return Drawn(figure, tuple(panels), table)


def draw(widths: Widths) -> dict[str, Drawn]:
    """Draw the mean matrices at constant width, and the diagonals at both."""
    return {"": draw_matrices(widths.constant), "decay": _draw_decay(widths)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
