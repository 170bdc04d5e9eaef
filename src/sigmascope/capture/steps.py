"""The functions of a forward pass, described so that they are recognized in the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from types import EllipsisType, NoneType
from typing import Any, NamedTuple, cast
from weakref import ref

import torch
from torch import Tensor, nn

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.marks import Mark, Marks, Trace
from sigmascope.capture.nested import is_parameter

PLAIN = {bool, complex, float, int, str, EllipsisType, NoneType}
PLAIN |= {torch.Size, torch.device, torch.dtype, torch.layout, torch.memory_format}
LIMIT = 10_000  # steps of a pass that are remembered
SPACING = 2**20  # more than these


class Place(NamedTuple):
    """A tensor among the arguments of a function.

    Attributes:
        mark: what is known of it.
        shape: its shape.
        is_mask: whether it is boolean.
        made: the step that returned it, counted from 1, plus `SPACING` for each output of that
            step before it; -1 where none did.
    """

    mark: Mark | None
    shape: torch.Size
    is_mask: bool
    made: int


class Step(NamedTuple):
    """A function that was called, and what followed.

    Attributes:
        name: of the function.
        size: the number of samples of the pass.
        args, kwargs: its arguments. Of constants there is a weak reference; other tensors are a
            `Place`.
        tensors: the number of such tensors; -1 where one is given twice, which is not compared.
        shapes: of its outputs.
        marks: what is known of its outputs.
        produced: the channels that it put somewhere.
        layer: the layer that called it, which stands for all other arguments than the first.
    """

    name: str
    size: int
    args: tuple[object, ...]
    kwargs: dict[str, object]
    tensors: int
    shapes: list[torch.Size]
    marks: list[Mark]
    produced: list[Trace]
    layer: ref[nn.Module] | None = None


class Recognition:
    """Describes arguments by what is known of them, and recognizes them.

    Attributes:
        add_constants: takes a parameter that is not among the constants yet.
        made: `id` of a tensor -> the step that returned it, see `Place`.
    """

    def __init__(
        self,
        marks: Marks[Mark],
        constants: Marks[Mark],
        add_constants: Callable[[Sequence[Tensor]], None],
    ) -> None:
        self._marks = marks
        self._constants = constants
        self.add_constants = add_constants
        self.made: dict[int, int] = {}

    def _made_by(self, tensor: Tensor, mark: Mark | None) -> int:
        # the number of a tensor that is gone may have passed to one of which nothing is known
        return -1 if mark is None else self.made.get(id(tensor), -1)

    def described(self, value: object, given: list[int]) -> object:
        """Return what matters of an argument, and add the tensors in it to those `given`.

        What cannot be compared becomes an object that is the same as nothing.
        """
        if isinstance(value, Tensor):
            mark = self._marks.get(value)
            if mark is None and is_parameter(value):
                self.add_constants([value])
                return ref(value)
            if mark is not None and mark is self._constants.get(value):
                return ref(value)
            given.append(id(value))
            return Place(mark, value.shape, value.dtype is torch.bool, self._made_by(value, mark))
        if type(value) is list:
            return [self.described(item, given) for item in value]
        if type(value) is tuple:
            items = tuple(self.described(item, given) for item in value)
            return value if all(map(is_, items, value)) else items
        if isinstance(value, slice):
            ends = (value.start, value.stop, value.step)
            return value if all(type(end) in PLAIN for end in ends) else object()
        return value if type(value) in PLAIN else object()

    def recurs(self, step: Step, call: Applied, outputs: Sequence[Tensor]) -> bool:
        """Return whether a call is the step of the pass before in all that matters."""
        name, args, kwargs = call
        if name != step.name or step.layer is not None:
            return False
        if len(args) != len(step.args) or len(kwargs) != len(step.kwargs):
            return False
        given: list[int] = []
        constants = self._constants.entries
        for value, was in zip(args, step.args):  # noqa: B905
            if value is was:
                continue
            if type(was) is ref:
                if was() is not value or id(value) not in constants:
                    return False
            elif not self.is_same(value, was, given):
                return False
        if kwargs:
            for key, name in zip(step.kwargs, kwargs, strict=True):
                value, was = kwargs[name], step.kwargs[key]
                if name != key or (value is not was and not self.is_same(value, was, given)):
                    return False
        if len(given) > 1 and len({*given}) != len(given):
            return False
        shapes = step.shapes
        return (
            len(given) == step.tensors
            and len(outputs) == len(shapes)
            and all(output.shape == shape for output, shape in zip(outputs, shapes, strict=True))
        )

    def is_same(self, value: Any, was: Any, given: list[int]) -> bool:
        """Return whether an argument is the one that was described so."""
        kind = type(was)
        if kind is ref:
            return was() is value and id(value) in self._constants.entries
        if kind is Place:
            given.append(id(value))
            return (
                isinstance(value, Tensor)
                and self._marks.get(value) is was.mark
                and value.shape == was.shape
                and (value.dtype is torch.bool) == was.is_mask
                and not (was.mark is None and is_parameter(value))
                and self._made_by(value, was.mark) == was.made
            )
        if kind is not type(value):  # 1, 1.0 and True are equal, and mean different things
            return False
        if kind is slice:
            value, was = ((part.start, part.stop, part.step) for part in (value, was))
        elif kind not in (list, tuple):
            return kind in PLAIN and bool(value == was)
        return len(value) == len(was) and all(
            one is other or self.is_same(one, other, given)
            for one, other in zip(value, was, strict=True)
        )


def is_alike(one: Step, other: Step) -> bool:
    """Return whether two steps are the same but for arguments that cannot be compared."""
    return (
        one.name == other.name
        and one.shapes == other.shapes
        and len(one.marks) == len(other.marks)
        and all(map(is_, one.marks, other.marks))
        and _are_alike([*one.args], [*other.args])
        and _are_alike([one.kwargs], [other.kwargs])
    )


def _are_alike(one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, ref):
        return one() is other()
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_alike(one[key], other[key]) for key in one)
    return type(one) is object or bool(one == other)


def is_resized(one: Step, other: Step) -> bool:
    """Return whether two steps differ at most in how many entries axes have.

    So it is where elements are selected: then formulas are the same as well. Tensors of one shape
    are of one shape still.
    """
    places = [[*_places((step.args, [*step.kwargs.values()]))] for step in (one, other)]
    shapes = [
        [*(place.shape for place in found), *step.shapes]
        for found, step in zip(places, (one, other), strict=True)
    ]
    return (
        one.name == other.name
        and [len(shape) for shape in shapes[0]] == [len(shape) for shape in shapes[1]]
        and _pattern(shapes[0]) == _pattern(shapes[1])
        and [mark.descent.state for mark in one.marks] == [m.descent.state for m in other.marks]
        and _are_resized([*one.args], [*other.args])
        and _are_resized(one.kwargs, other.kwargs)
    )


def _pattern(shapes: list[torch.Size]) -> list[int]:
    """Return for every shape which is the first that is the same."""
    return [shapes.index(shape) for shape in shapes]


def _places(value: object) -> Iterator[Place]:
    if type(value) is Place:
        yield value
    elif type(value) in (list, tuple):
        for item in cast(Sequence[object], value):
            yield from _places(item)


def _are_resized(one: Any, other: Any) -> bool:
    if type(one) is Place and type(other) is Place:
        return (_known(one), one.is_mask, one.made) == (_known(other), other.is_mask, other.made)
    if type(one) is not type(other):
        return False
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(_are_resized, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_resized(one[key], other[key]) for key in one)
    return _are_alike(one, other)


def _known(place: Place) -> tuple[str, bool]:
    """Return what matters of a mark, whatever the sizes."""
    mark = place.mark
    return ("", False) if mark is None else (mark.descent.state, mark.trace is None)
