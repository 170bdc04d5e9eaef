"""Stitching: the front of one network, a small layer ψ on the channels, the back of another.

Only ψ is trained. If a family of layers holds the symmetries of the activation, and the two
networks differ by such a symmetry, a stitch without loss exists; how much accuracy is lost measures
how far apart two networks are beyond it.

`tracing` and `assembly` cut networks, `families` says what ψ may be, `settings` how it is trained,
`training` does it, and `result` is what comes out. `sweeping` does many.
"""

from __future__ import annotations

from sigmascope.stitching.assembly import StitchedNetwork, assemble
from sigmascope.stitching.birkhoff import round_permutation, sinkhorn
from sigmascope.stitching.data import StitchData, read_data
from sigmascope.stitching.families import FAMILIES, Family
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.run import CrossValidation, Task, cross_validate, stitch, stitch_many
from sigmascope.stitching.settings import PRESETS, Settings
from sigmascope.stitching.sorting import softsort
from sigmascope.stitching.sweeping import sweep
from sigmascope.stitching.tracing import CutSite, cut_sites

__all__ = [
    "FAMILIES",
    "PRESETS",
    "CrossValidation",
    "CutSite",
    "Family",
    "Settings",
    "Stitch",
    "StitchData",
    "StitchResult",
    "StitchedNetwork",
    "Task",
    "assemble",
    "cross_validate",
    "cut_sites",
    "read_data",
    "round_permutation",
    "sinkhorn",
    "softsort",
    "stitch",
    "stitch_many",
    "sweep",
]
