"""A function of one variable on a sample: its score, the affine map that the score compares it
with, and a drawing of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures.style import SMALL, add_legend, figure_of, look, shown
from sigmascope.maths.fit import affine_map
from sigmascope.measure.affinity import affinity

__all__ = ["Array", "Case", "case_of", "draw_cases"]

Array = np.ndarray[Any, np.dtype[np.float64]]
# How much of a panel's height shows where the inputs lie.
FLOOR = 0.16


@dataclass(frozen=True, eq=False)
class Case:
    """A sample, what a function makes of it, and the score.

    Attributes:
        x: (n,), the inputs.
        y: (n,), the outputs.
        mapped: (n,), the image of x under the affine map.
        score: NaN where the output does not vary.
    """

    x: Array
    y: Array
    mapped: Array
    score: float


def case_of(x: Array, y: Array) -> Case:
    """Score outputs (n,) of inputs (n,), with the unbiased covariance."""
    rows_x, rows_y = x.reshape(-1, 1), y.reshape(-1, 1)
    score = float(affinity(rows_x, rows_y, covariance="unbiased"))
    mapped = np.asarray(affine_map(rows_x, rows_y, covariance="unbiased")(rows_x), dtype=np.float64)
    return Case(x.ravel(), y.ravel(), mapped.ravel(), score)


def draw_cases(cases: Mapping[str, Case], panels: Sequence[Axes]) -> list[dict[str, Any]]:
    """Draw one case in each panel, with a legend for all: function, affine map, and where the
    inputs lie.

    Args:
        cases: by what to write above the panel; the score is written with it.
        panels: as many axes of one figure.

    Returns:
        The points, as rows of a table.
    """
    rows: list[dict[str, Any]] = []
    for panel, (name, case) in zip(panels, cases.items(), strict=True):
        _draw_case(panel, case)
        panel.set_title(f"{shown(name)}\n$\\rho$ = {case.score:.3f}")
        points = zip(case.x.tolist(), case.y.tolist(), case.mapped.tolist(), strict=True)
        rows += [
            {"panel": name, "score": case.score, "x": x, "y": y, "mapped": mapped}
            for x, y, mapped in points
        ]
    add_legend(figure_of(panels[0]), *panels[0].get_legend_handles_labels())
    return rows


def _draw_case(panel: Axes, case: Case) -> None:
    order = np.argsort(case.x)
    color, other = look(0).color, look(1).color
    panel.plot(case.x[order], case.y[order], color=color, linewidth=2, label=r"output $\sigma(x)$")
    panel.plot(
        case.x[order], case.mapped[order], color=other, linestyle="--", label="affine map $T(x)$"
    )
    counts, edges = np.histogram(case.x, bins=24)
    heights = FLOOR * counts / counts.max()
    panel.stairs(
        heights,
        edges,
        fill=True,
        color="0.75",
        transform=panel.get_xaxis_transform(),
        label="inputs",
    )
    low, high = min(case.y.min(), case.mapped.min()), max(case.y.max(), case.mapped.max())
    # the curves stay above the inputs
    panel.set_ylim(low - 1.6 * FLOOR * (high - low), high + 0.08 * (high - low))
    panel.tick_params(labelsize=SMALL)
