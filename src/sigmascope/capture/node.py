"""A tensor of a forward pass as a node of the graph of elementwise functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from sigmascope.capture.arrangement import Place, arranged, place_of
from sigmascope.capture.elementwise import is_affine


@dataclass(eq=False)
class Node:
    """A tensor of a pass.

    Attributes:
        step: which function returned it; -1 for one that no elementwise function did.
        name: of that function; its arguments, in which nodes stand for tensors of the samples.
        root: the tensor that all of it was computed from.
        arrangement: where its elements lie among those of the root.
        function: computes it, where the name does not tell.
        named: whether the function is an activation of its own.
        followed: whether a layer has put channels into it.
        statistic: whether it says how large or how far apart many elements are.
        counted: whether it depends on integers alone, as positions do.
        floating: whether its numbers are real.
        path: the innermost module.
        uses: the steps that took it, and whether each summarizes it.
        feeds: whether a layer with weights took it.
        pieces: tensors that are some of its elements, by the step that took them.
    """

    step: int
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    root: Node | None = None
    arrangement: Tensor = field(default_factory=lambda: arranged(()))
    function: Callable[..., Tensor] | None = None
    named: bool = False
    followed: bool = False
    statistic: bool = False
    counted: bool = False
    floating: bool = True
    path: str = ""
    uses: dict[int, bool] = field(default_factory=dict)
    feeds: bool = False
    pieces: dict[int, list[Node]] = field(default_factory=dict)

    @property
    def sources(self) -> list[Node]:
        """The nodes among the arguments, as often as they are."""
        return [value for value in flat((self.args, self.kwargs)) if isinstance(value, Node)]

    @property
    def is_affine(self) -> bool:
        """Whether it is an affine function of one other node."""
        first = bool(self.args) and isinstance(self.args[0], Node)
        return is_affine(self.name, len(self.sources), first=first)

    @property
    def place(self) -> Place:
        """Where its elements lie among those of the root, for comparing."""
        return place_of(self.arrangement)


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


def flat(value: Any) -> Iterator[Any]:
    """Yield what is in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        yield from flat([*value.values()])
    else:
        yield value


def exchanged(value: Any, by_tensor: dict[int, Any]) -> Any:
    """Return arguments with nodes in place of tensors of the samples."""
    if isinstance(value, (tuple, list)):
        return tuple(exchanged(item, by_tensor) for item in value)
    if isinstance(value, dict):
        return {key: exchanged(item, by_tensor) for key, item in value.items()}
    return by_tensor.get(id(value), value) if isinstance(value, Tensor) else value
