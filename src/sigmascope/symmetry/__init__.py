"""Which symmetries an activation leaves: its intertwiner group, what the group does to weights, and
similarity up to it.

A matrix A belongs to the group of σ when σ(A x) = φ(A) σ(x) for every x, with another matrix φ(A).
For ReLU these are the positive scalings of channels followed by a permutation, and φ(A) = A:

>>> import torch
>>> from sigmascope import symmetry
>>> relu = symmetry.group("relu")
>>> A = relu.sample(4, generator=0)
>>> x = torch.randn(4, 9, dtype=torch.float64)
>>> torch.equal(torch.relu(A @ x), relu.phi(A) @ torch.relu(x))
True

The names below are looked up when they are first used, so that importing the package does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sigmascope.symmetry.action import move as move
    from sigmascope.symmetry.capacity import Capacity as Capacity, capacity_logs as capacity_logs
    from sigmascope.symmetry.equivalence import (
        Equivalence as Equivalence,
        check_equivalence as check_equivalence,
    )
    from sigmascope.symmetry.gelu import (
        gelu_asymptotic_slope as gelu_asymptotic_slope,
        gelu_xi as gelu_xi,
    )
    from sigmascope.symmetry.groups import Group as Group, group as group
    from sigmascope.symmetry.layer_similarity import LayerSimilarity as LayerSimilarity
    from sigmascope.symmetry.layers import compare as compare
    from sigmascope.symmetry.listing import Spaces as Spaces, spaces as spaces
    from sigmascope.symmetry.monomial import Monomial as Monomial
    from sigmascope.symmetry.numeric import (
        InferredScalars as InferredScalars,
        infer_scalars as infer_scalars,
        is_intertwiner as is_intertwiner,
        sigma_identity_invertible as sigma_identity_invertible,
    )
    from sigmascope.symmetry.orbits import ray_orbit_size as ray_orbit_size
    from sigmascope.symmetry.rotations import (
        deviation as deviation,
        near_identity as near_identity,
        random_rotation as random_rotation,
        rotation_power as rotation_power,
        rotation_powers as rotation_powers,
        unpermute as unpermute,
    )
    from sigmascope.symmetry.similarity import cka as cka, procrustes as procrustes
    from sigmascope.symmetry.streaming import (
        CrossGram as CrossGram,
        Kernel as Kernel,
        Procrustes as Procrustes,
    )
    from sigmascope.symmetry.wiring.network import UnmovableError as UnmovableError

_HOME = {
    "Capacity": "capacity",
    "CrossGram": "streaming",
    "Equivalence": "equivalence",
    "Group": "groups",
    "InferredScalars": "numeric",
    "Kernel": "streaming",
    "LayerSimilarity": "layer_similarity",
    "Monomial": "monomial",
    "Procrustes": "streaming",
    "Spaces": "listing",
    "UnmovableError": "wiring.network",
    "capacity_logs": "capacity",
    "check_equivalence": "equivalence",
    "cka": "similarity",
    "compare": "layers",
    "deviation": "rotations",
    "gelu_asymptotic_slope": "gelu",
    "gelu_xi": "gelu",
    "group": "groups",
    "infer_scalars": "numeric",
    "is_intertwiner": "numeric",
    "move": "action",
    "near_identity": "rotations",
    "procrustes": "similarity",
    "random_rotation": "rotations",
    "ray_orbit_size": "orbits",
    "rotation_power": "rotations",
    "rotation_powers": "rotations",
    "sigma_identity_invertible": "numeric",
    "spaces": "listing",
    "unpermute": "rotations",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(
            f"module 'sigmascope.symmetry' has no attribute {name!r}. It offers: "
            f"{', '.join(_HOME)}."
        )
    value: object = getattr(importlib.import_module(f"sigmascope.symmetry.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
