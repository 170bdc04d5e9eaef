"""The elementwise functions of a forward pass, and which tensors each takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.elementwise import FACTORIES, REDUCTIONS, is_affine, is_elementwise
from sigmascope.capture.marks import Marks


@dataclass(eq=False)
class Node:
    """A tensor of a pass.

    Attributes:
        step: which function returned it; -1 for one that no elementwise function did.
        name: of that function; its arguments, in which nodes stand for tensors of the samples.
        root: the tensor that all of it was computed from.
        function: computes it, where the name does not tell.
        named: whether the function is an activation of its own.
        followed: whether a layer has put channels into it.
        floating: whether its numbers are real.
        path: the innermost module.
        uses: the steps that took it, and whether each summarizes it.
    """

    step: int
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    root: Node | None = None
    function: Callable[..., Tensor] | None = None
    named: bool = False
    followed: bool = False
    floating: bool = True
    path: str = ""
    uses: dict[int, bool] = field(default_factory=dict)

    @property
    def sources(self) -> list[Node]:
        """The nodes among the arguments, as often as they are."""
        return [value for value in _flat((self.args, self.kwargs)) if isinstance(value, Node)]

    @property
    def is_affine(self) -> bool:
        """Whether it is an affine function of one other node."""
        first = bool(self.args) and isinstance(self.args[0], Node)
        return is_affine(self.name, len(self.sources), first=first)


class Seen(NamedTuple):
    """What is known where a function is called.

    Attributes:
        is_constant: tells of a tensor whether it does not depend on the samples.
        is_followed: tells of a tensor whether a layer has put channels into it.
        named: whether the function is an activation of its own.
        function: computes it, where its name does not tell.
        hidden: whether it belongs to a module that counts as one activation.
        path: the innermost module.
    """

    is_constant: Callable[[Tensor], bool]
    is_followed: Callable[[Tensor], bool]
    named: bool
    hidden: bool
    path: str
    function: Callable[..., Tensor] | None = None


class Graph:
    """The elementwise functions of a forward pass, as far as they were worked out anew.

    Attributes:
        made: what they returned, in order.
        closed: tensors that something else than such a function took.
        positions: (step, node) -> where a tensor is among those that the step takes.
    """

    def __init__(self) -> None:
        self._nodes: Marks[Node] = Marks()
        self._fixed: Marks[bool] = Marks()  # tensors that hold none of the samples
        self.closed: dict[Node, None] = {}
        self.made: list[Node] = []
        self.positions: dict[tuple[int, Node], int] = {}

    def add(self, step: int, call: Applied, outputs: Sequence[Tensor], about: Seen) -> None:
        """Add a function that was called; `about` says what is known of its tensors and place."""
        name = _name_of(call)
        sources = [value for value in _flat((call.args, call.kwargs)) if isinstance(value, Tensor)]
        moving = [tensor for tensor in sources if not self._is_fixed(tensor, about)]
        if name in FACTORIES or not moving:
            for output in outputs:
                self._fixed[output] = True
            return
        nodes = [self._node(tensor, about) for tensor in moving]
        for node, tensor in zip(nodes, moving, strict=True):
            place = next(i for i, one in enumerate(sources) if one is tensor)
            self.positions.setdefault((step, node), place)
        roots = {id(node.root or node) for node in nodes}
        elementwise = not about.hidden and (about.named or is_elementwise(name))
        shapes = {tuple(tensor.shape) for tensor in (*moving, *outputs)}
        joined = elementwise and len(roots) == len(outputs) == len(shapes) == 1
        for node in nodes:
            node.uses[step] = name in REDUCTIONS
            if not joined:
                self.closed[node] = None
        if not joined:
            for output in outputs:  # it may be one that the function has changed in place
                self._nodes.entries.pop(id(output), None)
            return
        by_tensor = {id(tensor): node for tensor, node in zip(moving, nodes, strict=True)}
        args, kwargs = _exchanged((call.args, call.kwargs), by_tensor)
        node = Node(
            step,
            name,
            args,
            kwargs,
            nodes[0].root or nodes[0],
            function=about.function,
            named=about.named,
            floating=outputs[0].is_floating_point(),
            path=about.path,
        )
        self._nodes[outputs[0]] = node
        self.made.append(node)

    @property
    def may_hold_formulas(self) -> bool:
        """Whether any function is neither affine nor an activation with a name."""
        return any(not node.is_affine and not node.named for node in self.made)

    def _is_fixed(self, tensor: Tensor, about: Seen) -> bool:
        return bool(self._fixed.get(tensor)) or about.is_constant(tensor)

    def _node(self, tensor: Tensor, about: Seen) -> Node:
        node = self._nodes.get(tensor)
        if node is None:
            node = self._nodes[tensor] = Node(
                -1, followed=about.is_followed(tensor), floating=tensor.is_floating_point()
            )
        return node


def _name_of(call: Applied) -> str:
    """Return the name of a function; the larger of two tensors is not that of one."""
    name = call.name.removeprefix("special_")
    if name == "where" and len(call.args) + len(call.kwargs) == 1:
        return "nonzero"
    two = len(call.args) > 1 and isinstance(call.args[1], Tensor)
    return {"max": "maximum", "min": "minimum"}.get(name, name) if two else name


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict):
        yield from _flat([*value.values()])
    else:
        yield value


def _exchanged(value: Any, by_tensor: dict[int, Node]) -> Any:
    """Return arguments with nodes in place of tensors of the samples."""
    if isinstance(value, (tuple, list)):
        return tuple(_exchanged(item, by_tensor) for item in value)
    if isinstance(value, dict):
        return {key: _exchanged(item, by_tensor) for key, item in value.items()}
    return by_tensor.get(id(value), value) if isinstance(value, Tensor) else value
