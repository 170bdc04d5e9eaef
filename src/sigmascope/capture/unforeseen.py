"""Axes followed with care: what the bookkeeping does not understand never stops the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.channel_axis import Layout
from sigmascope.capture.following import Following
from sigmascope.capture.graph import Graph
from sigmascope.capture.marks import Descent, Marks
from sigmascope.capture.nested import tensors_in

PUZZLING = Descent("puzzling")
NESTED = "a nested tensor, whose samples differ in shape; pass them padded, as one ordinary tensor"
FROM_NESTED = (
    "computed from a nested tensor, whose samples are not followed; pass them padded, as one "
    "ordinary tensor, or name them by sample_axis={pattern: axis} and channel_axis={pattern: axis}"
)
REASON = (
    "where {} put the samples and channels was not understood ({}: {}); pass "
    "sample_axis={{pattern: axis}} and channel_axis={{pattern: axis}}"
)


class CarefulFollowing(Following):
    """Follows channels and samples; an error there becomes the reason why a tensor has no score."""

    def begin_pass(
        self, inputs: Iterable[Tensor | list[Tensor]] = (), *, batch_axis: int = 0, size: int = 0
    ) -> None:
        """Forget the tensors of the pass before; the inputs hold `size` samples."""
        self._puzzles: Marks[Layout] = Marks()
        super().begin_pass(inputs, batch_axis=batch_axis, size=size)

    def end_pass(self) -> bool:
        """Look for formulas in what was worked out; return whether they are others than before."""
        try:
            return super().end_pass()
        except Exception:  # then there are none, and their parts are sites
            self._graph, self._fresh = Graph(), set()
            return False

    def add_inputs(self, inputs: Iterable[Tensor | list[Tensor]], batch_axis: int) -> None:
        """Take the inputs of the network as the samples, unless others were named."""
        for tensor in inputs:
            try:
                super().add_inputs([tensor], batch_axis)
            except Exception as error:
                self._give_up("the caller of the network", tensor, error)

    def note(self, call: Applied, outputs: Sequence[Tensor], *, kind: str = "") -> None:
        """Record where channels and samples are in the outputs of a function."""
        try:
            super().note(call, outputs, kind=kind)
            if self._puzzles.entries:
                self._pass_on((call.args, call.kwargs), outputs)
        except Exception as error:
            nested = any(one.is_nested for one in tensors_in((call.args, call.kwargs)))
            self._give_up(call.name, outputs, error, nested=nested)

    def note_layer(
        self, module: nn.Module, name: str, x: Tensor, y: Tensor, *, kind: str = ""
    ) -> None:
        """Record where channels and samples are in the output of a layer of one input."""
        try:
            super().note_layer(module, name, x, y, kind=kind)
            if self._puzzles.entries:
                self._pass_on(x, [y])
        except Exception as error:
            self._give_up(name, y, error, nested=x.is_nested)

    def _add(
        self,
        call: Applied,
        outputs: Sequence[Tensor],
        *,
        kind: str,
        function: Callable[..., Tensor] | None = None,
    ) -> None:
        """Add a function to the graph of the pass; one not understood is the border of formulas."""
        try:
            super()._add(call, outputs, kind=kind, function=function)
        except Exception:
            self._graph.lose(outputs)

    def axes_of(self, tensor: Tensor) -> tuple[Layout, Descent]:
        """Return where the channels and the samples of a tensor are."""
        puzzle = self._puzzles.get(tensor) if self._puzzles.entries else None
        if puzzle is not None:
            return puzzle, PUZZLING
        try:
            return self.layouts.of(tensor), self.lineage.of(tensor)
        except Exception as error:
            self._give_up("the network", tensor, error)
            return self.axes_of(tensor)

    def _give_up(
        self, name: str, outputs: object, error: Exception, *, nested: bool = False
    ) -> None:
        """Remember that the outputs of a function, or one of nested tensors, are not understood."""
        text = " ".join(str(error).split()).rstrip(".")[:120]
        reason = REASON.format(name or "a function", type(error).__name__, text)
        reason = FROM_NESTED if nested else reason
        for tensor in tensors_in(outputs):
            self.lose(tensor)
            self._puzzles[tensor] = Layout(None, NESTED if tensor.is_nested else reason)

    def _pass_on(self, arguments: object, outputs: Sequence[Tensor]) -> None:
        """Remember outputs that were computed from such tensors, unless others tell the samples."""
        found = (self._puzzles.get(tensor) for tensor in tensors_in(arguments))
        puzzle = next((one for one in found if one is not None), None)
        if puzzle is None:
            return
        for tensor in outputs:
            if self.lineage.of(tensor).state == "known":
                self._puzzles.entries.pop(id(tensor), None)
            else:
                self._puzzles[tensor] = puzzle
