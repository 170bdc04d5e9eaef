"""Does the affinity score say something that other metrics do not? Its correlation with each of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.compare.networks import checked_networks, families_of, is_constant
from sigmascope.compare.table import as_frame, as_lines
from sigmascope.errors import InputError
from sigmascope.maths.warping import Curve
from sigmascope.measure.companions import METRICS
from sigmascope.measure.signature import Signature

if TYPE_CHECKING:
    import pandas

__all__ = ["Correlations", "FamilyCorrelations", "correlations"]

# Two points always lie on a line.
FEWEST_SITES = 3


@dataclass(frozen=True, repr=False, eq=False)
class Correlations:
    """The correlation of the score with each metric over the sites of a network.

    Attributes:
        names: of the k networks.
        families: the family of each; empty where it has none.
        metrics: the names of the m metrics.
        values: (k, m), NaN only with a reason.
        sites: (k, m), how many sites have both a score and the metric.
        reasons: network -> metric -> why there is no correlation.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Curve
    sites: np.ndarray[Any, np.dtype[np.int64]]
    reasons: dict[str, dict[str, str]]

    def __repr__(self) -> str:
        missing = [
            f"{name} has no correlation with {metric}: {reason}."
            for name, reasons in self.reasons.items()
            for metric, reason in reasons.items()
        ]
        title = (
            "Correlation of the affinity score with other metrics over the sites of each network"
        )
        lines = [title, "", *as_lines(self._columns()), "", *repr(self.by_family()).splitlines()]
        return "\n".join([*lines, *([""] if missing else []), *missing])

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per network and one column per metric.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(self._columns())

    def by_family(self) -> FamilyCorrelations:
        """Return mean and population standard deviation over the networks of each family.

        Networks without a family, and correlations that do not exist, do not count.
        """
        families = tuple(dict.fromkeys(family for family in self.families if family))
        mean, std = (np.full((len(families), len(self.metrics)), np.nan) for _ in range(2))
        counts = np.zeros(mean.shape, dtype=np.int64)
        for row, family in enumerate(families):
            own = self.values[[one == family for one in self.families]]
            for column, values in enumerate(own.T):
                known = values[np.isfinite(values)]
                counts[row, column] = len(known)
                if len(known):
                    mean[row, column], std[row, column] = known.mean(), known.std()
        return FamilyCorrelations(families, self.metrics, mean, std, counts)

    def _columns(self) -> dict[str, Sequence[Any]]:
        heads: dict[str, Sequence[Any]] = {"network": self.names, "family": self.families}
        return heads | dict(zip(self.metrics, self.values.T.tolist(), strict=True))


@dataclass(frozen=True, repr=False, eq=False)
class FamilyCorrelations:
    """Correlations averaged over the networks of each family.

    Attributes:
        families: the names of the f families.
        metrics: the names of the m metrics.
        mean: (f, m).
        std: (f, m), with the number of networks as divisor; 0 for a single one.
        counts: (f, m), how many networks have the correlation. Where it is 0, mean and std are NaN.
    """

    families: tuple[str, ...]
    metrics: tuple[str, ...]
    mean: Curve
    std: Curve
    counts: np.ndarray[Any, np.dtype[np.int64]]

    def __repr__(self) -> str:
        columns: dict[str, Sequence[Any]] = {
            "family": self.families,
            "networks": self.counts.max(axis=1, initial=0).tolist(),
        }
        for metric, mean, std in zip(self.metrics, self.mean.T, self.std.T, strict=True):
            columns[metric] = [
                "–" if np.isnan(one) else f"{one:z.2f} ({of:.2f})"
                for one, of in zip(mean, std, strict=True)
            ]
        return "\n".join(
            ["Mean (standard deviation) over the networks of each family", "", *as_lines(columns)]
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per family; `cka` is a mean, `cka_std` and
        `cka_networks` go with it.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        columns: dict[str, Sequence[Any]] = {"family": self.families}
        for column, metric in enumerate(self.metrics):
            columns[metric] = self.mean[:, column].tolist()
            columns[f"{metric}_std"] = self.std[:, column].tolist()
            columns[f"{metric}_networks"] = self.counts[:, column].tolist()
        return as_frame(columns)


def correlations(
    signatures: Sequence[Signature], *, families: Mapping[str, str] | None = None
) -> Correlations:
    """Correlate the affinity score with each companion metric over the sites of each network (Pearson).

    Sparsity and entropy are taken as their changes, after - before.

    Args:
        signatures: measured with metrics; one network or more.
        families: network -> family; by default all belong to one, called "all".

    Raises:
        InputError, InputTypeError: not a list of signatures with scores, none with metrics, or
            families of none of them.
    """
    networks = checked_networks(signatures)
    groups = families_of(networks, families)
    measured = {
        metric
        for signature in networks.signatures
        for site in signature.sites
        for metric in site.metrics
    }
    metrics = tuple(metric for metric in METRICS if metric in measured)
    if not metrics:
        raise InputError(
            "No signature has companion metrics. Measure again with sigmascope.signature(…, "
            "metrics='all')."
        )
    shape = len(networks.names), len(metrics)
    values, sites = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    reasons: dict[str, dict[str, str]] = {}
    for row, (name, signature) in enumerate(zip(networks.names, networks.signatures, strict=True)):
        for column, metric in enumerate(metrics):
            scores, others = _pairs(signature, metric)
            sites[row, column] = len(scores)
            if reason := _obstacle(scores, others):
                told = next(
                    (
                        site.metric_reasons[metric]
                        for site in signature.sites
                        if metric in site.metric_reasons
                    ),
                    "",
                )
                reasons.setdefault(name, {})[metric] = f"{reason} ({told})" if told else reason
            else:
                values[row, column] = _pearson(scores, others)
    return Correlations(networks.names, tuple(groups), metrics, values, sites, reasons)


def _pairs(signature: Signature, metric: str) -> tuple[Curve, Curve]:
    """Return the scores and the values of a metric at the sites that have both."""
    both = np.array([(site.score, site.metrics.get(metric, np.nan)) for site in signature.sites])
    scores, values = both[np.isfinite(both).all(axis=1)].T
    return scores, values


def _obstacle(scores: Curve, values: Curve) -> str:
    if len(scores) < FEWEST_SITES:
        return (
            f"{len(scores)} site{'s' * (len(scores) != 1)} with both; at least {FEWEST_SITES} "
            "are needed"
        )
    for what, numbers in (("score", scores), ("metric", values)):
        if is_constant(numbers):
            return f"the {what} is the same at all {len(numbers)} sites"
    return ""


def _pearson(one: Curve, other: Curve) -> float:
    x, y = one - one.mean(), other - other.mean()
    # Divided by the largest first, since squares of large norms may overflow.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))
