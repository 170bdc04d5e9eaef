"""How the scores of networks, or of parts of one, are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_choice
from sigmascope.compare.density import Densities, densities
from sigmascope.compare.networks import Networks, checked_networks
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.signature import groups_of
from sigmascope.figures.style import (
    COLUMN,
    PAGE,
    SMALL,
    add_legend,
    figure_of,
    look,
    panel_in,
    short_names,
    styled,
)
from sigmascope.measure.signature import Signature

__all__ = ["LAYOUTS", "draw_densities", "parts_of"]

LAYOUTS = ("overlaid", "stacked")
# More curves than this are not told apart on top of each other.
MOST_OVERLAID = 6
# Of the curves in a stack, in rows.
HEIGHT = 0.85


def parts_of(
    signature: Signature, groups: Sequence[str] | None = None, order: Sequence[str] = ()
) -> list[Signature]:
    """Split a signature into one for each group of sites that has a score, so that they can be
    drawn beside each other.

    Each is named after its group.

    Args:
        signature: to split.
        groups: the group of each site; by default its place in the block.
        order: the groups to keep, in this order; by default all, as they come.

    Raises:
        InputTypeError: another thing than a signature.
        InputError: not one group per site.
    """
    labels = groups_of(signature, groups)
    chosen = {
        label: tuple(
            site for site, one in zip(signature.sites, labels, strict=True) if one == label
        )
        for label in dict.fromkeys(order or labels)
    }
    scored = {
        label: sites
        for label, sites in chosen.items()
        if any(math.isfinite(site.score) for site in sites)
    }
    return [replace(signature, name=label, sites=sites) for label, sites in scored.items()]


@styled()
def draw_densities(
    signatures: Sequence[Signature], axes: Axes | None = None, *, layout: str | None = None
) -> Drawn:
    """Draw the kernel density of each network's scores, and the scores themselves as ticks; see
    `sigmascope.densities`.

    A network whose scores are all equal has ticks only.

    Args:
        signatures: of one network or more; or the parts of one, see `parts_of`.
        axes: to draw in, without a legend; by default a new figure with one.
        layout: "overlaid", with one look for each; or "stacked", each in a row of its own and to
            the same height; by default the first up to six.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another layout.
    """
    networks = checked_networks(signatures)
    found = densities(signatures)
    chosen = layout or ("overlaid" if len(networks.names) <= MOST_OVERLAID else "stacked")
    check_choice("layout", chosen, LAYOUTS)
    rows = len(networks.names)
    panel = (
        panel_in(axes, COLUMN, 2.1)
        if chosen == "overlaid"
        else panel_in(axes, PAGE if rows > 12 else COLUMN, 0.7 + 0.15 * rows)
    )
    (_overlaid if chosen == "overlaid" else _stacked)(panel, networks, found)
    panel.set_xlabel("affinity score")
    if axes is None and chosen == "overlaid":
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(networks, found))


def _overlaid(axes: Axes, networks: Networks, found: Densities) -> None:
    curves = {curve.name: curve for curve in found.curves}
    shorts = short_names(networks.names)
    for number, (name, short, scores) in enumerate(
        zip(networks.names, shorts, networks.curves, strict=True)
    ):
        color, _, line = look(number)
        curve = curves.get(name)
        heights = np.full(len(scores), 0.015 + 0.035 * number)
        (ticks,) = axes.plot(
            scores, heights, "|", color=color, markersize=4.5, transform=axes.get_xaxis_transform()
        )
        if curve is None:
            ticks.set_label(f"{short} (no density)")
            continue
        axes.fill_between(curve.grid, curve.values, color=color, alpha=0.12, linewidth=0)
        axes.plot(curve.grid, curve.values, color=color, linestyle=line, label=short)
    axes.set(ylabel="density", ylim=(0, None))


def _stacked(axes: Axes, networks: Networks, found: Densities) -> None:
    """Draw each curve to the same height: in a row of its own its shape is read, not its values."""
    curves = {curve.name: curve for curve in found.curves}
    for number, (name, scores) in enumerate(zip(networks.names, networks.curves, strict=True)):
        color, above = look(number % 2).color, 2 * number  # each row lies over the one before
        ticks: dict[str, Any] = {
            "color": color,
            "markersize": 2.5,
            "markeredgewidth": 0.5,
            "zorder": above + 3,
        }
        axes.plot(scores, np.full(len(scores), number + 0.13), "|", **ticks)
        if name in curves:
            grid, values = curves[name].grid, curves[name].values
            top = number - HEIGHT * values / values.max()
            axes.fill_between(
                grid, top, number, color=color, alpha=0.2, linewidth=0, zorder=above + 2
            )
            axes.plot(grid, top, color=color, linewidth=0.8, zorder=above + 3)
    axes.set_yticks(range(len(networks.names)), short_names(networks.names), fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(networks.names) - 0.6, -HEIGHT - 0.2)


def _rows(networks: Networks, found: Densities) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    curves = {curve.name: curve for curve in found.curves}
    for name, scores in zip(networks.names, networks.curves, strict=True):
        rows += [
            {
                "network": name,
                "drawn": "score",
                "score": score,
                "reason": found.reasons.get(name, ""),
            }
            for score in scores.tolist()
        ]
        if name in curves:
            pairs = zip(curves[name].grid.tolist(), curves[name].values.tolist(), strict=True)
            rows += [
                {"network": name, "drawn": "curve", "score": score, "density": value}
                for score, value in pairs
            ]
    return rows
