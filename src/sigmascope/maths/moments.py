"""Sums over pairs of samples that merge, and the population score they determine."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.maths.grouped_sums import (
    GROUPS,
    SINGLE,
    Index,
    Rows,
    Sums,
    added,
    checked_rows,
    forms_of,
    groups_of,
    with_rows,
)
from sigmascope.maths.kept_rows import BESIDE, KeptRows, is_large
from sigmascope.maths.memory import LITTLE, lacks_memory
from sigmascope.maths.population import SHARED, SHARED_CELLS, PopulationScore
from sigmascope.maths.samples import Array, check_eps, rounding_of
from sigmascope.maths.scoring import score_all
from sigmascope.store import read_features, write_features

NAMES = ("count", "first", "second", "shift")  # of the tensors of `Sums`


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
        self._rows = KeptRows()
        self._sums: Sums | None = None
        self._shared = False  # whether somebody else may hold these sums
        self._count = np.zeros(GROUPS, dtype=np.int64)
        self._dim = 0
        self._next = 0
        self._precision = 0.0  # see `Sums`
        self._seen = 0  # bytes of rows when memory was last looked at
        self._reason = ""  # why nothing more is kept

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
                any floating type, on any device.
            y: (n, d), its output, row by row.
            index: the numbers of the samples in the data set, which decide their groups: (n,) whole
                numbers; or that of the first row, which the others follow; by default a running
                count. Rows that depend on each other, such as the positions of an image, need the
                same number. Workers that share a data set must number their samples alike.

        Raises:
            InputError: not two matrices of one shape, or of another width than before.
            InputTypeError: not real floating point, of different kinds or on different devices.
        """
        rows_x, rows_y = checked_rows(x, y)
        rounding = max(rounding_of(x.dtype), rounding_of(y.dtype))
        self.take(rows_x, rows_y, index, rounding=rounding)

    def take(self, x: Tensor, y: Tensor, index: Index | None = None, *, rounding: float) -> None:
        """Add pairs as `update` does; the tensors are kept, so that nobody may change them later.

        They are of float32 or float64, and of one shape. `rounding` is the range of a constant
        column, see `rounding_of`.
        """
        n, d = x.shape
        if self._dim not in (0, d):
            raise InputError(f"x has {d} columns, and the samples so far have {self._dim}.")
        groups, count = groups_of(self._next if index is None else index, n)
        if index is None:
            self._next += n
        self._dim = d
        self._count += count
        # the standard deviation of values in a range is at most half of it
        self._precision = max(self._precision, rounding / 2)
        if not self._reason:
            self._rows.add(Rows(x, y, groups))
            self._fold_if_large()
            self._make_room()

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
        self._rows.add_all(other._rows)
        if other._sums is not None:
            other._shared = True
            self._hold(other._sums)
        self._count = self._count + other._count
        self._dim = self._dim or other._dim
        self._next += other._next
        self._precision = max(self._precision, other._precision)
        self._reason = self._reason or other._reason
        self._fold_if_large()
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
        tensors, parts = self._rows.tensors()
        if self._sums is not None:
            self._shared = True
            tensors |= {f"sums.{name}": getattr(self._sums, name) for name in NAMES}
        info: dict[str, object] = {
            "eps": self.eps,
            "next": self._next,
            "parts": parts,
            "sums": self._sums is not None,
            "precision": self._precision,
            "reason": self._reason,
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
            if info["sums"]:
                count, first, second, shift = (tensors[f"sums.{name}"] for name in NAMES)
                moments._take(Sums(count, first, second, shift))
            moments._precision = float(info["precision"])
            moments._next = int(info["next"])
            moments._reason = str(info["reason"])
        except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
            raise FileFormatError(
                f"{source} holds no moments: {error}. Write it again with Moments.save."
            ) from error
        return moments

    @property
    def is_summed(self) -> bool:
        """Whether some samples are known by their sums only."""
        return self._sums is not None

    @property
    def kept(self) -> tuple[list[Rows], int]:
        """The rows that are kept as they are, and their bytes."""
        return self._rows.parts, self._rows.bytes

    @property
    def rounding(self) -> float:
        """The largest range of a constant column so far, see `take`."""
        return 2 * self._precision

    @property
    def reason(self) -> str:
        """Why nothing more is kept; empty as a rule."""
        return self._reason

    def summed(self) -> Sums | None:
        """Turn all rows into sums, and return these; None before the first sample."""
        self._fold()
        self._shared = True
        return self._sums

    def add_sums(self, sums: Sums, *, rounding: float) -> None:
        """Add what `summed` returned elsewhere."""
        self._take(sums)
        self._precision = max(self._precision, rounding / 2)

    def _take(self, sums: Sums) -> None:
        """Add sums that were read from a file."""
        shapes = tuple(sums.first.shape), tuple(sums.second.shape), tuple(sums.shift.shape)
        width = 2 * sums.dim
        if shapes != ((GROUPS, width), (GROUPS, width, width), (width,)) or not sums.dim:
            raise ValueError(f"sums of the shapes {shapes}")
        self._hold(sums)
        self._count += sums.count.numpy().astype(np.int64)
        self._dim = self._dim or sums.dim

    def _hold(self, sums: Sums) -> None:
        """Add sums that somebody else holds."""
        known = self._sums
        self._sums, self._shared = (sums, True) if known is None else (added(known, sums), False)

    def _device(self) -> torch.device:
        first = self._sums.first if self._sums is not None else self._rows.parts[0].x
        return first.device

    def _fold_if_large(self) -> None:
        """Make sums of all rows where these take more memory."""
        beside = self._sums is not None and self._sums.first.is_cpu
        if is_large(self._rows.bytes, self._dim, share=BESIDE if beside else 1):
            self._fold()

    def _make_room(self) -> None:
        """Move rows to the host where an accelerator has no room for more; drop all if it has none.

        Only wide layers keep so many rows that it is asked.
        """
        kept = self._rows.bytes
        if not self._rows or kept < self._seen + LITTLE:
            return
        self._seen = kept
        newest = self._rows.parts[-1].x.device  # earlier ones may be on the host already
        if newest.type != "cpu" and lacks_memory(newest, kept):
            self._rows = self._rows.to_host()
        if self._device().type == "cpu" and lacks_memory(self._device(), 2 * LITTLE):
            self._reason = (
                f"{self.n} samples of {self._dim} channels take {kept / 2**30:.1f} GiB, and "
                "no memory is free for more: measure fewer samples, or pool to fewer channels"
            )
            self._rows = KeptRows()

    def _fold(self) -> None:
        """Make sums of all rows."""
        if not self._rows:
            return
        # sums that were made in inference mode could not be added to in another one
        with torch.inference_mode(False), torch.no_grad():
            self._sums = with_rows(
                self._sums, self._rows.parts, torch.arange(GROUPS), in_place=not self._shared
            )
        self._rows, self._shared = KeptRows(), False

    def _folded(self) -> Sums:
        """Return the sums of everything; rows that are kept stay.

        Of a very wide layer whose rows are all kept, groups share matrices of products, which would
        be the larger part of the memory.
        """
        cells = SHARED_CELLS if self._sums is None and self._dim > SHARED else SINGLE
        cell_of = torch.empty(GROUPS, dtype=torch.long)
        for number, cell in enumerate(cells):
            cell_of[list(cell)] = number
        sums = self._sums
        if sums is None or self._rows:
            sums = with_rows(sums, self._rows.parts, cell_of)
        self._shared = self._shared or sums is self._sums
        sums = replace(sums, precision=self._precision)
        if cells is SINGLE:
            return sums
        return replace(
            sums, cells=cells, forms=functools.partial(forms_of, self._rows.parts, sums.shift)
        )
