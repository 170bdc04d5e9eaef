"""Min, median and max score of networks through the years."""

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
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished


class Dated(NamedTuple):
    """One network."""

    year: float
    network: str
    family: str
    min: float
    median: float
    max: float


@style.styled()
def draw_years(
    statistics: Statistics,
    years: Mapping[str, float],
    axes: Axes | None = None,
    *,
    families: Mapping[str, str] | None = None,
) -> Drawn:
    """Draw each network from its min to its max score, with the median, in order of their years.

    Networks of one year share a stripe; a dashed line across it is the median of their medians.
    Those without a year are only in the table. Each family has a color and a marker. Without
    axes, a new figure with a legend is drawn.
    """
    check_kind("statistics", statistics, Statistics, "sigmascope.statistics")
    check_mapping("years", years, "{'resnet18': 2015}")
    check_mapping("families", families or {}, "{'resnet18': 'ResNets'}")
    found = _dated(statistics, years, families or {})
    dated = [one for one in found if math.isfinite(one.year)]
    if not dated:
        names = ", ".join(statistics.names)
        raise InputError(f"years names none of the networks: {names}. Use their names as keys.")
    labels = style.short_names([one.network for one in dated])
    width = min(style.PAGE, max(style.COLUMN, 0.7 + 0.12 * len(dated)))
    panel = style.panel_in(axes, width, 2.0 + 0.05 * max(map(len, labels)))
    _draw_networks(panel, dated)
    _draw_stripes(panel, dated)
    panel.set_xticks(range(len(dated)), labels, rotation=90, fontsize=style.SMALL)
    panel.tick_params(axis="x", length=0)
    panel.grid(visible=False, axis="x")
    panel.set(xlim=(-0.6, len(dated) - 0.4), ylim=(None, 1.03))
    panel.set_ylabel("affinity score: min, median, max")
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    whole = [int(one.year) if one.year.is_integer() else one.year for one in found]
    rows = zip(found, whole, strict=True)
    return finished([panel], [{**one._asdict(), "year": year} for one, year in rows])


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
    return sorted(rows, key=lambda one: (math.isnan(one.year), one.year))


def _draw_networks(axes: Axes, dated: Sequence[Dated]) -> None:
    kinds = list(dict.fromkeys(one.family for one in dated))
    size = 4.5 if len(dated) <= 30 else 3.2
    for number, family in enumerate(kinds):
        color, marker, _ = style.look(number)
        own = [place for place, one in enumerate(dated) if one.family == family]
        least, median, largest = np.array([dated[place][3:] for place in own]).T
        axes.vlines(own, least, largest, color=color, linewidth=1.6, alpha=0.4)
        for ends in (least, largest):
            axes.plot(own, ends, "_", color=color, markersize=size)
        label = style.shown(family) if family else "other" if len(kinds) > 1 else None
        axes.plot(own, median, marker, color=color, markersize=size, markeredgewidth=0, label=label)


def _draw_stripes(axes: Axes, dated: Sequence[Dated]) -> None:
    """Shade every other year, name it above, and draw the median of its medians."""
    line: dict[str, Any] = {"color": "0.25", "linestyle": (0, (3, 1.5)), "linewidth": 0.9}
    text: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": style.SMALL}
    text["transform"] = axes.get_xaxis_transform()
    for number, year in enumerate(dict.fromkeys(one.year for one in dated)):
        places = [place for place, one in enumerate(dated) if one.year == year]
        left, right = places[0] - 0.5, places[-1] + 0.5
        if number % 2 == 0:
            axes.axvspan(left, right, color="0.5", alpha=0.1, linewidth=0, zorder=0)
        median = float(np.median([dated[place].median for place in places]))
        label = None if number else "median of the year"
        axes.plot([left, right], [median, median], label=label, **line)
        # A single network leaves no room for four digits side by side.
        turned = 90 if len(places) < 3 and len(dated) > 12 else 0
        axes.text((left + right) / 2, 1.02, f"{year:g}", rotation=turned, **text)
