"""Accuracy, and the checks of settings, labels and divergence that every training makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.checks import check_choice, check_number, check_share, check_whole
from sigmascope.choices import Selection
from sigmascope.errors import InputError, NetworkError
from sigmascope.training.feed import Feed

BATCH = 500
"""Samples of an evaluation that run together."""


def accuracy(network: nn.Module, feed: Feed) -> float:
    """Return the accuracy of a network in evaluation mode, in percent of all samples."""
    correct = torch.zeros((), dtype=torch.long, device=feed.labels.device)
    with preserve_state(network, mode="eval"):
        for _, inputs, labels in feed.batches(BATCH):
            correct += (network(inputs).argmax(dim=1) == labels).sum()
    return 100 * int(correct) / len(feed)


def classes_of(network: nn.Module, inputs: Tensor) -> int:
    """Return the number of output classes of a network; raise a NetworkError without logits."""
    with preserve_state(network, mode="eval"):
        logits = network(inputs)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise NetworkError(
            "the network does not return one tensor (n, classes). Wrap it so that it returns its "
            "logits."
        )
    return logits.shape[1]


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise an InputError unless every label (n,) is one of the classes."""
    smallest, largest = (int(label) for label in labels.long().aminmax())
    if smallest < 0 or largest >= classes:
        raise InputError(
            f"labels range from {smallest} to {largest}, but the network has {classes} output "
            f"classes, 0 to {classes - 1}. Pass data of the task it was trained for."
        )


def diverged(parts: Mapping[str, Iterable[Tensor]]) -> list[str]:
    """Return the names of the parts with numbers that are not finite.

    >>> diverged({"the loss": [torch.tensor(torch.nan)], "a weight": [torch.ones(2)]})
    ['the loss']
    """
    finite = {name: all(bool(x.isfinite().all()) for x in parts[name]) for name in parts}
    return [name for name in parts if not finite[name]]


def check_training(settings: Any, *, rates: Iterable[str] = (), counts: Iterable[str] = ()) -> None:
    """Raise an OptionError unless the settings of a training, a frozen dataclass, are valid.

    `rates` are further numbers >= 0, `counts` further whole numbers >= 1. Whole numbers of other
    types become int, so that files can hold them.
    """
    check_choice("select_on", settings.select_on, Selection)
    check_share("validation", settings.validation)
    for name in ("epochs", "batch", *counts):
        object.__setattr__(settings, name, check_whole(name, getattr(settings, name), 1))
    for name in ("rate", "decay", *rates):
        check_number(name, getattr(settings, name))
