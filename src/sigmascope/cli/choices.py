"""The choices of options. They stand here too, since the tables of the library come with torch; a
test compares them.
"""

from __future__ import annotations

__all__ = ["COVARIANCES", "LINKAGES", "METRICS", "NORMALIZE", "POOLS", "SAMPLES"]

COVARIANCES = ("ledoit-wolf", "unbiased", "biased")
LINKAGES = ("average", "single", "complete", "weighted", "ward")
METRICS = ("all", "cka", "norm", "sparsity", "entropy", "r2")
NORMALIZE = ("path",)
POOLS = ("channels", "published", "sum", "flatten")
SAMPLES = ("batch", "tokens")
