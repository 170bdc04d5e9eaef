r"""SoftSort (Prillo and Eisenschlos, ICML 2020): the order of scores as a differentiable matrix.

$$P = \mathrm{softmax}_{\mathrm{rows}}\left(-\tfrac{1}{\tau}\,|\mathrm{sort}(s)\,1^T -
1\,s^T|\right)$$

with the scores sorted in descending order. The formula in Godfrey et al., NeurIPS 2022,
arXiv:2205.14258 lacks the absolute value, which is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sigmascope.checks import check_choice, check_number
from sigmascope.choices import Weighing
from sigmascope.errors import InputError

__all__ = ["softsort", "sort_permutation"]


def softsort(scores: Tensor, temperature: float = 1.0, weighing: str = "softmax") -> Tensor:
    """Return the relaxed permutation (c, c) that sorts scores in descending order; rows sum to 1.

    Args:
        scores: (c,).
        temperature: τ > 0; about 1/c for c scores between -1 and 1.
        weighing: of the distances: "softmax", or "inverse" for weights 1 / (1 + distance / τ).

    Raises:
        InputError: not a vector.
        OptionError: τ <= 0, or an unknown weighing.

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
