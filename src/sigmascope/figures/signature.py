"""A signature over depth, and the density of its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde

from sigmascope.figures.style import COLOURS
from sigmascope.measure.signature import Signature

__all__ = ["draw_density", "draw_signature"]

MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_signature(axes: Axes, signature: Signature, groups: Sequence[str] | None = None, order: Sequence[str] = ()) -> None:
    """Draw the scores in order of execution, with the spread over batches; one colour and marker for each group of sites.

    Args:
        axes: to draw in.
        signature: to draw.
        groups: the group of each site; by default the kind of activation.
        order: the groups in the order of their colours; by default as they come.
    """
    labels = list(groups) if groups is not None else [site.kind for site in signature.sites]
    scores, spread = signature.scores, np.nan_to_num([site.std for site in signature.sites])
    position = np.arange(len(scores))
    axes.plot(position, scores, color="0.75", linewidth=1, zorder=1)
    for number, label in enumerate(dict.fromkeys([*order, *labels])):
        chosen = np.array([one == label for one in labels])
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.vlines(position[chosen], (scores - spread)[chosen], (scores + spread)[chosen], color=colour, linewidth=1)
        axes.plot(position[chosen], scores[chosen], marker, color=colour, markersize=4.5, label=label)
    axes.set(xlabel="activation call, in order of execution", ylabel="affinity score", title=signature.name, ylim=(None, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_density(axes: Axes, scores: Mapping[str, np.ndarray[tuple[int], np.dtype[np.float64]]]) -> None:
    """Draw Gaussian kernel densities of groups of scores (Scott's bandwidth), with the scores themselves as ticks below.

    Args:
        axes: to draw in.
        scores: label -> (k,), in the order of their colours; groups with fewer than two different scores get ticks only.
    """
    for number, (label, values) in enumerate(scores.items()):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(values, np.full(len(values), 0.01 + 0.03 * number), "|", color=colour, transform=axes.get_xaxis_transform())
        if len(np.unique(values)) < 2:
            continue
        density = gaussian_kde(values)
        width = 3 * float(np.sqrt(density.covariance[0, 0]))
        grid = np.linspace(values.min() - width, values.max() + width, 200)
        axes.fill_between(grid, density(grid), color=colour, alpha=0.15, linewidth=0)
        axes.plot(grid, density(grid), color=colour, label=label)
    axes.set(xlabel="affinity score", ylabel="density", ylim=(0, None))
