"""Accuracy against its predictor, one panel per family."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from sigmascope.checks import check_kind
from sigmascope.compare.accuracy import SIZES, AccuracyFit, AccuracyFits
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.labels import label_points
from sigmascope.maths.warping import Curve

MOST_NAMED = 16  # more points than this have no room for their names
MOST_NOTES = 3


@style.styled()
def draw_accuracy(fits: AccuracyFits) -> Drawn:
    """Draw the networks of each family with the fitted line and its R².

    Args:
        fits: see `sigmascope.fit_accuracy`. A family without a fit has points and the reason.

    Raises:
        InputTypeError: something other than fits.

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> slopes = [0.1, 0.3, 0.5]
    >>> networks = [torch.nn.Sequential(torch.nn.LeakyReLU(slope)) for slope in slopes]
    >>> signatures = [sg.signature(one, x, name=f"{slope}") for one, slope in zip(networks, slopes)]
    >>> fits = sg.fit_accuracy(signatures, {"0.1": 60.0, "0.3": 65.0, "0.5": 72.0}, on="mean")
    >>> [row["network"] for row in sg.figures.draw_accuracy(fits).table]
    ['0.1', '0.3', '0.5']
    """
    check_kind("fits", fits, AccuracyFits, "sigmascope.fit_accuracy")
    count = len(fits.fits)
    columns = min(3, count)
    rows = math.ceil(count / columns)
    figure = style.new_figure(style.COLUMN if columns == 1 else style.PAGE, 0.2 + 2.3 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (number, fit) in zip(panels, enumerate(fits.fits), strict=False):
        _draw_fit(panel, fit, number)
    for panel in panels[count:]:
        panel.set_axis_off()
    for panel in panels[:count:columns]:
        panel.set_ylabel("accuracy")
    if fits.left_out:
        notes = textwrap.fill(_notes(fits.left_out), int(19 * figure.get_figwidth()))
        figure.supxlabel(notes, fontsize=style.SMALL, color="0.3")
    names = iter(style.short_names([name for fit in fits.fits for name in fit.names], 20))
    for panel, fit in zip(panels, fits.fits, strict=False):
        _name_points(panel, fit, [next(names) for _ in fit.names])
    return finished(list(panels[:count]), _rows(fits))


def _draw_fit(axes: Axes, fit: AccuracyFit, number: int) -> None:
    look = style.look(number)
    axes.plot(fit.x, fit.y, **look.points(4.5))
    if fit.x_half_width is not None:
        ends = fit.x - fit.x_half_width, fit.x + fit.x_half_width
        axes.hlines(fit.y, *ends, color=look.color, linewidth=0.8, alpha=0.6)
    if fit.coefficients:
        axes.plot(*_line(fit).T, color=look.color, alpha=0.6, zorder=1)
    axes.margins(0.18)
    axes.set_title(f"{style.shown(fit.family)}\n\n")
    above: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "bottom"}
    axes.text(0.5, 1.03, _worth(fit), fontsize=style.SMALL, **above)
    axes.set_xlabel(fit.on if fit.on in SIZES else f"{fit.on} of the scores")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    if fit.on in SIZES:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _line(fit: AccuracyFit) -> Curve:
    """Return the fitted line (50, 2)."""
    grid = np.linspace(fit.x.min(), fit.x.max(), 50)
    return np.stack([grid, fit.predict(grid)], axis=1)


def _name_points(axes: Axes, fit: AccuracyFit, names: Sequence[str]) -> None:
    if 0 < fit.n <= MOST_NAMED:
        avoid = _line(fit) if fit.coefficients else None
        label_points(axes, np.stack([fit.x, fit.y], axis=1), names, size=6, avoid=avoid)


def _worth(fit: AccuracyFit) -> str:
    if not fit.coefficients:
        return textwrap.fill(f"no fit: {fit.reason}", 40)
    apart = f"{fit.r2_loo:.2f}".replace("-", "−") if math.isfinite(fit.r2_loo) else "–"
    chosen = f", best of {fit.tried}" if fit.tried > 1 else ""
    return f"R² {fit.r2:.2f}, leave-one-out {apart}\nn = {fit.n}{chosen}"


def _notes(left_out: dict[str, str]) -> str:
    first = list(left_out.items())[:MOST_NOTES]
    told = [f"{style.shown(name, 24)} ({style.shown(reason, 40)})" for name, reason in first]
    more = len(left_out) - len(told)
    return "Not shown: " + ", ".join(told) + (f", and {more} more" if more else "")


def _rows(fits: AccuracyFits) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for fit in fits.fits:
        fitted = fit.predict(fit.x).tolist() if fit.coefficients else [math.nan] * fit.n
        facts = {key: getattr(fit, key) for key in ("on", "degree", "r2", "r2_loo", "n", "tried")}
        facts |= {f"coefficient_{power}": value for power, value in enumerate(fit.coefficients)}
        facts |= {"reason": fit.reason}
        halves = {} if fit.x_half_width is None else {"x_half_width": fit.x_half_width.tolist()}
        columns = {"network": fit.names, "x": fit.x.tolist(), **halves, "accuracy": fit.y.tolist()}
        columns["fitted"] = fitted
        rows += [
            {"family": fit.family, **dict(zip(columns, values, strict=True))} | facts
            for values in zip(*columns.values(), strict=True)
        ]
    return rows + [{"network": name, "reason": reason} for name, reason in fits.left_out.items()]
