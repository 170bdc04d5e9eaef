"""Beyond the paper: how many activations networks can lose, and at what price."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.nonlinearity.criteria import TITLES, WORDS, Unit, gained, interval, verdict
from sigmascope_papers.nonlinearity.items import item_of
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
AGAIN = (
    "It trains dozens of networks, on a GPU: python zoo/linearize_experiment.py run --data DATA "
    "--out OUT --scratch DIR in the repository, then python zoo/linearize_experiment.py summary "
    f"OUT --points results/{FILE} of this package."
)
KINDS = {"affine": "fitted affine maps", "identity": "the identity instead"}
SPAN = "mean and 95 % interval over networks and seeds"
OURS, THEIRS = "affine maps, few epochs (ours)", f"EASIER, {EPOCHS_A_LAYER} epochs a layer"


def measure(setting: Setting) -> Curves:
    """Read the stored trainings."""
    return Curves.load(setting.stored(FILE, written_by=AGAIN))


@styled()
def draw(found: Curves) -> dict[str, Drawn]:
    """Draw accuracy against the activations left, and how far affinity is ahead of others."""
    drawn = {"": _draw_curves(found)} if found.points else {}
    return drawn | ({"criteria": _draw_criteria(found)} if found.advantages else {})


def _draw_curves(found: Curves) -> Drawn:
    """Draw a panel for each network that is measured."""
    names = [name for name in PUBLISHED if found.at(name)]
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(PAGE, 0.6 + 2.5 * rows)
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
    return finished(shown, table)


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
    _draw_epochs(panel, network, points, removed)
    panel.invert_xaxis()
    panel.margins(x=0.08)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set(xlabel="activations left", ylabel="accuracy, %")
    panel.set_title(f"{network.title}, {_counted(len({one.seed for one in points}))}")


def _counted(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _draw_epochs(
    panel: Axes, network: Published, points: list[Point], removed: Sequence[int]
) -> None:
    """Write below each number removed how many epochs both methods train."""
    low, high = panel.get_ylim()
    step = (high - low) * 0.085
    panel.set_ylim(low - 2.6 * step, high)
    for n in removed:
        epochs = max(one.epochs for one in points if one.removed == n)
        rows = ((f"{EPOCHS_A_LAYER * n:,}", look(1).color), (f"{epochs:g}", look(0).color))
        for place, (told, color) in enumerate(rows):
            height = low - (place + 0.9) * step
            how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small"}
            panel.text(network.activations - n, height, told, color=color, **how)
    first = network.activations * 1.08 - removed[0]
    for place, told in enumerate(("epochs: EASIER", "ours")):
        how = {"ha": "right", "va": "center", "fontsize": "x-small"}
        height = low - (place + 0.9) * step
        panel.text(first, height, told, color=look(1 - place).color, **how)


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


def _draw_criteria(found: Curves) -> Drawn:
    """Draw the advantage of affinity over each rival, a panel for each comparison."""
    shown = {(one.stage, one.maps): None for one in found.advantages}
    figure = new_figure(PAGE, 3.4)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False).ravel()
    rivals = [name for name in TITLES if any(one.rival == name for one in found.advantages)]
    table: list[dict[str, Any]] = []
    for panel, (stage, maps) in zip(panels, shown, strict=True):
        for row, rival in enumerate(rivals):
            units = gained(found.advantages, stage, rival, maps)
            if units:
                table.append(_draw_rival(panel, row, units) | {"stage": stage, "maps": maps})
                table[-1] |= {"rival": rival, "verdict": verdict(rival, units, stage)}
        panel.axvline(0, color="0.25", linewidth=0.9, zorder=1)
        panel.set_title(f"{WORDS[stage]},\n{KINDS[maps]}")
        panel.set_xlabel("affinity ahead by, points")
        panel.grid(visible=False, axis="y")
        panel.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(rivals)), [TITLES[name] for name in rivals])
    panels[0].set_ylim(len(rivals) - 0.5, -0.5)
    add_panel_legend(figure, panels)
    return finished(list(panels), table)


def _draw_rival(panel: Axes, row: int, units: Mapping[Unit, float]) -> dict[str, Any]:
    """Draw the mean over the units with its interval, and the units of each network."""
    for number, (name, network) in enumerate(PUBLISHED.items()):
        own = [points for (of, _), points in units.items() if of == name]
        color, marker, _ = look(number)
        how: dict[str, Any] = {"color": color, "markersize": 3.2, "alpha": 0.75}
        if own:
            height = [row + 0.22] * len(own)
            panel.plot(own, height, marker, linestyle="none", label=network.title, **how)
    mean, low, high = interval(units.values())
    if math.isfinite(low):
        panel.plot([low, high], [row, row], color="0.1", linewidth=1.4, label=SPAN, zorder=3)
    panel.plot([mean], [row], "|", color="0.1", markersize=7, zorder=4)
    return {"mean": mean, "low": low, "high": high}


ITEM = item_of("beyond_linearize", measure, draw, *RULES)
