"""The scores of a network's activations over the steps of its training."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from sigmascope.checks import check_kind
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.style import PAGE, SMALL, add_scale, new_figure, shown, styled
from sigmascope.monitoring.track import Track

COLORS = "cividis"  # lighter is more affine
DEPTH = "viridis"  # lighter is deeper
DARK, LIGHT = 0.0, 0.9  # the part of it that is visible on paper
NAMED, BANDED = 40, 12  # sites: with a name each, with an interval each
LINE = 0.13  # inches of a row with its name
LONGEST = 28


@styled()
def draw_track(track: Track) -> Drawn:
    """Draw the scores over the steps: as a heat map, a row for each site, and as lines.

    Lines are darker near the input and lighter near the output; where there are few, with the 95 %
    interval as a band. A site without a score is gray in the map.

    Args:
        track: see `sigmascope.Monitor` and `sigmascope.track`.

    Raises:
        InputTypeError: something other than a track.
        InputError: a track without measurements.

    >>> import torch
    >>> from sigmascope.monitoring.monitor import Monitor
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> with Monitor(network, torch.randn(256, 4), every=1) as monitor:
    ...     _ = [monitor.step(step) for step in range(3)]
    >>> [row["step"] for row in draw_track(monitor.track).table]
    [0, 1, 2]
    """
    check_kind("track", track, Track, "sigmascope.Monitor or sigmascope.track")
    if not track.entries:
        raise InputError(f"the track of {track.name} is empty. Measure at least once.")
    rows = min(len(track.sites), NAMED)
    heights = [max(1.0, LINE * rows), 1.7]
    figure = new_figure(PAGE, 0.9 + sum(heights))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    _draw_map(above, track)
    _draw_lines(below, track)
    above.set_title(shown(track.name, 64))
    return finished([above, below], _rows(track))


def _draw_map(panel: Axes, track: Track) -> None:
    sites = track.sites
    masked = np.ma.masked_invalid(track.scores.T)
    low = float(masked.min()) if masked.count() else 0.0
    edges = np.arange(len(sites) + 1) - 0.5
    scale: dict[str, Any] = {"vmin": min(low, 0.9), "vmax": 1, "cmap": COLORS}
    # rasterized, since thousands of cells as paths are slow to show
    image = panel.pcolormesh(_edges(track.steps), edges, masked, rasterized=True, **scale)
    panel.invert_yaxis()
    panel.set_facecolor("0.85")
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    places = range(0, len(sites), 1 + (len(sites) - 1) // NAMED)
    names = [shown(sites[place], LONGEST) for place in places]
    panel.set_yticks(list(places), names, fontsize=SMALL)
    panel.tick_params(length=0)
    add_scale(image, [panel], "score", fraction=0.05, pad=0.02)


def _draw_lines(panel: Axes, track: Track) -> None:
    steps, scores, sites = track.steps, track.scores, track.sites
    low, high = track.values("low"), track.values("high")
    colors = mpl.colormaps[DEPTH](np.linspace(DARK, LIGHT, len(sites)))
    marker: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(steps) < 30 else {}
    for index, color in enumerate(colors):
        panel.plot(steps, scores[:, index], color=color, linewidth=0.9, **marker)
        if len(sites) <= BANDED:
            band = low[:, index], high[:, index]
            panel.fill_between(steps, *band, color=color, alpha=0.15, linewidth=0)
    mean = np.ma.masked_invalid(scores).mean(axis=1)
    panel.plot(steps, mean, color="black", linewidth=1.6, label="mean")
    for event in track.events:
        panel.axvline(event.step, color="0.35", linewidth=0.6, linestyle=":")
    panel.set(xlabel="step", ylabel="score")
    if len(sites) > 1:
        panel.set_title("dark lines near the input, light ones near the output", fontsize=SMALL)
    panel.legend(loc="best")


def _edges(steps: list[int]) -> list[float]:
    """Return the borders between steps, half-way between them."""
    if len(steps) == 1:
        return [steps[0] - 0.5, steps[0] + 0.5]
    middles = [(one + other) / 2 for one, other in pairwise(steps)]
    return [2 * steps[0] - middles[0], *middles, 2 * steps[-1] - middles[-1]]


def _rows(track: Track) -> list[dict[str, Any]]:
    return [
        {
            "step": entry.step,
            "site": site.name,
            "activation": site.kind,
            "score": site.score,
            "low": site.low,
            "high": site.high,
            "dead": site.dead,
        }
        for entry in track.entries
        for site in entry.sites
        if not math.isnan(site.score) or site.reason
    ]
