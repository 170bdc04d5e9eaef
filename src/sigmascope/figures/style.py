"""One look for all figures: readable in print, and by people who do not see all colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

__all__ = ["COLOURS", "new_figure", "save", "styled"]

# Okabe and Ito's colours, which differ for every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the house style inside the context, and leave matplotlib's settings alone."""
    with mpl.rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of so many inches that belongs to no window."""
    return Figure(figsize=(width, height))


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure to a file; the ending chooses the format."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
