"""Labels beside points, so placed that they cover neither each other nor the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from sigmascope.figures.style import FONT, SMALL, figure_of

__all__ = ["label_points"]

Array = np.ndarray[Any, np.dtype[np.float64]]

# Points (1/72 inch) from the center of a marker to the nearest edge of its label; from the third
# on, a line joins them.
RADII = (4.0, 7.0, 11.0, 16.0, 22.0, 30.0, 40.0, 52.0, 66.0, 82.0, 100.0)
JOINED = 9.0
ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202, 68, 112, 292, 248])
MARKER, THIN = 3.0, 1.0  # half the width of a marker, and of what stands for a piece of a line
GAP = 0.8  # around a label
PIECES = np.linspace(0.2, 0.9, 8)[:, None]  # of the line from a marker to its label
# What it costs to cover a square point, to leave the axes by a point, to cross a box with a line,
# to be a point farther away.
COVERED, OUTSIDE, CROSSED, FARTHER = 4.0, 40.0, 8.0, 1.0


def label_points(
    axes: Axes,
    points: Array,
    labels: Sequence[str],
    *,
    size: float = SMALL,
    avoid: Array | None = None,
) -> None:
    """Write a label beside each point; the axes must have their final limits and size.

    Greedy, the most crowded point first: of a table of positions around it, the one that covers
    least, and then the nearest.

    Args:
        axes: that the points are in.
        points: (k, 2), in the units of the axes.
        labels: k texts.
        size: of the letters, in points (1/72 inch).
        avoid: (a, 2), what else should stay free, such as a line.
    """
    figure = figure_of(axes)
    figure.draw_without_rendering()  # the layout moves the axes only when it is drawn
    scale = 72 / figure.dpi

    def to_paper(places: Array) -> Array:
        return np.asarray(axes.transData.transform(places), dtype=np.float64).reshape(-1, 2) * scale

    centers = to_paper(points)
    frame = np.asarray(axes.bbox.extents, dtype=np.float64) * scale
    boxes = np.vstack(
        [
            _squares(centers, MARKER),
            _squares(to_paper(np.empty((0, 2)) if avoid is None else avoid), THIN),
        ]
    )
    for place in _crowded_first(centers):
        box, joined = _best_box(
            centers[place], np.array(_extent(labels[place], size)), boxes, frame
        )
        _write(axes, points[place], labels[place], (box[:2] + box[2:]) / 2 - centers[place], size)
        boxes = np.vstack([boxes, box])
        if joined:
            near = np.clip(centers[place], box[:2], box[2:]) - centers[place]
            _join(axes, points[place], near)
            boxes = np.vstack([boxes, _squares(centers[place] + PIECES * near, THIN)])


def _write(axes: Axes, point: Array, label: str, offset: Array, size: float) -> None:
    where: dict[str, Any] = {
        "xytext": tuple(offset),
        "textcoords": "offset points",
        "ha": "center",
        "va": "center",
    }
    text = axes.annotate(label, tuple(point), fontsize=size, annotation_clip=False, **where)
    text.set_in_layout(False)  # or the axes would shrink to make room, and nothing be where it was


def _join(axes: Axes, point: Array, offset: Array) -> None:
    line = {"arrowstyle": "-", "color": "0.55", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    joint = axes.annotate(
        "", tuple(point), xytext=tuple(offset), textcoords="offset points", arrowprops=line
    )
    joint.set_in_layout(False)


def _squares(centers: Array, half: float) -> Array:
    """Return boxes (k, 4): left, bottom, right, top."""
    return np.concatenate([centers - half, centers + half], axis=1)


def _extent(label: str, size: float) -> tuple[float, float]:
    width, _, _ = text_to_path.get_text_width_height_descent(
        label, FontProperties(family=FONT, size=size), False
    )
    return width + 2 * GAP, 1.15 * size + 2 * GAP


def _crowded_first(centers: Array) -> list[int]:
    apart = np.linalg.norm(centers[:, None] - centers, axis=2)
    return [int(place) for place in np.argsort(-np.exp(-apart / 30).sum(axis=1), kind="stable")]


def _best_box(center: Array, extent: Array, boxes: Array, frame: Array) -> tuple[Array, bool]:
    """Return left, bottom, right, top of the best position, and whether it needs a line to its point."""
    candidates, radii = _around(center, extent)
    widths = np.minimum(candidates[:, None, 2:], boxes[:, 2:]) - np.maximum(
        candidates[:, None, :2], boxes[:, :2]
    )
    covered = widths.clip(0).prod(axis=2).sum(axis=1)
    outside = (frame[:2] - candidates[:, :2]).clip(0).sum(axis=1) + (
        candidates[:, 2:] - frame[2:]
    ).clip(0).sum(axis=1)
    lines = (
        center + PIECES * (np.clip(center, candidates[:, :2], candidates[:, 2:]) - center)[:, None]
    )
    inside = (lines[:, :, None] > boxes[:, :2]).all(axis=3) & (
        lines[:, :, None] < boxes[:, 2:]
    ).all(axis=3)
    crossed = np.where(radii > JOINED, inside.sum(axis=(1, 2)), 0)
    best = int(
        (COVERED * covered + OUTSIDE * outside + CROSSED * crossed + FARTHER * radii).argmin()
    )
    return candidates[best], bool(radii[best] > JOINED)


def _around(center: Array, extent: Array) -> tuple[Array, Array]:
    """Return boxes (c, 4) of this extent that nearly touch circles around the center, and the radii
    (c,) of these.
    """
    directions = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    radii = np.repeat(RADII, len(ANGLES))
    middles = center + np.tile(directions, (len(RADII), 1)) * (radii[:, None] + extent / 2)
    return np.concatenate([middles - extent / 2, middles + extent / 2], axis=1), radii
