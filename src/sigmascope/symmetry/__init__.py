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
"""

from __future__ import annotations

from sigmascope.symmetry.action import move
from sigmascope.symmetry.equivalence import Equivalence, check_equivalence
from sigmascope.symmetry.groups import Group, group
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from sigmascope.symmetry.listing import Spaces, spaces
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.numeric import (
    InferredScalars,
    infer_scalars,
    is_intertwiner,
    sigma_identity_invertible,
)
from sigmascope.symmetry.rotations import (
    deviation,
    near_identity,
    random_rotation,
    rotation_power,
    rotation_powers,
    unpermute,
)
from sigmascope.symmetry.similarity import cka, procrustes
from sigmascope.symmetry.streaming import CrossGram, Kernel, Procrustes
from sigmascope.symmetry.wiring.network import UnmovableError

__all__ = [
    "CrossGram",
    "Equivalence",
    "Group",
    "InferredScalars",
    "Kernel",
    "LayerSimilarity",
    "Monomial",
    "Procrustes",
    "Spaces",
    "UnmovableError",
    "check_equivalence",
    "cka",
    "compare",
    "deviation",
    "group",
    "infer_scalars",
    "is_intertwiner",
    "move",
    "near_identity",
    "procrustes",
    "random_rotation",
    "rotation_power",
    "rotation_powers",
    "sigma_identity_invertible",
    "spaces",
    "unpermute",
]
