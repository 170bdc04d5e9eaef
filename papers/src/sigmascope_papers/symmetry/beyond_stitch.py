"""Beyond the paper: does a stitch get further from the element that `align` finds?"""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.stitch_starts import (
    RANDOM,
    WAYS,
    SiteStarts,
    StitchStarts,
    ahead,
    best_epoch,
    first_above,
    first_epoch,
    verdict,
    wins,
)

FILE = "trainings/stitch.json"
AGAIN = (
    "It trains stitches for 28,120 steps, on a GPU: python zoo/stitch_start.py run --data DATA "
    "--out OUT in the repository, then python zoo/stitch_start.py summary OUT --store "
    f"results/{FILE} of this package."
)


def measure(setting: Setting) -> StitchStarts:
    """Read the stored trainings."""
    return StitchStarts.load(setting.stored(FILE, written_by=AGAIN))


def beats(found: StitchStarts, by: str) -> Finding:
    """Judge a way to start against the random one."""
    if found.missing:
        return f"not measured: {', '.join(f'site {site}' for site in found.missing)}"
    won, count = sum(wins(one.accuracies, by) for one in found.sites), len(found.sites)
    told = "; ".join(_told(one, by) for one in found.sites)
    word = verdict(won, count)
    return f"wins at {won} of {count} sites: {told}", word != "fails", word == "holds"


def _told(one: SiteStarts, by: str) -> str:
    """Return by how much a way to start is ahead at a site, and when it passes the random start."""
    passed = first_above(one.accuracies[by], max(one.accuracies[RANDOM]))
    told = f"{ahead(one.accuracies, by):+.2f} points"
    if passed is not None:
        told += f", passes in epoch {passed} what random reaches in {_random_best(one)}"
    return f"{one.site} {'wins' if wins(one.accuracies, by) else 'does not'} ({told})"


def _random_best(one: SiteStarts) -> int:
    return best_epoch(one.accuracies, RANDOM)


@styled()
def draw(found: StitchStarts) -> dict[str, Drawn]:
    """Draw the held-out accuracy of every epoch, a panel for each site."""
    down = -(-len(found.sites) // 2)
    figure = new_figure(PAGE, 0.35 + 1.95 * down)
    panels = figure.subplots(down, 2, sharex=True, squeeze=False).ravel()
    for spare in panels[len(found.sites) :]:
        spare.set_axis_off()
    panels = panels[: len(found.sites)]
    for panel, one in zip(panels, found.sites, strict=True):
        _draw_site(panel, one)
    figure.supxlabel("epoch; 0 is the start itself, and markers are at the best", fontsize=8)
    figure.supylabel("held-out accuracy (%); the scales differ", fontsize=8)
    add_panel_legend(figure, panels)
    table: list[dict[str, Any]] = [
        {"site": one.site, "start": way, "epoch": epoch, "held-out accuracy": accuracy}
        for one in found.sites
        for way, own in one.accuracies.items()
        for epoch, accuracy in enumerate(own, first_epoch(way))
    ]
    return {"": finished(list(panels), table)}


def _draw_site(panel: Axes, one: SiteStarts) -> None:
    """Draw the four trainings of a site, each with a marker at its best epoch."""
    for way in WAYS:
        own, first = one.accuracies[way], first_epoch(way)
        color, marker, line = LOOKS[way]
        how: dict[str, Any] = {"color": color, "linestyle": line, "label": LABELS[way]}
        best = [best_epoch(one.accuracies, way) - first]
        how |= {"marker": marker, "markersize": 5, "markeredgewidth": 0, "markevery": best}
        # what is matched often equals what is aligned by activations, and is dotted
        panel.plot(range(first, first + len(own)), own, zorder=4 if line == ":" else 3, **how)
    level = max(one.accuracies[RANDOM])
    panel.axhline(level, color="0.35", linewidth=0.6, zorder=1, label="best of random")
    panel.set_title(f"site {one.site}")
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.margins(y=0.08)


LABELS = {
    "random": "random",
    "matched": "matched channels",
    "weights": "aligned by weights",
    "activations": "aligned by activations",
}
# Way to start -> color, marker, and line
LOOKS: dict[str, tuple[str, str, Any]] = {
    "random": ("0.35", "X", "-"),
    "matched": (look(2).color, "^", ":"),
    "weights": (look(1).color, "s", (0, (2, 1))),
    "activations": (look(0).color, "o", "-"),
}

RULES = (partial(beats, by="activations"), partial(beats, by="weights"))
ITEM = Item(measure, judge_by("symmetry.beyond_stitch", *RULES), draw)
