"""Stitching: the front of one network, a small layer ψ on the channels, the back of another.

Only ψ is trained. If a family of layers contains the symmetries of the activation and two networks
differ by such a symmetry, some stitch costs no accuracy; the accuracy lost measures how else the
networks differ (Godfrey et al., NeurIPS 2022, arXiv:2205.14258).

`tracing` and `assembly` cut networks, `families` says what ψ may be and `settings` how it is
trained; `stitcher` runs it: `setup`, then the epochs of `loop` over one `trainer` per stitch, then
`result`.
"""

from __future__ import annotations

from sigmascope.stitching.assembly import StitchedNetwork, assemble
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.result import CrossValidation, StitchResult
from sigmascope.stitching.settings import PRESETS, Settings, StitchOptions, settings_for
from sigmascope.stitching.setup import Task
from sigmascope.stitching.stitcher import ALPHAS, Stitcher
from sigmascope.stitching.stitching import cross_validate, stitch, stitch_many
from sigmascope.stitching.tracing import CutSite, cut_sites
from sigmascope.training.data import StitchData, read_data

__all__ = [
    "ALPHAS",
    "FAMILIES",
    "PRESETS",
    "CrossValidation",
    "CutSite",
    "Settings",
    "Stitch",
    "StitchData",
    "StitchOptions",
    "StitchResult",
    "StitchedNetwork",
    "Stitcher",
    "Task",
    "assemble",
    "cross_validate",
    "cut_sites",
    "read_data",
    "settings_for",
    "stitch",
    "stitch_many",
]
