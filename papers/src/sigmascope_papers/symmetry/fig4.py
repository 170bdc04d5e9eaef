"""Figure 4: what it costs a network to work in another basis.

Behind a convolution of a Myrtle CNN without batch norm stands a fixed matrix, from the group of
ReLU or uniform among the rotations; all up to it is frozen, and the rest is trained again. The
penalty is the accuracy that is lost. The identity is our
control: it tells what training again costs by itself.

The paper prints no numbers: those here were read off its figure, to about 0.4 points. What counts
are the orders. An element of the group of ReLU can be undone by the next layer, so that its penalty
should be about 0, but the paper's own is 1.7 at the second convolution; hence the limits of one
point, and in direction two and a half. The other numbers must be within 1.5 points for the group
and within 2.5 for rotations; in direction twice as far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.rotations import MATRICES, Rotations, rotations_of

__all__ = ["ITEM", "PAPER"]

PAPER: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "relu": {"0": (0.0, 0.5), "2": (1.7, 0.7), "5": (1.3, 0.3)},
    "orthogonal": {"0": (0.75, 0.3), "2": (4.6, 0.4), "5": (8.3, 0.9)},
}
"""Group -> convolution -> penalty and its standard deviation over ten draws, in percentage points.
"""
SHOWN = {"identity": "identity, our control", "relu": "group of ReLU", "orthogonal": "rotations"}
LIMITS = {"relu": (1.5, 3.0), "orthogonal": (2.5, 5.0)}
FREE = (1.0, 2.5)
LIKE_THE_IDENTITY = (0.5, 1.5)


def measure(setting: Setting) -> Rotations:
    """Read or train all draws behind all layers."""
    return rotations_of(setting)


def judge(rotations: Rotations) -> list[Check]:
    """Rotations cost more than the group at every layer, and more the deeper; the group is free;
    numbers near the paper's.
    """
    relu, orthogonal, identity = (
        rotations.penalties(group) for group in ("relu", "orthogonal", "identity")
    )
    gap = orthogonal - relu
    steps = np.diff(orthogonal, axis=1)
    off = np.abs(relu.mean(axis=0))
    excess = relu.mean(axis=0) - identity.mean(axis=0)
    return [
        relation(
            "a rotation costs more than an element of the group of ReLU",
            "behind every convolution; clear if in every draw",
            f"on average {_listed(gap.mean(axis=0))}; in {(gap > 0).sum()} of {gap.size} draws",
            true=bool((gap.mean(axis=0) > 0).all()),
            clear=bool((gap > 0).all()),
        ),
        relation(
            "the penalty of a rotation grows with depth",
            "at each step; clear if in every draw",
            f"{_listed(orthogonal.mean(axis=0), orthogonal.std(axis=0))}; in "
            f"{(steps > 0).sum()} of {steps.size} steps",
            true=steps.size > 0 and bool((steps.mean(axis=0) > 0).all()),
            clear=bool((steps > 0).all()),
        ),
        relation(
            "an element of the group of ReLU costs about nothing",
            f"0 ± {FREE[0]:g} behind every convolution, on average",
            _listed(relu.mean(axis=0), relu.std(axis=0)),
            true=bool((off <= FREE[1]).all()),
            clear=bool((off <= FREE[0]).all()),
        ),
        *(_near(rotations, group) for group in PAPER),
        relation(
            "ours: it costs no more than training again with the identity",
            f"at most {LIKE_THE_IDENTITY[0]:g} points more, on average",
            f"{_listed(excess)} more than the identity's "
            f"{_listed(identity.mean(axis=0), identity.std(axis=0))}",
            true=bool((excess <= LIKE_THE_IDENTITY[1]).all()),
            clear=bool((excess <= LIKE_THE_IDENTITY[0]).all()),
        ),
    ]


def _near(rotations: Rotations, group: str) -> Check:
    """Hold where each mean over the draws is within the first limit of the paper's number; in
    direction, the second.
    """
    clear, far = LIMITS[group]
    found = rotations.penalties(group)
    paper = [PAPER[group][layer][0] for layer in rotations.names]
    gap = np.abs(found.mean(axis=0) - np.array(paper))
    return relation(
        f"{SHOWN[group]}, convolutions {', '.join(rotations.names)}",
        f"{_listed(paper)}, each ± {clear:g}",
        _listed(found.mean(axis=0), found.std(axis=0)),
        true=bool((gap <= far).all()),
        clear=bool((gap <= clear).all()),
    )


def _listed(means: Any, deviations: Any = None) -> str:
    if deviations is None:
        return ", ".join(f"{mean:.2f}" for mean in means)
    return ", ".join(
        f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in zip(means, deviations, strict=True)
    )


@styled()
def draw_rotations(rotations: Rotations) -> Drawn:
    """Draw the penalties by layer, every draw, their mean and population deviation, and those of
    the paper as crosses.
    """
    figure = new_figure(PAGE, 2.8)
    panel = figure.subplots()
    places = np.arange(float(len(rotations.names)))
    table: list[dict[str, Any]] = []
    for number, group in enumerate(MATRICES):
        color, marker, _ = look((2, 0, 1)[number])
        found, at = rotations.penalties(group), places + 0.24 * (number - 1)
        mean, deviation = found.mean(axis=0), found.std(axis=0)
        panel.plot(at, mean, marker, color=color, markersize=5, label=SHOWN[group])
        if len(found) > 1:
            panel.errorbar(at, mean, deviation, fmt="none", ecolor=color, capsize=2)
        for row in found:
            panel.plot(
                at - 0.05, row, ".", color=color, alpha=0.45, markersize=4, markeredgewidth=0
            )
        rows = zip(rotations.names, mean.tolist(), deviation.tolist(), strict=True)
        table += [
            {"layer": name, "curve": SHOWN[group], "mean": m, "std": d, "draws": len(found)}
            for name, m, d in rows
        ]
        for place, name in zip(at, rotations.names, strict=True):
            if name not in PAPER.get(group, {}):
                continue
            value, spread = PAPER[group][name]
            panel.errorbar(
                place + 0.07,
                value,
                spread,
                fmt="x",
                color=color,
                alpha=0.75,
                markersize=5,
                elinewidth=0.8,
            )
            table.append(
                {
                    "layer": name,
                    "curve": f"{SHOWN[group]}, the paper's",
                    "mean": value,
                    "std": spread,
                    "draws": 10,
                }
            )
    panel.plot([], [], "x", color="0.3", markersize=5, label="the paper's")
    panel.plot([], [], ".", color="0.5", markersize=4, label="one draw")
    panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
    panel.set(
        xlabel="convolution that the matrix stands behind",
        ylabel="rotation penalty, percentage points",
    )
    panel.set_xticks(
        places,
        [
            f"{name} ({one.channels} channels)"
            for name, one in zip(rotations.names, rotations.layers, strict=True)
        ],
    )
    panel.grid(axis="x", visible=False)
    panel.set_xlim(-0.5, len(places) - 0.5)
    add_panel_legend(figure, [panel])
    return Drawn(figure, (panel,), table)


def draw(rotations: Rotations) -> dict[str, Drawn]:
    """Draw the penalties of all groups by layer, beside the paper's."""
    return {"": draw_rotations(rotations)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
