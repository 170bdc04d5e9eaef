"""The differences between two networks, site by site, as a forest plot."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes

from sigmascope.checks import check_kind
from sigmascope.compare.difference import Difference
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished

# Inches: the height of a row, of a line of text, and of all rows together.
LINE, TEXT, TALLEST = 0.14, 0.1, 9.5
APART, SAME, WHOLE = "interval excludes 0", "interval includes 0", "over all sites"
LOOKS: dict[str, dict[str, Any]] = {
    SAME: {"color": "0.5", "marker": "o", "markerfacecolor": "none"},
    APART: {"color": style.COLORS[0], "marker": "o"},
    WHOLE: {"color": style.COLORS[1], "marker": "D"},
}


@style.styled()
def draw_difference(difference: Difference, axes: Axes | None = None) -> Drawn:
    """Draw a row per site in order of execution, then the summary: differences with intervals.

    A site without a difference has a cross. Of many sites only some are named.

    Args:
        difference: see `sigmascope.difference`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: something other than a difference.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = signature(network, torch.randn(256, 4), name="small")
    >>> from sigmascope.compare.difference import difference
    >>> [row["of"] for row in draw_difference(difference(measured, measured)).table]
    ['1', '2', 'mean', 'median', 'min', 'spread']
    """
    check_kind("difference", difference, Difference, "sigmascope.difference")
    found = [*difference.sites, *difference.summary]
    height = min(LINE, TALLEST / len(found))
    panel = style.panel_in(axes, 5.0, 0.8 + height * len(found))
    kinds = [APART if one.excludes_zero else SAME for one in difference.sites]
    kinds += [WHOLE] * len(difference.summary)
    for kind, look in LOOKS.items():
        rows = [row for row, own in enumerate(kinds) if own == kind]
        if rows:
            _draw_rows(panel, difference, rows, {**look, "label": kind})
    lost = [row for row, one in enumerate(found) if math.isnan(one.difference)]
    if lost:
        across = panel.get_yaxis_transform()
        how: dict[str, Any] = {"color": "0.35", "markersize": 3.5, "label": "no difference known"}
        panel.plot([0.02] * len(lost), lost, "x", transform=across, **how)
    _label(panel, difference, math.ceil(TEXT / height))
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    columns = ("a", "b", "difference", "stderr", "low", "high", "reason")
    named = dict(zip(("network_a", "network_b"), difference.names, strict=True))
    return finished(
        [panel],
        [
            {"of": one.name, **{name: getattr(one, name) for name in columns}, **named}
            for one in found
        ],
    )


def _draw_rows(axes: Axes, difference: Difference, rows: list[int], look: dict[str, Any]) -> None:
    found = [[*difference.sites, *difference.summary][row] for row in rows]
    ends = [one.low for one in found], [one.high for one in found]
    axes.hlines(rows, *ends, color=look["color"], linewidth=1.0)
    points = [one.difference for one in found]
    axes.plot(points, rows, linestyle="none", markersize=3.5, markeredgewidth=0.8, **look)


def _label(axes: Axes, difference: Difference, step: int) -> None:
    """Name the rows, every `step`-th of the sites and all of the summary."""
    sites, count = [one.name for one in difference.sites], len(difference.sites)
    rows = [*range(0, count, step), *range(count, count + len(difference.summary))]
    names = [style.shown(sites[row], 28) for row in rows if row < count]
    axes.set_yticks(rows, names + [one.name for one in difference.summary], fontsize=style.SMALL)
    axes.axvline(0, color="0.5", linewidth=0.5, zorder=0.5)
    if sites:
        axes.axhline(count - 0.5, color="0.5", linewidth=0.5, zorder=0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(count + len(difference.summary) - 0.5, -0.5)
    axes.set_title(" minus ".join(style.short_names(difference.names, 18)))
    axes.set_xlabel("difference of population scores, 95 % intervals")
