"""The correlations behind Tables 1 and 2: of the affinity score with five other metrics, over the
activations of each network.

All metrics are those of the published formulas (`compat=True`: R² on the samples it was fitted on).
For ViTs, Swins and ConvNeXts the published code averaged the channels instead of the positions, and
these rows of the paper come from that; they are measured both ways, with the axes as published and
with the channels kept, and the paper's numbers are compared with the former. The same code applied
in-place activations twice in EfficientNets, which is not imitated here.

The sign of the paper's change in entropy is not known. Ours is after less before; wherever entropy
is compared with the paper, the sign that fits better may be chosen, once for a whole row of
comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.compare.correlation import Correlations, correlations
from sigmascope_papers.item import DIRECTION, FAILS, HOLDS, Check
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.nonlinearity.published import METRICS
from sigmascope_papers.setting import Setting

__all__ = ["OTHER_AXES", "TITLES", "Correlated", "compare_row", "measure_correlations", "row_text"]

OTHER_AXES = ("ViTs", "Swins", "ConvNeXts")
"""Groups whose channels the published code averages."""
TITLES = {"cka": "CKA", "norm": "norm", "sparsity": "sparsity", "entropy": "entropy", "r2": "R²"}
ENTROPY = METRICS.index("entropy")
# As far as two numbers of the tables may differ, and from what size on a correlation has a sign
# worth comparing.
TOLERANCE, SIGNED = 0.1, 0.3


@dataclass(frozen=True, eq=False)
class Correlated:
    """Correlations of all networks of the cast.

    Attributes:
        kept: with the channels kept.
        published: the same, but with the axes as published where they differ.
        trained: whether the networks are the paper's own with their weights, so that numbers can be
            compared.
    """

    kept: Correlations
    published: Correlations
    trained: bool


def measure_correlations(setting: Setting) -> Correlated:
    """Correlate the scores of every network of the cast with the metrics."""
    cast = setting.cast
    runs = {run.signature.name: run.signature for run in setting.runs(cast.names(), compat=True)}
    other = cast.names(*OTHER_AXES)
    again = setting.runs(other, pool="released", compat=True) if other else []
    kept = correlations(list(runs.values()), families=cast.groups())
    published = correlations(
        list((runs | {run.signature.name: run.signature for run in again}).values()),
        families=cast.groups(),
    )
    return Correlated(kept, published, setting.weights == "default")


def row_text(values: Sequence[float] | Array) -> str:
    """Return the numbers of a row, in the order of the metrics."""
    return " ".join(f"{value:.2f}" for value in values)


def compare_row(claim: str, expected: Sequence[float], obtained: Array) -> Check:
    """Compare a row with that of the paper: holds within 0.1 in all columns, in direction where the
    signs from 0.3 on agree.
    """
    paper, ours = np.array(expected), obtained.copy()
    if abs(-ours[ENTROPY] - paper[ENTROPY]) < abs(ours[ENTROPY] - paper[ENTROPY]):
        ours[ENTROPY] *= -1
    clear = np.abs(paper) >= SIGNED
    alike = bool((np.sign(paper) == np.sign(ours))[clear].all())
    verdict = (
        HOLDS
        if (np.abs(ours - paper) <= TOLERANCE).all()
        else DIRECTION
        if clear.any() and alike
        else FAILS
    )
    return Check(claim, f"{row_text(paper)} ± {TOLERANCE:g}", row_text(obtained), verdict)
