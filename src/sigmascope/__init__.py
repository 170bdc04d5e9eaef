"""sigmascope: an instrument for looking at σ, the activation function, inside real networks.

How non-linear is an activation? Take what enters it and what leaves it, samples by channels. The
*affinity score* compares the law of the output with the image of the law of the input under the
best positive affine map, by exact optimal
transport: 1 means affine, lower means more non-linear.

>>> import numpy as np
>>> import sigmascope as sg
>>> x = np.random.default_rng(0).standard_normal((512, 64))
>>> round(sg.affinity(x, np.maximum(x, 0)).score, 3)
0.623

The names below are looked up when they are first used, so that importing the package does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sigmascope import catalog as catalog, figures as figures, symmetry as symmetry
    from sigmascope.capture.activations import (
        known_activations as known_activations,
        register_activation as register_activation,
    )
    from sigmascope.capture.record import recording as recording
    from sigmascope.compare.accuracy import (
        AccuracyFits as AccuracyFits,
        fit_accuracy as fit_accuracy,
    )
    from sigmascope.compare.correlation import (
        Correlations as Correlations,
        correlations as correlations,
    )
    from sigmascope.compare.density import Densities as Densities, densities as densities
    from sigmascope.compare.distances import (
        Clustering as Clustering,
        Distances as Distances,
        Embedding as Embedding,
        distances as distances,
    )
    from sigmascope.compare.statistics import Statistics as Statistics, statistics as statistics
    from sigmascope.dissection.result import Dissection as Dissection
    from sigmascope.dissection.run import dissect as dissect
    from sigmascope.errors import (
        FileFormatError as FileFormatError,
        GradientError as GradientError,
        InputError as InputError,
        InputTypeError as InputTypeError,
        MissingExtraError as MissingExtraError,
        NetworkError as NetworkError,
        NoActivationError as NoActivationError,
        OptionError as OptionError,
        ResumeError as ResumeError,
        SigmascopeError as SigmascopeError,
    )
    from sigmascope.maths.covariance import ledoit_wolf as ledoit_wolf
    from sigmascope.maths.fit import AffineMap as AffineMap, affine_map as affine_map
    from sigmascope.maths.gaussians import w2_gaussian as w2_gaussian
    from sigmascope.maths.transport import w2_exact as w2_exact
    from sigmascope.measure.affinity import (
        Affinity as Affinity,
        affinities as affinities,
        affinity as affinity,
    )
    from sigmascope.measure.keep import rescore as rescore
    from sigmascope.measure.signature import (
        Coverage as Coverage,
        Signature as Signature,
        Site as Site,
        Skipped as Skipped,
        load as load,
    )
    from sigmascope.measure.survey import signature as signature
    from sigmascope.reporting.page import report as report
    from sigmascope.stitching.result import StitchResult as StitchResult
    from sigmascope.stitching.run import stitch as stitch

__version__ = "0.1.0"

_HOME = {
    "AccuracyFits": "compare.accuracy",
    "AffineMap": "maths.fit",
    "Affinity": "measure.affinity",
    "Clustering": "compare.distances",
    "Correlations": "compare.correlation",
    "Coverage": "measure.signature",
    "Densities": "compare.density",
    "Dissection": "dissection.result",
    "Distances": "compare.distances",
    "Embedding": "compare.distances",
    "FileFormatError": "errors",
    "GradientError": "errors",
    "InputError": "errors",
    "InputTypeError": "errors",
    "MissingExtraError": "errors",
    "NetworkError": "errors",
    "NoActivationError": "errors",
    "OptionError": "errors",
    "ResumeError": "errors",
    "SigmascopeError": "errors",
    "Signature": "measure.signature",
    "Site": "measure.signature",
    "Skipped": "measure.signature",
    "Statistics": "compare.statistics",
    "StitchResult": "stitching.result",
    "affine_map": "maths.fit",
    "affinities": "measure.affinity",
    "affinity": "measure.affinity",
    "correlations": "compare.correlation",
    "densities": "compare.density",
    "dissect": "dissection.run",
    "distances": "compare.distances",
    "fit_accuracy": "compare.accuracy",
    "known_activations": "capture.activations",
    "ledoit_wolf": "maths.covariance",
    "load": "measure.signature",
    "recording": "capture.record",
    "register_activation": "capture.activations",
    "report": "reporting.page",
    "rescore": "measure.keep",
    "signature": "measure.survey",
    "statistics": "compare.statistics",
    "stitch": "stitching.run",
    "w2_exact": "maths.transport",
    "w2_gaussian": "maths.gaussians",
}

_PACKAGES = ("catalog", "dissection", "figures", "stitching", "symmetry")

__all__ = ["__version__", *_HOME, *_PACKAGES]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"sigmascope.{name}")
    if name not in _HOME:
        raise AttributeError(
            f"module 'sigmascope' has no attribute {name!r}. It offers: {', '.join(_HOME)}."
        )
    value: object = getattr(importlib.import_module(f"sigmascope.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
