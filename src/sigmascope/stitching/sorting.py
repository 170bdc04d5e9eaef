r"""SoftSort: a permutation as the order of scores, softened so that it has a gradient.

$$P = \mathrm{softmax}_{\mathrm{rows}}\left(-\tfrac{1}{\tau}\,|\mathrm{sort}(s)\,1^T -
1\,s^T|\right)$$

with the scores sorted in descending order. The absolute value is missing in the paper's formula and
is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError

__all__ = ["WEIGHINGS", "softsort", "sort_permutation"]

WEIGHINGS = ("softmax", "inverse")


def softsort(scores: Tensor, temperature: float = 1.0, weighing: str = "softmax") -> Tensor:
    """Return the softened permutation (c, c) that sorts scores in descending order; its rows sum to 1.

    Args:
        scores: (c,).
        temperature: τ, above 0; 1/c is about right for c scores between -1 and 1.
        weighing: of the distances: "softmax", or "inverse" for weights 1 / (1 + distance / τ).

    Raises:
        InputError: no vector, or τ not above 0.

    >>> softsort(torch.tensor([0.0, 1.0]), 0.01).round(decimals=4)
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_choice("weighing", weighing, WEIGHINGS)
    if scores.ndim != 1 or temperature <= 0:
        raise InputError(
            f"scores have the shape {tuple(scores.shape)}, temperature={temperature}. Pass "
            "(c,) and τ > 0."
        )
    distances = (scores.sort(descending=True).values[:, None] - scores).abs() / temperature
    if weighing == "softmax":
        return torch.softmax(-distances, dim=1)
    weights = 1 / (1 + distances)
    return weights / weights.sum(dim=1, keepdim=True)


def sort_permutation(scores: Tensor) -> Tensor:
    """Return the permutation matrix (c, c) that sorts scores in descending order; equal ones keep
    their order.
    """
    order = scores.detach().argsort(descending=True, stable=True)
    matrix = torch.zeros(len(scores), len(scores), dtype=scores.dtype, device=scores.device)
    matrix[torch.arange(len(scores), device=scores.device), order] = 1
    return matrix
