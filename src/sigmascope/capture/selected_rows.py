"""Which rows of a batch the rows of a tensor are: selected, cut into pieces, joined again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.partial_samples import DIVIDING, JOINING

EMPTY = -1  # the number of a row that is none of the batch


@dataclass(frozen=True, eq=False)  # equal only to itself
class Rows:
    """Rows selected by an index from all rows of a batch, or from rows selected before.

    Attributes:
        index: whole numbers, or a mask of all rows; a slice of those before; or several, joined.
        inner: how many consecutive rows of the batch belong to one sample.
        count: how many were selected.
        before: those they were selected from; None for all.
        every: after how many rows the batch comes again, where it was repeated as a whole; 0 where
            it was not.
    """

    index: Tensor | slice | tuple[Rows, ...]
    inner: int
    count: int
    before: Rows | None = None
    every: int = 0

    @property
    def are_samples(self) -> bool:
        """Whether each row is a whole sample."""
        return self.inner == 1

    def numbers(self) -> Tensor:
        """Return (count,), the number of each row among all rows of the batch, or EMPTY."""
        if isinstance(self.index, tuple):
            return torch.cat([rows.numbers() for rows in self.index])
        if isinstance(self.index, slice):
            return torch.arange(0) if self.before is None else self.before.numbers()[self.index]
        index = self.index.reshape(-1)
        chosen = index.nonzero()[:, 0] if index.dtype == torch.bool else index
        if self.before is not None:
            return self.before.numbers().to(chosen.device)[chosen]
        return chosen % self.every if self.every else chosen


def pieces(
    call: Applied, source: Tensor, rows: Rows, outputs: Sequence[Tensor]
) -> list[Rows] | None:
    """Return the rows of each piece that a tensor was cut into; None if not cut along its rows."""
    if rows.count != len(source) or not call.args or source is not call.args[0]:
        return None
    starts = _starts(call, source, outputs)
    if starts is None:
        return None
    counts = [len(output) for output in outputs]
    return [
        Rows(slice(start, start + count), rows.inner, count, rows)
        for start, count in zip(starts, counts, strict=True)
    ]


def _starts(call: Applied, source: Tensor, outputs: Sequence[Tensor]) -> list[int] | None:
    """Return the first row of each piece of a tensor; None where its rows were not cut."""
    if call.name in DIVIDING and call.name != "unbind":
        dim = call.value(DIVIDING[call.name], "dim", "axis", default=0)
        counts = [output.shape[0] for output in outputs]
        whole = dim % source.ndim == 0 and sum(counts) == len(source)
        return [sum(counts[:number]) for number in range(len(counts))] if whole else None
    if call.name == "narrow":
        dim, start = call.value(1, "dim"), call.value(2, "start")
        plain = type(start) is int and dim % source.ndim == 0
        return [start % max(1, len(source))] if plain else None
    if call.name != "__getitem__":
        return None
    parts = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if not parts or not all(isinstance(part, slice) or part is Ellipsis for part in parts):
        return None
    if not isinstance(parts[0], slice):
        return None
    start, stop, step = parts[0].indices(len(source))
    return [start] if step == 1 and max(0, stop - start) == len(outputs[0]) else None


def joined(call: Applied, rows_of: Callable[[Tensor], Rows | None]) -> Rows | None:
    """Return the rows of tensors that were put one after another; None where some are unknown."""
    if call.name not in JOINING or call.value(1, "dim", "axis", default=0) != 0:
        return None
    found = [rows_of(tensor) for tensor in tensors_in(call.args[:1]) if tensor.ndim]
    known = tuple(rows for rows in found if rows is not None)
    if not known or len(known) < len(found) or len({rows.inner for rows in known}) > 1:
        return None
    return Rows(known, known[0].inner, sum(rows.count for rows in known))
