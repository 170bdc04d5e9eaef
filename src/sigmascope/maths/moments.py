"""Sums over pairs of samples that merge, and the population score they determine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.maths.population import (
    GROUPS,
    PopulationScore,
    Sums,
    population_scores,
    samples_needed,
    without_score,
)
from sigmascope.maths.samples import Array, as_rows, check_alike, check_eps
from sigmascope.store import read_features, write_features

Index: TypeAlias = int | np.ndarray[Any, Any] | Tensor | Sequence[int]
# Numbers of float64 that are converted at once when rows become sums.
CHUNK = 2**23


@dataclass(frozen=True)
class _Rows:
    """Pairs that are not yet sums: x, y (n, d) and the group of each row, on the host."""

    x: Tensor
    y: Tensor
    groups: Tensor


class Moments:
    r"""Sums of the inputs and outputs of an activation, and the population score they determine.

    What is accumulated are $n$, $\sum z$ and $\sum zz^\top$ of the pairs $z = (x, y)$ in float64
    around a shift, in 8 groups of samples. Sums add up: batches of any size, in any order, on any
    number of workers give the same score. Rows are kept as they are while they take less memory
    than the sums. Nothing is read back from an accelerator before `score`.

    The score is that of the distribution: the affinity score of Bouniot et al., CVPR 2025,
    arXiv:2310.11439, of paired samples in the limit of many, with its bias removed and an interval.

    Args:
        eps: added to the diagonals of both covariances; None for 1e-6 of their mean variance.

    >>> rng = np.random.default_rng(0)
    >>> moments = Moments()
    >>> for _ in range(4):
    ...     x = rng.standard_normal((512, 16))
    ...     moments.update(x, np.maximum(x, 0))
    >>> found = moments.score()
    >>> round(found.score, 2), found.low < 0.6211 < found.high
    (0.62, True)
    """

    def __init__(self, *, eps: float | None = None) -> None:
        self.eps = None if eps is None else check_eps(eps)
        self._rows: list[_Rows] = []
        self._sums: Sums | None = None
        self._count = np.zeros(GROUPS, dtype=np.int64)
        self._dim = 0
        self._next = 0

    @property
    def n(self) -> int:
        """The number of samples so far."""
        return int(self._count.sum())

    @property
    def dim(self) -> int:
        """The number of channels; 0 before the first sample."""
        return self._dim

    def __repr__(self) -> str:
        return f"Moments(n={self.n}, dim={self.dim})"

    def update(self, x: Array, y: Array, index: Index | None = None) -> None:
        """Add pairs of samples.

        Args:
            x: (n, d), the input of the activation, n of at least 1. NumPy array or torch tensor of
                any floating type, on any device. Kept as it is for a while: do not overwrite it.
            y: (n, d), its output, row by row.
            index: the numbers of the samples in the data set, which decide their groups: (n,) whole
                numbers; or that of the first row, which the others follow; by default a running
                count. Rows that depend on each other, such as the positions of an image, need the
                same number. Workers that share a data set must number their samples alike.

        Raises:
            InputError: not two matrices of one shape, or of another width than before.
            InputTypeError: not real floating point, of different kinds or on different devices.
        """
        rows_x, rows_y = _pair(x, y)
        n, d = rows_x.shape
        if self._dim not in (0, d):
            raise InputError(f"x has {d} columns, and the samples so far have {self._dim}.")
        numbers = _numbers(self._next if index is None else index, n)
        if index is None:
            self._next += n
        self._dim = d
        groups = numbers % GROUPS
        self._count += np.bincount(groups.numpy(), minlength=GROUPS)
        self._rows.append(_Rows(rows_x, rows_y, groups))
        if self._bytes_kept() > 8 * GROUPS * (2 * d) ** 2:
            self._fold()

    def merge(self, other: Moments) -> Moments:
        """Add all samples of another accumulator to this one, and return this one.

        Raises:
            InputTypeError: not moments.
            InputError: of another width, or with another eps.
        """
        if not isinstance(other, Moments):
            raise InputTypeError(f"other is a {type(other).__name__}, not Moments.")
        if other.eps != self.eps or (self._dim and other._dim and other._dim != self._dim):
            raise InputError(
                f"moments of {self._dim} channels with eps={self.eps} cannot be merged with those "
                f"of {other._dim} channels with eps={other.eps}."
            )
        self._rows += other._rows
        if other._sums is not None:
            self._sums = other._sums if self._sums is None else _added(self._sums, other._sums)
        self._count = self._count + other._count
        self._dim = self._dim or other._dim
        self._next += other._next
        if self._rows and self._bytes_kept() > 8 * GROUPS * (2 * self._dim) ** 2:
            self._fold()
        return self

    def __add__(self, other: Moments) -> Moments:
        return self.copy().merge(other)

    def copy(self) -> Moments:
        """Return an accumulator with the same samples, independent of this one."""
        return Moments(eps=self.eps).merge(self)

    def score(self) -> PopulationScore:
        """Return the population score of the samples so far, with its 95 % interval."""
        return score_all([self])[0]

    def save(self, path: str | Path) -> Path:
        """Write the sums to a safetensors file, atomically, and return its path; see `load`."""
        tensors, info = self.state()
        write_features(path, tensors, {"moments": info})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Moments:
        """Return the moments in a file that `save` wrote, on the CPU.

        Raises:
            FileNotFoundError: no such file.
            FileFormatError: not a file of moments, corrupt, or newer than this version.
        """
        tensors, info = read_features(path)
        return cls.from_state(tensors, info.get("moments"), str(path))

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return tensors and plain values from which `from_state` restores the accumulator."""
        tensors: dict[str, Tensor] = {}
        for number, rows in enumerate(self._rows):
            tensors |= {
                f"{number}.x": rows.x,
                f"{number}.y": rows.y,
                f"{number}.groups": rows.groups,
            }
        if self._sums is not None:
            names = ("count", "first", "second", "shift")
            tensors |= {f"sums.{name}": getattr(self._sums, name) for name in names}
        info: dict[str, object] = {
            "eps": self.eps,
            "next": self._next,
            "parts": len(self._rows),
            "precision": None if self._sums is None else self._sums.precision,
        }
        return tensors, info

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], info: Any, source: str) -> Moments:
        """Return the accumulator that `state` described; `source` is named in errors."""
        try:
            moments = cls(eps=info["eps"])
            for number in range(info["parts"]):
                x, y, groups = (tensors[f"{number}.{name}"] for name in ("x", "y", "groups"))
                moments.update(x, y, groups)
            if info["precision"] is not None:
                parts = (tensors[f"sums.{name}"] for name in ("count", "first", "second", "shift"))
                moments._take(Sums(*parts, float(info["precision"])))
            moments._next = int(info["next"])
        except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
            raise FileFormatError(
                f"{source} holds no moments: {error}. Write it again with Moments.save."
            ) from error
        return moments

    def _take(self, sums: Sums) -> None:
        """Add sums that were read from a file."""
        shapes = tuple(sums.first.shape), tuple(sums.second.shape), tuple(sums.shift.shape)
        width = 2 * sums.dim
        if shapes != ((GROUPS, width), (GROUPS, width, width), (width,)) or not sums.dim:
            raise ValueError(f"sums of the shapes {shapes}")
        self._sums = sums if self._sums is None else _added(self._sums, sums)
        self._count += sums.count.numpy().astype(np.int64)
        self._dim = self._dim or sums.dim

    def _bytes_kept(self) -> int:
        return sum(2 * rows.x.numel() * rows.x.element_size() for rows in self._rows)

    def _fold(self) -> None:
        """Make sums of all rows."""
        self._sums, self._rows = self._folded(), []

    def _folded(self) -> Sums:
        sums = self._sums
        for rows in self._rows:
            sums = _with_rows(sums, rows)
        if sums is None:
            raise InputError("no samples yet. Call update(x, y) first.")
        return sums


def score_all(moments: Sequence[Moments]) -> list[PopulationScore]:
    """Return the scores of several accumulators, those of one width computed together."""
    results: dict[int, PopulationScore] = {}
    ready: dict[int, Moments] = {}
    for number, one in enumerate(moments):
        if one.n < samples_needed(one.dim):
            reason = (
                f"{one.n} sample{'s' * (one.n != 1)} {'is' if one.n == 1 else 'are'} too few for "
                f"{one.dim} channels: {samples_needed(one.dim)} would do"
            )
            results[number] = without_score(one.n, one.dim, reason)
        else:
            ready[number] = one
    for eps in dict.fromkeys(one.eps for one in ready.values()):
        chosen = {number: one._folded() for number, one in ready.items() if one.eps == eps}
        results |= zip(chosen, population_scores(list(chosen.values()), eps), strict=True)
    return [results[number] for number in range(len(moments))]


def _pair(x: Array, y: Array) -> tuple[Tensor, Tensor]:
    """Return both as tensors of float32 or float64; nothing is read from a device."""
    check_alike(x, y, rows=1)
    if x.shape != y.shape:
        raise InputError(
            f"x has {x.shape[0]} rows and y {y.shape[0]}. Row i of y must be the output of the "
            "activation for row i of x."
        )
    return as_rows(x), as_rows(y)


def _numbers(index: Index, n: int) -> Tensor:
    """Return the numbers of n samples, on the host."""
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        return torch.arange(int(index), int(index) + n)
    numbers = torch.as_tensor(index).cpu()
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise InputTypeError(f"index must be whole numbers, got {numbers.dtype}.")
    if tuple(numbers.shape) != (n,):
        raise InputError(
            f"index must be one whole number, or one for each of the {n} rows, got shape "
            f"{tuple(numbers.shape)}."
        )
    return numbers.long()


def _with_rows(sums: Sums | None, rows: _Rows) -> Sums:
    """Return sums with rows added, converted to float64 a part at a time."""
    width = 2 * rows.x.shape[1]
    if sums is None:
        sums = _no_sums(rows)
    first, second = sums.first.clone(), sums.second.clone()
    count = torch.bincount(rows.groups, minlength=GROUPS).double()
    order = rows.groups.argsort(stable=True)
    for group, members in enumerate(order.split(count.long().tolist())):
        for part in members.split(max(1, CHUNK // width)):
            chosen = part.to(rows.x.device, non_blocking=True)
            z = torch.cat([rows.x[chosen], rows.y[chosen]], dim=1).double() - sums.shift
            first[group] += z.sum(dim=0)
            second[group].addmm_(z.mT, z)
    precision = max(sums.precision, torch.finfo(rows.x.dtype).eps)
    return Sums(sums.count + count, first, second, sums.shift, precision)


def _no_sums(rows: _Rows) -> Sums:
    """Return empty sums around the mean of some rows, exact for a column that is constant."""
    z = torch.cat([rows.x, rows.y], dim=1).double()
    shift = z[0] + (z - z[0]).mean(dim=0)
    first = torch.zeros(GROUPS, len(shift), dtype=torch.float64, device=z.device)
    second = first.new_zeros(GROUPS, len(shift), len(shift))
    return Sums(torch.zeros(GROUPS, dtype=torch.float64), first, second, shift, 0.0)


def _added(one: Sums, other: Sums) -> Sums:
    """Return the sum of two sums, around the shift of the first."""
    first, second, shift = (
        getattr(other, name).to(one.first.device) for name in ("first", "second", "shift")
    )
    moved, count = shift - one.shift, other.count.to(one.first.device)
    cross = first[:, :, None] * moved
    second = second + cross + cross.mT + count[:, None, None] * torch.outer(moved, moved)
    first = first + count[:, None] * moved
    precision = max(one.precision, other.precision)
    return Sums(
        one.count + other.count, one.first + first, one.second + second, one.shift, precision
    )


def merged(parts: Iterable[Moments]) -> Moments:
    """Return the moments of all samples of several accumulators."""
    total: Moments | None = None
    for part in parts:
        total = part.copy() if total is None else total.merge(part)
    if total is None:
        raise InputError("there are no moments to merge.")
    return total
