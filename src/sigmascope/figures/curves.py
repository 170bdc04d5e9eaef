"""Curves over a parameter, with their spread over repetitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_choice, check_mapping
from sigmascope.choices import Spread
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import COLUMN, add_legend, figure_of, look, panel_in, shown, styled

Array = np.ndarray[Any, np.dtype[np.float64]]


@styled()
def draw_curves(
    at: Sequence[float] | Array,
    curves: Mapping[str, Any],
    axes: Axes | None = None,
    *,
    over: str = "",
    spread: Spread = "std",
) -> Drawn:
    """Draw the mean of each curve over the repetitions, with a band for its spread.

    For a logarithmic scale: `drawn.axes[0].set_xscale("log")`.

    Args:
        at: (m,), the values of a parameter such as the batch size.
        curves: name -> (m,), or (r, m) for r repetitions such as seeds; NaN where there is no
            value.
        axes: to draw in, without a legend; by default a new figure with one.
        over: the name of the parameter.
        spread: what the band shows: "std", the standard deviation (divisor r - 1) on both sides of
            the mean, or "range", the least to the largest value.

    Raises:
        InputTypeError: curves that are not a mapping.
        InputError: no curve, or shapes that do not match.
        OptionError: another `spread`.

    >>> from sigmascope import figures
    >>> curves = {"score": [[0.5, 0.75], [1, 0.75]]}
    >>> drawn = figures.draw_curves([16, 64], curves, over="batch size")
    >>> [(row["at"], row["mean"]) for row in drawn.table]
    [(16.0, 0.75), (64.0, 0.75)]
    """
    check_choice("spread", spread, Spread)
    check_mapping("curves", curves, "{'relu': [0.1, 0.2]}")
    places = np.asarray(at, dtype=np.float64)
    repeated = {name: np.atleast_2d(np.asarray(of, dtype=float)) for name, of in curves.items()}
    _check(places, repeated)
    panel = panel_in(axes, COLUMN, 2.0)
    rows: list[dict[str, Any]] = []
    for number, (name, values) in enumerate(repeated.items()):
        own = [_summary(column) for column in values.T]
        mean, std, least, largest = (
            np.array([one[key] for one in own]) for key in ("mean", "std", "min", "max")
        )
        low, high = (mean - std, mean + std) if spread == "std" else (least, largest)
        if len(values) > 1:
            color = look(number).color
            panel.fill_between(places, low, high, color=color, alpha=0.18, linewidth=0)
        how = look(number).points(4.0 if len(places) <= 40 else 2.0)
        panel.plot(places, mean, label=shown(name), **how | {"linestyle": look(number).line})
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
            "There is nothing to draw. Pass at least one value of the parameter and one curve."
        )
    for name, values in curves.items():
        if values.ndim != 2 or values.shape[1] != len(at) or not len(values):
            raise InputError(
                f"The curve {name} has shape {values.shape}. "
                f"Pass ({len(at)},), or (r, {len(at)}) for r repetitions."
            )


def _summary(values: Array) -> dict[str, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return dict.fromkeys(("mean", "std", "min", "max"), math.nan) | {"repetitions": 0}
    return {
        "mean": float(known.mean()),
        "std": float(known.std(ddof=1)) if len(known) > 1 else math.nan,
        "min": float(known.min()),
        "max": float(known.max()),
        "repetitions": len(known),
    }
