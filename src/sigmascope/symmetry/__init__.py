"""Symmetries of activation functions: intertwiner groups, their action on weights, similarity.

A matrix A belongs to the intertwiner group of σ if σ(A x) = φ(A) σ(x) for every x, with another
matrix φ(A). For ReLU these are positive scalings of the channels followed by a permutation, and
φ(A) = A. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

>>> import torch
>>> from sigmascope import symmetry
>>> relu = symmetry.group("relu")
>>> A = relu.sample(4, seed=0)
>>> x = torch.randn(4, 9, dtype=torch.float64)
>>> torch.equal(torch.relu(A @ x), relu.phi(A) @ torch.relu(x))
True
"""

from __future__ import annotations

from sigmascope.symmetry.action import move
from sigmascope.symmetry.aligning.align import align
from sigmascope.symmetry.aligning.result import Alignment
from sigmascope.symmetry.averaging import average
from sigmascope.symmetry.barriers import Barrier, barrier
from sigmascope.symmetry.channel_spaces import Spaces, spaces
from sigmascope.symmetry.cka_similarity import Kernel, cka
from sigmascope.symmetry.equivalence import Equivalence, check_equivalence
from sigmascope.symmetry.groups import Group, group
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.numeric import (
    InferredScalars,
    infer_scalars,
    is_intertwiner,
    sigma_identity_invertible,
)
from sigmascope.symmetry.plain import linear_cka, orthogonal_procrustes, relu_cka, relu_procrustes
from sigmascope.symmetry.procrustes_similarity import CrossGram, Procrustes, procrustes
from sigmascope.symmetry.rotations import (
    deviation,
    random_rotation,
    rotation_power,
    rotation_powers,
)
from sigmascope.symmetry.similarity_options import CkaOptions, ProcrustesOptions
from sigmascope.symmetry.similarity_results import CkaSimilarity, ProcrustesSimilarity
from sigmascope.symmetry.wiring.network import UnmovableError

__all__ = [
    "Alignment",
    "Barrier",
    "CkaOptions",
    "CkaSimilarity",
    "CrossGram",
    "Equivalence",
    "Group",
    "InferredScalars",
    "Kernel",
    "LayerSimilarity",
    "Monomial",
    "Procrustes",
    "ProcrustesOptions",
    "ProcrustesSimilarity",
    "Spaces",
    "UnmovableError",
    "align",
    "average",
    "barrier",
    "check_equivalence",
    "cka",
    "compare",
    "deviation",
    "group",
    "infer_scalars",
    "is_intertwiner",
    "linear_cka",
    "move",
    "orthogonal_procrustes",
    "procrustes",
    "random_rotation",
    "relu_cka",
    "relu_procrustes",
    "rotation_power",
    "rotation_powers",
    "sigma_identity_invertible",
    "spaces",
]
