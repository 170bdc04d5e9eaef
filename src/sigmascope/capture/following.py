"""Where channels and samples are in every tensor of a forward pass, worked out on the first batch.

What a function does to axes depends on its name, its arguments that are not tensors, and of its
tensors on their shapes and on what is known of them. Where all of these are as they were at this
point of the pass before, so is the answer. Otherwise it is worked out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_, is_not
from types import EllipsisType, NoneType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor, nn

from sigmascope.capture.axis_moves import Applied, Shape, with_plain_numbers
from sigmascope.capture.channel_axis import Layouts
from sigmascope.capture.layers import arguments_of
from sigmascope.capture.marks import Descent, Mark, Marks, Trace
from sigmascope.capture.nested import is_parameter, tensors_in
from sigmascope.capture.sample_axis import CONSTANT, LOST, Lineage

LIMIT = 10_000  # steps of a pass that are remembered
NOWHERE = Mark(LOST, (), None)
PLAIN = {bool, complex, float, int, str, EllipsisType, NoneType}
PLAIN |= {torch.Size, torch.device, torch.dtype, torch.layout, torch.memory_format}


class _Place(NamedTuple):
    """A tensor among the arguments of a function; `is_mask` where it is boolean."""

    mark: Mark | None
    shape: torch.Size
    is_mask: bool


class _Step(NamedTuple):
    """A function that was called, and what followed.

    Attributes:
        name: of the function.
        size: the number of samples of the pass.
        args, kwargs: its arguments. Of constants there is a weak reference; other tensors are a
            `_Place`.
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


class Following:
    """Follows channels and samples through forward passes; keeps no tensor.

    Attributes:
        layouts: where the channels of a tensor are.
        lineage: where its samples are.
    """

    layouts: Layouts
    lineage: Lineage

    def __init__(self) -> None:
        self._same: dict[tuple[Descent, Shape, Trace | None], Mark] = {}
        self._weights: list[ref[Tensor]] = []
        self._constants: Marks[Mark] = Marks()
        self._before: list[_Step] = []  # of the pass before
        self._steps: list[_Step] = []  # of this one
        self.begin_pass()

    def begin(self, constants: Sequence[Tensor]) -> None:
        """Begin to follow a network whose parameters and buffers these are."""
        same = len(constants) == len(self._weights)
        if not same or any(map(is_not, (one() for one in self._weights), constants)):
            self._weights = [ref(tensor) for tensor in constants]
            self._constants = Marks()
            self._add_constants(constants)
        self.begin_pass()

    def _add_constants(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self._constants[tensor] = self._mark(CONSTANT, tuple(tensor.shape), None)

    def begin_pass(
        self, inputs: Iterable[Tensor] = (), *, batch_axis: int = 0, size: int = 0
    ) -> None:
        """Forget the tensors of the pass before; the inputs hold `size` samples."""
        if self._steps:
            self._before, self._steps = self._steps, []
        self._rewritten = False  # whether a constant has become a function of the samples
        self._marks: Marks[Mark] = Marks(self._constants)
        self.layouts, self.lineage = Layouts(self._marks), Lineage(self._marks, size=size)
        self.add_inputs(inputs, batch_axis)

    def add_inputs(self, inputs: Iterable[Tensor], batch_axis: int) -> None:
        """Take the inputs of the network as the samples, unless others were named."""
        for tensor in inputs:
            descent = self.lineage.first(tensor, batch_axis)
            if descent is not None:
                self._put(tensor, self._mark(descent, tuple(tensor.shape), None))

    def lose(self, tensor: Tensor) -> None:
        """Forget where the channels and samples of a tensor are."""
        self._marks[tensor] = NOWHERE

    def note(self, call: Applied, outputs: Sequence[Tensor]) -> None:
        """Record where channels and samples are in the outputs of a function."""
        step = self._next()
        if step is None or not self._recurs(step, call, outputs):
            step = self._work_out(call, outputs)
        self._done(step, outputs)

    def note_layer(self, module: nn.Module, name: str, x: Tensor, y: Tensor) -> None:
        """Record where channels and samples are in the output of a layer of one input.

        `name` is that of its function.
        """
        step = self._next()
        if (
            step is None
            or step.layer is None
            or step.layer() is not module
            or step.size != self.lineage.size
            or self._rewritten
            or not self._is_same(x, step.args[0], [])
            or y.shape != step.shapes[0]
        ):
            step = self._work_out(Applied(name, arguments_of(module, x), {}), [y])
            step = step._replace(layer=ref(module))
        self._done(step, [y])

    def _next(self) -> _Step | None:
        """Return the step of the pass before at this point."""
        number = len(self._steps)
        return self._before[number] if number < len(self._before) else None

    def _done(self, step: _Step, outputs: Sequence[Tensor]) -> None:
        if len(self._steps) < LIMIT:
            self._steps.append(step)
        if step.produced:
            self.layouts.remember(step.produced)
        for output, mark in zip(outputs, step.marks, strict=False):
            self._put(output, mark)

    def _work_out(self, call: Applied, outputs: Sequence[Tensor]) -> _Step:
        given: list[int] = []
        call = with_plain_numbers(call)
        args = tuple(self._described(value, given) for value in call.args)
        kwargs = {name: self._described(value, given) for name, value in call.kwargs.items()}
        shapes = [output.shape for output in outputs]
        marks: list[Mark] = []
        produced: list[Trace] = []
        tensors = list(tensors_in((call.args, [*call.kwargs.values()])))
        if tensors:
            descents = self.lineage.descents(call, tensors, outputs)
            traces, produced = self.layouts.traces(call, outputs)
            marks = [self._mark(*known) for known in zip(descents, shapes, traces, strict=True)]
        count = len(given) if len({*given}) == len(given) else -1
        return _Step(call.name, self.lineage.size, args, kwargs, count, shapes, marks, produced)

    def _mark(self, descent: Descent, shape: Shape, trace: Trace | None) -> Mark:
        """Return the one mark that says this."""
        known = (descent, tuple(shape), trace)
        mark = self._same.get(known)
        if mark is None:
            mark = self._same[known] = Mark(*known)
        return mark

    def _put(self, tensor: Tensor, mark: Mark) -> None:
        if mark.trace is None:
            # A function that writes into a tensor leaves its channels where they were.
            before = self._marks.get(tensor)
            if before is not None and before.trace is not None:
                mark = self._mark(mark.descent, mark.shape, before.trace)
        constant = self._constants.get(tensor)
        if constant is not None and constant is not mark:
            self._rewritten = True
        self._marks[tensor] = mark

    def _described(self, value: object, given: list[int]) -> object:
        """Return what matters of an argument, and add the tensors in it to those `given`.

        What cannot be compared becomes an object that is the same as nothing.
        """
        if isinstance(value, Tensor):
            mark = self._marks.get(value)
            if mark is None and is_parameter(value):
                self._add_constants([value])
                return ref(value)
            if mark is not None and mark is self._constants.get(value):
                return ref(value)
            given.append(id(value))
            return _Place(mark, value.shape, value.dtype is torch.bool)
        if type(value) is list:
            return [self._described(item, given) for item in value]
        if type(value) is tuple:
            items = tuple(self._described(item, given) for item in value)
            return value if all(map(is_, items, value)) else items
        if isinstance(value, slice):
            ends = (value.start, value.stop, value.step)
            return value if all(type(end) in PLAIN for end in ends) else object()
        return value if type(value) in PLAIN else object()

    def _recurs(self, step: _Step, call: Applied, outputs: Sequence[Tensor]) -> bool:
        """Return whether a call is the step of the pass before in all that matters."""
        name, args, kwargs = call
        if name != step.name or self.lineage.size != step.size or self._rewritten:
            return False
        if step.layer is not None:
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
            elif not self._is_same(value, was, given):
                return False
        if kwargs:
            for key, name in zip(step.kwargs, kwargs, strict=True):
                value, was = kwargs[name], step.kwargs[key]
                if name != key or (value is not was and not self._is_same(value, was, given)):
                    return False
        if len(given) > 1 and len({*given}) != len(given):
            return False
        shapes = step.shapes
        return (
            len(given) == step.tensors
            and len(outputs) == len(shapes)
            and all(output.shape == shape for output, shape in zip(outputs, shapes, strict=True))
        )

    def _is_same(self, value: Any, was: Any, given: list[int]) -> bool:
        """Return whether an argument is the one that was described so."""
        kind = type(was)
        if kind is ref:
            return was() is value and id(value) in self._constants.entries
        if kind is _Place:
            given.append(id(value))
            return (
                isinstance(value, Tensor)
                and self._marks.get(value) is was.mark
                and value.shape == was.shape
                and (value.dtype is torch.bool) == was.is_mask
                and not (was.mark is None and is_parameter(value))
            )
        if kind is not type(value):  # 1, 1.0 and True are equal, and mean different things
            return False
        if kind is slice:
            value, was = ((part.start, part.stop, part.step) for part in (value, was))
        elif kind not in (list, tuple):
            return kind in PLAIN and bool(value == was)
        return len(value) == len(was) and all(
            one is other or self._is_same(one, other, given)
            for one, other in zip(value, was, strict=True)
        )
