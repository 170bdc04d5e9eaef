"""Multidimensional scaling: points in the plane whose distances match given ones."""

from __future__ import annotations

import numpy as np

from sigmascope.checks import LARGEST_NUMPY_SEED
from sigmascope.errors import MissingExtraError
from sigmascope.maths.randomness import FixedSeed, as_number
from sigmascope.maths.warping import Curve

RANDOM_STARTS = 4
MOST_STEPS = 500
TOLERANCE = 1e-9


def scale_to_plane(matrix: Curve, seed: FixedSeed) -> tuple[Curve, float]:
    r"""Return the best of several runs of SMACOF: one from classical scaling, four random ones.

    Distances do not determine position and rotation. The points are centered and rotated to their
    principal axes, the longer one first, and on each axis the coordinate that is largest in size is
    positive.

    Args:
        matrix: (k, k), k >= 2, distances.
        seed: of the random starts.

    Returns:
        The points (k, 2), and the stress $\sqrt{\sum (d_{ij} - \delta_{ij})^2 / \sum
        \delta_{ij}^2}$: the share of the distances that the plane misses.
    """
    try:
        from sklearn.manifold import smacof
    except ImportError as error:
        raise MissingExtraError(
            "An embedding needs scikit-learn: pip install 'sigmascope[analysis]'."
        ) from error
    seed = as_number(seed, LARGEST_NUMPY_SEED)
    largest = float(matrix.max())
    if not largest:
        return np.zeros((len(matrix), 2)), 0.0
    target = matrix / largest
    # Every option is given, since their defaults changed from release to release.
    common: dict[str, float] = {"metric": True, "n_components": 2, "normalized_stress": False}
    common |= {"max_iter": MOST_STEPS, "eps": TOLERANCE}
    runs = [
        smacof(target, init=_classical(target), n_init=1, **common),
        smacof(target, init=None, n_init=RANDOM_STARTS, random_state=seed, **common),
    ]
    points = _oriented(min(runs, key=lambda run: float(run[1]))[0])
    return largest * points, _stress(points, target)


def _classical(matrix: Curve) -> Curve:
    """Return the points (k, 2) of classical scaling."""
    squares = -0.5 * matrix**2
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(centered)
    points: Curve = vectors[:, -2:] * np.sqrt(values[-2:].clip(0))
    return points


def _oriented(points: Curve) -> Curve:
    centered = points - points.mean(axis=0)
    rotated = centered @ np.linalg.svd(centered, full_matrices=False)[2].T
    # Rounded, so that of two equally large coordinates the first counts on every machine.
    largest = rotated[np.abs(rotated).round(9).argmax(axis=0), range(rotated.shape[1])]
    oriented: Curve = rotated * np.where(largest < 0, -1.0, 1.0)
    return oriented


def _stress(points: Curve, target: Curve) -> float:
    found = np.linalg.norm(points[:, None] - points, axis=2)
    return float(np.sqrt(np.square(found - target).sum() / np.square(target).sum()))
