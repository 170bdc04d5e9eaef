"""The best order and rotations of attention heads."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sigmascope.symmetry.aligning.matching import assigned
from sigmascope.symmetry.wiring.heads import KEY, QUERY, VALUE, HeadElement, Heads


def best_heads(
    heads: Heads,
    target: Mapping[str, Tensor],
    current: Mapping[str, Tensor],
    *,
    permuted: bool,
    rotated: bool = True,
) -> HeadElement:
    """Return the element that brings the heads closest to those of the target.

    For a pair of heads the best rotation is the polar factor of M, the sum of the products of their
    weights, and it gains the sum of the singular values of M; so the assignment is exact.

    Args:
        heads: of one module.
        target: name of a parameter -> its value.
        current: the same, to be turned.
        permuted: whether heads may change places.
        rotated: whether queries and values may be rotated.
    """
    queries, keys, values = (
        _products(heads.stacked(target, which), heads.stacked(current, which))
        for which in (QUERY, KEY, VALUE)
    )
    queries = queries + keys
    values = values + _products(heads.columns(target), heads.columns(current))
    order = torch.arange(heads.count)
    if permuted:
        gains = (_gain(products, rotated=rotated) for products in (queries, values))
        order = assigned(-sum(gains, torch.zeros(()).double()))
    if not rotated:
        same = HeadElement.identity(heads)
        return HeadElement(order, same.queries, same.values)
    places = torch.arange(heads.count)
    return HeadElement(order, _polar(queries[places, order]), _polar(values[places, order]))


def _products(x: Tensor, y: Tensor) -> Tensor:
    """Return (h, h, d, d): the products of every head of the target with every other."""
    count, width, _ = x.shape
    together = x.flatten(0, 1) @ y.flatten(0, 1).T
    return together.double().view(count, width, count, width).transpose(1, 2)


def _gain(products: Tensor, *, rotated: bool) -> Tensor:
    """Return the largest inner product of each pair of heads, over all rotations or over none."""
    if rotated:
        singular: Tensor = torch.linalg.svdvals(products)
        return singular.sum(dim=-1)
    return products.diagonal(dim1=-2, dim2=-1).sum(dim=-1)


def _polar(products: Tensor) -> Tensor:
    """Return the orthogonal matrix R with the largest inner product with each matrix."""
    u, _, v = torch.linalg.svd(products)
    rotation: Tensor = u @ v
    return rotation
