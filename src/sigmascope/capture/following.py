"""Where channels and samples are in every tensor of a forward pass, worked out on the first batch.

What a function does to axes depends on its name, its arguments that are not tensors, and of its
tensors on their shapes and on what is known of them. Where all of these are as they were at this
point of the pass before, so is the answer. Otherwise it is worked out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_not
from weakref import ref

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import MIXING, registered
from sigmascope.capture.axis_moves import Applied, Shape, with_plain_numbers
from sigmascope.capture.channel_axis import Layouts
from sigmascope.capture.flow import Fact
from sigmascope.capture.formula_notes import notes_of
from sigmascope.capture.formulas import formulas_of
from sigmascope.capture.graph import Graph
from sigmascope.capture.kept import Known
from sigmascope.capture.layers import arguments_of
from sigmascope.capture.marks import Descent, Mark, Marks, Trace
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.node import Seen
from sigmascope.capture.partial_samples import single, view_of
from sigmascope.capture.plan import Plan
from sigmascope.capture.routing import NOTED, Routing
from sigmascope.capture.sample_axis import CONSTANT, INTO_BASE, LOST, MADE, Lineage
from sigmascope.capture.steps import LIMIT, SPACING, Recognition, Step, is_alike, is_resized

NOWHERE = Mark(LOST, (), None)


class Following:
    """Follows channels and samples through forward passes; keeps no tensor.

    Attributes:
        layouts: where the channels of a tensor are.
        lineage: where its samples are.
        plan: the formulas of the last pass.
        unclear: functions of the last pass that may be activations: (path, text).
        searches: whether they are looked for.
        changes: whether a pass changes the network or its inputs; in training mode or not.
        where: returns the path of the innermost module, and whether it counts as one activation.
        routing: which of them it holds, where they were selected.
        facts: step -> what else is known of the function.
    """

    layouts: Layouts
    lineage: Lineage
    where: Callable[[], tuple[str, bool]]
    routing: Routing

    def __init__(self) -> None:
        self.where = lambda: ("", False)
        self.plan = Plan()
        self._same: dict[tuple[Descent, Shape, Trace | None], Mark] = {}
        self.searches = True
        self.changes: dict[bool, bool] = {}
        self.facts: dict[int, Fact] = {}
        self._has_formulas = False  # in any pass so far
        self.unclear: list[tuple[str, str]] = []
        self._too_long = False  # whether a pass had more steps than are remembered
        self._depends: list[Known] = []  # constants in formulas, as they were
        self._registered = registered()
        self._weights: list[ref[Tensor]] = []
        self._constants: Marks[Mark] = Marks()
        self._before: list[Step] = []  # of the pass before
        self._steps: list[Step] = []  # of this one
        self.begin_pass()

    def begin(self, constants: Sequence[Tensor]) -> None:
        """Begin to follow a network whose parameters and buffers these are."""
        if any(one.has_changed() for one in self._depends) or self._registered != registered():
            self.forget()
            self._registered = registered()
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
        self, inputs: Iterable[Tensor | list[Tensor]] = (), *, batch_axis: int = 0, size: int = 0
    ) -> None:
        """Forget the tensors of the pass before; the inputs hold `size` samples."""
        if self._steps:
            self._before, self._steps = self._steps, []
        self._graph, self._fresh = Graph(), set[int]()  # of the steps that were not known
        self._rewritten = False  # whether a constant has become a function of the samples
        self._marks: Marks[Mark] = Marks(self._constants)
        self._known = Recognition(self._marks, self._constants, self._add_constants)
        self.layouts, self.lineage = Layouts(self._marks), Lineage(self._marks, size=size)
        self.routing = Routing()
        self.add_inputs(inputs, batch_axis)

    def end_pass(self) -> bool:
        """Look for formulas in what was worked out; return whether they are others than before."""
        graph, fresh = self._graph, self._fresh
        self._graph, self._fresh = Graph(), set()
        if not fresh or not self.searches:
            return False
        if len(fresh) < self.step and (self._has_formulas or graph.may_hold_formulas):
            self.forget()  # the others are needed, too
            return True
        found, depends, self.unclear = formulas_of(graph)
        # of those that the network computes itself there are new ones in every pass
        self._depends = [Known(one) for one in depends if self._constants.get(one) is not None]
        self._has_formulas |= bool(found)
        changed = {*found} != {*self.plan.formulas}
        self.plan = Plan(found)
        return changed

    def notes(self) -> list[str]:
        """Return what may be an activation and was not taken for one."""
        return notes_of(self.unclear, too_long=self._too_long) if self.searches else []

    def forget(self) -> None:
        """Forget the steps of earlier passes and their formulas."""
        self._before, self._steps, self._depends = [], [], []
        self.plan = Plan()

    def search(self, *, searches: bool) -> None:
        """Look for formulas from now on, or do not."""
        if searches and not self.searches:
            self.forget()
        self.searches = searches

    @property
    def step(self) -> int:
        """How many functions were called so far."""
        return len(self._steps)

    @property
    def steps(self) -> Sequence[Step]:
        """The functions that were called so far."""
        return self._steps

    @property
    def is_new(self) -> bool:
        """Whether any of them was not known from the pass before."""
        return bool(self._fresh)

    @property
    def expected(self) -> str:
        """The name of the function that was called next in the pass before."""
        step = self._next()
        return "" if step is None else step.name

    def add_inputs(self, inputs: Iterable[Tensor | list[Tensor]], batch_axis: int) -> None:
        """Take the inputs of the network as the samples, unless others were named.

        A list holds single samples.
        """
        for tensor in inputs:
            if isinstance(tensor, list):
                self._add_samples(tensor)
                continue
            descent = self.lineage.first(tensor, batch_axis)
            if descent is not None:
                self._put(tensor, self._mark(descent, tuple(tensor.shape), None))

    def _add_samples(self, samples: list[Tensor]) -> None:
        self.lineage.size = self.lineage.size or len(samples)
        if len({*map(id, samples)}) < len(samples):
            return  # a tensor that is several samples cannot be followed as one of them
        for number, tensor in enumerate(samples):
            if self._marks.get(tensor) is None:
                self._put(tensor, self._mark(single(number), tuple(tensor.shape), None))

    def lose(self, tensor: Tensor) -> None:
        """Forget where the channels and samples of a tensor are."""
        self._marks[tensor] = NOWHERE

    def note(self, call: Applied, outputs: Sequence[Tensor], *, kind: str = "") -> None:
        """Record where channels and samples are in the outputs of a function.

        `kind` is that of an activation.
        """
        step = self._next()
        if step is None or not self._is_usual(step) or not self._known.recurs(step, call, outputs):
            usual, step = step, self._work_out(call, outputs)
            if not self._is_known(usual, step):
                self._add(call, outputs, kind=kind)
        self._done(step, outputs)
        if call.args and outputs[0] is call.args[0] and call.name != INTO_BASE:
            self._note_base(outputs[0])
        if call.name in NOTED or self.routing.active:
            before = self._marks.get(call.args[0]) if call.args else None
            self.routing.note(call, outputs, None if before is None else before.descent)

    def note_layer(
        self, module: nn.Module, name: str, x: Tensor, y: Tensor, *, kind: str = ""
    ) -> None:
        """Record where channels and samples are in the output of a layer of one input.

        `name` is that of its function, `kind` that of an activation.
        """
        step = self._next()
        if (
            step is None
            or step.layer is None
            or step.layer() is not module
            or not self._is_usual(step)
            or not self._known.is_same(x, step.args[0], [])
            or y.shape != step.shapes[0]
        ):
            call, usual = Applied(name, arguments_of(module, x), {}), step
            step = self._work_out(call, [y])._replace(layer=ref(module))
            same = usual is not None and usual.layer == step.layer
            if not same or not self._is_known(usual, step):
                self._add(call, [y], kind=kind, function=partial(type(module).forward, module))
        self._done(step, [y])
        if y is x:
            self._note_base(y)
        if self.routing.active:
            self.routing.note(Applied(name, (x,), {}), [y], None)

    def _add(
        self,
        call: Applied,
        outputs: Sequence[Tensor],
        *,
        kind: str,
        function: Callable[..., Tensor] | None = None,
    ) -> None:
        """Add a function that was worked out to the graph of the pass."""
        if self.step >= LIMIT:
            self._too_long = True
            return
        self._fresh.add(self.step)
        path, hidden = self.where()
        self.facts[self.step] = Fact(path, hidden, kind)
        if not self.searches:
            return
        named = bool(kind) and kind not in MIXING
        about = Seen(self._is_constant, self._is_followed, named, hidden, path, function)
        self._graph.add(self.step, with_plain_numbers(call), outputs, about)

    def _is_constant(self, tensor: Tensor) -> bool:
        return self.lineage.of(tensor).state == "constant"

    def _is_followed(self, tensor: Tensor) -> bool:
        mark = self._marks.get(tensor)
        return mark is not None and mark.trace is not None

    def _is_known(self, usual: Step | None, step: Step) -> bool:
        """Return whether formulas are the same with a step as with the one of the pass before."""
        if usual is None:
            return False
        return is_alike(usual, step) or (self._is_usual(usual) and is_resized(usual, step))

    def _is_usual(self, step: Step) -> bool:
        return step.size == self.lineage.size and not self._rewritten

    def _next(self) -> Step | None:
        """Return the step of the pass before at this point."""
        return self._before[self.step] if self.step < len(self._before) else None

    def _done(self, step: Step, outputs: Sequence[Tensor]) -> None:
        if len(self._steps) < LIMIT:
            self._steps.append(step)
        if step.produced:
            self.layouts.remember(step.produced)
        made = len(self._steps)
        for output, mark in zip(outputs, step.marks, strict=False):
            self._put(output, mark)
            self._known.made[id(output)] = made
            made += SPACING

    def derive(self, call: Applied, outputs: Sequence[Tensor]) -> None:
        """Record where channels and samples are in tensors that the network did not compute."""
        for output, mark in zip(outputs, self._work_out(call, outputs).marks, strict=True):
            self._put(output, mark)

    def _note_base(self, view: Tensor) -> None:
        """Record what a function that wrote into a view did to the tensor it is a view of."""
        base = view._base
        if base is None or base.layout is not torch.strided:
            return
        block = view_of(base, view)
        if block is not None:
            self.note(Applied(INTO_BASE, (base, view), {"block": block}), [base])

    def _work_out(self, call: Applied, outputs: Sequence[Tensor]) -> Step:
        given: list[int] = []
        call = with_plain_numbers(call)
        args = tuple(self._known.described(value, given) for value in call.args)
        kwargs = {name: self._known.described(value, given) for name, value in call.kwargs.items()}
        shapes = [output.shape for output in outputs]
        marks: list[Mark] = []
        produced: list[Trace] = []
        tensors = list(tensors_in((call.args, [*call.kwargs.values()])))
        if tensors:
            descents = self.lineage.descents(call, tensors, outputs)
            traces, produced = self.layouts.traces(call, outputs)
            marks = [self._mark(*known) for known in zip(descents, shapes, traces, strict=True)]
        elif call.name in MADE:
            marks = [self._mark(MADE[call.name], shape, None) for shape in shapes]
        count = len(given) if len({*given}) == len(given) else -1
        return Step(call.name, self.lineage.size, args, kwargs, count, shapes, marks, produced)

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
