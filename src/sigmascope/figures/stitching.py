"""Accuracy of stitches and of rotated layers, and interpretable units in rotated bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.checks import check_kind
from sigmascope.dissection.penalty import RotationPenalty
from sigmascope.dissection.result import Dissection
from sigmascope.figures.curves import draw_curves
from sigmascope.figures.drawn import Drawn
from sigmascope.stitching.result import CrossValidation, StitchResult

ACCURACY = "accuracy in %"


def draw_stitch(result: StitchResult, *, axes: Axes | None = None) -> Drawn:
    """Draw the accuracy of a stitch by epoch, beside the test accuracies; epoch 0 if not trained.

    Args:
        result: of `sigmascope.stitch`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a stitch.
    """
    check_kind("result", result, StitchResult, "sigmascope.stitch")
    accuracies = [epoch.accuracy for epoch in result.history] or [result.chosen_accuracy]
    levels = {
        "stitched, test": result.stitched_accuracy,
        "front, test": result.front_accuracy,
        "back, test": result.back_accuracy,
    }
    first = result.history[0].number if result.history else 0
    return _by_epoch(first, {"stitched, selection": accuracies}, levels, axes)


def draw_rotation_penalty(result: RotationPenalty, *, axes: Axes | None = None) -> Drawn:
    """Draw the accuracy behind a rotated layer by epoch, beside the test accuracies.

    Args:
        result: of `sigmascope.dissection.rotation_penalty`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a rotation penalty.
    """
    check_kind("result", result, RotationPenalty, "sigmascope.dissection.rotation_penalty")
    levels = {"rotated, test": result.accuracy, "original, test": result.base_accuracy}
    return _by_epoch(0, {"rotated, selection": result.history}, levels, axes)


def draw_cross_validation(result: CrossValidation, *, axes: Axes | None = None) -> Drawn:
    """Draw the accuracy of stitches against α, on held-out and on test data.

    Args:
        result: of `sigmascope.stitching.Stitcher.cross_validate`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a cross-validation.
    """
    check_kind("result", result, CrossValidation, "Stitcher.cross_validate")
    curves = {
        "held-out": [one.chosen_accuracy for one in result.results],
        "test": [one.stitched_accuracy for one in result.results],
    }
    drawn = draw_curves(result.alphas, curves, axes, over="α")
    drawn.axes[0].set_ylabel(ACCURACY)
    if min(result.alphas) > 0:
        drawn.axes[0].set_xscale("log")
    return drawn


def draw_dissection(result: Dissection, *, axes: Axes | None = None) -> Drawn:
    """Draw the share of interpretable units against the power of the rotation.

    The line is the mean over the rotations, the band their standard deviation.

    Args:
        result: of `sigmascope.dissect`.
        axes: to draw in, without a legend; by default a new figure with one.

    Raises:
        InputTypeError: not a dissection.
    """
    check_kind("result", result, Dissection, "sigmascope.dissect")
    drawn = draw_curves(
        result.powers, {result.name: result.fraction}, axes, over="power of the rotation"
    )
    drawn.axes[0].set_ylabel("interpretable units")
    return drawn


def _by_epoch(
    first: int,
    curves: Mapping[str, Sequence[float]],
    levels: Mapping[str, float],
    axes: Axes | None,
) -> Drawn:
    """Draw curves over epochs, and levels as horizontal lines."""
    count = max(map(len, curves.values()))
    every: dict[str, Any] = {**curves, **{name: [value] * count for name, value in levels.items()}}
    drawn = draw_curves(range(first, first + count), every, axes, over="epoch")
    drawn.axes[0].set_ylabel(ACCURACY)
    drawn.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return drawn
