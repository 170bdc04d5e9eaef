"""Stitching: the front of one network, a small layer ψ on the channels, the back of another.

Only ψ is trained. If a family of layers holds the symmetries of the activation, and the two
networks differ by such a symmetry, a stitch without loss exists; how much accuracy is lost measures
how far apart two networks are beyond it.

`tracing` and `assembly` cut networks, `families` says what ψ may be, `settings` how it is trained,
`training` does it, and `result` is what comes out. `sweeping` does many.

The names below are looked up when they are first used, so that importing the package does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sigmascope.stitching.assembly import (
        StitchedNetwork as StitchedNetwork,
        assemble as assemble,
    )
    from sigmascope.stitching.birkhoff import (
        round_permutation as round_permutation,
        sinkhorn as sinkhorn,
    )
    from sigmascope.stitching.data import StitchData as StitchData, read_data as read_data
    from sigmascope.stitching.families import FAMILIES as FAMILIES, Family as Family
    from sigmascope.stitching.layer import Stitch as Stitch
    from sigmascope.stitching.result import StitchResult as StitchResult
    from sigmascope.stitching.run import (
        CrossValidation as CrossValidation,
        Task as Task,
        cross_validate as cross_validate,
        stitch as stitch,
        stitch_many as stitch_many,
    )
    from sigmascope.stitching.settings import PRESETS as PRESETS, Settings as Settings
    from sigmascope.stitching.sorting import softsort as softsort
    from sigmascope.stitching.sweeping import sweep as sweep
    from sigmascope.stitching.tracing import CutSite as CutSite, cut_sites as cut_sites

_HOME = {
    "CrossValidation": "run",
    "CutSite": "tracing",
    "FAMILIES": "families",
    "Family": "families",
    "PRESETS": "settings",
    "Settings": "settings",
    "Stitch": "layer",
    "StitchData": "data",
    "StitchResult": "result",
    "StitchedNetwork": "assembly",
    "Task": "run",
    "assemble": "assembly",
    "cross_validate": "run",
    "cut_sites": "tracing",
    "read_data": "data",
    "round_permutation": "birkhoff",
    "sinkhorn": "birkhoff",
    "softsort": "sorting",
    "stitch": "run",
    "stitch_many": "run",
    "sweep": "sweeping",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(
            f"module 'sigmascope.stitching' has no attribute {name!r}. It offers: "
            f"{', '.join(_HOME)}."
        )
    value: object = getattr(importlib.import_module(f"sigmascope.stitching.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
