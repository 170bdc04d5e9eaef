"""Curves over a parameter, with their spread over repetitions: how much does it matter?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_mapping
from sigmascope.figures.style import COLUMN, add_legend, figure_of, look, panel_in, shown, styled

__all__ = ["SPREADS", "draw_curves"]

Array = np.ndarray[Any, np.dtype[np.float64]]
SPREADS = ("std", "range")


@styled()
def draw_curves(
    at: Sequence[float] | Array,
    curves: Mapping[str, Any],
    axes: Axes | None = None,
    *,
    over: str = "",
    spread: str = "std",
) -> Drawn:
    """Draw curves over a parameter such as the batch size, the dimension, or the place in the network.

    The line is the mean over the repetitions. For another scale, `drawn.axes[0].set_xscale("log")`.

    Args:
        at: (m,), the values of the parameter.
        curves: name -> (m,), or (r, m) for r repetitions such as seeds; NaN where there is no
            value.
        axes: to draw in, without a legend; by default a new figure with one.
        over: what the parameter is.
        spread: what the band shows: "std", the standard deviation (divisor r - 1) on both sides of
            the mean, or "range".

    Raises:
        InputTypeError: curves that are no mapping.
        InputError: no curve, or shapes that do not fit.
        OptionError: another `spread`.
    """
    check_choice("spread", spread, SPREADS)
    check_mapping("curves", curves, "{'relu': [0.1, 0.2]}")
    places = np.asarray(at, dtype=np.float64)
    repeated = {
        name: np.atleast_2d(np.asarray(values, dtype=np.float64)) for name, values in curves.items()
    }
    _check(places, repeated)
    panel = panel_in(axes, COLUMN, 2.0)
    size = 4.0 if len(places) <= 40 else 2.0
    rows: list[dict[str, Any]] = []
    for number, (name, values) in enumerate(repeated.items()):
        color, marker, line = look(number)
        own = [_summary(column) for column in values.T]
        mean, std, least, largest = (
            np.array([one[key] for one in own]) for key in ("mean", "std", "min", "max")
        )
        low, high = (mean - std, mean + std) if spread == "std" else (least, largest)
        if len(values) > 1:
            panel.fill_between(places, low, high, color=color, alpha=0.18, linewidth=0)
        style = {
            "color": color,
            "marker": marker,
            "linestyle": line,
            "markersize": size,
            "markeredgewidth": 0,
        }
        panel.plot(places, mean, label=shown(name), **style)
        rows += [
            {"curve": name, "at": place} | one
            for place, one in zip(places.tolist(), own, strict=True)
        ]
    panel.set(xlabel=over, ylabel="affinity score")
    if axes is None:
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], rows)


def _check(at: Array, curves: Mapping[str, Array]) -> None:
    if at.ndim != 1 or not len(at) or not curves:
        raise InputError(
            "There is nothing to draw. Pass at least one value of the parameter, and at "
            "least one curve."
        )
    for name, values in curves.items():
        if values.ndim != 2 or values.shape[1] != len(at) or not len(values):
            raise InputError(
                f"The curve {name} has shape {values.shape}. Pass ({len(at)},), or (r, "
                f"{len(at)}) for r repetitions."
            )


def _summary(values: Array) -> dict[str, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {
            "mean": math.nan,
            "std": math.nan,
            "min": math.nan,
            "max": math.nan,
            "repetitions": 0,
        }
    std = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    return {
        "mean": float(known.mean()),
        "std": std,
        "min": float(known.min()),
        "max": float(known.max()),
        "repetitions": len(known),
    }
