"""Beyond the paper: how many activations networks can lose, and at what price."""

from __future__ import annotations

import statistics
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.item import Item, judge_by
from sigmascope_papers.nonlinearity.tuned_curves import (
    EPOCHS_A_LAYER,
    PUBLISHED,
    RULES,
    Curves,
    Point,
    Published,
)
from sigmascope_papers.setting import Setting

FILE = "trainings/linearize.json"
OURS, THEIRS = "affine maps, few epochs (ours)", f"EASIER, {EPOCHS_A_LAYER} epochs a layer"


def measure(setting: Setting) -> Curves:
    """Read the stored trainings."""
    if not setting.ours:
        raise InputError(
            "this item is about networks of one experiment only. Leave out --weights and --data."
        )
    if setting.from_scratch:
        raise InputError(
            "this item trains dozens of networks, on a GPU. Run python zoo/linearize_experiment.py "
            "run --data DATA --out OUT --scratch DIR in the repository, and then python "
            f"zoo/linearize_experiment.py summary OUT --points results/{FILE} of this package."
        )
    place = setting.results / FILE
    if not place.is_file():
        raise InputError(f"{place} is missing. Restore the file from the repository.")
    return Curves.load(place)


@styled()
def draw(found: Curves) -> dict[str, Drawn]:
    """Draw accuracy against the activations left, a panel for each network that is measured."""
    names = [name for name in PUBLISHED if found.at(name)]
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(PAGE, 0.6 + 2.1 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    table: list[dict[str, Any]] = []
    for panel, name in zip(panels, names, strict=False):
        points = found.at(name)
        _draw(panel, PUBLISHED[name], points)
        table += [_row(PUBLISHED[name], point) for point in points]
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    shown = list(panels[: len(names)])
    add_panel_legend(figure, shown)
    return {"": finished(shown, table)}


def _draw(panel: Axes, network: Published, points: list[Point]) -> None:
    """Draw the published curve, and ours through the means with all seeds."""
    left = [network.activations - removed for removed in network.accuracy]
    color, marker, line = look(1)
    how: dict[str, Any] = {"color": color, "marker": marker, "linestyle": line, "markersize": 3.5}
    panel.plot(left, list(network.accuracy.values()), label=THEIRS, **how)
    color, marker, line = look(0)
    removed = sorted({one.removed for one in points})
    at = {n: [one.accuracy for one in points if one.removed == n] for n in removed}
    original = statistics.fmean({one.seed: one.original for one in points}.values())
    means = [original, *(statistics.fmean(at[n]) for n in removed)]
    how = {"color": color, "marker": marker, "linestyle": line, "markersize": 4.5}
    panel.plot([network.activations - n for n in (0, *removed)], means, label=OURS, **how)
    for n in removed:
        panel.plot([network.activations - n] * len(at[n]), at[n], ".", color=color, markersize=3)
        epochs = max(one.epochs for one in points if one.removed == n)
        panel.annotate(
            f"{epochs:g} epochs,\nnot {EPOCHS_A_LAYER * n:,}",
            (network.activations - n, max(at[n])),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="x-small",
            color=color,
        )
    panel.invert_xaxis()
    panel.margins(x=0.12, y=0.25)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set(xlabel="activations left", ylabel="accuracy, %", title=network.title)


def _row(network: Published, point: Point) -> dict[str, Any]:
    return {
        "network": point.network,
        "seed": point.seed,
        "removed": point.removed,
        "epochs": point.epochs,
        "accuracy": point.accuracy,
        "drop": point.drop,
        "published": network.accuracy.get(point.removed),
        "published_epochs": EPOCHS_A_LAYER * point.removed,
    }


ITEM = Item(measure, judge_by("nonlinearity/waiting.beyond_linearize", *RULES), draw)
