"""Accuracy of linearized networks: against the activations left, and by epoch of tuning."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.checks import check_kind
from sigmascope.figures.curves import draw_curves
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.stitching import ACCURACY
from sigmascope.figures.style import COLUMN, add_legend, figure_of, look, panel_in, shown, styled
from sigmascope.linearize.linearization import CurvePoint, Linearization
from sigmascope.linearize.tuned import Tuned

LEFT = "activations left"


@styled()
def draw_linearization(result: Linearization, *, axes: Axes | None = None) -> Drawn:
    """Draw the accuracy on held-out data against the number of activations that are left.

    The original is at the left. A line shows the networks without tuning, squares those with; the
    ring is the network that was made.

    Args:
        result: of `sigmascope.linearize.fit`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a linearization.

    >>> import torch
    >>> from sigmascope import figures, linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> data = linearize.Split(samples, samples, samples)
    >>> found = linearize.fit(network, data, budget=1, epochs=0)
    >>> [row["activations left"] for row in figures.draw_linearization(found).table]
    [1, 0]
    """
    check_kind("result", result, Linearization, "sigmascope.linearize.fit")
    panel = panel_in(axes, COLUMN, 2.2)
    plain, tuned = result.curve(tuned=False), result.curve(tuned=True)
    original = plain[0].held_out.accuracy
    panel.axhline(original, color="0.5", linewidth=0.8, linestyle=":", label="original")
    _draw(panel, plain, 0, "not tuned", linestyle=look(0).line)
    if tuned:
        epochs = f"{tuned[0].epochs} epoch{'s' * (tuned[0].epochs != 1)}"
        _draw(panel, tuned, 1, f"tuned, {epochs}", linestyle=look(1).line)
    made = result.chosen
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": "black", "marker": "o"}
    panel.plot(
        made.left, made.held_out.accuracy, linestyle="none", markersize=8, label="result", **ring
    )
    panel.set(xlabel=LEFT, ylabel=ACCURACY)
    panel.invert_xaxis()
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes is None:
        panel.set_title(shown(result.name, 40))
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], [_row(point) for point in result.points])


def _draw(panel: Axes, points: list[CurvePoint], number: int, label: str, **line: Any) -> None:
    known = [point for point in points if not math.isnan(point.held_out.accuracy)]
    places = [point.left for point in known]
    accuracies = [point.held_out.accuracy for point in known]
    panel.plot(places, accuracies, label=label, **look(number).points(4.0) | line)


def _row(point: CurvePoint) -> dict[str, Any]:
    return {
        LEFT: point.left,
        "replaced": point.replaced,
        "elements left": point.elements,
        "epochs": point.epochs,
        "accuracy": point.held_out.accuracy,
        "loss": point.held_out.loss,
    }


def draw_tuned(result: Tuned, *, axes: Axes | None = None) -> Drawn:
    """Draw the held-out accuracy before tuning and after every epoch.

    Args:
        result: of `sigmascope.linearize.tune`, with held-out data.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a tuning.

    >>> import torch
    >>> from sigmascope import figures, linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = linearize.tune(network, samples, held_out=samples, epochs=2)
    >>> [(row["curve"], row["at"]) for row in figures.draw_tuned(found).table]
    [('held-out', 0.0), ('held-out', 1.0), ('held-out', 2.0)]
    """
    check_kind("result", result, Tuned, "sigmascope.linearize.tune")
    curves = {"held-out": result.accuracies}
    drawn = draw_curves(range(len(result.accuracies)), curves, axes, over="epoch")
    drawn.axes[0].set_ylabel(ACCURACY)
    drawn.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return drawn
