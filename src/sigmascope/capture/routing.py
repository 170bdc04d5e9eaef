"""Rows that were selected from a batch, as a mixture of experts does, and the expert they went to.

Which rows they are differs from batch to batch, so it is kept for every tensor of a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import MOVES, Applied
from sigmascope.capture.marks import Descent, Marks
from sigmascope.capture.nested import is_parameter, tensors_in
from sigmascope.capture.permuting import UNPACK
from sigmascope.capture.reordering import is_reordered
from sigmascope.capture.selected_rows import Rows, joined, pieces
from sigmascope.capture.slots import RESERVING, Slots
from sigmascope.capture.words import words

SELECTING = ("__getitem__", "index_select")
NOTED = RESERVING.union(SELECTING, (UNPACK,))  # also where no rows were selected yet
# They put the rows back among all others.
RETURNING = frozenset(
    words("__setitem__ index_add index_copy index_put scatter scatter_add scatter_reduce")
)


class Expert(NamedTuple):
    """Which of several experts it is, of which the weights lie in one tensor."""

    number: int
    experts: int


class Routing:
    """The rows and experts of the tensors of one forward pass.

    Attributes:
        active: whether any are known.
        padded: whether the network filled up packed sequences of unequal lengths.
    """

    def __init__(self) -> None:
        self.active = self.padded = False
        self._rows: Marks[Rows] = Marks()
        self._slots = Slots()
        self._experts: Marks[Expert] = Marks()
        # path -> the number of its first expert's first call, and how many experts there are
        self._numbered: dict[str, tuple[int, int]] = {}
        self._repeats: Counter[tuple[str, int]] = Counter()

    def rows_of(self, tensor: Tensor) -> Rows | None:
        """Return which rows of the batch the rows of a tensor are; None where that is not known."""
        rows = self._rows.get(tensor)
        return rows if rows is not None and rows.count == len(tensor) else None

    def slots_of(self, tensor: Tensor) -> Rows | None:
        """Return the same of the slots in a tensor (..., d), of which some may be empty."""
        return self._slots.rows_of(tensor)

    def number(self, path: str, tensor: Tensor, calls: Counter[str]) -> int:
        """Return which call of a module this is, of those counted in `calls`.

        Calls for an expert have its number, whichever experts were called before.
        """
        expert = self._experts.get(tensor) if self.active else None
        if expert is None or self.rows_of(tensor) is None:
            number = calls[path]
            calls[path] = number + 1
            return number + self._numbered[path][1] if path in self._numbered else number
        first, experts = self._numbered.setdefault(path, (calls[path], expert.experts))
        self._repeats[path, expert.number] += 1
        if self._repeats[path, expert.number] > 1:  # behind all others
            calls[path] += 1
            return calls[path] - 1 + experts
        return first + expert.number

    def note(self, call: Applied, outputs: Sequence[Tensor], descent: Descent | None) -> None:
        """Record what a function did; `descent` is that of the samples in its first argument."""
        if call.name == UNPACK:
            steps = 1 if call.value(2, "batch_first") else 0
            self.padded |= bool((outputs[1] < outputs[0].shape[steps]).any())
        elif call.name in RESERVING:
            self._slots.reserve(outputs[0])
        elif call.name == "__setitem__" and isinstance(value := call.value(2, "value"), Tensor):
            self._slots.write(call, value, self.rows_of(value) if value.ndim else None)
        elif self._slots.active:
            self._slots.pass_on(call, outputs)
        if call.name in SELECTING and self._note_selected(call, outputs[0], descent):
            self.active = True
        elif self.active and call.name not in RETURNING:
            self._pass_on(call, outputs)

    def _note_selected(self, call: Applied, output: Tensor, descent: Descent | None) -> bool:
        source, at = call.args[0], 1 if call.name == "__getitem__" else 2
        index, count = call.value(at, "index"), len(output) if output.ndim else 0
        if is_parameter(source):
            return self._note_expert(source, output)
        if isinstance(index, tuple) and len(index) == 2 and index[0] is None and output.ndim > 2:
            index, count = index[1], output.shape[1]  # an axis in front, which a reshape removes
        if not isinstance(index, Tensor) or not _selects_rows(call, source, index):
            return False
        before = self.rows_of(source) if source.ndim else None
        if before is not None and index.ndim == 1:
            self._rows[output] = Rows(index, before.inner, count, before)
            return True
        if descent is None or descent.state != "known" or descent.axis or descent.order:
            return False
        if descent.outer != 1 and index.ndim == 2:
            return False
        inner = descent.inner * (source.shape[1] if index.ndim == 2 else 1)
        every = 0 if descent.outer == 1 else len(source) // descent.outer
        self._rows[output] = Rows(index, inner, count, every=every)
        return True

    def _note_expert(self, weights: Tensor, output: Tensor) -> bool:
        """Record a view of the weights of one expert; where it lies tells which one."""
        if output._base is not weights or output.ndim != weights.ndim - 1 or output.ndim < 1:
            return False
        number = (output.storage_offset() - weights.storage_offset()) // max(1, weights.stride(0))
        self._experts[output] = Expert(number, len(weights))
        return True

    def _pass_on(self, call: Applied, outputs: Sequence[Tensor]) -> None:
        together = joined(call, self.rows_of)
        if together is not None and len(outputs[0]) == together.count:
            self._rows[outputs[0]] = together
            return
        for source in tensors_in((call.args, [*call.kwargs.values()])):
            rows, expert = self._rows.get(source), self._experts.get(source)
            cut = None if rows is None else pieces(call, source, rows, outputs)
            if cut is not None:
                for output, piece in zip(outputs, cut, strict=True):
                    self._rows[output] = piece
            elif rows is not None and _keeps_rows(call, source):
                for output in outputs:
                    if output.ndim and len(output) == rows.count:
                        self._rows[output] = rows
            if expert is not None:
                for output in outputs:
                    self._experts[output] = expert


def _selects_rows(call: Applied, source: Tensor, index: Tensor) -> bool:
    if call.name == "index_select":
        return call.value(1, "dim") == 0 and index.ndim == 1
    mask = index.dtype == torch.bool
    return index.ndim == 1 or (mask and index.ndim == 2 and index.shape == source.shape[:2])


def _keeps_rows(call: Applied, source: Tensor) -> bool:
    """Return whether the first axis of a tensor stays where it is and in its order."""
    if call.name in MOVES:
        order = call.order(source.ndim)
        return bool(order) and order[0] == 0
    return not is_reordered(call, source, 0)
