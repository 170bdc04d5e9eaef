"""Capacities of the group of ReLU and of low-rank matrices, counted on a grid."""

from __future__ import annotations

import math
from typing import NamedTuple

from sigmascope.checks import check_whole
from sigmascope.errors import InputError


class Capacity(NamedTuple):
    """Log-counts of the group of ReLU and of matrices of rank r; the first minus the second."""

    log_group: float
    log_matrices: float
    difference: float


def capacity_logs(n: int, r: int, M: float, eps: float) -> Capacity:
    r"""Return the log-counts of the group of ReLU and of the n × n matrices of rank r on a grid.

    Each real dimension is a grid of spacing ε on [-M, M), and scales are positive:
    $\log|G| \approx \log n! + n\log\frac{M}{\varepsilon}$ and
    $\log|\text{rank } r| \approx (2nr-r^2)\log\frac{2M}{\varepsilon}$
    (Godfrey et al., NeurIPS 2022, arXiv:2205.14258, Appendix E.7).

    >>> print(f"{capacity_logs(64, 1, M=1, eps=1e-7).difference:.1f}")
    -898.3
    """
    if check_whole("r", r, 1) > check_whole("n", n, 1):
        raise InputError(f"r must be at most n={n}, the number of channels, got {r}.")
    if not 0 < eps <= M < math.inf:
        raise InputError(f"expected a grid with 0 < eps ≤ M < inf, got eps={eps!r} and M={M!r}.")
    log_group = math.lgamma(n + 1) + n * math.log(M / eps)
    log_matrices = (2 * n * r - r * r) * math.log(2 * M / eps)
    return Capacity(log_group, log_matrices, log_group - log_matrices)
