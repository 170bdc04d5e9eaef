"""Labels beside points that cover neither each other nor the points.

The placement is deterministic, keeps labels off markers and off lines that join other labels, and
needs no second pass; adjustText, which moves labels at random, was tried and left more overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from sigmascope.figures.style import FONT, SMALL, figure_of

Array = np.ndarray[Any, np.dtype[np.float64]]

# Points (1/72 inch) from the center of a marker to its label; beyond JOINED a line joins them.
RADII = (4.0, 7.0, 11.0, 16.0, 22.0, 30.0, 40.0, 52.0, 66.0, 82.0, 100.0)
JOINED = 9.0
ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202, 68, 112, 292, 248])
MARKER, THIN = 3.0, 1.0  # half the width of a marker, and of a piece of a line
GAP = 0.8  # around a label
PIECES = np.linspace(0.2, 0.9, 8)[:, None]  # of the line from a marker to its label
# Costs: covering a square point, leaving the axes by a point, crossing a box, a point of distance.
COVERED, OUTSIDE, CROSSED, FARTHER = 4.0, 40.0, 8.0, 1.0
JOINT = {"arrowstyle": "-", "color": "0.55", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}


def label_points(
    axes: Axes,
    points: Array,
    labels: Sequence[str],
    *,
    size: float = SMALL,
    avoid: Array | None = None,
) -> None:
    """Write a label beside each point; the axes must have their final limits and size.

    Greedy, the most crowded point first: the position that covers least, then the nearest.

    Args:
        axes: the axes with the points.
        points: (k, 2), in data coordinates.
        labels: k texts.
        size: font size in points (1/72 inch).
        avoid: (a, 2), other places to keep free, such as those on a line.
    """
    figure = figure_of(axes)
    figure.draw_without_rendering()  # applies the layout, which moves the axes
    scale = 72 / figure.dpi

    def to_paper(places: Array) -> Array:
        return np.asarray(axes.transData.transform(places), dtype=np.float64).reshape(-1, 2) * scale

    centers = to_paper(points)
    frame = np.asarray(axes.bbox.extents, dtype=np.float64) * scale
    boxes = _squares(centers, MARKER)
    if avoid is not None:
        boxes = np.vstack([boxes, _squares(to_paper(avoid), THIN)])
    for place in _crowded_first(centers):
        center, extent = centers[place], np.array(_extent(labels[place], size))
        box, joined = _best_box(center, extent, boxes, frame)
        middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
        _annotate(axes, points[place], labels[place], box.reshape(2, 2).mean(0) - center, **middle)
        boxes = np.vstack([boxes, box])
        if joined:
            near = np.clip(center, box[:2], box[2:]) - center
            _annotate(axes, points[place], "", near, arrowprops=JOINT)
            boxes = np.vstack([boxes, _squares(center + PIECES * near, THIN)])


def _annotate(axes: Axes, point: Array, label: str, offset: Array, **how: Any) -> None:
    where: dict[str, Any] = {"xytext": tuple(offset), "textcoords": "offset points"}
    text = axes.annotate(label, tuple(point), annotation_clip=False, **where, **how)
    text.set_in_layout(False)  # or the axes would shrink to make room, and nothing be where it was


def _squares(centers: Array, half: float) -> Array:
    """Return boxes (k, 4): left, bottom, right, top."""
    return np.concatenate([centers - half, centers + half], axis=1)


def _extent(label: str, size: float) -> tuple[float, float]:
    font = FontProperties(family=FONT, size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(label, font, False)
    return width + 2 * GAP, 1.15 * size + 2 * GAP


def _crowded_first(centers: Array) -> list[int]:
    apart = np.linalg.norm(centers[:, None] - centers, axis=2)
    return [int(place) for place in np.argsort(-np.exp(-apart / 30).sum(axis=1), kind="stable")]


def _best_box(center: Array, extent: Array, boxes: Array, frame: Array) -> tuple[Array, bool]:
    """Return left, bottom, right, top of the best position, and whether it needs a line."""
    candidates, radii = _around(center, extent)
    low, high = candidates[:, :2], candidates[:, 2:]
    widths = np.minimum(high[:, None], boxes[:, 2:]) - np.maximum(low[:, None], boxes[:, :2])
    covered = widths.clip(0).prod(axis=2).sum(axis=1)
    outside = ((frame[:2] - low).clip(0) + (high - frame[2:]).clip(0)).sum(axis=1)
    lines = (center + PIECES * (np.clip(center, low, high) - center)[:, None])[:, :, None]
    inside = ((lines > boxes[:, :2]) & (lines < boxes[:, 2:])).all(axis=3)
    crossed = np.where(radii > JOINED, inside.sum(axis=(1, 2)), 0)
    costs = COVERED * covered + OUTSIDE * outside + CROSSED * crossed + FARTHER * radii
    best = int(costs.argmin())
    return candidates[best], bool(radii[best] > JOINED)


def _around(center: Array, extent: Array) -> tuple[Array, Array]:
    """Return boxes (c, 4) of this extent around the center, and their distances (c,)."""
    directions = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    radii = np.repeat(RADII, len(ANGLES))
    middles = center + np.tile(directions, (len(RADII), 1)) * (radii[:, None] + extent / 2)
    return np.concatenate([middles - extent / 2, middles + extent / 2], axis=1), radii
