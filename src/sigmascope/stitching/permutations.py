r"""Permutations that can be trained (Godfrey et al., NeurIPS 2022, arXiv:2205.14258).

In the Birkhoff polytope, the matrices $P \ge 0$ whose rows and columns sum to 1: Sinkhorn
iterations bring P back to it after every step. A term $-\alpha\|P\|_F$ pulls it toward the corners,
which are the permutations and have the largest norm, $\sqrt{c}$. In the end it is rounded to one.

By SoftSort (Prillo and Eisenschlos, ICML 2020), as the order of scores s, sorted descending:
$$P = \mathrm{softmax}_{\mathrm{rows}}\left(-\tfrac{1}{\tau}\,|\mathrm{sort}(s)\,1^T -
1\,s^T|\right)$$
The formula in Godfrey et al. lacks the absolute value, which is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from sigmascope.checks import check_choice, check_number, check_whole
from sigmascope.choices import Rounding, Weighing
from sigmascope.errors import InputError

ITERATIONS = 16
"""Sinkhorn iterations after every step, as published."""
REGULARIZERS: dict[str, Callable[[int], float]] = {
    "norm": lambda c: 1.0,
    "rms": lambda c: c**-0.5,
    "scaled": float,
}
"""Name -> factor of the norm for c channels; the names are `choices.Regularizer`."""


def sinkhorn(matrix: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Return a matrix after dividing rows, then columns, by their sums; a sum of 0 counts as 1.

    Columns of the result sum to 1; rows do in the limit, if no row or column is zero.

    >>> sinkhorn(torch.tensor([[1.0, 3.0], [1.0, 1.0]]), 50).sum(dim=1).round(decimals=4)
    tensor([1., 1.])
    """
    _check_square(matrix)
    if not bool((matrix >= 0).all()):
        raise InputError("matrix must not have negative entries. Clamp it first: matrix.clamp(0).")
    return _balanced(matrix, check_whole("iterations", iterations))


def _check_square(matrix: Tensor) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"matrix must be square (c, c), got the shape {tuple(matrix.shape)}.")
    if not bool(matrix.isfinite().all()):
        raise InputError("matrix has entries that are not finite. Pass finite numbers.")


def _balanced(matrix: Tensor, iterations: int) -> Tensor:
    matrix = matrix.clone()
    for _ in range(iterations):
        for axis in (1, 0):
            sums = matrix.sum(dim=axis, keepdim=True)
            matrix = matrix / sums.masked_fill(sums == 0, 1)
    return matrix


def project(matrix: Tensor) -> Tensor:
    """Return a matrix (c, c) brought to the polytope: negative entries to 0, then Sinkhorn.

    A row or column without a positive entry would stay zero forever while the others sum to more
    than 1, so it restarts at 1/c everywhere. Nothing branches on the values, so that a GPU can
    capture all of it.
    """
    matrix = matrix.clamp_min(0)
    dead = (matrix.sum(dim=1, keepdim=True) == 0) | (matrix.sum(dim=0, keepdim=True) == 0)
    return _balanced(matrix.masked_fill(dead, 1 / len(matrix)), ITERATIONS)


def projected_gradient(
    value: Tensor, gradient: Tensor, *, doubly_stochastic: bool, step: float = 1e-3
) -> Tensor:
    """Return the direction of a projected step, with the length of the gradient.

    The value is a matrix of the polytope (`doubly_stochastic`), or scales >= 0.
    """
    trial = (value - step * gradient).clamp_min(0)
    direction = (value - (_balanced(trial, ITERATIONS) if doubly_stochastic else trial)) / step
    length = torch.linalg.vector_norm
    scaled: Tensor = direction * (length(gradient) / (step + length(direction)))
    return scaled


def norm_term(matrix: Tensor, alpha: float, regularizer: str = "norm") -> Tensor:
    r"""Return $-\alpha \|P\|_F$, times $c^{-1/2}$ (regularizer "rms") or $c$ ("scaled")."""
    factor = REGULARIZERS[check_choice("regularizer", regularizer, REGULARIZERS)](len(matrix))
    term: Tensor = torch.linalg.vector_norm(matrix) * (-alpha * factor)
    return term


def sums_term(matrix: Tensor, beta: float) -> Tensor:
    r"""Return $\beta(\|1^T P - 1^T\| + \|P 1 - 1\|)/\sqrt{c}$, which replaces the projection."""
    lengths = [torch.linalg.vector_norm(matrix.sum(dim=axis) - 1) for axis in (0, 1)]
    term: Tensor = (lengths[0] + lengths[1]) * (beta / len(matrix) ** 0.5)
    return term


def round_permutation(
    matrix: Tensor, method: str = "hungarian", *, weights: Tensor | None = None
) -> Tensor:
    r"""Return the permutation matrix to which a matrix is rounded.

    Args:
        matrix: (c, c), finite.
        method: "hungarian": $\arg\max_Q \mathrm{tr}(P Q^T)$, solved in float64 on the CPU;
            "monotone": the order into which P brings increasing `weights`.
        weights: (c,), increasing; for "monotone" only.

    >>> round_permutation(torch.tensor([[0.4, 0.6], [0.6, 0.4]]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_choice("method", method, Rounding)
    values = matrix.detach().double().cpu()
    _check_square(values)
    rounded = torch.zeros_like(values)
    if method == "hungarian":
        rows, columns = linear_sum_assignment(values.numpy(), maximize=True)
        rounded[torch.from_numpy(np.asarray(rows)), torch.from_numpy(np.asarray(columns))] = 1
    elif weights is None:
        raise InputError("method='monotone' needs weights. Pass an increasing vector (c,).")
    else:
        order = (values @ weights.double().cpu()).argsort(stable=True)
        rounded[order, torch.arange(len(values))] = 1
    return rounded.to(matrix)


def softsort(scores: Tensor, temperature: float = 1.0, weighing: str = "softmax") -> Tensor:
    """Return the relaxed permutation (c, c) that sorts scores in descending order; rows sum to 1.

    Args:
        scores: (c,).
        temperature: τ > 0; about 1/c for c scores between -1 and 1.
        weighing: of the distances: "softmax", or "inverse" for weights 1 / (1 + distance / τ).

    >>> softsort(torch.tensor([0.0, 1.0]), 0.01).round(decimals=4)
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_choice("weighing", weighing, Weighing)
    check_number("temperature", temperature, strict=True)
    if scores.ndim != 1:
        raise InputError(f"scores must be a vector (c,), got the shape {tuple(scores.shape)}.")
    distances = (scores.sort(descending=True).values[:, None] - scores).abs() / temperature
    if weighing == "softmax":
        return torch.softmax(-distances, dim=1)
    weights = 1 / (1 + distances)
    return weights / weights.sum(dim=1, keepdim=True)


def sort_permutation(scores: Tensor) -> Tensor:
    """Return the permutation matrix (c, c) that sorts scores in descending order, stably."""
    order = scores.detach().argsort(descending=True, stable=True)
    matrix = torch.zeros(len(scores), len(scores), dtype=scores.dtype, device=scores.device)
    matrix[torch.arange(len(scores), device=scores.device), order] = 1
    return matrix
