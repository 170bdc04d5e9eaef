"""Slots of experts: a tensor of zeros into which selected rows are written, and what stays empty.

A number of slots is reserved for every expert. Those that no row reached hold zeros, which are no
samples, so each slot is followed by the number of the row that was written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import RESHAPING, Applied, letters_of
from sigmascope.capture.elementwise import AFFINE, OTHERS, PRODUCTS
from sigmascope.capture.marks import Marks
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.selected_rows import EMPTY, Rows
from sigmascope.capture.words import words

RESERVING = frozenset(words("new_zeros zeros zeros_like"))
# They keep every slot of their first argument apart from the others.
SLOTWISE = frozenset(words("bmm layer_norm linear matmul __matmul__ rms_norm"))
ELEMENTWISE = (AFFINE | OTHERS).union(
    words("""
    celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu
    softplus softsign tanhshrink
""")
)


@dataclass(frozen=True, eq=False)
class _Slots:
    """The slots of a tensor at one of its versions; it has changed since where it has another."""

    rows: Rows | None  # of all slots, one after another; None before any was written
    version: int


class Slots:
    """The slots in the tensors of one forward pass.

    Attributes:
        active: whether any row was written into one.
    """

    def __init__(self) -> None:
        self.active = False
        self._slots: Marks[_Slots] = Marks()

    def rows_of(self, tensor: Tensor) -> Rows | None:
        """Return which row of the batch each slot of a tensor holds; None where not known."""
        found = self._slots.get(tensor) if self.active else None
        if found is None or found.rows is None or found.version != tensor._version:
            return None
        return found.rows if found.rows.count == tensor.shape[:-1].numel() else None

    def reserve(self, output: Tensor) -> None:
        """Record a new tensor of zeros."""
        if output.ndim > 1 and not output.is_inference() and type(output) is Tensor:
            self._slots[output] = _Slots(None, output._version)

    def write(self, call: Applied, value: Tensor, rows: Rows | None) -> None:
        """Record that rows were written into a tensor; None where it is not known which."""
        target, index = call.args[:2]
        found = self._slots.get(target)
        if found is None or rows is None or target._version != found.version + 1:
            return
        numbers = _numbers(found, target.shape[:-1], target.device)
        parts = index if isinstance(index, tuple) else (index,)
        if value.ndim != 2 or any(part is Ellipsis or part is None for part in parts):
            return
        try:
            reached = numbers[index].shape
        except IndexError:  # single channels were written
            return
        if reached != value.shape[:-1] or value.shape[-1] != target.shape[-1]:
            return
        if found.rows is not None and found.rows.inner != rows.inner:
            return
        numbers[index] = rows.numbers().to(numbers.device)
        self._put(target, numbers, rows.inner)

    def pass_on(self, call: Applied, outputs: Sequence[Tensor]) -> None:
        """Record the slots of the results of a function that keeps them apart."""
        output = outputs[0]
        tensors = list(tensors_in((call.args, [*call.kwargs.values()])))
        known = [(one, self._before(one, output)) for one in tensors]
        found = {rows for _, rows in known if rows is not None}
        if len(found) != 1 or len(outputs) != 1 or output.ndim < 2 or output.is_inference():
            return
        rows = found.pop()
        source = next(one for one, its in known if its is rows)
        if _keeps_slots(call, source, output, known):
            self._slots[output] = _Slots(rows, output._version)
        elif call.name == "__getitem__" and type(call.args[1]) is int and source is call.args[0]:
            numbers = rows.numbers().view(source.shape[:-1])[call.args[1]]
            self._put(output, numbers, rows.inner)

    def _before(self, tensor: Tensor, output: Tensor) -> Rows | None:
        """Return the slots of an argument, also of one that the function wrote its result to."""
        found = self._slots.get(tensor)
        if tensor is not output or found is None:
            return self.rows_of(tensor)
        return found.rows if tensor._version == found.version + 1 else None

    def _put(self, tensor: Tensor, numbers: Tensor, inner: int) -> None:
        rows = Rows(numbers.reshape(-1), inner, numbers.numel())
        self._slots[tensor] = _Slots(rows, tensor._version)
        self.active = True


def _keeps_slots(
    call: Applied, source: Tensor, output: Tensor, known: Sequence[tuple[Tensor, Rows | None]]
) -> bool:
    """Return whether each slot of a result is computed from the same slot of a tensor."""
    if call.name in RESHAPING:
        return bool(output.shape[-1] == source.shape[-1])
    if output.shape[:-1] != source.shape[:-1]:
        return False
    if call.name == "einsum":
        letters, result = letters_of(call.args, source)
        return bool(letters) and letters[:-1] == result[:-1]
    if call.name in SLOTWISE:
        return source is call.args[0]
    # what is added to all slots fills the empty ones
    filled = any(
        rows is None and one.ndim > 1 and one.shape[:-1] == source.shape[:-1] for one, rows in known
    )
    return call.name in ELEMENTWISE and (call.name in PRODUCTS or not filled)


def _numbers(found: _Slots, shape: torch.Size, device: torch.device) -> Tensor:
    """Return a copy of the number of the row in each slot."""
    if found.rows is None:
        return torch.full(shape, EMPTY, device=device)
    return found.rows.numbers().view(shape).clone()
