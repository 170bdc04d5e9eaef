"""The figure of the experiment on lines: the similarity of a pair against its barrier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from align_summary import BEST, Row, families, height

from sigmascope.figures.style import PAGE, add_legend, look, new_figure, styled

MEASURES = {"procrustes": "G-Procrustes", "cka": "G-CKA"}


@styled()
def draw(rows: Sequence[Row], path: Path) -> int:
    """Draw similarity before aligning against points lost after it; return how many pairs."""
    figure = new_figure(PAGE, 2.8)
    panels = figure.subplots(1, 2, sharey=True)
    count = 0
    for number, (family, own) in enumerate(families(rows).items()):
        lost = [height(row, f"{BEST}, corrected", "accuracies") for row in own]
        count += len(own)
        for panel, measure in zip(panels, MEASURES, strict=True):
            x = [row["similarity"][measure] for row in own]
            panel.plot(x, lost, label=family, **look(number).points(4) | {"linestyle": "none"})
    for panel, name in zip(panels, MEASURES.values(), strict=True):
        panel.set_xlabel(f"{name} of the pair before aligning")
    panels[0].set_ylabel("points of accuracy lost on the aligned line")
    add_legend(figure, *panels[0].get_legend_handles_labels())
    figure.savefig(path)
    return count
