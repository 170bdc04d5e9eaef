"""Networks of torchvision for other tasks than classification, and an example of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.catalog.transforms import Transform

FRAMES = 16  # of a clip: as many as the most demanding network needs
SIDE = 320  # of an image in which objects are detected


@dataclass(frozen=True)
class Task:
    """What the networks of a task take, from the preprocessing of their own weights.

    Attributes:
        inputs: preset -> an example.
        transform: preset -> how samples are made into inputs.
        settings: of networks with random weights.
    """

    inputs: Callable[[Any], Any]
    transform: Callable[[Any], Transform | None]
    settings: dict[str, Any]


def _image(preset: Any) -> tuple[int, int, int]:
    (side,) = getattr(preset, "crop_size", None) or preset.resize_size
    return 3, side, side


def _clip(preset: Any) -> tuple[int, int, int, int]:
    return 3, FRAMES, *preset.crop_size


def _still(preset: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that makes clips in which nothing moves, since no data set has videos."""
    return lambda images: preset(images[:, None].repeat(1, FRAMES, 1, 1, 1))


def _pair(_: Any) -> dict[str, Tensor]:
    return {name: torch.zeros(1, 3, 128, 128) for name in ("image1", "image2")}


UNTRAINED = {"weights_backbone": None}  # which would be downloaded otherwise
TASKS = {
    "": Task(
        lambda preset: torch.zeros(1, *_image(preset)),
        lambda preset: Transform("images", preset, _image(preset)),
        {},
    ),
    "segmentation": Task(
        lambda preset: torch.zeros(1, *_image(preset)),
        lambda preset: Transform("images", preset, _image(preset)),
        UNTRAINED,
    ),
    "detection": Task(
        lambda _: [torch.zeros(3, SIDE, SIDE)],
        lambda preset: Transform("images", preset, (3, SIDE, SIDE)),
        UNTRAINED,
    ),
    "video": Task(
        lambda preset: torch.zeros(1, *_clip(preset)),
        lambda preset: Transform("images", _still(preset), _clip(preset)),
        {},
    ),
    "optical_flow": Task(_pair, lambda _: None, {}),
}
"""Module of torchvision.models, "" for itself -> what its networks take."""


def torchvision_names(models: Any) -> dict[str, str]:
    """Return the networks of `torchvision.models` by name, and the task of each."""
    return {
        name: task
        for task in TASKS
        for name in models.list_models(module=getattr(models, task) if task else models)
    }
