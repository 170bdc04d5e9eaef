"""Orbits of rays under the group of ReLU."""

from __future__ import annotations

import math

import torch

from sigmascope.errors import InputError
from sigmascope.symmetry.monomial import Values, as_vector


def ray_orbit_size(v: Values) -> float:
    r"""Return how many rays the group of ReLU makes of the ray $\{t\,v : t\ge 0\}$.

    A ray with one non-zero coordinate goes to such a ray of the same sign, n in all. With two such
    coordinates their ratio takes every value of its sign, so there are infinitely many. This is why
    single neurons are a natural basis for ReLU (Godfrey et al., NeurIPS 2022, arXiv:2205.14258).

    >>> ray_orbit_size([0.0, 3.0, 0.0]), ray_orbit_size([0.0, 3.0, 1.0])
    (3, inf)
    """
    vector = as_vector(v, "v")
    live = int(torch.count_nonzero(vector))
    if live == 0 or not bool(vector.isfinite().all()):
        what = "zero, which spans no ray" if live == 0 else "not finite"
        raise InputError(f"v is {what}. Pass finite numbers, one of them not zero.")
    return len(vector) if live == 1 else math.inf
