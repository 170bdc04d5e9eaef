"""The values of every option that is a choice, as `Literal` types.

Checks, the command line and type checkers read these types; no list of choices exists twice. The
module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

# Measuring
Covariance = Literal["ledoit-wolf", "unbiased", "biased"]
Coupling = Literal["optimal", "paired"]
Degenerate = Literal["nan", "published"]
Pool = Literal["channels", "published", "sum", "flatten"]
Samples = Literal["batch", "tokens", "positions"]
Estimator = Literal["both", "published", "population"]
ScoreKind = Literal["published", "population"]
Metric = Literal["cka", "norm", "sparsity", "entropy", "r2"]
MetricChoice = Literal["all", "cka", "norm", "sparsity", "entropy", "r2"]
Gates = Literal["alone", "unit", "out"]
Mode = Literal["eval", "as-is"]
Split = Literal["test", "train"]

# Comparing
Boundary = Literal["reflect", "unbounded"]
Normalize = Literal["path"]
Linkage = Literal["average", "single", "complete", "weighted", "ward"]
Embedded = Literal["distances", "cophenetic"]
Statistic = Literal["min", "median", "max", "mean", "std", "spread", "iqr"]
Predictor = Literal["best", Statistic, "parameters", "flops", "depth"]

# Drawing
Layout = Literal["overlaid", "stacked"]
Spread = Literal["std", "range"]

# Symmetry
Measure = Literal["procrustes", "cka"]
SimilarityGroup = Literal["relu", "orthogonal"]
Pairs = Literal["all", "diagonal"]
Normalizer = Literal["authors", "live"]
Kernel = Literal["max", "median"]
ChannelNorm = Literal["channels", "none"]
Precision = Literal["float64", "float32"]
Orientation = Literal["signed", "unsigned"]
Matching = Literal["weights", "activations"]
AlignGroup = Literal["all", "permutations"]

# Stitching and training
Family = Literal[
    "full",
    "low-rank",
    "lasso",
    "relu-group",
    "softsort",
    "identity",
    "least-squares",
    "permutation",
    "fixed",
]
Preset = Literal["paper", "as-run", "fast"]
Style = Literal["auto", "conv", "linear"]
Augmentation = Literal["none", "flip-shift"]
Optimizer = Literal["sgd", "adam"]
Regularizer = Literal["norm", "rms", "scaled"]
Projection = Literal["step", "gradient", "none"]
Rounding = Literal["hungarian", "monotone"]
Start = Literal["random", "matched", "given"]
Shrinkage = Literal["gradient", "proximal"]
Weighing = Literal["softmax", "inverse"]
FrontMode = Literal["train", "eval"]
Averaging = Literal["exponential", "cumulative"]
Selection = Literal["validation", "test"]

# Integrations
OnError = Literal["warn", "raise"]

# Linearizing
TuningOptimizer = Literal["sgd", "adamw"]
LinearizeBy = Literal[
    "affinity",
    "pooled",
    "r2",
    "entropy",
    "positive",
    "gradient",
    "oracle",
    "depth",
    "early",
    "random",
]
LinearizeMaps = Literal["channel", "full", "identity"]
Keep = Literal["faster", "fewer", "all"]

# Dissection
Side = Literal["output", "input"]

OLD_VALUES: Mapping[str, str] = MappingProxyType({"released": "published"})
"""Values of earlier versions and of stored files -> what they are called now."""


def values_of(choice: Any) -> tuple[str, ...]:
    """Return the values of a `Literal` type, in order.

    >>> values_of(Samples)
    ('batch', 'tokens', 'positions')
    """
    return tuple(get_args(choice))
