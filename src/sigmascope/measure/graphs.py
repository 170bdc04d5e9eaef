"""Batches of graphs, as torch_geometric makes them: many graphs as one, nodes one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

ATTRIBUTES = ("x", "edge_index", "edge_attr", "batch")


def is_graph(value: object) -> bool:
    """Return whether a value is a graph or a batch of graphs: it has tensors x and edge_index.

    >>> is_graph(torch.zeros(2))
    False
    """
    if isinstance(value, (Tensor, dict, list, tuple)) or not callable(getattr(value, "to", None)):
        return False
    return all(isinstance(getattr(value, name, None), Tensor) for name in ATTRIBUTES[:2])


def tensors_of_graph(graph: Any) -> Iterator[Tensor]:
    """Yield the nodes, the edges and the graph of each node."""
    for name in ATTRIBUTES:
        tensor = getattr(graph, name, None)
        if isinstance(tensor, Tensor):
            yield tensor


def graphs_in(item: object) -> dict[int, Tensor]:
    """Return the graph that each node, each graph and each edge belongs to, by how many there are.

    Empty where the item, or the first entry of a tuple, is not a graph. The nodes of a graph that
    is not in a batch are samples themselves.
    """
    graph: Any = item[0] if isinstance(item, (tuple, list)) and item else item
    if not is_graph(graph) or not len(graph.x):
        return {}
    batch = getattr(graph, "batch", None)
    nodes = batch.cpu() if isinstance(batch, Tensor) else torch.arange(len(graph.x))
    rows = {len(nodes): nodes}
    rows.setdefault(int(nodes.max()) + 1, torch.arange(int(nodes.max()) + 1))
    if graph.edge_index.ndim == 2 and graph.edge_index.shape[1]:
        rows.setdefault(graph.edge_index.shape[1], nodes[graph.edge_index[0].cpu()])
    return rows
