"""Activations that are written as a formula, found in the graph of a forward pass.

A formula begins where a tensor enters it, and ends where all that was computed from this tensor,
element by element, has come together again. What mixes elements is its border, and affine steps
before and after it are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sigmascope.capture.elementwise import (
    GRID,
    NEGATIONS,
    SUMS,
    evaluated,
    is_straight,
    kind_of_values,
    plain_number,
    without_outer,
    written,
)
from sigmascope.capture.graph import Graph, Node

LONGEST = 8  # segments of a formula that is known only as a whole
ELEMENTWISE = "elementwise"


class Formula(NamedTuple):
    """An activation in several steps of a pass.

    Attributes:
        begins: the step that first takes its input, and `position`, where among its tensors.
        ends: the step that returns its output.
        parts: all of its steps.
        kind: the activation that it is, or "elementwise".
        text: the formula of x.
        path: the module that it ends in.
    """

    begins: int
    position: int
    ends: int
    parts: frozenset[int]
    kind: str
    text: str
    path: str


def formulas_of(graph: Graph) -> list[Formula]:
    """Return the formulas of a pass, in order of their first steps."""
    ends = [*graph.closed, *(node for node in graph.made if not node.uses)]
    found: dict[tuple[int, int], Formula] = {}
    for end in ends:
        if end.root is not None:
            for formula in _on_the_way(graph, end):
                found.setdefault((formula.begins, formula.ends), formula)
    return _apart(sorted(found.values()))


def _on_the_way(graph: Graph, end: Node) -> Iterator[Formula]:
    """Yield the formulas between a tensor and its root."""
    chain = _bottlenecks(end)
    first = 0
    while first < len(chain) - 1:
        length, kind = _longest(chain, first)
        if length:
            start, stop = chain[first], chain[first + length]
            if start.floating and stop.floating and not _is_summarized(end):
                yield _formula(graph, start, stop, kind)
        first += max(length, 1)


def _formula(graph: Graph, start: Node, stop: Node, kind: str) -> Formula:
    inside = _between(start, stop)
    begins = min(node.step for node in inside if any(one is start for one in node.sources))
    return Formula(
        begins,
        graph.positions[begins, start],
        stop.step,
        frozenset(node.step for node in inside),
        kind,
        without_outer(_text(stop, start)),
        stop.path,
    )


def _between(start: Node, stop: Node) -> list[Node]:
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


def _bottlenecks(end: Node) -> list[Node]:
    """Return the nodes that all of a tensor was computed through, from its root on."""
    assert end.root is not None
    order = [end.root, *_between(end.root, end)]
    number = {node: index for index, node in enumerate(order)}
    reach = [0] * len(order)
    for node in order[1:]:
        for source in node.sources:
            reach[number[source]] = max(reach[number[source]], number[node])
    found, furthest = [], 0
    for index, node in enumerate(order):
        if furthest <= index:
            found.append(node)
        furthest = max(furthest, reach[index])
    return found


def _longest(chain: list[Node], first: int) -> tuple[int, str]:
    """Return how many segments from here on are one activation that has no name, and which."""
    # the logistic function begins with a change of sign
    if _is_affine_step(chain, first) and chain[first + 1].name not in NEGATIONS:
        return 0, ""
    for length in range(min(LONGEST, len(chain) - 1 - first), 0, -1):
        last = first + length
        segments = range(first, last)
        unnamed = [i for i in segments if not _is_named(chain, i) and not _is_straight(chain, i)]
        if not unnamed or _is_affine_step(chain, last - 1):
            continue
        if any(_is_residual(chain, index) for index in segments):
            continue
        kind = kind_of_values(_values(chain[last], chain[first]))
        alone = length == 1 and not _is_block(chain, first)
        named = [i for i in segments if _is_named(chain, i)]
        if any(kind_of_values(_values(chain[i + 1], chain[i])) == kind for i in named):
            continue  # what is written around an activation does nothing to it
        if kind is not None and (not alone or chain[0].followed or chain[first].followed):
            return length, kind
    return (1, ELEMENTWISE) if _is_formula(chain, first) else (0, "")


def _is_block(chain: list[Node], index: int) -> bool:
    """Return whether a segment combines values that were computed from the same tensor."""
    return len(chain[index + 1].sources) > 1 or chain[index + 1].sources[0] is not chain[index]


def _is_affine_step(chain: list[Node], index: int) -> bool:
    return not _is_block(chain, index) and chain[index + 1].is_affine


def _is_straight(chain: list[Node], index: int) -> bool:
    """Return whether a segment is affine, if only for the numbers in it."""
    if _is_affine_step(chain, index):
        return True
    return is_straight(_values(chain[index + 1], chain[index]))


def _is_named(chain: list[Node], index: int) -> bool:
    return not _is_block(chain, index) and chain[index + 1].named


def _is_formula(chain: list[Node], index: int) -> bool:
    """Return whether a segment is an activation although none is known that is the same."""
    start, stop = chain[index], chain[index + 1]
    if not _is_block(chain, index):
        return False
    values = _values(stop, start)
    known = values.numel() == GRID.numel()
    return known and not _is_residual(chain, index) and not is_straight(values)


def _is_residual(chain: list[Node], index: int) -> bool:
    """Return whether a segment adds activations that have a name, or a connection around them."""
    start, stop = chain[index], chain[index + 1]
    if stop.name not in SUMS or not _is_block(chain, index):
        return False
    return all(node.named or node.is_affine for node in _between(start, stop)[:-1])


def _is_summarized(node: Node) -> bool:
    """Return whether a tensor serves nothing but statistics, as squares in a norm do."""
    return bool(node.uses) and all(node.uses.values())


def _values(stop: Node, start: Node) -> Tensor:
    """Return a formula on the grid; no values where it cannot be computed there."""
    known: dict[Node, Tensor] = {start: GRID}
    try:
        for node in _between(start, stop):
            args, kwargs = _numbers((node.args, node.kwargs), known)
            if node.function is None:
                known[node] = evaluated(node.name, args, kwargs)
            else:
                known[node] = node.function(known[node.sources[0]])
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


def _text(node: Node, start: Node) -> str:
    """Return the formula of a tensor."""
    if node is start:
        return "x"
    values = [value for value in (*node.args, *node.kwargs.values()) if type(value) is not bool]
    return written(node.name, [_word(value, start) for value in values])


def _word(value: Any, start: Node) -> str:
    if isinstance(value, Node):
        return _text(value, start)
    if isinstance(value, Tensor):
        same = value.numel() > 0 and bool((value == value.flatten()[0]).all())
        return f"{plain_number(value):.4g}" if same else "a"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _apart(formulas: list[Formula]) -> list[Formula]:
    """Leave out formulas inside another one."""
    return [
        one
        for one in formulas
        if not any(one.parts < other.parts for other in formulas if other is not one)
    ]
