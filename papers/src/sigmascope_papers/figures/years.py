"""Least, median and largest score of networks through the years."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind, check_mapping
from sigmascope.compare.statistics import Statistics
from sigmascope.errors import InputError, InputTypeError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import (
    COLUMN,
    PAGE,
    SMALL,
    add_legend,
    figure_of,
    look,
    panel_in,
    short_names,
    shown,
    styled,
)

__all__ = ["draw_years"]


class Dated(NamedTuple):
    """One network."""

    year: float
    name: str
    family: str
    least: float
    median: float
    largest: float


@styled()
def draw_years(
    statistics: Statistics,
    years: Mapping[str, float],
    axes: Axes | None = None,
    *,
    families: Mapping[str, str] | None = None,
) -> Drawn:
    """Draw each network from its least to its largest score, with the median, in order of their years.

    Networks of one year stand side by side in one stripe; a dashed line across it is the median of
    their medians.

    Args:
        statistics: of the networks; see `sigmascope.statistics`.
        years: network -> year. Networks that it does not name are not drawn; in the table their
            year is empty.
        axes: to draw in, without a legend; by default a new figure with one.
        families: network -> family; each has a color and a marker.

    Raises:
        InputTypeError: other things than statistics; years or families that are no mapping; a year
            that is no number.
        InputError: no network has a year.
    """
    check_kind("statistics", statistics, Statistics, "sigmascope.statistics")
    check_mapping("years", years, "{'resnet18': 2015}")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    found = sorted(
        _dated(statistics, years, families or {}), key=lambda one: (math.isnan(one.year), one.year)
    )
    dated = [one for one in found if math.isfinite(one.year)]
    if not dated:
        raise InputError(
            f"years names none of the networks: {', '.join(statistics.names)}. Use their "
            "names as keys."
        )
    labels = short_names([one.name for one in dated])
    width = min(PAGE, max(COLUMN, 0.7 + 0.12 * len(dated)))
    panel = panel_in(axes, width, 2.0 + 0.05 * max(map(len, labels)))
    _draw_networks(panel, dated)
    _draw_stripes(panel, dated)
    panel.set_xticks(range(len(dated)), labels, rotation=90, fontsize=SMALL)
    panel.tick_params(axis="x", length=0)
    panel.grid(visible=False, axis="x")
    panel.set(
        ylabel="affinity score: min, median, max", xlim=(-0.6, len(dated) - 0.4), ylim=(None, 1.03)
    )
    if axes is None:
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(found))


def _dated(
    statistics: Statistics, years: Mapping[str, float], families: Mapping[str, str]
) -> list[Dated]:
    rows: list[Dated] = []
    for place, name in enumerate(statistics.names):
        year: object = years.get(name, math.nan)
        if isinstance(year, bool) or not isinstance(year, Real):
            raise InputTypeError(f"The year of {name} is {year!r}. Pass a number such as 2015.")
        numbers = [statistics.table[key][place] for key in ("min", "median", "max")]
        rows.append(Dated(float(year), name, families.get(name, ""), *numbers))
    return rows


def _draw_networks(axes: Axes, dated: Sequence[Dated]) -> None:
    kinds = list(dict.fromkeys(one.family for one in dated))
    size = 4.5 if len(dated) <= 30 else 3.2
    for number, family in enumerate(kinds):
        color, marker, _ = look(number)
        own = [place for place, one in enumerate(dated) if one.family == family]
        least, median, largest = np.array([dated[place][3:] for place in own]).T
        axes.vlines(own, least, largest, color=color, linewidth=1.6, alpha=0.4)
        for ends in (least, largest):
            axes.plot(own, ends, "_", color=color, markersize=size)
        label = shown(family) if family else "other" if len(kinds) > 1 else None
        axes.plot(own, median, marker, color=color, markersize=size, markeredgewidth=0, label=label)


def _draw_stripes(axes: Axes, dated: Sequence[Dated]) -> None:
    """Shade every other year, name it above, and draw the median of its medians."""
    above = axes.get_xaxis_transform()
    label: str | None = "median of the year"
    for number, (year, places) in enumerate(_by_year(dated).items()):
        left, right = places[0] - 0.5, places[-1] + 0.5
        if number % 2 == 0:
            axes.axvspan(left, right, color="0.5", alpha=0.1, linewidth=0, zorder=0)
        median = float(np.median([dated[place].median for place in places]))
        axes.plot(
            [left, right],
            [median, median],
            color="0.25",
            linestyle=(0, (3, 1.5)),
            linewidth=0.9,
            label=label,
        )
        label = None
        # A single network leaves no room for four digits side by side.
        narrow = len(places) < 3 and len(dated) > 12
        text = f"{year:g}"
        axes.text(
            (left + right) / 2,
            1.02,
            text,
            transform=above,
            ha="center",
            va="bottom",
            rotation=90 * narrow,
            fontsize=SMALL,
        )


def _by_year(dated: Sequence[Dated]) -> dict[float, list[int]]:
    places: dict[float, list[int]] = {}
    for place, one in enumerate(dated):
        places.setdefault(one.year, []).append(place)
    return places


def _rows(found: Sequence[Dated]) -> list[dict[str, Any]]:
    keys = ("year", "network", "family", "min", "median", "max")
    rows = [dict(zip(keys, one, strict=True)) for one in found]
    for row in rows:
        if isinstance(row["year"], float) and row["year"].is_integer():
            row["year"] = int(row["year"])
    return rows
