"""The loss and the accuracy along the line between two networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import PAGE, add_legend, look, new_figure, shown, styled

if TYPE_CHECKING:
    from sigmascope.symmetry.barriers import Barrier


@styled()
def draw_barrier(barrier: Barrier) -> Drawn:
    """Draw loss and accuracy over the share of the second network, a line for each curve."""
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, 2)
    rows = []
    for number, (name, curve) in enumerate(barrier.curves.items()):
        how = look(number).points(3.5) | {"linestyle": look(number).line}
        for panel, values in zip(panels, (curve.losses, curve.accuracies), strict=True):
            panel.plot(barrier.points, values, label=shown(name), **how)
        rows += [
            {"curve": name, "share": share, "loss": loss, "accuracy": accuracy}
            for share, loss, accuracy in zip(
                barrier.points, curve.losses, curve.accuracies, strict=True
            )
        ]
    a, b = (shown(name, 15) for name in barrier.networks)
    panels[0].set(ylabel="cross-entropy")
    panels[1].set(ylabel="accuracy")
    for panel in panels:
        panel.set_xlabel(f"from {a} (0) to {b} (1)")
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return finished(panels, rows)
