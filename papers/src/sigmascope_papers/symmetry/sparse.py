"""Figure 15: full stitches with an l1 term beside the group of ReLU, by penalty and sparsity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.rules import at_least, at_most
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.data import PRINTED
from sigmascope_papers.symmetry.penalties import GROUP
from sigmascope_papers.symmetry.plans import LASSO, MYRTLE
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of
from sigmascope_papers.symmetry.stitching_items import LAYERS, PAPER as FAMILIES

STRENGTHS = tuple(LASSO.tasks)
"""The labels of the stitches, by growing λ."""
WIDTHS = dict(zip(LAYERS, (64, 128, 256, 512), strict=True))
"""Layer -> channels of the Myrtle CNN."""
PAPER: Mapping[str, Mapping[str, tuple[float, float]]] = {
    **PRINTED["sparsities"],
    GROUP: {layer: (1 - 1 / WIDTHS[layer], FAMILIES["sym-fig1"][GROUP][layer]) for layer in LAYERS},
}
"""Label -> layer -> sparsity and penalty, means of 32 pairs; the group's sparsity is by width."""
SPARSITIES, PENALTIES, RUIN = (0.1, 0.2), (5.0, 10.0), (30.0, 15.0)
OVERLAP = ((0.02, 2.0), (0.05, 5.0))
LAST = LAYERS[-1]
RUINED = (STRENGTHS[-1], LAST)
FULL = 0.99  # from here on a sparsity need not grow
LOOKS = {
    **{label: at for at, label in enumerate(STRENGTHS)},
    GROUP: list(MYRTLE.tasks).index(GROUP),
}
DEAD = 0.25  # the share of channels whose scale may be 0, which makes a group element sparser


class Sparse(NamedTuple):
    """Stitches of the same pairs: with an l1 term, and those of Figure 1."""

    lasso: Stitches
    families: Stitches

    def points(self, label: str, layer: str) -> Matrix:
        """(p, 2), sparsity and penalty of the stitches of all pairs at a layer; NaN without any."""
        source = self.families if label == GROUP else self.lasso
        if layer not in source.layers:
            return np.full((len(source.pairs), 2), np.nan)
        at = source.layers.index(layer)
        found = source.values("sparsity", label), source.penalties(label)
        return np.stack([one[:, at] for one in found], axis=1)

    def mean(self, label: str, layer: str) -> Matrix:
        """(2,), the means over the pairs."""
        mean: Matrix = self.points(label, layer).mean(axis=0)
        return mean


def _measure(setting: Setting) -> Sparse:
    families = replace(MYRTLE, pairs=LASSO.pairs)
    return Sparse(stitches_of(setting, LASSO), stitches_of(setting, families))


def _near(found: Sparse, name: str, column: int, but: Sequence[tuple[str, str]] = ()) -> Check:
    """Judge whether all means over the pairs are near the paper's numbers, but some."""
    every = [(label, layer) for label in STRENGTHS for layer in LAYERS]
    which = [one for one in every if one not in but]
    limits, digits = (SPARSITIES, PENALTIES)[column], 2 - column
    paper = np.array([PAPER[label][layer][column] for label, layer in which])
    gaps = np.abs(np.array([found.mean(*one)[column] for one in which]) - paper)
    worst = int(np.nan_to_num(gaps, nan=np.inf).argmax())
    span = f"{len(which)} numbers from {paper.min():g} to {paper.max():g}"
    place = "{}, layer {}".format(*which[worst])
    largest, median = (f"{one:.{digits}f}" for one in (gaps[worst], np.median(gaps)))
    obtained = f"off by {largest} at most ({place}), {median} in median"
    return conclude(name, f"{span}, each ± {limits[0]:g}", at_most(obtained, gaps, limits))


def _ruins(found: Sparse) -> Finding:
    cost = found.mean(*RUINED)[1]
    return at_least(f"{cost:.1f}", cost, RUIN)


def _grows(found: Sparse, what: str, column: int) -> Finding:
    values = np.array(  # (λ, k, p)
        [[found.points(label, layer)[:, column] for layer in LAYERS] for label in STRENGTHS]
    )
    steps, mean = _growing(values, column), _growing(values.mean(axis=2), column)
    average = f"on average at {mean.sum()} of {mean.size} steps"
    return f"{average}; in {steps.sum()} of {steps.size} comparisons", mean.all(), steps.all()


def _growing(values: Matrix, column: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each step along the first axis whether values grow; a full sparsity need not."""
    grows: np.ndarray[Any, np.dtype[np.bool_]] = np.diff(values, axis=0) > 0
    return grows | ((values[:-1] >= FULL) & (values[1:] >= FULL)) if column == 0 else grows


def _low_for_its_sparsity(found: Sparse) -> Check:
    """Judge whether the group costs less than the lines through the others do at its sparsity."""
    told, turned, lower = [], [], 0
    for layer in LAYERS:
        sparsity, penalty = found.mean(GROUP, layer)
        others = [found.mean(label, layer) for label in STRENGTHS]
        line = cost_on_line(others, sparsity)
        turned += [layer] if others[-1][0] < min(others[-2][0], FULL) else []
        lower += bool(penalty < line)
        told.append(f"{penalty:.1f} against {line:.1f} at {layer}")
    claim = "the group of ReLU costs little for its sparsity"
    expected = "less than a stitch with an l1 term that is as sparse"
    if turned:
        reason = "the strongest l1 term is not the sparsest: there is no line"
        return conclude(claim, expected, f"at {', '.join(turned)} {reason}")
    finding = ", ".join(told), 2 * lower > len(LAYERS), lower == len(LAYERS)
    return conclude(claim, f"{expected}, at every layer", finding)


def cost_on_line(points: Sequence[Matrix], sparsity: float) -> float:
    """Return the penalty at a sparsity on the straight lines through points, the last extended.

    Points are (2,), sparsity and penalty. NaN if the last line is vertical and ends before.

    >>> cost_on_line([np.array([0.2, 1.0]), np.array([0.4, 2.0]), np.array([0.5, 4.0])], 0.6)
    6.0
    """
    x, y = np.array(sorted(map(tuple, points))).T
    if not sparsity > x[-1]:
        return float(np.interp(sparsity, x, y))
    if x[-1] == x[-2]:
        return float("nan")
    return float(y[-1] + (sparsity - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2]))


def _overlaps(found: Sparse) -> Finding:
    group, middle = (found.mean(label, LAST) for label in (GROUP, STRENGTHS[1]))
    sparsities = f"sparsity {group[0]:.3f} and {middle[0]:.3f}"
    clear, true = ((np.abs(group - middle) <= limits).all() for limits in OVERLAP)
    return f"{sparsities}, penalty {group[1]:.1f} and {middle[1]:.1f}", true, clear


def _sparsity_of_the_group(found: Sparse) -> Finding:
    channels = found.families.values("channels", GROUP)
    extra = np.abs(found.families.values("sparsity", GROUP) - (1 - 1 / channels)) * channels
    return at_most(f"up to {extra.max():.1%} of the channels off", extra, (1e-6, DEAD))


@styled()
def _draw(found: Sparse) -> dict[str, Drawn]:
    """Draw penalty against sparsity for each layer: pairs, their means, the paper's as crosses."""
    layers = found.lasso.layers
    figure = new_figure(PAGE, 2.4)
    panels = figure.subplots(1, len(layers), squeeze=False)[0].tolist()
    table: list[dict[str, Any]] = []
    for panel, layer in zip(panels, layers, strict=True):
        means = np.array([found.mean(label, layer) for label in STRENGTHS])
        panel.plot(*means.T, color="0.7", linewidth=0.7, zorder=1)
        for label, number in LOOKS.items():
            points, paper = found.points(label, layer), PAPER[label][layer]
            mean, deviation = points.mean(axis=0).tolist(), points.std(axis=0).tolist()
            style: dict[str, Any] = {"color": look(number).color, "markeredgewidth": 0}
            marker = look(number).marker
            panel.plot(*points.T, marker, markersize=3, alpha=0.35, **style)
            panel.plot(mean[:1], mean[1:], marker, markersize=5.5, label=label, **style)
            panel.plot(paper[:1], paper[1:], "x", color=look(number).color, markersize=6)
            row = {"layer": layer, "stitch": label, "sparsity": mean[0], "penalty": mean[1]}
            spread = {"sparsity_std": deviation[0], "penalty_std": deviation[1]}
            printed = {"stitch": f"{label}, the paper's", "sparsity": paper[0], "penalty": paper[1]}
            table += [row | spread | {"pairs": len(points)}, {"layer": layer, **printed}]
        panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
        panel.set(title=f"activation {layer}", xlabel="sparsity", xlim=(-0.03, 1.05))
    panels[0].plot([], [], "x", color="0.3", markersize=6, label="the paper's")
    panels[0].set_ylabel("stitching penalty, points")
    add_panel_legend(figure, panels)
    return {"": Drawn(figure, tuple(panels), table)}


_TRIED = ", ".join(label.removeprefix("λ = ") for label in STRENGTHS)
_BUT = f"penalties, the same but the last λ at layer {LAST}"
RULES = (
    partial(_near, name=f"sparsities, λ of {_TRIED}, four layers", column=0),
    partial(_near, name=_BUT, column=1, but=[RUINED]),
    _ruins,
    partial(_grows, what="sparsity", column=0),
    partial(_grows, what="the penalty", column=1),
    *(_low_for_its_sparsity, _overlaps, _sparsity_of_the_group),
)
ITEMS: Mapping[str, Item] = {"sym-fig15": Item(_measure, judge_by("symmetry.fig15", *RULES), _draw)}
