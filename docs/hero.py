"""Draw the picture at the top of the README, on a light and on a dark background.

    python docs/hero.py            # writes docs/hero-light.png and docs/hero-dark.png

The numbers are those of `sigmascope demo`: two embedded networks on 512 embedded images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sigmascope import Signature
from sigmascope.demo import AFTER, INSIDE, demo_signatures, finding, groups_of
from sigmascope.figures.style import STYLE

HERE = Path(__file__).parent
TITLES = ("ResNet-20, with residual connections", "the same network without them")


class Look(NamedTuple):
    """The colors of one picture."""

    page: str
    ink: str
    faint: str
    inside: str
    after: str


LOOKS = {
    "light": Look("#ffffff", "#1f2328", "#8c959f", "#0072B2", "#D55E00"),
    "dark": Look("#0d1117", "#e6edf3", "#7d8590", "#58b4f0", "#ff9a4d"),
}


def draw_network(panel: Axes, signature: Signature, title: str, look: Look) -> None:
    """Draw the scores of one network in order of execution, and say what they show."""
    places, scores = groups_of(signature), signature.scores
    calls = range(1, len(scores) + 1)
    panel.axhline(1, color=look.faint, linewidth=0.8)
    panel.plot(calls, scores, color=look.faint, linewidth=0.8, zorder=1)
    panel.plot(1, scores[0], "o", color=look.faint, markersize=5)  # before the blocks
    for place, color, marker in ((INSIDE, look.inside, "o"), (AFTER, look.after, "s")):
        chosen = [call for call, where in zip(calls, places, strict=True) if where == place]
        values = [scores[call - 1] for call in chosen]
        panel.plot(chosen, values, marker, color=color, markersize=6, label=place)
    panel.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=look.ink)
    panel.set_xlabel("activation call, in order of execution")
    share = f"{100 * finding(signature).separation:.0f} %"
    words = f"the end of a block scores higher in {share} of pairs"
    panel.text(0.99, 0.03, words, transform=panel.transAxes, ha="right", fontsize=8)
    panel.set_xticks(range(1, len(scores) + 1, 3))


def draw(signatures: Sequence[Signature], look: Look) -> Figure:
    """Return the picture on one background."""
    colors = dict.fromkeys(
        ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), look.ink
    )
    faces = {"figure.facecolor": look.page, "axes.facecolor": look.page, "grid.color": look.faint}
    with mpl.rc_context({**STYLE, **colors, **faces}):
        figure = Figure(figsize=(8.4, 2.9), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, signature, title in zip(panels, signatures, TITLES, strict=True):
            draw_network(panel, signature, title, look)
        panels[0].set(ylabel="affinity score", ylim=(0.38, 1.07))
        panels[0].text(1, 1.015, "1: an affine map", fontsize=7.5)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
    return figure


def main() -> None:
    """Write both pictures."""
    signatures = demo_signatures(progress=False)
    for name, look in LOOKS.items():
        figure = draw(signatures, look)
        figure.savefig(HERE / f"hero-{name}.png", dpi=170, facecolor=look.page)


if __name__ == "__main__":
    main()
