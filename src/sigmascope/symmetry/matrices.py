"""Dense matrices beside monomial ones: checked on the way in, factored, drawn, and returned as they
came.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array, as_matrix
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import sample_scales

__all__ = [
    "Element",
    "as_square",
    "check_size",
    "factor_monomial",
    "is_invertible",
    "like",
    "sample_dense",
]

Element = TypeVar("Element", Monomial, Tensor, np.ndarray[Any, Any])


def as_square(A: Monomial | Array, name: str = "A") -> Tensor:
    """Return a matrix (n, n) in float64.

    Raises:
        InputError: not square, or not finite.
        InputTypeError: not an array of numbers.
    """
    if isinstance(A, Monomial):
        return A.matrix()
    if isinstance(A, Tensor) and not (A.is_floating_point() or A.is_complex()):
        A = A.to(torch.float64)
    elif isinstance(A, np.ndarray) and A.dtype.kind in "biu":
        A = A.astype(np.float64)
    shape = tuple(getattr(A, "shape", ()))
    if isinstance(A, (Tensor, np.ndarray)) and (len(shape) != 2 or shape[0] != shape[1]):
        raise InputError(
            f"{name} has the shape {shape}. Pass a square matrix (n, n) that acts on columns "
            "of n channels."
        )
    return as_matrix(A, name, rows=1)


def like(matrix: Tensor, given: Array) -> Any:
    """Return a matrix of the kind, floating dtype and device of the given one."""
    if isinstance(given, np.ndarray):
        return (
            matrix.detach()
            .cpu()
            .numpy()
            .astype(given.dtype if given.dtype.kind == "f" else np.float64)
        )
    return matrix.to(given.device, given.dtype if given.is_floating_point() else torch.float64)


def factor_monomial(matrix: Tensor, tol: float) -> Monomial | str:
    """Write a matrix as a scaling followed by a permutation, or say why it is not one.

    An entry counts as zero when it is at most `tol` times the largest one of its row, or of its
    column: the measure is relative, so that tiny and huge scales may stand side by side.

    Args:
        matrix: (n, n), float64.
        tol: ≥ 0.
    """
    if not 0 <= tol < 1:
        raise InputError(f"tol={tol!r} must lie between 0 and 1.")
    size = matrix.detach().abs().cpu()
    for axis, line in ((1, "row"), (0, "column")):
        count = (size > tol * size.amax(dim=axis, keepdim=True)).sum(dim=axis)
        wrong = (count != 1).nonzero()
        if len(wrong):
            place = int(wrong[0])
            return f"{line} {place} has {int(count[place])} non-zero entries instead of one"
    order = size.argmax(dim=1)
    if not torch.equal(order[size.argmax(dim=0)], torch.arange(len(order))):
        return "the largest entries of its rows are not those of its columns"
    scales = torch.empty(len(order), dtype=torch.float64)
    scales[order] = matrix.detach().cpu()[torch.arange(len(order)), order]
    return Monomial(order, scales)


def is_invertible(matrix: Tensor, tol: float) -> bool:
    """Tell whether a matrix is well conditioned once every row is divided by its largest entry.

    A scale of a channel, however small, is no obstacle: that is what the division is for.

    Args:
        matrix: (n, n).
        tol: the smallest singular value must exceed so many times the largest.
    """
    peak = matrix.abs().amax(dim=1, keepdim=True)
    if not bool(((peak > 0) & peak.isfinite()).all()):
        return False
    values = torch.linalg.svdvals(matrix / peak)
    return bool(values[-1] > tol * values[0])


def sample_dense(n: int, generator: torch.Generator | None, log_std: float) -> Tensor:
    """Draw a rotation, a scaling with the law of `sample_scales`, and a rotation again, multiplied:
    (n, n), float64.
    """
    turns = []
    for _ in range(2):
        Q, R = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
        turns.append(Q * R.diagonal().sign())  # the signs make the law uniform
    matrix: Tensor = turns[0] * sample_scales(n, generator, log_std) @ turns[1]
    return matrix


def check_size(n: int) -> int:
    """Return a number of channels.

    Raises:
        InputTypeError: not a whole number.
        InputError: below 1.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise InputTypeError(f"n={n!r:.80} is no number of channels. Pass a whole number ≥ 1.")
    if n < 1:
        raise InputError(f"n={n}: there is no element on so few channels. Pass a whole number ≥ 1.")
    return int(n)
