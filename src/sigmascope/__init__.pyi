from . import (
    catalog as catalog,
    dissection as dissection,
    figures as figures,
    linearize as linearize,
    nn as nn,
    runs as runs,
    stitching as stitching,
    symmetry as symmetry,
    testing as testing,
)
from .auditing.audit import audit as audit
from .auditing.result import Audit as Audit, Finding as Finding
from .capture.activations import (
    known_activations as known_activations,
    register_activation as register_activation,
)
from .capture.recording import recording as recording
from .compare.accuracy import AccuracyFits as AccuracyFits, fit_accuracy as fit_accuracy
from .compare.correlation import Correlations as Correlations, correlations as correlations
from .compare.density import Densities as Densities, densities as densities
from .compare.difference import Difference as Difference, difference as difference
from .compare.distances import (
    Clustering as Clustering,
    Distances as Distances,
    Embedding as Embedding,
    distances as distances,
)
from .compare.statistics import Statistics as Statistics, statistics as statistics
from .dissection.dissecting import dissect as dissect
from .dissection.result import Dissection as Dissection
from .errors import (
    FileFormatError as FileFormatError,
    GradientError as GradientError,
    InputError as InputError,
    InputTypeError as InputTypeError,
    MissingExtraError as MissingExtraError,
    NetworkError as NetworkError,
    NoActivationError as NoActivationError,
    NoBlockError as NoBlockError,
    OptionError as OptionError,
    PartError as PartError,
    RankError as RankError,
    ResumeError as ResumeError,
    SigmascopeError as SigmascopeError,
    UnknownSiteError as UnknownSiteError,
)
from .maths.affine_fit import AffineMap as AffineMap, affine_map as affine_map
from .maths.covariance import ledoit_wolf as ledoit_wolf
from .maths.estimate import Estimate as Estimate
from .maths.gaussians import w2_gaussian as w2_gaussian
from .maths.moments import Moments as Moments
from .maths.population import PopulationScore as PopulationScore
from .maths.transport import w2_exact as w2_exact
from .measure.affinity import Affinity as Affinity, affinities as affinities, affinity as affinity
from .measure.block_result import Block as Block, Blocks as Blocks
from .measure.blocks import blocks as blocks
from .measure.kept_features import rescore as rescore
from .measure.result import (
    Coverage as Coverage,
    PairHistogram as PairHistogram,
    Scatter as Scatter,
    Signature as Signature,
    Site as Site,
    Skipped as Skipped,
)
from .measure.signature import signature as signature
from .monitoring.checkpoints import track as track
from .monitoring.health import (
    Event as Event,
    Thresholds as Thresholds,
    TrainingWarning as TrainingWarning,
)
from .monitoring.monitor import Monitor as Monitor
from .monitoring.track import Track as Track
from .reporting.page import report as report
from .runs.any_file import load as load
from .stitching.result import StitchResult as StitchResult
from .stitching.stitching import stitch as stitch
from .training.penalty import AffinityPenalty as AffinityPenalty

__version__: str

__all__ = [
    "AccuracyFits",
    "AffineMap",
    "Affinity",
    "AffinityPenalty",
    "Audit",
    "Block",
    "Blocks",
    "Clustering",
    "Correlations",
    "Coverage",
    "Densities",
    "Difference",
    "Dissection",
    "Distances",
    "Embedding",
    "Estimate",
    "Event",
    "FileFormatError",
    "Finding",
    "GradientError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "Moments",
    "Monitor",
    "NetworkError",
    "NoActivationError",
    "NoBlockError",
    "OptionError",
    "PairHistogram",
    "PartError",
    "PopulationScore",
    "RankError",
    "ResumeError",
    "Scatter",
    "SigmascopeError",
    "Signature",
    "Site",
    "Skipped",
    "Statistics",
    "StitchResult",
    "Thresholds",
    "Track",
    "TrainingWarning",
    "UnknownSiteError",
    "__version__",
    "affine_map",
    "affinities",
    "affinity",
    "audit",
    "blocks",
    "catalog",
    "correlations",
    "densities",
    "difference",
    "dissect",
    "dissection",
    "distances",
    "figures",
    "fit_accuracy",
    "known_activations",
    "ledoit_wolf",
    "linearize",
    "load",
    "nn",
    "recording",
    "register_activation",
    "report",
    "rescore",
    "runs",
    "signature",
    "statistics",
    "stitch",
    "stitching",
    "symmetry",
    "testing",
    "track",
    "w2_exact",
    "w2_gaussian",
]
