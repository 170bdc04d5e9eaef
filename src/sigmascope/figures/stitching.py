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

    >>> import torch
    >>> import sigmascope as sg
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = sg.stitch(net, net, (samples, samples), site="1", family="identity")
    >>> [row["curve"] for row in sg.figures.draw_stitch(found).table]
    ['stitched, selection', 'stitched, test', 'front, test', 'back, test']
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

    >>> import torch
    >>> from sigmascope import dissection, figures
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = dissection.rotation_penalty(net, "0", torch.eye(4), (samples, samples), epochs=1)
    >>> sorted({row["curve"] for row in figures.draw_rotation_penalty(found).table})
    ['original, test', 'rotated, selection', 'rotated, test']
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

    >>> import torch
    >>> from sigmascope import figures, stitching
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> options = {"site": "1", "alphas": (0.1, 1.0), "preset": "fast", "epochs": 1}
    >>> found = stitching.cross_validate(net, net, (samples, samples), **options)
    >>> [(row["curve"], row["at"]) for row in figures.draw_cross_validation(found).table]
    [('held-out', 0.1), ('held-out', 1.0), ('test', 0.1), ('test', 1.0)]
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

    >>> import torch
    >>> from sigmascope import dissection, figures
    >>> x = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU())
    >>> masks = dissection.pixel_masks(x[:, :1] > 0.9, [("red", "color")])
    >>> found = dissection.rotation_experiment(network, ["1"], x, masks, powers=[0, 0.5, 1])["1"]
    >>> [row["at"] for row in figures.draw_dissection(found).table]
    [0.0, 0.5, 1.0]
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
