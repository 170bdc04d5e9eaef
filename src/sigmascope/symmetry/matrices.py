"""Dense matrices as elements of a group: checked, factored, sampled."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_number
from sigmascope.errors import InputError
from sigmascope.maths.samples import Array, as_matrix
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import sample_scales

Element = TypeVar("Element", Monomial, Tensor, np.ndarray[Any, Any])


def as_square(A: Monomial | Array, name: str = "A") -> Tensor:
    """Return a square matrix (n, n) of finite numbers in float64."""
    if isinstance(A, Monomial):
        return A.matrix()
    if isinstance(A, Tensor) and not (A.is_floating_point() or A.is_complex()):
        A = A.to(torch.float64)
    elif isinstance(A, np.ndarray) and A.dtype.kind in "biu":
        A = A.astype(np.float64)
    shape = tuple(getattr(A, "shape", ()))
    if isinstance(A, (Tensor, np.ndarray)) and (len(shape) != 2 or shape[0] != shape[1]):
        raise InputError(
            f"{name} has shape {shape}. Pass a square matrix (n, n) that acts on columns."
        )
    return as_matrix(A, name, rows=1)


def like(matrix: Tensor, given: Array) -> Any:
    """Return a matrix of the kind, floating dtype and device of the given one."""
    if isinstance(given, np.ndarray):
        dtype = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)
        return matrix.detach().cpu().numpy().astype(dtype)
    return matrix.to(given.device, given.dtype if given.is_floating_point() else torch.float64)


def factor_monomial(matrix: Tensor, tol: float) -> Monomial | str:
    """Return a matrix as a scaling followed by a permutation, or the reason why it is not one.

    An entry counts as zero if it is at most `tol` times the largest one of its row, or of its
    column: relative, so that tiny and huge scales may occur side by side.

    Args:
        matrix: (n, n), float64.
        tol: 0 <= tol < 1.
    """
    check_number("tol", tol, below=1)
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
    """Return whether (n, n) is well conditioned after dividing rows by their largest entry.

    The smallest singular value must exceed `tol` times the largest. A scale of a channel, however
    small, does no harm: that is what the division is for.
    """
    peak = matrix.abs().amax(dim=1, keepdim=True)
    if not bool(((peak > 0) & peak.isfinite()).all()):
        return False
    values = torch.linalg.svdvals(matrix / peak)
    return bool(values[-1] > tol * values[0])


def sample_dense(n: int, generator: torch.Generator | None, log_std: float) -> Tensor:
    """Return a random (n, n) matrix: a rotation times scales (`sample_scales`) times a rotation."""
    turns = []
    for _ in range(2):
        Q, R = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
        turns.append(Q * R.diagonal().sign())  # the signs make it uniform
    matrix: Tensor = turns[0] * sample_scales(n, generator, log_std) @ turns[1]
    return matrix
