"""Activations that are written as a formula, found in the graph of a forward pass.

A formula begins where a tensor enters it, and ends where all that was computed from this tensor,
element by element, has come together again. What mixes elements is its border, and affine steps
before and after it are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from weakref import ref

from torch import Tensor

from sigmascope.capture.elementwise import GRID, NEGATIONS, SUMS, is_straight, kind_of_values
from sigmascope.capture.formula_values import (
    Values,
    constants_of,
    is_one_number,
    nodes_between,
    text_of,
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
        chosen_by: the kind to ask for, where it is another one: that of a gate, for a gated unit.
        half: the axis along which the first half of the tensor is its input.
        multiplies: what computed the tensor that a gate multiplies.
    """

    begins: int
    position: int
    ends: int
    parts: frozenset[int]
    kind: str
    text: str
    path: str
    chosen_by: str = ""
    half: int | None = None
    multiplies: str = ""


class Found(NamedTuple):
    """The formulas of a pass, in order, and the constants they depend on, as they are now."""

    formulas: list[Formula]
    constants: list[tuple[ref[Tensor], int]]


def formulas_of(graph: Graph) -> Found:
    """Return the formulas of a pass."""
    return _Search(graph).found()


class _Search:
    """Looks for formulas in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = Values()
        self._constants: dict[int, Tensor] = {}

    def found(self) -> Found:
        ends = [*self._graph.closed, *(node for node in self._graph.made if not node.uses)]
        found: dict[tuple[int, int], Formula] = {}
        for end in ends:
            if end.root is not None and not _is_summarized(end):
                for formula in self._on_the_way(end.root, end):
                    found.setdefault((formula.begins, formula.ends), formula)
        constants = [(ref(one), one._version) for one in self._constants.values()]
        return Found(self._apart(sorted(found.values())), constants)

    def _on_the_way(self, root: Node, end: Node) -> Iterator[Formula]:
        """Yield the formulas between two tensors."""
        chain = _bottlenecks(root, end)
        first = 0
        while first < len(chain) - 1:
            length, kind = self._longest(chain, first)
            start, stop = chain[first], chain[first + max(length, 1)]
            if length and start.floating and stop.floating:
                yield self._formula(start, stop, kind)
            elif not length and _is_block(chain, first) and stop.name in SUMS:
                for source in {*stop.sources} - {start}:
                    yield from self._on_the_way(start, source)
            first += max(length, 1)

    def _formula(self, start: Node, stop: Node, kind: str) -> Formula:
        inside = nodes_between(start, stop)
        begins = min(node.step for node in inside if any(one is start for one in node.sources))
        # a part that something else takes is an activation of its own, too
        parts = [node for node in inside if node is stop or node not in self._graph.closed]
        return Formula(
            begins,
            self._graph.positions[begins, start],
            stop.step,
            frozenset(node.step for node in parts),
            kind,
            text_of(start, stop),
            stop.path,
        )

    def _longest(self, chain: list[Node], first: int) -> tuple[int, str]:
        """Return how many segments from here on are one activation that has no name, and which."""
        # the logistic function begins with a change of sign
        if _is_affine_step(chain, first) and chain[first + 1].name not in NEGATIONS:
            return 0, ""
        for length in range(min(LONGEST, len(chain) - 1 - first), 0, -1):
            kind = self._known_kind(chain, range(first, first + length))
            if kind is not None:
                return length, kind
        return (1, ELEMENTWISE) if self._is_formula(chain, first) else (0, "")

    def _known_kind(self, chain: list[Node], segments: range) -> str | None:
        """Return the known activation that segments are together, if it takes all of them."""
        first, last = segments.start, segments.stop
        named = [i for i in segments if _is_named(chain, i)]
        unnamed = [i for i in segments if i not in named and not self._is_straight(chain, i)]
        if not unnamed or _is_affine_step(chain, last - 1):
            return None
        if any(_adds_named(chain, index) for index in segments):
            return None
        constants = constants_of(nodes_between(chain[first], chain[last]))
        self._constants |= {id(one): one for one in constants}
        if not all(map(is_one_number, constants)):
            return None
        kind = kind_of_values(self._values.of(chain[first], chain[last]))
        for index in named:  # what is written around an activation may do nothing to it
            if kind_of_values(self._values.of(chain[index], chain[index + 1])) == kind:
                return None
        alone = len(segments) == 1 and not _is_block(chain, first)
        return kind if not alone or chain[0].followed or chain[first].followed else None

    def _is_straight(self, chain: list[Node], index: int) -> bool:
        """Return whether a segment is affine, if only for the numbers in it."""
        if _is_affine_step(chain, index):
            return True
        self._constants |= {
            id(one): one for one in constants_of(nodes_between(chain[index], chain[index + 1]))
        }
        return is_straight(self._values.of(chain[index], chain[index + 1]))

    def _is_formula(self, chain: list[Node], index: int) -> bool:
        """Return whether a segment is an activation although none is known that is the same."""
        if not _is_block(chain, index) or _adds_named(chain, index):
            return False
        values = self._values.of(chain[index], chain[index + 1])
        if values.numel() != GRID.numel() or self._is_straight(chain, index):
            return False
        return not self._is_residual(chain[index], chain[index + 1])

    def _is_residual(self, start: Node, stop: Node) -> bool:
        """Return whether a sum is a connection around an activation."""
        if stop.name not in SUMS:
            return False
        around = [source for source in stop.sources if not _is_plain(source, start)]
        if len(around) != len(stop.sources) - 1:
            return False
        last = around[0]
        while last.is_affine:
            last = last.sources[0]
        return last.named or any(one.ends == last.step for one in self._on_the_way(start, last))

    def _apart(self, formulas: list[Formula]) -> list[Formula]:
        """Leave out formulas inside another one, unless something else takes their output."""
        taken = {node.step for node in self._graph.closed}
        return [
            one
            for one in formulas
            if one.ends in taken
            or not any(one.parts < other.parts for other in formulas if other is not one)
        ]


def _bottlenecks(root: Node, end: Node) -> list[Node]:
    """Return the nodes that all of a tensor was computed through, from its root on."""
    order = [root, *nodes_between(root, end)]
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


def _is_block(chain: list[Node], index: int) -> bool:
    """Return whether a segment combines values that were computed from the same tensor."""
    return len(chain[index + 1].sources) > 1 or chain[index + 1].sources[0] is not chain[index]


def _is_affine_step(chain: list[Node], index: int) -> bool:
    return not _is_block(chain, index) and chain[index + 1].is_affine


def _is_named(chain: list[Node], index: int) -> bool:
    return not _is_block(chain, index) and chain[index + 1].named


def _adds_named(chain: list[Node], index: int) -> bool:
    """Return whether a segment adds activations that have a name, or a connection around them."""
    start, stop = chain[index], chain[index + 1]
    if stop.name not in SUMS or not _is_block(chain, index):
        return False
    return all(node.named or node.is_affine for node in nodes_between(start, stop)[:-1])


def _is_plain(node: Node, start: Node) -> bool:
    """Return whether a tensor is another one after nothing but affine steps."""
    while node is not start:
        if not node.is_affine:
            return False
        node = node.sources[0]
    return True


def _is_summarized(node: Node) -> bool:
    """Return whether a tensor serves nothing but statistics, as squares in a norm do."""
    return bool(node.uses) and all(node.uses.values())
