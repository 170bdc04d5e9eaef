"""Accuracy, and the checks before and during a training: logits, labels, divergence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError, NetworkError
from sigmascope.training.feed import Feed

__all__ = ["BATCH", "accuracy", "check_labels", "classes_of", "correct_in", "diverged"]

BATCH = 500
"""Samples of an evaluation that run together."""


def accuracy(network: nn.Module, feed: Feed) -> float:
    """Return the accuracy of a network in evaluation mode, in percent of all samples."""
    correct = torch.zeros((), dtype=torch.long, device=feed.labels.device)
    with preserve_state(network, mode="eval"):
        for _, inputs, labels in feed.batches(BATCH):
            correct += correct_in(network(inputs), labels)
    return 100 * int(correct) / len(feed)


def correct_in(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the number of correct answers among logits (n, classes), as a tensor."""
    return (logits.argmax(dim=1) == labels).sum()


def classes_of(network: nn.Module, inputs: Tensor) -> int:
    """Return the number of output classes of a network.

    Raises:
        NetworkError: the network does not return logits.
    """
    with preserve_state(network, mode="eval"):
        logits = network(inputs)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise NetworkError(
            "the network does not return one tensor (n, classes). Wrap it so that it returns its "
            "logits."
        )
    return logits.shape[1]


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise unless every label (n,) is one of the classes.

    Raises:
        InputError: the message gives the smallest and the largest label.
    """
    smallest, largest = (int(label) for label in labels.long().aminmax())
    if smallest < 0 or largest >= classes:
        raise InputError(
            f"labels range from {smallest} to {largest}, but the network has {classes} output "
            f"classes, 0 to {classes - 1}. Pass data of the task it was trained for."
        )


def diverged(parts: Mapping[str, Iterable[Tensor]]) -> list[str]:
    """Return the names of the parts that hold numbers that are not finite.

    >>> diverged({"the loss": [torch.tensor(torch.nan)], "a weight": [torch.ones(2)]})
    ['the loss']
    """
    return [
        name
        for name, tensors in parts.items()
        if not all(bool(tensor.isfinite().all()) for tensor in tensors)
    ]
