"""Nine measures of how similar two representations are: ours, and plain forms of their rivals.

A measure takes two arrays (n, channels) for the same inputs and returns a number, larger for
representations that are more alike, as the registries of similarity benchmarks expect. Those of
the library are its plain functions as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata

from sigmascope import symmetry

Array = np.ndarray
Measure = Callable[[Array, Array], float]
EXPLAINED = 0.99  # of the variance, that SVCCA keeps


def rsa(x: Array, y: Array) -> float:
    """Return Spearman's correlation of the correlation distances between all two inputs.

    Kriegeskorte et al. 2008, representational similarity analysis. NaN if the channels of an input
    are all equal.
    """
    ranks = [rankdata(pdist(np.asarray(side, float), "correlation")) for side in (x, y)]
    if any(np.isnan(one).any() for one in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def rbf_cka(x: Array, y: Array) -> float:
    """Return CKA with a Gaussian kernel as wide as the median distance; biased HSIC.

    Kornblith et al. 2019, arXiv:1905.00414.
    """
    first, second = (_gaussian(np.asarray(side, float)) for side in (x, y))
    norms = np.linalg.norm(first) * np.linalg.norm(second)
    return float((first * second).sum() / norms)


def _gaussian(x: Array) -> Array:
    """Return the kernel, centered by rows and columns."""
    squared = pdist(x, "sqeuclidean")
    kernel = np.exp(-squareform(squared) / (2 * np.median(squared)))
    return kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean()


def _directions(x: Array, explained: float = 1.0) -> tuple[Array, Array]:
    """Return x, centered, and an orthonormal basis of its principal directions over samples."""
    x = np.asarray(x, float)
    x = x - x.mean(axis=0)
    basis, sizes, _ = np.linalg.svd(x, full_matrices=False)
    kept = sizes > sizes[0] * max(x.shape) * np.finfo(float).eps
    if explained < 1:
        shares = np.cumsum(sizes**2) / (sizes**2).sum()
        kept &= np.arange(len(sizes)) <= np.searchsorted(shares, explained)
    return x, basis[:, kept]


def cca(x: Array, y: Array) -> float:
    """Return the mean canonical correlation."""
    return float(_correlations(_directions(x)[1], _directions(y)[1])[1].mean())


def svcca(x: Array, y: Array) -> float:
    """Return the mean canonical correlation of the directions with 99 % of the variance.

    Raghu et al. 2017, arXiv:1706.05806.
    """
    sides = (_directions(side, EXPLAINED)[1] for side in (x, y))
    return float(_correlations(*sides)[1].mean())


def pwcca(x: Array, y: Array) -> float:
    """Return the canonical correlations, weighted by how much of the channels they are.

    The mean of both directions, as it is not symmetric. Morcos et al. 2018, arXiv:1806.05759.
    """
    (x, of_x), (y, of_y) = _directions(x), _directions(y)
    return (_weighted(x, of_x, of_y) + _weighted(y, of_y, of_x)) / 2


def _weighted(x: Array, of_x: Array, of_y: Array) -> float:
    variates, correlations = _correlations(of_x, of_y)
    weights = np.abs(variates.T @ x).sum(axis=1)
    return float(weights @ correlations / weights.sum())


def _correlations(of_x: Array, of_y: Array) -> tuple[Array, Array]:
    """Return the canonical variates of x and the canonical correlations, as many as both have."""
    turned, found, _ = np.linalg.svd(of_x.T @ of_y, full_matrices=False)
    return of_x @ turned, np.clip(found, 0.0, 1.0)


MEASURES: dict[str, Measure] = {
    "G-Procrustes": symmetry.relu_procrustes,
    "G-CKA": symmetry.relu_cka,
    "orthogonal Procrustes": symmetry.orthogonal_procrustes,
    "linear CKA": symmetry.linear_cka,
    "RBF CKA": rbf_cka,
    "RSA": rsa,
    "mean CCA": cca,
    "SVCCA": svcca,
    "PWCCA": pwcca,
}
