"""The similarity of the layers of two networks as a map of colours."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from sigmascope.symmetry.layer_similarity import LayerSimilarity

__all__ = ["draw_similarity"]

MEASURES = {"procrustes": "Procrustes", "cka": "CKA"}
# More rows or columns than this leave no room for a number in each cell.
NUMBERED = 12


def draw_similarity(axes: Axes, result: LayerSimilarity) -> AxesImage:
    """Draw similarities, brighter for more alike; layers without one stay grey.

    Args:
        axes: to draw in.
        result: to draw; its first network goes down, its second across.

    Returns:
        The image, for a colour bar: `axes.figure.colorbar(image, label="similarity")`.
    """
    values = result.similarity
    low = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
    axes.set_facecolor("0.85")
    axes.grid(False)
    image = axes.imshow(np.ma.masked_invalid(values), vmin=low, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(result.columns)), result.columns, rotation=90)
    axes.set_yticks(range(len(result.rows)), result.rows)
    axes.set(
        xlabel=result.networks[1],
        ylabel=result.networks[0],
        title=f"{MEASURES[result.measure]} similarity, {result.group} group",
    )
    if max(values.shape) <= NUMBERED:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = value < low + 0.6 * (1 - low)
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if dark else "black", fontsize=7)
    return image
