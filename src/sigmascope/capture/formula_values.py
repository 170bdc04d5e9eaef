"""Formulas on a grid of numbers, and written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.elementwise import GRID, evaluated, plain_number, without_outer, written
from sigmascope.capture.node import Node

LONG = 160  # letters of a formula; where it is longer the rest is left out


def nodes_between(start: Node, stop: Node) -> list[Node]:
    """Return the nodes that lead from one to the other, without the first, by step."""
    found: dict[Node, None] = {}
    waiting = [stop]
    while waiting:
        node = waiting.pop()
        if node is start or node in found:
            continue
        found[node] = None
        waiting += node.sources
    return sorted(found, key=lambda node: node.step)


class Values:
    """The values of formulas on the grid, computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Node, Node], Tensor] = {}

    def of(self, start: Node, stop: Node) -> Tensor:
        """Return a formula on the grid; no values where it cannot be computed there."""
        if (start, stop) not in self._known:
            self._known[start, stop] = _values(start, stop)
        return self._known[start, stop]


def _values(start: Node, stop: Node) -> Tensor:
    known: dict[Node, Tensor] = {start: GRID.clone()}
    try:
        for node in nodes_between(start, stop):
            args, kwargs = _numbers((node.args, node.kwargs), known)
            if node.function is None:
                known[node] = evaluated(node.name, args, kwargs)
            else:  # a layer, which may overwrite its input
                known[node] = node.function(known[node.sources[0]].clone())
    except Exception:  # whatever a function raises that is not made for numbers on a grid
        return GRID[:0]
    return known[stop].double()


def _numbers(value: Any, known: dict[Node, Tensor]) -> Any:
    """Return arguments with values on the grid for nodes, and numbers for constant tensors."""
    if isinstance(value, Node):
        return known[value]
    if isinstance(value, Tensor):
        return torch.tensor(plain_number(value), dtype=torch.float64)
    if isinstance(value, (tuple, list)):
        return tuple(_numbers(item, known) for item in value)
    if isinstance(value, dict):
        return {key: _numbers(item, known) for key, item in value.items()}
    return value


def constants_of(nodes: list[Node]) -> list[Tensor]:
    """Return the constant tensors among the arguments of functions."""
    return [
        value
        for node in nodes
        for value in (*node.args, *node.kwargs.values())
        if isinstance(value, Tensor)
    ]


def is_one_number(value: Tensor) -> bool:
    """Return whether all entries of a constant are the same."""
    return value.numel() == 1 or (value.numel() > 0 and bool((value == value.flatten()[0]).all()))


def text_of(start: Node, stop: Node) -> str:
    """Return a formula of x."""
    texts = {start: "x"}
    for node in nodes_between(start, stop):
        values = [value for value in (*node.args, *node.kwargs.values()) if type(value) is not bool]
        text = written(node.name, [_word(value, texts) for value in values])
        texts[node] = text if len(text) <= LONG else f"{text[:LONG]}…"
    return without_outer(texts[stop])


def _word(value: Any, texts: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return texts[value]
    if isinstance(value, Tensor):
        return f"{plain_number(value):.4g}" if is_one_number(value) else "a"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
