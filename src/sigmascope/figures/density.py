"""Densities of the scores of networks, or of parts of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_choice
from sigmascope.choices import Layout, ScoreKind
from sigmascope.compare.density import Densities, densities
from sigmascope.compare.networks import SCORE_NAMES, estimator_of, has_scores
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.signature import groups_of
from sigmascope.measure.result import Signature

MOST_OVERLAID = 6  # more curves than this are not told apart on top of each other
HEIGHT = 0.85  # of a stacked curve, in rows


def parts_of(
    signature: Signature,
    groups: Sequence[str] | None = None,
    order: Sequence[str] = (),
    *,
    by: ScoreKind | None = None,
) -> list[Signature]:
    """Return a signature for each group of sites that has a score, named after the group.

    Args:
        signature: to split.
        groups: the group of each site; by default its place in the block.
        order: the groups to keep, in this order; by default all, in order of appearance.
        by: the estimator of the scores; by default published scores if there are any.

    Raises:
        InputTypeError: something other than a signature.
        InputError: not one group per site.
        OptionError: another `by`, or one that was not measured.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = sg.signature(network, torch.randn(256, 4), name="small")
    >>> [part.name for part in sg.figures.parts_of(measured, ["early", "late"])]
    ['early', 'late']
    """
    labels = groups_of(signature, groups)
    chosen = estimator_of([signature], by)
    parts = []
    for label in dict.fromkeys(order or labels):
        pairs = zip(signature.sites, labels, strict=True)
        part = replace(
            signature, name=label, sites=tuple(site for site, group in pairs if group == label)
        )
        if has_scores(part, chosen):
            parts.append(part)
    return parts


@style.styled()
def draw_densities(
    signatures: Sequence[Signature] | Densities,
    axes: Axes | None = None,
    *,
    layout: Layout | None = None,
    by: ScoreKind | None = None,
) -> Drawn:
    """Draw the kernel density of each network's scores, with the scores themselves as ticks.

    A network whose scores are all equal has ticks only.

    Args:
        signatures: one per network, or the parts of one, see `parts_of`; or the result of
            `sigmascope.densities`.
        axes: to draw in, without a legend; by default a new figure with one.
        layout: "overlaid", with one look for each; or "stacked", each in a row of its own and to
            the same height. By default overlaid for up to six.
        by: the estimator of the scores of signatures; by default published scores if all have them.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another layout; another `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = signature(network, torch.randn(256, 4), name="small")
    >>> from sigmascope.compare.density import densities
    >>> drawn = draw_densities(densities([measured], points=50))
    >>> len(drawn.table)
    52
    """
    found = signatures if isinstance(signatures, Densities) else densities(signatures, by=by)
    rows = len(found.names)
    chosen = layout or ("overlaid" if rows <= MOST_OVERLAID else "stacked")
    check_choice("layout", chosen, Layout)
    if chosen == "overlaid":
        panel = style.panel_in(axes, style.COLUMN, 2.1)
        _overlaid(panel, found)
    else:
        width = style.PAGE if rows > 12 else style.COLUMN
        panel = style.panel_in(axes, width, 0.7 + 0.15 * rows)
        _stacked(panel, found)
    panel.set_xlabel(SCORE_NAMES[found.by])
    if axes is None and chosen == "overlaid":
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(found))


def _overlaid(axes: Axes, found: Densities) -> None:
    curves = {curve.name: curve for curve in found.curves}
    shorts = style.short_names(found.names)
    for number, (name, scores) in enumerate(zip(found.names, found.scores, strict=True)):
        color, _, line = style.look(number)
        heights = np.full(len(scores), 0.015 + 0.035 * number)
        across = axes.get_xaxis_transform()
        (ticks,) = axes.plot(scores, heights, "|", color=color, markersize=4.5, transform=across)
        if name in curves:
            grid, values = curves[name].grid, curves[name].values
            axes.fill_between(grid, values, color=color, alpha=0.12, linewidth=0)
            axes.plot(grid, values, color=color, linestyle=line, label=shorts[number])
        else:
            ticks.set_label(f"{shorts[number]} (no density)")
    axes.set(ylabel="density", ylim=(0, None))


def _stacked(axes: Axes, found: Densities) -> None:
    """Draw each curve to the same height: in a row of its own its shape is read, not its values."""
    curves = {curve.name: curve for curve in found.curves}
    for number, (name, scores) in enumerate(zip(found.names, found.scores, strict=True)):
        color, above = style.look(number % 2).color, 2 * number  # a row lies over the one before
        how: dict[str, Any] = {"color": color, "zorder": above + 3}
        heights = np.full(len(scores), number + 0.13)
        axes.plot(scores, heights, "|", markersize=2.5, markeredgewidth=0.5, **how)
        if name in curves:
            grid, values = curves[name].grid, curves[name].values
            top = number - HEIGHT * values / values.max()
            fill: dict[str, Any] = {"alpha": 0.2, "linewidth": 0, "zorder": above + 2}
            axes.fill_between(grid, top, number, color=color, **fill)
            axes.plot(grid, top, linewidth=0.8, **how)
    shorts = style.short_names(found.names)
    axes.set_yticks(range(len(shorts)), shorts, fontsize=style.SMALL)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(shorts) - 0.6, -HEIGHT - 0.2)


def _rows(found: Densities) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    curves = {curve.name: curve for curve in found.curves}
    for name, scores in zip(found.names, found.scores, strict=True):
        reason = found.reasons.get(name, "")
        rows += [
            {"network": name, "drawn": "score", "score": score, "reason": reason}
            for score in scores.tolist()
        ]
        if name in curves:
            pairs = zip(curves[name].grid.tolist(), curves[name].values.tolist(), strict=True)
            rows += [
                {"network": name, "drawn": "curve", "score": score, "density": value}
                for score, value in pairs
            ]
    return rows
