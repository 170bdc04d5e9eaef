r"""Permutations by way of the Birkhoff polytope: the matrices $P \ge 0$ whose rows and columns sum
to 1.

A permutation is trained as such a matrix. After every step it is brought back to the polytope by
Sinkhorn's iterations; a term $-\alpha\|P\|_F$ draws it to the corners, which are the permutations
and have the largest norm, $\sqrt{c}$; and at the end it is rounded to the corner that is nearest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError

__all__ = [
    "REGULARISERS",
    "ROUNDINGS",
    "norm_term",
    "project",
    "projected_gradient",
    "round_permutation",
    "sinkhorn",
    "sums_term",
]

ITERATIONS = 16
"""Of Sinkhorn after every step, as published."""
# How the norm is weighed for c channels.
REGULARISERS: dict[str, Callable[[int], float]] = {
    "norm": lambda c: 1.0,
    "rms": lambda c: c**-0.5,
    "scaled": float,
}
ROUNDINGS = ("hungarian", "monotone")


def sinkhorn(matrix: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Divide rows by their sums, then columns by theirs, again and again; a sum of 0 counts as 1.

    Columns of the result sum to 1; rows do so in the limit, if no row or column is zero.

    Args:
        matrix: (c, c), not negative; it is not changed.
        iterations: how often, at least 0.

    Raises:
        InputError: not a square matrix of finite numbers ≥ 0.

    >>> sinkhorn(torch.tensor([[1.0, 3.0], [1.0, 1.0]]), 50).sum(dim=1).round(decimals=4)
    tensor([1., 1.])
    """
    if (
        matrix.ndim != 2
        or matrix.shape[0] != matrix.shape[1]
        or not bool((matrix >= 0).all() & matrix.isfinite().all())
    ):
        raise InputError(
            f"matrix has the shape {tuple(matrix.shape)}. Pass a square matrix of finite "
            "numbers that are ≥ 0."
        )
    if iterations < 0:
        raise InputError(f"iterations={iterations}. Pass a whole number ≥ 0.")
    return _balanced(matrix, iterations)


def _balanced(matrix: Tensor, iterations: int) -> Tensor:
    matrix = matrix.clone()
    for _ in range(iterations):
        for axis in (1, 0):
            sums = matrix.sum(dim=axis, keepdim=True)
            matrix = matrix / sums.masked_fill(sums == 0, 1)
    return matrix


def project(matrix: Tensor) -> Tensor:
    """Bring a matrix (c, c) to the polytope: negative entries to 0, then Sinkhorn.

    A row or column without a positive entry would stay zero for ever while the others sum to more
    than 1, so it begins again with 1/c everywhere. No decision waits for the numbers, so that a GPU
    can be told all of it in advance.
    """
    matrix = matrix.clamp_min(0)
    dead = (matrix.sum(dim=1, keepdim=True) == 0) | (matrix.sum(dim=0, keepdim=True) == 0)
    return _balanced(matrix.masked_fill(dead, 1 / len(matrix)), ITERATIONS)


def projected_gradient(
    value: Tensor, gradient: Tensor, *, doubly_stochastic: bool, step: float = 1e-3
) -> Tensor:
    """Return the direction in which a projected step would go, with the length of the gradient.

    Args:
        value: a matrix of the polytope, or scales ≥ 0.
        gradient: of the same shape.
        doubly_stochastic: whether it is the former.
        step: the length of the trial step.
    """
    trial = (value - step * gradient).clamp_min(0)
    direction = (value - (_balanced(trial, ITERATIONS) if doubly_stochastic else trial)) / step
    scaled: Tensor = direction * (
        torch.linalg.vector_norm(gradient) / (step + torch.linalg.vector_norm(direction))
    )
    return scaled


def norm_term(matrix: Tensor, alpha: float, weighing: str = "norm") -> Tensor:
    r"""Return $-\alpha \|P\|_F$, times $c^{-1/2}$ (weighing "rms") or $c$ ("scaled")."""
    check_choice("regulariser", weighing, REGULARISERS)
    term: Tensor = torch.linalg.vector_norm(matrix) * (-alpha * REGULARISERS[weighing](len(matrix)))
    return term


def sums_term(matrix: Tensor, beta: float) -> Tensor:
    r"""Return $\beta(\|1^T P - 1^T\| + \|P 1 - 1\|)/\sqrt{c}$, which keeps near the polytope where
    nothing projects.
    """
    lengths = [torch.linalg.vector_norm(matrix.sum(dim=axis) - 1) for axis in (0, 1)]
    term: Tensor = (lengths[0] + lengths[1]) * (beta / len(matrix) ** 0.5)
    return term


def round_permutation(
    matrix: Tensor, method: str = "hungarian", *, weights: Tensor | None = None
) -> Tensor:
    r"""Return the permutation matrix nearest to a matrix.

    Args:
        matrix: (c, c), finite.
        method: "hungarian": $\arg\max_Q \mathrm{tr}(P Q^T)$, solved in float64 on the CPU.
            "monotone": the order into which P brings rising `weights`.
        weights: (c,), rising; for "monotone" only.

    Returns:
        (c, c) of zeros and ones, like the matrix.

    Raises:
        InputError: not a square matrix of finite numbers.

    >>> round_permutation(torch.tensor([[0.4, 0.6], [0.6, 0.4]]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_choice("method", method, ROUNDINGS)
    values = matrix.detach().double().cpu()
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not bool(values.isfinite().all()):
        raise InputError(
            f"matrix has the shape {tuple(matrix.shape)} or numbers that are not finite. "
            "Pass a square one."
        )
    rounded = torch.zeros_like(values)
    if method == "hungarian":
        rows, columns = linear_sum_assignment(values.numpy(), maximize=True)
        rounded[torch.from_numpy(np.asarray(rows)), torch.from_numpy(np.asarray(columns))] = 1
    else:
        if weights is None:
            raise InputError("weights is missing. Pass a rising vector (c,) for method='monotone'.")
        rounded[
            (values @ weights.double().cpu()).argsort(stable=True), torch.arange(len(values))
        ] = 1
    return rounded.to(matrix)
