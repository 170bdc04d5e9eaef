"""The loss and the accuracy along the line between two networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import PAGE, add_legend, look, new_figure, shown, styled

if TYPE_CHECKING:
    from sigmascope.symmetry.barriers import Barrier


QUANTITIES = ("loss", "calibrated loss", "accuracy")


@styled()
def draw_barrier(barrier: Barrier) -> Drawn:
    """Draw loss, calibrated loss and accuracy over the share of the second network.

    >>> import torch
    >>> from sigmascope import figures, symmetry
    >>> _ = torch.manual_seed(0)
    >>> layers = [[torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)] for _ in range(2)]
    >>> a, b = (torch.nn.Sequential(*three) for three in layers)
    >>> x = torch.randn(64, 2)
    >>> line = symmetry.barrier(a, b, (x, (x[:, 0] > 0).long()), points=3)
    >>> len(figures.draw_barrier(line).table)
    12
    """
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, 3)
    rows = []
    for number, (name, curve) in enumerate(barrier.curves.items()):
        how = look(number).points(3.5) | {"linestyle": look(number).line}
        columns = curve.losses, curve.calibrated, curve.accuracies
        for panel, values in zip(panels, columns, strict=True):
            panel.plot(barrier.points, values, label=shown(name), **how)
        rows += [
            {"curve": name, "share": share, **dict(zip(QUANTITIES, values, strict=True))}
            for share, values in zip(barrier.points, zip(*columns, strict=True), strict=True)
        ]
    a, b = (shown(name, 21) for name in barrier.networks)
    panels[0].set(ylabel="cross-entropy")
    panels[1].set(ylabel="… at the best temperature")
    panels[2].set(ylabel="accuracy")
    panels[1].set_xlabel(f"from {a} (0) to {b} (1)")  # of all panels
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return finished(panels, rows)
