"""Cosines of the parameters of two networks, by layer and over all."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def overall(tensors: dict[str, tuple[Tensor, Tensor]]) -> float:
    """Return the mean cosine of weights; gains and offsets are alike in any two networks."""
    found = [_cosine([both]) for both in tensors.values() if both[0].ndim > 1]
    return float(np.mean(found or [_cosine(list(tensors.values()))]))


def cosines(tensors: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Return the cosine of the parameters of each module."""
    layers: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for name, both in tensors.items():
        layers.setdefault(name.rpartition(".")[0] or name, []).append(both)
    return {layer: _cosine(own) for layer, own in layers.items()}


def _cosine(pairs: list[tuple[Tensor, Tensor]]) -> float:
    products = np.zeros(3)
    for x, y in pairs:
        x, y = x.double().flatten(), y.double().flatten()
        products += [float(x @ y), float(x @ x), float(y @ y)]
    inner, one, other = products.tolist()
    if not one or not other:
        return 1.0 if one == other else 0.0
    return float(inner / (one * other) ** 0.5)
