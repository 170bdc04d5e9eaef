"""How far the group of ReLU carries a ray: the coordinate rays stay among themselves, every other
ray goes everywhere.
"""

from __future__ import annotations

import math

import torch

from sigmascope.errors import InputError
from sigmascope.symmetry.monomial import Values, as_vector

__all__ = ["ray_orbit_size"]


def ray_orbit_size(v: Values) -> float:
    r"""Return how many rays the group of ReLU makes of the ray $\{t\,v : t\ge 0\}$.

    A ray with one non-zero coordinate goes to such a ray of the same sign, n in all. With two such
    coordinates their ratio takes every value of its sign, so there are infinitely many. This is why
    single neurons are a natural basis for ReLU.

    Args:
        v: (n,), not zero.

    Returns:
        n, or infinity.

    Raises:
        InputError: v is zero or not finite.

    >>> ray_orbit_size([0.0, 3.0, 0.0]), ray_orbit_size([0.0, 3.0, 1.0])
    (3, inf)
    """
    vector = as_vector(v, "v")
    if not bool(vector.isfinite().all()):
        raise InputError("v is not finite. Pass a vector of finite numbers.")
    live = int(torch.count_nonzero(vector))
    if live == 0:
        raise InputError("v is zero, which spans no ray. Pass a vector with a non-zero coordinate.")
    return len(vector) if live == 1 else math.inf
