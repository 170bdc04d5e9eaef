"""The best order and rotations of attention heads."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sigmascope.symmetry.aligning.pairs import assigned
from sigmascope.symmetry.wiring.heads import KEY, QUERY, VALUE, HeadElement, Heads


def best_heads(
    heads: Heads, target: Mapping[str, Tensor], current: Mapping[str, Tensor], *, permuted: bool
) -> HeadElement:
    """Return the element that brings the heads closest to those of the target.

    For a pair of heads the best rotation is the polar factor of M, the sum of the products of their
    weights, and it gains the sum of the singular values of M; so the assignment is exact.

    Args:
        heads: of one module.
        target: name of a parameter -> its value.
        current: the same, to be turned.
        permuted: whether heads may change places.
    """
    queries, keys, values = (
        _products(heads.stacked(target, which), heads.stacked(current, which))
        for which in (QUERY, KEY, VALUE)
    )
    queries = queries + keys
    values = values + _products(heads.columns(target), heads.columns(current))
    order = torch.arange(heads.count)
    if permuted:
        gain = torch.linalg.svdvals(queries).sum(dim=-1) + torch.linalg.svdvals(values).sum(dim=-1)
        order = assigned(-gain)
    places = torch.arange(heads.count)
    return HeadElement(order, _polar(queries[places, order]), _polar(values[places, order]))


def _products(x: Tensor, y: Tensor) -> Tensor:
    """Return (h, h, d, d): the products of every head of the target with every other."""
    count, width, _ = x.shape
    together = x.flatten(0, 1) @ y.flatten(0, 1).T
    return together.double().view(count, width, count, width).transpose(1, 2)


def _polar(products: Tensor) -> Tensor:
    """Return the orthogonal matrix R with the largest inner product with each matrix."""
    u, _, v = torch.linalg.svd(products)
    rotation: Tensor = u @ v
    return rotation
