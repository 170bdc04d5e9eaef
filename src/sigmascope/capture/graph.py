"""The elementwise functions of a forward pass, and which tensors each takes and returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from sigmascope.capture.arrangement import VIEWS, Place, arranged, place_of, views_of
from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.elementwise import (
    DISTANCES,
    FACTORIES,
    FILLED,
    LAYERS,
    is_elementwise,
    is_reduction,
)
from sigmascope.capture.kept import version_of
from sigmascope.capture.marks import Marks
from sigmascope.capture.masked import SELECTED, as_elementwise, with_fixed_mask, without_output
from sigmascope.capture.nested import is_parameter
from sigmascope.capture.node import Node, Seen, exchanged, flat


class Graph:
    """The elementwise functions of a forward pass, as far as they were worked out anew.

    Attributes:
        made: what they returned, in order.
        closed: tensors that something else than such a function took.
        positions: (step, node) -> where a tensor is among those that the step takes.
    """

    def __init__(self) -> None:
        self._nodes: Marks[tuple[Node, int]] = Marks()  # and the version of the tensor then
        self._about: Marks[tuple[bool, bool]] = Marks()  # whether statistics, and counted
        # tensors that hold none of the samples, and those that they were computed from
        self._fixed: Marks[dict[int, ref[Tensor]]] = Marks()
        self._filled: Marks[float] = Marks()  # tensors of one number
        self._views: dict[tuple[Node, Place], Node] = {}
        self._selected: dict[tuple[Place, Node], Tensor] = {}
        self._masks: dict[tuple[Any, ...], Node] = {}
        self.closed: dict[Node, None] = {}
        self.made: list[Node] = []
        self.positions: dict[tuple[int, Node], int] = {}

    def add(self, step: int, call: Applied, outputs: Sequence[Tensor], about: Seen) -> None:
        """Add a function that was called; `about` says what is known of its tensors and place."""
        sources = [value for value in flat((call.args, call.kwargs)) if isinstance(value, Tensor)]
        call = without_output(call._replace(name=_name_of(call)))
        given = [value for value in flat((call.args, call.kwargs)) if isinstance(value, Tensor)]
        moving = [tensor for tensor in given if not self._is_fixed(tensor, about)]
        if call.name in FACTORIES or not moving:
            self._fix(call, given, outputs)
            return
        nodes = [self._node(tensor, outputs, about) for tensor in moving]
        for node, tensor in zip(nodes, moving, strict=True):
            place = next(i for i, one in enumerate(sources) if one is tensor)
            self.positions.setdefault((step, node), place)
            node.uses[step] = is_reduction(call.name, len(moving))
        found = None
        if not about.hidden:
            found = self._view(step, call, nodes, outputs, about)
            if found is None:
                found = self._elementwise(
                    step, call, dict(zip(moving, nodes, strict=True)), outputs, about
                )
        if found is None:
            self._close(call, nodes, weighted=len(given) > len(moving))
        statistic = found is None and is_statistic(call.name, nodes)
        counted = all((node.root or node).counted for node in nodes)
        counted = counted and not any(map(is_parameter, given))
        self.lose(outputs)
        for output in outputs:
            self._about[output] = statistic, counted
        for output, node in zip(outputs, found or [], strict=False):
            self._nodes[output] = node, version_of(output)

    def lose(self, tensors: Iterable[Tensor]) -> None:
        """Forget what is known of tensors, which a function may have changed in place."""
        for tensor in tensors:
            for known in (self._nodes, self._fixed, self._filled, self._about):
                known.entries.pop(id(tensor), None)

    def origins(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors that a constant was computed from, or itself."""
        known = self._fixed.get(tensor)
        if not known:
            return [tensor]
        return [one for origin in known.values() if (one := origin()) is not None]

    @property
    def may_hold_formulas(self) -> bool:
        """Whether any function is neither affine nor an activation with a name."""
        return any(not node.is_affine and not node.named for node in self.made)

    def _fix(self, call: Applied, given: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Note tensors that hold none of the samples, and what they depend on."""
        origins: dict[int, ref[Tensor]] = {}
        if call.name not in FACTORIES:
            for tensor in given:
                origins |= self._fixed.get(tensor) or {id(tensor): ref(tensor)}
        for output in outputs:
            self._fixed[output] = origins
            self._filled.entries.pop(id(output), None)
            if call.name in FILLED:
                self._filled[output] = FILLED[call.name]

    def _close(self, call: Applied, nodes: Sequence[Node], *, weighted: bool) -> None:
        for node in nodes:
            self.closed[node] = None
            node.feeds |= weighted and call.name in LAYERS

    def _view(
        self, step: int, call: Applied, nodes: list[Node], outputs: Sequence[Tensor], about: Seen
    ) -> list[Node] | None:
        """Return the nodes of views of one tensor; None where the function returns none."""
        if len(nodes) != 1 or call.name not in VIEWS:
            return None
        source = nodes[0]
        found = views_of(call, source.arrangement, outputs)
        if found is None:
            return None
        whole = len(found) == 1 and found[0].numel() == source.arrangement.numel()
        made = []
        for part in found:
            key = source, place_of(part)
            if key not in self._views:
                self._views[key] = (
                    Node(step, "view", (source,), {}, source.root or source, part)
                    if whole
                    else self._piece(source, part, about.is_followed(outputs[0]))
                )
                self._views[key].floating, self._views[key].path = source.floating, about.path
                self.made += [self._views[key]] * whole
            made.append(self._views[key])
        if not whole:
            self.closed[source] = None
            source.pieces[step] = made
        return made

    def _piece(self, source: Node, part: Tensor, followed: bool) -> Node:
        whole = source.root or source
        return Node(
            -1,
            arrangement=arranged(part.shape),
            followed=followed and not whole.counted,
            statistic=whole.statistic,
            counted=whole.counted,
        )

    def _elementwise(
        self,
        step: int,
        call: Applied,
        by_tensor: dict[Tensor, Node],
        outputs: Sequence[Tensor],
        about: Seen,
    ) -> list[Node] | None:
        """Return the node of a function of every element alone; None where it is none."""
        given = [value for value in flat((call.args, call.kwargs)) if isinstance(value, Tensor)]
        moving, nodes = (
            {id(tensor): node for tensor, node in by_tensor.items()},
            [*by_tensor.values()],
        )
        fixed = {id(tensor) for tensor in given} - {*moving}
        name, args, kwargs = call = with_fixed_mask(as_elementwise(call), fixed)
        if name != SELECTED and not (about.named or is_elementwise(name)):
            return None
        if len(outputs) != 1 or len({id(node.root or node) for node in nodes}) != 1:
            return None
        arrangement = self._together(call, moving, outputs[0])
        if arrangement is None:
            return None
        replaced: dict[int, Any] = dict(moving)
        if id(outputs[0]) in fixed:  # overwritten, in place
            number = self._filled.get(outputs[0])
            if number is None:
                return None
            replaced[id(outputs[0])] = torch.tensor(number)
        args, kwargs = exchanged((args, kwargs), replaced)
        key = name, args, *kwargs.items()
        floating = outputs[0].is_floating_point()
        if not floating and key in self._masks:  # the same comparison, written twice, is one mask
            return [self._masks[key]]
        node = Node(step, name, args, kwargs, nodes[0].root or nodes[0], arrangement)
        node.function, node.named, node.path = about.function, about.named, about.path
        node.floating = floating
        self.made.append(node)
        if not floating:
            self._masks[key] = node
        return [node]

    def _together(self, call: Applied, moving: dict[int, Node], output: Tensor) -> Tensor | None:
        """Return the arrangement that all tensors of a function share; None where they differ."""
        used = [
            moving[id(value)]
            for value in flat((call.args, call.kwargs))
            if isinstance(value, Tensor) and id(value) in moving
        ]
        if call.name == SELECTED:
            mask = moving.get(id(call.args[1]))
            if mask is None or {node.place for node in used} != {mask.place}:
                return None
            return self._selected.setdefault((mask.place, mask), arranged(output.shape))
        places = {node.place for node in used}
        if call.name == "where" and len(places) > 1:  # written where the mask of it was selected
            mask = moving.get(id(call.args[0]))
            chosen = self._selected.get((mask.place, mask)) if mask is not None else None
            if chosen is not None:
                places.discard(place_of(chosen))
        if len(places) != 1 or next(iter(places))[1] != tuple(output.shape):
            return None
        return next(node.arrangement for node in used if node.place in places)

    def _is_fixed(self, tensor: Tensor, about: Seen) -> bool:
        return self._fixed.get(tensor) is not None or about.is_constant(tensor)

    def _node(self, tensor: Tensor, outputs: Sequence[Tensor], about: Seen) -> Node:
        known = self._nodes.get(tensor)
        # something else may have written into it since, perhaps through a view
        if known is not None and (
            known[1] == version_of(tensor) or any(tensor is one for one in outputs)
        ):
            return known[0]
        statistic, counted = self._about.get(tensor) or (False, False)
        floating = tensor.is_floating_point()
        counted |= not floating and tensor.dtype is not torch.bool
        node = Node(
            -1,
            arrangement=arranged(tensor.shape),
            followed=about.is_followed(tensor) and not counted,
            statistic=statistic,
            counted=counted,
            floating=floating,
        )
        self._nodes[tensor] = node, version_of(tensor)
        return node


def is_statistic(name: str, nodes: Sequence[Node]) -> bool:
    """Return whether a function says how large or how far apart many elements are."""
    if name in DISTANCES:
        return True
    return is_reduction(name, len(nodes)) and any(map(_is_written, nodes))


def _is_written(node: Node) -> bool:
    """Return whether a tensor is a function of another one that is neither affine nor named."""
    while node.is_affine:
        node = node.sources[0]
    return node.root is not None and not node.named


def _name_of(call: Applied) -> str:
    """Return the name of a function; the larger of two tensors is not that of one."""
    name = call.name.removeprefix("special_")
    if name == "where" and len(call.args) + len(call.kwargs) == 1:
        return "nonzero"
    two = isinstance(call.value(1, "other"), Tensor)
    return {"max": "maximum", "min": "minimum"}.get(name, name) if two else name
