"""Pairs of samples that are kept as they are, in few blocks of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.maths.grouped_sums import GROUPS, Rows, joined

# Bytes of rows that are always kept: sums of a few rows at a time would take longer than a network.
KEPT = 2**20
# The share of sums that are there already up to which rows are kept beside them, on the host, where
# a product of few rows costs little.
BESIDE = 8
STORED = 2**20  # numbers that make one tensor of a file


def is_large(kept: int, dim: int, *, share: int = 1) -> bool:
    """Return whether rows of so many bytes take more memory than a share of their sums."""
    return kept > max(8 * GROUPS * (2 * dim) ** 2 // share, KEPT // min(share, 4))


class KeptRows:
    """Rows in their order; on the host, those of many batches are in a few blocks.

    The matrices of a batch are small and stay, and the tensors that a network makes and frees are
    large. Where the small ones lie between them, a heap has holes that nothing large fits into, and
    the process grows by several times what it keeps.

    Attributes:
        parts: the rows, of a batch or more each.
        bytes: what x and y take.
    """

    def __init__(self, parts: Sequence[Rows] = (), size: int = 0) -> None:
        self.parts = list(parts)
        self.bytes = size
        self._block: _Block | None = None

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, rows: Rows) -> None:
        """Add rows. The first ones are not copied: often there is no second batch."""
        if self.parts and rows.x.is_cpu:
            rows = self._copied(rows)
        self.parts.append(rows)
        self.bytes += rows.x.nbytes + rows.y.nbytes

    def add_all(self, other: KeptRows) -> None:
        """Add the rows of another one, which share their memory with it from now on."""
        self.parts += other.parts
        self.bytes += other.bytes

    def to_host(self) -> KeptRows:
        """Return the same rows on the host."""
        return KeptRows(
            [Rows(rows.x.cpu(), rows.y.cpu(), rows.groups) for rows in self.parts], self.bytes
        )

    def tensors(self) -> tuple[dict[str, Tensor], int]:
        """Return the rows as named tensors, in few parts, and the number of parts."""
        found: dict[str, Tensor] = {}
        number = -1
        for number, rows in enumerate(joined(self.parts, STORED)):
            found |= {f"{number}.x": _alone(rows.x), f"{number}.y": _alone(rows.y)}
            found[f"{number}.groups"] = rows.groups.clone()  # batches share them
        return found, number + 1

    def _copied(self, rows: Rows) -> Rows:
        """Return the rows in the newest block, or in a new one: as large as all before, or more."""
        if self._block is None or not self._block.fits(rows):
            self._block = _Block.for_rows(rows, sum(len(part.x) for part in self.parts))
        return self._block.took(rows)


@dataclass
class _Block:
    """Room for rows; those that were taken are never written again.

    Attributes:
        x, y: (n, d).
        filled: the number of rows that are taken.
    """

    x: Tensor
    y: Tensor
    filled: int = 0

    @classmethod
    def for_rows(cls, rows: Rows, count: int) -> _Block:
        """Return a block for `count` rows like these, and at least for these."""
        shape = max(count, len(rows.x)), rows.x.shape[1]
        with torch.inference_mode(False):  # it may be filled in another mode than it was made in
            return cls(
                torch.empty(shape, dtype=rows.x.dtype), torch.empty(shape, dtype=rows.y.dtype)
            )

    def fits(self, rows: Rows) -> bool:
        """Return whether there is room for some rows of this width."""
        kinds = (self.x.dtype, self.y.dtype) == (rows.x.dtype, rows.y.dtype)
        return kinds and self.filled + len(rows.x) <= len(self.x)

    def took(self, rows: Rows) -> Rows:
        """Copy rows into the block, and return them there."""
        some = slice(self.filled, self.filled + len(rows.x))
        self.x[some], self.y[some] = rows.x.detach(), rows.y.detach()
        self.filled += len(rows.x)
        return Rows(self.x[some], self.y[some], rows.groups)


def _alone(rows: Tensor) -> Tensor:
    """Return rows without what they are a view of, which would be sent along with them."""
    return rows.clone() if rows.untyped_storage().nbytes() > rows.nbytes else rows
