"""Figure 15: what sparse stitches cost, by how sparse they are: full matrices with an l1 term,
beside the group of ReLU.

Two pairs of our Myrtle CNNs, stitched as the paper's scripts did, the four layers, λ = 0.001, 0.01,
0.1; the stitches by the group of ReLU are those of Figure 1. Sparsity is the share of entries of at
most 0.001 in absolute value. The paper prints no
numbers: those here were read off its figure, to about 0.01 and 0.4 points.

The rule: sparsities within 0.1 of the paper's, in direction 0.2, penalties within 5 points, in
direction 10. At layer 14 λ = 0.1 costs the paper 66 points, which is a ruin and not a number: 30 or
more, in direction 15. Sparsity and penalty grow with λ on average, clearly if in every pair; a
sparsity of 0.99 need not grow. That the group costs little for its sparsity is read off the
straight lines through the three other stitches, by sparsity: there a stitch that is as sparse would
cost more, beyond the sparsest on the last line drawn out; at every layer, in direction at most of
them. "Nearly overlap" is within 0.02 and 2 points, in direction 0.05 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.alphas import smaller
from sigmascope_papers.symmetry.fig1 import LAYERS, PAPER as FAMILIES
from sigmascope_papers.symmetry.plans import LASSO, MYRTLE
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of

__all__ = ["ITEM", "PAPER", "STRENGTHS", "Sparse"]

STRENGTHS = tuple(LASSO.tasks)
"""The labels of the stitches, by growing λ."""
GROUP = "relu-group"
# For each layer, by growing λ: sparsity and penalty.
_NUMBERS = {
    "3": ((0.22, 1.4), (0.72, 1.5), (0.77, 4.0)),
    "6": ((0.36, 1.3), (0.72, 2.1), (0.81, 5.9)),
    "10": ((0.49, 2.0), (0.77, 4.0), (0.88, 11.4)),
    "14": ((0.73, 3.0), (1.0, 6.8), (1.0, 66.0)),
}
PAPER: Mapping[str, Mapping[str, tuple[float, float]]] = {
    label: {layer: _NUMBERS[layer][number] for layer in LAYERS}
    for number, label in enumerate(STRENGTHS)
}
"""Label -> layer -> sparsity and penalty, means of 32 pairs."""
SPARSITIES, PENALTIES, RUIN = (0.1, 0.2), (5.0, 10.0), (30.0, 15.0)
OVERLAP = ((0.02, 2.0), (0.05, 5.0))
LAST = LAYERS[-1]
FULL = 0.99
LOOKS = {
    **{label: number for number, label in enumerate(STRENGTHS)},
    GROUP: tuple(MYRTLE.tasks).index(GROUP),
}
DEAD = 0.25  # the share of the channels whose scale may be 0, which makes a group element sparser


@dataclass(frozen=True, eq=False)
class Sparse:
    """Stitches of the same pairs.

    Attributes:
        lasso: those with an l1 term.
        families: those of Figure 1.
    """

    lasso: Stitches
    families: Stitches

    def points(self, label: str, layer: str) -> Matrix:
        """(p, 2), sparsity and penalty of the stitches of all pairs at a layer; NaN where there are none."""
        source = self.families if label == GROUP else self.lasso
        if layer not in source.layers:
            return np.full((len(source.pairs), 2), np.nan)
        at = source.layers.index(layer)
        return np.stack(
            [source.values("sparsity", label)[:, at], source.penalties(label)[:, at]], axis=1
        )


def measure(setting: Setting) -> Sparse:
    """Read or train all stitches."""
    lasso, families = (
        smaller(setting, LASSO),
        smaller(setting, replace(MYRTLE, pairs=LASSO.pairs), (GROUP,)),
    )
    return Sparse(stitches_of(setting, lasso), stitches_of(setting, families))


def judge(found: Sparse) -> list[Check]:
    """Numbers; growth with λ; the group below the lines through the others; overlap at the last
    layer; the group's sparsity.
    """
    every = [(label, layer) for label in STRENGTHS for layer in LAYERS]
    ruined = (STRENGTHS[-1], LAST)
    cost = found.points(*ruined)[:, 1].mean()
    return [
        _near(found, f"sparsities, λ of {_strengths()}, four layers", every, 0, SPARSITIES),
        _near(
            found,
            f"penalties, the same but the last λ at layer {LAST}",
            [one for one in every if one != ruined],
            1,
            PENALTIES,
        ),
        relation(
            f"{ruined[0]} ruins the stitch at layer {LAST}",
            f"66; {RUIN[0]:g} or more",
            f"{cost:.1f}",
            true=bool(cost >= RUIN[1]),
            clear=bool(cost >= RUIN[0]),
        ),
        _grows(found, "sparsity grows with λ", 0),
        _grows(found, "the penalty grows with λ", 1),
        _low_for_its_sparsity(found),
        _overlaps(found),
        _sparsity_of_the_group(found),
    ]


def _strengths() -> str:
    return ", ".join(label.removeprefix("λ = ") for label in STRENGTHS)


def _near(
    found: Sparse,
    claim: str,
    which: Sequence[tuple[str, str]],
    column: int,
    limits: tuple[float, float],
) -> Check:
    """All means over the pairs are within the first limit of the paper's numbers; in direction, the
    second.
    """
    gaps = {
        (a, b): abs(found.points(a, b)[:, column].mean() - PAPER[a][b][column]) for a, b in which
    }
    worst = max(gaps, key=lambda one: gaps[one] if np.isfinite(gaps[one]) else np.inf)
    values, digits = np.array(list(gaps.values())), 1 + (column == 0)
    printed = [PAPER[a][b][column] for a, b in which]
    return relation(
        claim,
        f"{len(which)} numbers from {min(printed):g} to {max(printed):g}, each ± {limits[0]:g}",
        f"off by {gaps[worst]:.{digits}f} at most ({worst[0]}, layer {worst[1]}), "
        f"{np.median(values):.{digits}f} in median",
        true=bool((values <= limits[1]).all()),
        clear=bool((values <= limits[0]).all()),
    )


def _grows(found: Sparse, claim: str, column: int) -> Check:
    """The mean grows from λ to λ at every layer; clearly if it does in every pair."""
    # (λ, p, k)
    values = np.stack(
        [
            np.stack([found.points(label, layer)[:, column] for layer in LAYERS], axis=1)
            for label in STRENGTHS
        ]
    )
    steps, mean = _growing(values, column), _growing(values.mean(axis=1), column)
    obtained = (
        f"on average at {mean.sum()} of {mean.size} steps; in {steps.sum()} of {steps.size} "
        "comparisons"
    )
    return relation(
        claim,
        "at every step and layer, in every pair",
        obtained,
        true=bool(mean.all()),
        clear=bool(steps.all()),
    )


def _growing(values: Matrix, column: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell for each step along the first axis whether values grow, or whether there is no room for
    a sparsity to grow.
    """
    grows: np.ndarray[Any, np.dtype[np.bool_]] = np.diff(values, axis=0) > 0
    return grows | ((values[:-1] >= FULL) & (values[1:] >= FULL)) if column == 0 else grows


def _low_for_its_sparsity(found: Sparse) -> Check:
    """The group costs less than the lines through the other stitches do at its sparsity; in
    direction, at most layers.
    """
    told, turned, below = [], [], 0
    for layer in LAYERS:
        sparsity, penalty = found.points(GROUP, layer).mean(axis=0)
        sparse = [found.points(label, layer).mean(axis=0) for label in STRENGTHS]
        line = cost_on_line(sparse, sparsity)
        turned += [layer] if sparse[-1][0] < min(sparse[-2][0], FULL) else []
        below += bool(penalty < line)
        told.append(f"{penalty:.1f} against {line:.1f} at {layer}")
    claim, expected = (
        "the group of ReLU costs little for its sparsity",
        "less than a stitch with an l1 term that is as sparse",
    )
    if turned:
        return untried(
            claim,
            expected,
            f"at {', '.join(turned)} the strongest l1 term is not the sparsest: there is no line",
        )
    return relation(
        claim,
        f"{expected}, at every layer",
        ", ".join(told),
        true=2 * below > len(LAYERS),
        clear=below == len(LAYERS),
    )


def cost_on_line(points: Sequence[Matrix], sparsity: float) -> float:
    """Return the penalty at a sparsity on the straight lines through points, the last one drawn
    out; NaN if it is upright.

    Args:
        points: each (2,), sparsity and penalty.
        sparsity: where to read off.

    >>> cost_on_line([np.array([0.2, 1.0]), np.array([0.4, 2.0]), np.array([0.5, 4.0])], 0.6)
    6.0
    """
    x, y = np.array(sorted(map(tuple, points))).T
    if not sparsity > x[-1]:
        return float(np.interp(sparsity, x, y))
    return (
        float(y[-1] + (sparsity - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2]))
        if x[-1] > x[-2]
        else float("nan")
    )


def _overlaps(found: Sparse) -> Check:
    """At the last layer the means of the group and of the middle λ are near each other."""
    group, middle = (found.points(label, LAST).mean(axis=0) for label in (GROUP, STRENGTHS[1]))
    gap = np.abs(group - middle)
    return relation(
        f"at layer {LAST} the group of ReLU and {STRENGTHS[1]} nearly overlap",
        f"within {OVERLAP[0][0]:g} and {OVERLAP[0][1]:g} points",
        f"sparsity {group[0]:.3f} and {middle[0]:.3f}, penalty {group[1]:.1f} and {middle[1]:.1f}",
        true=bool((gap <= OVERLAP[1]).all()),
        clear=bool((gap <= OVERLAP[0]).all()),
    )


def _sparsity_of_the_group(found: Sparse) -> Check:
    """It is 1 - 1/c for c channels; in direction, with up to a quarter of the channels scaled to
    nothing.
    """
    channels = found.families.values("channels", GROUP)
    extra = (found.families.values("sparsity", GROUP) - (1 - 1 / channels)) * channels
    return relation(
        "the group of ReLU has sparsity 1 - 1/c for c channels",
        "exactly",
        f"up to {np.abs(extra).max():.1%} of the channels off",
        true=bool((np.abs(extra) <= DEAD).all()),
        clear=bool((np.abs(extra) < 1e-6).all()),
    )


@styled()
def draw(found: Sparse) -> dict[str, Drawn]:
    """Draw penalty against sparsity for each layer: all pairs faintly, their mean, and the paper's
    as crosses.
    """
    layers = found.lasso.layers
    figure = new_figure(PAGE, 2.4)
    panels = figure.subplots(1, len(layers), squeeze=False)[0].tolist()
    table: list[dict[str, Any]] = []
    for panel, layer in zip(panels, layers, strict=True):
        means = [found.points(label, layer).mean(axis=0) for label in STRENGTHS]
        panel.plot(*np.array(means).T, color="0.7", linewidth=0.7, zorder=1)
        for label, number in LOOKS.items():
            points = found.points(label, layer)
            (sparsity, penalty), (color, marker, _) = points.mean(axis=0).tolist(), look(number)
            panel.plot(*points.T, marker, color=color, markersize=3, alpha=0.35, markeredgewidth=0)
            panel.plot(
                [sparsity],
                [penalty],
                marker,
                color=color,
                markersize=5.5,
                markeredgewidth=0,
                label=label,
            )
            paper = _printed(label, layer)
            panel.plot(*([value] for value in paper), "x", color=color, markersize=6)
            row = {"layer": layer, "stitch": label, "sparsity": sparsity, "penalty": penalty}
            deviation = dict(
                zip(("sparsity_std", "penalty_std"), points.std(axis=0).tolist(), strict=True)
            )
            table += [row | deviation | {"pairs": len(points)}]
            table += [
                {
                    "layer": layer,
                    "stitch": f"{label}, the paper's",
                    "sparsity": paper[0],
                    "penalty": paper[1],
                }
            ]
        panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
        panel.set(title=f"activation {layer}", xlabel="sparsity", xlim=(-0.03, 1.05))
    panels[0].plot([], [], "x", color="0.3", markersize=6, label="the paper's")
    panels[0].set_ylabel("stitching penalty, points")
    add_panel_legend(figure, panels)
    return {"": Drawn(figure, tuple(panels), table)}


def _printed(label: str, layer: str) -> tuple[float, float]:
    """Return the paper's sparsity and penalty; the group's sparsity follows from the width of the
    layer.
    """
    if label != GROUP:
        return PAPER[label][layer]
    return 1 - 1 / WIDTHS[layer], FAMILIES[GROUP][layer]


WIDTHS = dict(zip(LAYERS, (64, 128, 256, 512), strict=True))
"""Layer -> channels of the Myrtle CNN."""

ITEM = Item(measure=measure, judge=judge, draw=draw)
