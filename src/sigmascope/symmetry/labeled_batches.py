"""Batches with labels, and what a network makes of them: loss, accuracy, calibrated loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.capture.nested import tensors_in
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import LABELS
from sigmascope.symmetry import interpolation

REACH = math.log(100)  # temperatures from 1/100 to 100


def labeled_batches(batches: Any) -> list[Any]:
    """Return batches, each of which is known to have labels; those without samples are left out.

    Raises:
        InputError: an iterator, or no samples.
        InputTypeError: a batch without labels.
    """
    items = list(interpolation.read_again(batches))
    if not items:
        raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
    found = [item for item in items if len(labels_of(item))]
    if not found:
        raise InputError("batches is empty. Pass a loader or a list with at least one sample.")
    return found


def labels_of(item: Any) -> Tensor:
    """Return the labels (n,) of a batch."""
    found = None
    if isinstance(item, Mapping):
        found = next((item[name] for name in LABELS if name in item), None)
    elif isinstance(item, (tuple, list)) and len(item) > 1:
        found = item[1]
    if not isinstance(found, Tensor) or found.ndim != 1 or found.is_floating_point():
        raise InputTypeError(
            "a batch has no labels. Yield pairs (inputs, labels), with labels (n,) of whole "
            "numbers."
        )
    return found


def inputs_of(item: Any) -> Any:
    """Return a batch without its labels."""
    if isinstance(item, Mapping):
        return {name: value for name, value in item.items() if name not in LABELS}
    return item[0]


def evaluated(network: nn.Module, items: list[Any]) -> tuple[float, float, float]:
    """Return mean cross-entropy, accuracy, and cross-entropy at the best temperature."""
    kept = []
    with preserve_state(network, mode="eval"):
        for item in items:
            logits = next(iter(tensors_in(interpolation.forward(network, inputs_of(item)))))
            labels = labels_of(item).to(logits.device)
            _check_logits(logits, labels)
            kept.append((logits.double(), labels))
    logits, labels = (torch.cat(parts) for parts in zip(*kept, strict=True))
    accuracy = float((logits.argmax(dim=1) == labels).double().mean())
    return float(F.cross_entropy(logits, labels)), accuracy, _calibrated(logits, labels)


def _check_logits(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 2 or len(logits) != len(labels):
        raise InputError(
            f"the network must return logits ({len(labels)}, classes), got {tuple(logits.shape)}."
        )
    classes = logits.shape[1]
    if bool(((labels < 0) | (labels >= classes)).any()):
        low, high = int(labels.min()), int(labels.max())
        raise InputError(
            f"labels must be from 0 to {classes - 1}, as the network returns logits of {classes} "
            f"classes, got labels from {low} to {high}."
        )


def _calibrated(logits: Tensor, labels: Tensor) -> float:
    """Return cross-entropy at the best temperature: it is convex in its reciprocal."""

    def at(log: float) -> float:
        return float(F.cross_entropy(logits * math.exp(log), labels))

    found = minimize_scalar(at, bounds=(-REACH, REACH), method="bounded", options={"xatol": 1e-6})
    return min(float(found.fun), at(0.0))
