"""Activations that are written as a formula, found in the graph of a forward pass.

A formula begins where a tensor enters it, and ends where all that was computed from this tensor,
element by element, has come together again. What mixes elements is its border, and affine steps
before and after it are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from sigmascope.capture.chains import (
    adds_named,
    bottlenecks,
    is_affine_step,
    is_block,
    is_named,
    is_plain,
    is_summarized,
)
from sigmascope.capture.elementwise import (
    GRID,
    GUARDS,
    NEGATIONS,
    SUMS,
    is_falling,
    is_multiple,
    is_straight,
    kind_of_values,
    mirrored,
)
from sigmascope.capture.formula_values import (
    Values,
    constants_of,
    is_one_number,
    nodes_between,
    text_of,
)
from sigmascope.capture.graph import Graph
from sigmascope.capture.node import Node

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
    """What was found in a pass.

    Attributes:
        formulas: in order.
        constants: tensors that they depend on.
        unclear: functions that are not linear and no activation for certain: (path, text).
    """

    formulas: list[Formula]
    constants: list[Tensor]
    unclear: list[tuple[str, str]]


def formulas_of(graph: Graph) -> Found:
    """Return the formulas of a pass."""
    return _Search(graph).found()


class _Search:
    """Looks for formulas in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = Values()
        self._constants: dict[int, Tensor] = {}
        self._unclear: dict[Node, tuple[str, str]] = {}

    def found(self) -> Found:
        ends = [*self._graph.closed, *(node for node in self._graph.made if not node.uses)]
        found: dict[tuple[int, int], Formula] = {}
        for end in ends:
            if end.root is not None and not end.root.statistic and not is_summarized(end):
                for formula in self._on_the_way(end.root, end):
                    found.setdefault((formula.begins, formula.ends), formula)
        constants = {
            id(origin): origin
            for one in self._constants.values()
            for origin in self._graph.origins(one)
        }
        formulas = self._apart(sorted(found.values()))
        parts = {step for one in formulas for step in one.parts}
        unclear = [about for stop, about in self._unclear.items() if stop.step not in parts]
        return Found(formulas, [*constants.values()], unclear)

    def _on_the_way(self, root: Node, end: Node) -> Iterator[Formula]:
        """Yield the formulas between two tensors."""
        chain = bottlenecks(root, end)
        first = 0
        while first < len(chain) - 1:
            length, kind = self._longest(chain, first)
            start, stop = chain[first], chain[first + max(length, 1)]
            if length and start.floating and stop.floating:
                yield self._formula(start, stop, kind)
            elif not length and is_block(chain, first) and stop.name in SUMS:
                for source in {*stop.sources} - {start}:
                    yield from self._on_the_way(start, source)
            elif not length:
                length = self._run(chain, first)
                yield from self._alone(chain, first, first + length)
            first += max(length, 1)

    def _run(self, chain: list[Node], first: int) -> int:
        """Return how many segments are functions of one tensor each, up to one that is no line."""
        length = 0
        for index in range(first, len(chain) - 1):
            if is_block(chain, index) or is_named(chain, index):
                break
            if index > first and self._longest(chain, index)[0]:
                break
            if not self._is_straight(chain, index):
                length = index + 1 - first
            elif index == first:  # an affine step is not part of it
                break
            elif not chain[index].floating and index == first + length:
                length += 1  # a comparison becomes a number
        return length

    def _alone(self, chain: list[Node], first: int, last: int) -> Iterator[Formula]:
        """Yield functions of one tensor that have no name, if they are an activation.

        They are where they lead from one layer to the next, unless they only make numbers positive
        or keep them in bounds. Otherwise that is not clear.
        """
        start, stop, end = chain[first], chain[last], chain[-1]
        if first == last or not chain[0].followed:
            return
        before = first
        while before and is_affine_step(chain, before - 1):
            before -= 1
        if before and is_named(chain, before - 1):  # of which it may be a part, or do nothing to it
            start = chain[before - 1]
            alone = self._values.of(start, chain[before])
            if is_multiple(self._values.of(start, stop), alone):
                return
        names = {node.name for node in nodes_between(chain[first], stop) if not node.is_affine}
        guards = names <= GUARDS
        leads = all(is_affine_step(chain, index) for index in range(last, len(chain) - 1))
        leads = leads and end.feeds
        if (
            leads
            and not guards
            and self._values.of(start, stop).numel() == GRID.numel()
            and start.floating
            and stop.floating
            and start.place == stop.place
        ):
            yield self._formula(start, stop, ELEMENTWISE)
        elif stop.floating and not any(end.uses.values()) and (leads or not guards):
            self._unclear[stop] = stop.path, text_of(start, stop)

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
        if is_affine_step(chain, first) and not self._falls(chain, first):
            return 0, ""
        for length in range(min(LONGEST, len(chain) - 1 - first), 0, -1):
            if chain[first].place == chain[first + length].place:
                kind = self._known_kind(chain, range(first, first + length))
                if kind is not None:
                    return self._upright(chain, first, length), kind
        return (1, ELEMENTWISE) if self._is_formula(chain, first) else (0, "")

    def _falls(self, chain: list[Node], index: int) -> bool:
        """Return whether a segment changes the sign, as the logistic function begins with."""
        return is_falling(self._values.of(chain[index], chain[index + 1]))

    def _upright(self, chain: list[Node], first: int, length: int) -> int:
        """Return the length with the change of sign that follows what is turned upside down."""
        last = first + length
        follows = last < len(chain) - 1 and is_affine_step(chain, last) and self._falls(chain, last)
        turned = is_falling(self._values.of(chain[first], chain[last]))
        return length + 1 if follows and turned else length

    def _known_kind(self, chain: list[Node], segments: range) -> str | None:
        """Return the known activation that segments are together, if it takes all of them."""
        first, last = segments.start, segments.stop
        named = [i for i in segments if is_named(chain, i)]
        unnamed = [i for i in segments if i not in named and not self._is_straight(chain, i)]
        if not unnamed or is_affine_step(chain, last - 1):
            return None
        if any(adds_named(chain, index) for index in segments):
            return None
        constants = constants_of(nodes_between(chain[first], chain[last]))
        self._constants |= {id(one): one for one in constants}
        if not all(map(is_one_number, constants)):
            return None
        values = self._values.of(chain[first], chain[last])
        if is_affine_step(chain, first):  # a change of sign, which only another one makes up for
            if is_falling(values) and self._upright(chain, first, len(segments)) == len(segments):
                return None
            if chain[first + 1].name not in NEGATIONS:
                values = mirrored(self._values.of(chain[first + 1], chain[last]))
        kind = kind_of_values(values)
        for index in named:  # what is written around an activation may do nothing to it
            if kind_of_values(self._values.of(chain[index], chain[index + 1])) == kind:
                return None
        alone = len(segments) == 1 and not is_block(chain, first)
        return kind if not alone or chain[0].followed else None

    def _is_straight(self, chain: list[Node], index: int) -> bool:
        """Return whether a segment is affine, if only for the numbers in it."""
        if is_affine_step(chain, index):
            return True
        self._constants |= {
            id(one): one for one in constants_of(nodes_between(chain[index], chain[index + 1]))
        }
        return is_straight(self._values.of(chain[index], chain[index + 1]))

    def _is_formula(self, chain: list[Node], index: int) -> bool:
        """Return whether a segment is an activation although none is known that is the same."""
        if not is_block(chain, index) or adds_named(chain, index):
            return False
        if chain[index].place != chain[index + 1].place:
            return False
        values = self._values.of(chain[index], chain[index + 1])
        if values.numel() != GRID.numel() or self._is_straight(chain, index):
            return False
        return not self._is_residual(chain[index], chain[index + 1])

    def _is_residual(self, start: Node, stop: Node) -> bool:
        """Return whether a sum is a connection around an activation."""
        if stop.name not in SUMS:
            return False
        around = [source for source in stop.sources if not is_plain(source, start)]
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
