"""Pairs of samples, as rows or as sums over groups of them, that add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array, as_rows, check_alike

Index: TypeAlias = int | np.ndarray[Any, Any] | Tensor | Sequence[int]

GROUPS = 8
SINGLE = tuple((group,) for group in range(GROUPS))
# Numbers that are joined and converted at once when rows become sums: on the host few, so that a
# worker takes as much memory for few samples as for many.
CHUNK, HOST_CHUNK = 2**23, 2**18
SHIFT_CHUNK, SHIFT_ROWS = 2**16, 64  # and those whose mean becomes the shift: numbers, least rows


@dataclass(frozen=True)
class Rows:
    """Pairs that are not yet sums: x, y (n, d) and the group of each row, on the host."""

    x: Tensor
    y: Tensor
    groups: Tensor

    def between(self, start: int, end: int) -> Rows:
        """Return some of the rows, as views."""
        if not start and end >= len(self.x):
            return self
        return Rows(self.x[start:end], self.y[start:end], self.groups[start:end])


@dataclass(frozen=True)
class Sums:
    """Sums of pairs z = (x, y) of width 2d around a shift, by group of samples.

    Attributes:
        count: (g,), float64, on the host.
        first: (g, 2d), the sum of z - shift.
        second: (c, 2d, 2d), the sum of its products, by cell.
        shift: (2d,).
        precision: the standard deviation, relative to the mean, up to which a channel is constant.
        cells: the groups that share a matrix of products, each alone by default.
        forms: where groups share one, the function from a matrix B (2d, 2d) to the sum of
            (z - shift)ᵀ B (z - shift) in each group, (g,).
    """

    count: Tensor
    first: Tensor
    second: Tensor
    shift: Tensor
    precision: float = 0.0
    cells: tuple[tuple[int, ...], ...] = SINGLE
    forms: Callable[[Tensor], Tensor] | None = None

    @property
    def dim(self) -> int:
        """The number of channels d."""
        return self.first.shape[1] // 2


def joined(parts: Sequence[Rows], numbers: int | None = None) -> Iterator[Rows]:
    """Yield the same rows in pieces of one size, whatever batches they came in.

    So the sums of a run that was interrupted have the bits of one that was not. A piece has as many
    `numbers` as are converted at once, by default.
    """
    for (_, device), alike in groupby(parts, key=lambda rows: (rows.x.dtype, rows.x.device)):
        some: list[Rows] = []
        held = 0
        for rows in alike:
            most, start = _at_once(device, 2 * rows.x.shape[1], numbers), 0
            while start < len(rows.x):
                part = rows.between(start, start + most - held)
                some.append(part)
                start, held = start + len(part.x), held + len(part.x)
                if held == most:
                    yield _together(some)
                    some, held = [], 0
        if some:
            yield _together(some)


def _at_once(device: torch.device, width: int, numbers: int | None) -> int:
    """Return how many rows are joined at once, at least as many as make a product worth while."""
    most = HOST_CHUNK if device.type == "cpu" else CHUNK
    return max((numbers or most) // width, width)


def _together(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return Rows(
        *(torch.cat([getattr(one, name) for one in parts]) for name in ("x", "y", "groups"))
    )


def checked_rows(x: Array, y: Array) -> tuple[Tensor, Tensor]:
    """Return both as tensors of float32 or float64; nothing is read from a device."""
    check_alike(x, y, rows=1)
    if x.shape != y.shape:
        raise InputError(
            f"x has {x.shape[0]} rows and y {y.shape[0]}. Row i of y must be the output of the "
            "activation for row i of x."
        )
    return as_rows(x), as_rows(y)


def groups_of(index: Index, n: int) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Return the groups of n samples, on the host, and how many are in each."""
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        return _groups_from(int(index) % GROUPS, n)
    try:
        numbers = torch.as_tensor(index).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputTypeError(f"index must be whole numbers, got {index!r:.80}.") from error
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise InputTypeError(f"index must be whole numbers, got {numbers.dtype}.")
    if tuple(numbers.shape) != (n,):
        raise InputError(
            f"index must be one whole number, or one for each of the {n} rows, got shape "
            f"{tuple(numbers.shape)}."
        )
    groups = numbers.long() % GROUPS
    return groups, np.bincount(groups.numpy(), minlength=GROUPS)


@lru_cache(maxsize=64)
def _groups_from(first: int, n: int) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Return the groups (n,) of samples that follow one of a group, and how many are in each."""
    groups = torch.arange(first, first + n) % GROUPS
    return groups, np.bincount(groups.numpy(), minlength=GROUPS)


def with_rows(
    sums: Sums | None, kept: Sequence[Rows], cell_of: Tensor, *, in_place: bool = False
) -> Sums:
    """Return sums with rows added, converted to float64 a part at a time.

    `cell_of` (g,) is the matrix of products that each group adds to. With `in_place` the given sums
    are added to, which nobody else may hold then.
    """
    parts = joined(kept)
    first = next(parts)
    if sums is None:
        sums = no_sums(first, int(cell_of.max()) + 1)
    elif not in_place:
        sums = _copied(sums)
    for rows in chain([first], parts):
        for group, z in _by_group(rows, sums.shift):
            sums.first[group] += z.sum(dim=0)
            sums.second[cell_of[group]].addmm_(z.mT, z)
        sums.count.add_(torch.bincount(rows.groups, minlength=GROUPS))
    return sums


def _copied(sums: Sums) -> Sums:
    """Return sums that may be added to in place; others may hold the given ones."""
    return replace(
        sums, count=sums.count.clone(), first=sums.first.clone(), second=sums.second.clone()
    )


def _by_group(rows: Rows, shift: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield groups and some of their rows (k, 2d), float64, around a shift."""
    counts = torch.bincount(rows.groups, minlength=GROUPS).tolist()
    order = rows.groups.argsort(stable=True)
    for group, members in enumerate(torch.split(order, counts)):
        if len(members):
            chosen = members.to(rows.x.device, non_blocking=True)
            z = torch.cat([rows.x[chosen], rows.y[chosen]], dim=1)
            yield group, z.to(shift).sub_(shift)


def forms_of(kept: list[Rows], shift: Tensor, matrix: Tensor) -> Tensor:
    """Return the sum of zᵀ B z over the rows of each group, (g,)."""
    total = torch.zeros(GROUPS, dtype=torch.float64, device=matrix.device)
    for rows in joined(kept):
        for group, z in _by_group(rows, shift):
            total[group] += ((z @ matrix) * z).sum()
    return total


def no_sums(rows: Rows, cells: int) -> Sums:
    """Return empty sums around the mean of the first rows, exact for a constant column."""
    some = slice(max(SHIFT_ROWS, SHIFT_CHUNK // (2 * rows.x.shape[1])))
    z = torch.cat([rows.x[some], rows.y[some]], dim=1).double()
    one = z[0].clone()
    shift = one + z.sub_(one).mean(dim=0)
    first = torch.zeros(GROUPS, len(shift), dtype=torch.float64, device=z.device)
    second = first.new_zeros(cells, len(shift), len(shift))
    return Sums(torch.zeros(GROUPS, dtype=torch.float64), first, second, shift)


def empty_sums(shift: Tensor) -> Sums:
    """Return empty sums around a shift (2d,)."""
    first = shift.new_zeros(GROUPS, len(shift), dtype=torch.float64)
    second = first.new_zeros(GROUPS, len(shift), len(shift))
    return Sums(torch.zeros(GROUPS, dtype=torch.float64), first, second, shift)


def added(one: Sums, other: Sums) -> Sums:
    """Return the sum of two sums, around the shift of the first."""
    first, second, shift = (
        getattr(other, name).to(one.first.device) for name in ("first", "second", "shift")
    )
    moved, count = shift - one.shift, other.count.to(one.first.device)
    cross = first[:, :, None] * moved
    second = second + cross + cross.mT + count[:, None, None] * torch.outer(moved, moved)
    first = first + count[:, None] * moved
    return Sums(one.count + other.count, one.first + first, one.second + second, one.shift)
