"""The loss and the accuracy of a network on held-out batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.linearize.data import Data, labels_of, logits_of

IGNORED = -100  # the label of what torch.nn.functional.cross_entropy leaves out


@dataclass(frozen=True)
class Judgment:
    """How good a network is on held-out batches.

    Attributes:
        loss: the mean over all samples.
        accuracy: in percent of all labels; NaN where the labels are not classes.
        samples: how many there were.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = linearize.tune(network, samples, held_out=samples, epochs=1)
    >>> found.before.samples, 0 <= found.before.accuracy <= 100
    (64, True)
    """

    loss: float = math.nan
    accuracy: float = math.nan
    samples: int = 0


def judged(network: nn.Module, data: Data) -> Judgment:
    """Return the loss and the accuracy of a network in evaluation mode, from one pass.

    Raises:
        InputError: batches without labels.
    """
    total, samples = 0.0, 0
    correct, labelled = 0, 0
    with preserve_state(network, mode="eval"), torch.no_grad():
        for batch in data.batches(network):
            outputs, size = data.forward(network, batch.content), max(1, batch.size)
            total += size * float(data.loss_of_outputs(outputs, batch))
            samples += size
            right, count = _right(logits_of(outputs), labels_of(batch.content))
            correct, labelled = correct + right, labelled + count
    accuracy = 100 * correct / labelled if labelled else math.nan
    return Judgment(total / samples, accuracy, samples)


def class_axis(logits: Tensor, labels: Any) -> int:
    """Return the axis of the classes: the last one where labels have all others, otherwise 1."""
    if logits.ndim < 2 or not isinstance(labels, Tensor):
        return -1
    return -1 if labels.shape == logits.shape[:-1] else 1


def _right(logits: Any, labels: Any) -> tuple[int, int]:
    """Return how many labels are predicted, and how many there are; 0 if they are not classes."""
    if not isinstance(logits, Tensor) or not isinstance(labels, Tensor) or logits.ndim < 2:
        return 0, 0
    guesses = logits.argmax(dim=class_axis(logits, labels))
    if labels.is_floating_point() or guesses.shape != labels.shape:
        return 0, 0
    counted = labels != IGNORED
    return int((guesses == labels)[counted].sum()), int(counted.sum())
