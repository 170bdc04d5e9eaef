"""From the readings of all batches to a signature."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from sigmascope.measure.options import Options
from sigmascope.measure.readings import BatchReadings, Reading
from sigmascope.measure.signature import Coverage, Signature, Site, Skipped
from sigmascope.measure.subject import Subject

__all__ = ["assembled"]

CONFIDENCE = 0.95


def assembled(
    subject: Subject, options: Options, batches: Sequence[BatchReadings], notes: Iterable[str]
) -> Signature:
    """Put the readings of all batches of a run together."""
    sites, skipped = sites_of(batches)
    fired = {reading.path for batch in batches for reading in batch.readings}
    scored = sum(math.isfinite(site.score) for site in sites)
    coverage = Coverage(
        seen=len(sites) + len(skipped),
        scored=scored,
        failed=len(sites) - scored,
        skipped=skipped,
        silent=tuple(path for path in subject.expected if path not in fired),
        notes=(*subject.notes, *notes),
    )
    return Signature(
        name=subject.name,
        sites=sites,
        coverage=coverage,
        options=options,
        batches=len(batches),
        samples=sum(batch.size for batch in batches),
        model=subject.model,
        data=hashlib.sha256(" ".join(batch.fingerprint for batch in batches).encode()).hexdigest()[
            :32
        ],
        parameters=subject.parameters,
        device=subject.device,
        versions=subject.versions,
    )


def sites_of(batches: Sequence[BatchReadings]) -> tuple[tuple[Site, ...], tuple[Skipped, ...]]:
    """Put the readings of all batches together: the sites, and the calls that are none, in order of
    execution.
    """
    found: dict[tuple[str, int, str], list[Reading]] = {}
    # Nearly always all batches make the same calls, so that there is one sequence to look at.
    for key in _order(
        dict.fromkeys(tuple(_key(reading) for reading in batch.readings) for batch in batches)
    ):
        found[key] = []
    for batch in batches:
        for reading in batch.readings:
            found[_key(reading)].append(reading)
    sites = tuple(
        _site(readings) for readings in found.values() if not all(one.skipped for one in readings)
    )
    skipped = tuple(
        Skipped(one.path, one.call, one.kind, one.reason)
        for one, *more in found.values()
        if one.skipped and all(other.skipped for other in more)
    )
    return sites, skipped


def _key(reading: Reading) -> tuple[str, int, str]:
    return reading.path, reading.call, reading.kind


def _order(sequences: Iterable[tuple[tuple[str, int, str], ...]]) -> list[tuple[str, int, str]]:
    """Merge orders of execution: a call that earlier batches did not make comes after the call
    before it.
    """
    order: list[tuple[str, int, str]] = []
    for sequence in sequences:
        position = 0
        for key in sequence:
            if key not in order:
                order.insert(position, key)
            position = order.index(key) + 1
    return order


def _site(readings: list[Reading]) -> Site:
    first = min(readings, key=lambda one: (one.skipped, not one.dim))
    scores = [one.score for one in readings if math.isfinite(one.score)]
    mean, std, half = _statistics(scores)
    return Site(
        first.path,
        first.call,
        first.kind,
        score=mean,
        std=std,
        low=mean - half,
        high=mean + half,
        batches=len(scores),
        scores=tuple(one.score for one in readings),
        n=first.n,
        dim=first.dim,
        shape=first.shape,
        dtype=first.dtype,
        channel_axis=first.channel_axis,
        axis_reason=first.axis_reason,
        certified=dict(Counter(one.certified for one in readings if math.isfinite(one.score))),
        metrics=_mean_metrics(readings),
        metric_reasons={
            name: _counted([one.metric_reasons.get(name, "") for one in readings])
            for name in dict.fromkeys(name for one in readings for name in one.metric_reasons)
        },
        reason=_counted([one.reason for one in readings]),
    )


def _counted(reasons: list[str]) -> str:
    """Say each reason once, with the number of batches."""
    counts = Counter(reason for reason in reasons if reason)
    return "; ".join(
        f"{reason} ({count} of {len(reasons)} batches)" for reason, count in counts.items()
    )


def _statistics(scores: list[float]) -> tuple[float, float, float]:
    """Return mean, standard deviation and half the width of the confidence interval of the mean."""
    if not scores:
        return math.nan, math.nan, math.nan
    mean = math.fsum(scores) / len(scores)
    if len(scores) == 1:
        return mean, math.nan, math.nan
    from scipy.stats import t

    std = float(np.std(scores, ddof=1))
    return (
        mean,
        std,
        float(t.ppf((1 + CONFIDENCE) / 2, len(scores) - 1)) * std / math.sqrt(len(scores)),
    )


def _mean_metrics(readings: list[Reading]) -> dict[str, float]:
    names = dict.fromkeys(name for one in readings for name in one.metrics)
    means = {}
    for name in names:
        values = [
            one.metrics[name] for one in readings if math.isfinite(one.metrics.get(name, math.nan))
        ]
        means[name] = math.fsum(values) / len(values) if values else math.nan
    return means
