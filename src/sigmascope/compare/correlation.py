"""Correlations of the affinity score with companion metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.choices import ScoreKind
from sigmascope.compare.networks import checked_networks, families_of, is_constant, site_scores
from sigmascope.errors import InputError
from sigmascope.maths.warping import Curve
from sigmascope.measure.companions import METRICS
from sigmascope.measure.result import Signature
from sigmascope.tables import Columns, Table, Tabular

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

TITLE = "Correlation of the affinity score with other metrics over the sites of each network"
FEWEST_SITES = 3  # two points always lie on a line


@dataclass(frozen=True, repr=False, eq=False)
class Correlations(Tabular):
    """The correlation of the score with each metric over the sites of a network.

    Attributes:
        names: names of the k networks.
        families: the family of each; empty where it has none.
        metrics: names of the m metrics.
        values: (k, m), NaN only with a reason.
        sites: (k, m), how many sites have both a score and the metric.
        reasons: network -> metric -> why there is no correlation.

    >>> import torch
    >>> import sigmascope as sg
    >>> _ = torch.manual_seed(0)
    >>> layers = [torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4), torch.nn.Tanh()]
    >>> measured = sg.signature(torch.nn.Sequential(*layers), torch.randn(256, 4), metrics=["r2"])
    >>> found = sg.correlations([measured])
    >>> found.values.tolist(), found.reasons["Sequential"]["r2"]
    ([[nan]], '2 sites with both; at least 3 are needed')
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Curve
    sites: np.ndarray[Any, np.dtype[np.int64]]
    reasons: dict[str, dict[str, str]]

    def by_family(self) -> FamilyCorrelations:
        """Return mean and population standard deviation over the networks of each family.

        Networks without a family and missing correlations do not count.
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

    def plot(self) -> Drawn:
        """Draw one row per network; see `sigmascope.figures.draw_correlations`."""
        from sigmascope.figures.correlations import draw_correlations

        rows = dict(zip(self.names, self.values.tolist(), strict=True))
        return draw_correlations({"with the affinity score": rows}, self.metrics)

    def _tables(self) -> list[Table]:
        missing = [
            f"{name} has no correlation with {metric}: {reason}."
            for name, reasons in self.reasons.items()
            for metric, reason in reasons.items()
        ]
        return [Table(self._columns(), TITLE), self.by_family()._table(missing)]

    def _columns(self) -> Columns:
        heads: Columns = {"network": self.names, "family": self.families}
        return {**heads, **dict(zip(self.metrics, self.values.T.tolist(), strict=True))}


@dataclass(frozen=True, repr=False, eq=False)
class FamilyCorrelations(Tabular):
    """Correlations averaged over the networks of each family.

    Attributes:
        families: names of the f families.
        metrics: names of the m metrics.
        mean: (f, m).
        std: (f, m), with the number of networks as divisor; 0 for a single one.
        counts: (f, m), how many networks have the correlation. Where it is 0, mean and std are NaN.
    """

    families: tuple[str, ...]
    metrics: tuple[str, ...]
    mean: Curve
    std: Curve
    counts: np.ndarray[Any, np.dtype[np.int64]]

    def plot(self) -> Drawn:
        """Draw one row of means per family; see `sigmascope.figures.draw_correlations`."""
        from sigmascope.figures.correlations import draw_correlations

        rows = dict(zip(self.families, self.mean.tolist(), strict=True))
        return draw_correlations({"mean over the networks": rows}, self.metrics)

    def _tables(self) -> list[Table]:
        return [self._table()]

    def _table(self, notes: Sequence[str] = ()) -> Table:
        counts = self.counts.max(axis=1, initial=0).tolist()
        columns: dict[str, Sequence[Any]] = {"family": self.families, "networks": counts}
        for metric, means, stds in zip(self.metrics, self.mean.T, self.std.T, strict=True):
            columns[metric] = [
                "–" if np.isnan(mean) else f"{mean:z.2f} ({std:.2f})"
                for mean, std in zip(means, stds, strict=True)
            ]
        title = "Mean (standard deviation) over the networks of each family"
        return Table(columns, title, notes)

    def _columns(self) -> Columns:
        """Return a mean as `cka`; `cka_std` and `cka_networks` go with it."""
        columns: dict[str, Sequence[Any]] = {"family": self.families}
        for column, metric in enumerate(self.metrics):
            columns[metric] = self.mean[:, column].tolist()
            columns[f"{metric}_std"] = self.std[:, column].tolist()
            columns[f"{metric}_networks"] = self.counts[:, column].tolist()
        return columns


def correlations(
    signatures: Sequence[Signature],
    *,
    families: Mapping[str, str] | None = None,
    by: ScoreKind | None = None,
) -> Correlations:
    """Return the Pearson correlation of the score with each companion metric over the sites.

    Sparsity and entropy are taken as their changes, after - before. As in Bouniot et al., CVPR
    2025, arXiv:2310.11439.

    Args:
        signatures: measured with metrics; one per network, at least one.
        families: network -> family; by default all belong to one, called "all".
        by: "published" or "population" scores; by default published scores if all have them.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores; none has metrics;
            families names none of the networks.
        OptionError: another `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> _ = torch.manual_seed(0)
    >>> layers = [torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4), torch.nn.Tanh()]
    >>> network = torch.nn.Sequential(*layers, torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    >>> x = torch.randn(256, 4)
    >>> found = correlations([signature(network, x, metrics=["r2"], name="small")])
    >>> found.metrics, found.sites
    (('r2',), array([[3]]))
    """
    networks = checked_networks(signatures, by)
    groups = families_of(networks, families)
    measured = {key for one in networks.signatures for site in one.sites for key in site.metrics}
    metrics = tuple(metric for metric in METRICS if metric in measured)
    if not metrics:
        raise InputError("No signature has companion metrics. Measure again with metrics='all'.")
    shape = len(networks.names), len(metrics)
    values, sites = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    reasons: dict[str, dict[str, str]] = {}
    for row, (name, signature) in enumerate(zip(networks.names, networks.signatures, strict=True)):
        for column, metric in enumerate(metrics):
            scores, others = _pairs(signature, metric, networks.by)
            sites[row, column] = len(scores)
            if reason := _obstacle(scores, others):
                told = _first_reason(signature, metric)
                reasons.setdefault(name, {})[metric] = f"{reason} ({told})" if told else reason
            else:
                values[row, column] = _pearson(scores, others)
    return Correlations(networks.names, tuple(groups), metrics, values, sites, reasons)


def _first_reason(signature: Signature, metric: str) -> str:
    reasons = (site.metric_reasons.get(metric, "") for site in signature.sites)
    return next(filter(None, reasons), "")


def _pairs(signature: Signature, metric: str, by: ScoreKind) -> tuple[Curve, Curve]:
    """Return the scores and the values of a metric at the sites that have both."""
    metrics = [site.metrics.get(metric, np.nan) for site in signature.sites]
    both = np.stack([site_scores(signature, by), metrics])
    scores, values = both[:, np.isfinite(both).all(axis=0)]
    return scores, values


def _obstacle(scores: Curve, values: Curve) -> str:
    if len(scores) < FEWEST_SITES:
        sites = f"{len(scores)} site{'s' * (len(scores) != 1)}"
        return f"{sites} with both; at least {FEWEST_SITES} are needed"
    for what, numbers in (("score", scores), ("metric", values)):
        if is_constant(numbers):
            return f"the {what} is the same at all {len(numbers)} sites"
    return ""


def _pearson(one: Curve, other: Curve) -> float:
    x, y = one - one.mean(), other - other.mean()
    # Divided by the largest first, since squares of large norms may overflow.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))
