"""From the readings of all batches to a signature."""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sigmascope.capture.activations import GATED
from sigmascope.capture.call_site import CallSite
from sigmascope.capture.gates import GATE
from sigmascope.measure.batch_scores import BatchReadings, Reading, call_of
from sigmascope.measure.options import Options
from sigmascope.measure.result import Coverage, Signature, Skipped
from sigmascope.measure.site import NOT_MEASURED, ONLY_LAST, Population, Scatter, Site
from sigmascope.measure.subject import Subject

CONFIDENCE = 0.95
FEW = 32  # samples; a score of fewer says little


def assembled(
    subject: Subject,
    options: Options,
    batches: Sequence[BatchReadings],
    population: Mapping[CallSite, Population],
    notes: Iterable[str],
) -> Signature:
    """Return the signature of a run from the readings of all its batches, and of all together."""
    sites, skipped = _sites(batches, options, population)
    complete = [batch for batch in batches if batch.complete]
    called = {reading.path for batch in batches for reading in batch.readings}
    scored = sum(math.isfinite(site.score) or math.isfinite(site.population) for site in sites)
    coverage = Coverage(
        seen=len(sites) + len(skipped),
        scored=scored,
        failed=len(sites) - scored,
        skipped=skipped,
        never_called=tuple(path for path in subject.expected if path not in called),
        notes=(*subject.notes, *_too_few(sites), *_unfit(options, called), *notes),
    )
    fingerprints = " ".join(batch.fingerprint for batch in batches)
    return Signature(
        name=subject.name,
        sites=sites,
        coverage=coverage,
        options=options,
        batches=len(complete),
        samples=sum(batch.size for batch in complete),
        model=subject.model,
        data=hashlib.sha256(fingerprints.encode()).hexdigest()[:32],
        parameters=subject.parameters,
        device=subject.device,
        versions=subject.versions,
    )


def _too_few(sites: Sequence[Site]) -> list[str]:
    """Return a note on published scores of few samples; there is no such population score."""
    few = [site for site in sites if site.n < FEW and math.isfinite(site.score)]
    if not few:
        return []
    least = min(few, key=lambda site: site.n)
    return [
        f"the published score rests on fewer than {FEW} samples a batch at {len(few)} of "
        f"{len(sites)} site{'s' * (len(sites) != 1)} ({least.name}: {least.n}) and depends much on "
        "which ones; use larger batches"
    ]


def _unfit(options: Options, called: Iterable[str]) -> list[str]:
    """Return a note on each pattern of an axis that fits none of the paths that made a call."""
    paths, which = [*called], "none of the chosen sites" if options.sites else "no site"
    named = {"channel_axis": options.channel_axis, "sample_axis": options.sample_axis}
    return [
        f"{option}: the pattern {pattern!r} fits {which}"
        for option, axes in named.items()
        for pattern in axes
        if not any(fnmatch.fnmatchcase(path, pattern) for path in paths)
    ]


def _sites(
    batches: Sequence[BatchReadings], options: Options, population: Mapping[CallSite, Population]
) -> tuple[tuple[Site, ...], tuple[Skipped, ...]]:
    """Return the sites, and the calls without a defined score, in order of execution."""
    # Nearly always all batches make the same calls, so that there is one sequence to look at.
    distinct = dict.fromkeys(tuple(map(call_of, batch.readings)) for batch in batches)
    readings: dict[CallSite, list[Reading]] = {call: [] for call in _order(distinct)}
    for batch in batches:
        for reading in batch.readings:
            call = call_of(reading)
            # an incomplete one, the last, only tells of calls that no other batch makes
            if batch.complete or not readings[call]:
                readings[call].append(reading)
    sites, skipped = [], []
    for call, of_call in readings.items():
        if all(reading.skipped for reading in of_call):
            skipped.append(_skipped(call, of_call[0]))
        else:
            sites.append(_site(of_call, options, population.get(call)))
    return tuple(sites), tuple(skipped)


def _skipped(call: CallSite, reading: Reading) -> Skipped:
    """Return a call that has no defined score."""
    fused = reading.role == GATE and reading.kind in GATED
    remedy = "; gates='unit' scores it as a function of what it multiplies" if fused else ""
    reason = reading.reason + remedy
    return Skipped(**vars(call), reason=reason, role=reading.role, multiplies=reading.multiplies)


def _order(sequences: Iterable[tuple[CallSite, ...]]) -> list[CallSite]:
    """Merge orders of execution: a call new in a batch comes after the call before it."""
    order: list[CallSite] = []
    for sequence in sequences:
        position = 0
        for call in sequence:
            if call not in order:
                order.insert(position, call)
            position = order.index(call) + 1
    return order


def _site(readings: list[Reading], options: Options, population: Population | None) -> Site:
    reason = _counted([reading.reason for reading in readings])
    if population is None:  # no batch could be read, unless it was not asked for
        absent = "" if options.population else NOT_MEASURED.format("population", "published")
        population = Population(population_reason=absent or reason)
    if not options.published:
        reason = reason or NOT_MEASURED.format("published", "population")
    elif not any(reading.reason or math.isfinite(reading.score) for reading in readings):
        reason = ONLY_LAST
    first = min(readings, key=lambda reading: (reading.skipped, not reading.dim))
    scored = [reading for reading in readings if math.isfinite(reading.score)]
    mean, std, half = _statistics([reading.score for reading in scored])
    explained = dict.fromkeys(name for reading in readings for name in reading.metric_reasons)
    return Site(
        **first.fields(),
        score=mean,
        scatter=Scatter(std, mean - half, mean + half),
        batches=len(scored),
        scores=tuple(reading.score for reading in readings) if options.published else (),
        n=first.n,
        dim=first.dim,
        certified=dict(Counter(reading.certified for reading in scored)),
        metrics=_mean_metrics(readings),
        metric_reasons={
            name: _counted([reading.metric_reasons.get(name, "") for reading in readings])
            for name in explained
        },
        reason=reason,
        **vars(population),
    )


def _counted(reasons: list[str]) -> str:
    """Return each reason once, with the number of batches."""
    counts = Counter(reason for reason in reasons if reason)
    batches = f"{len(reasons)} batch{'es' * (len(reasons) != 1)}"
    return "; ".join(f"{reason} ({count} of {batches})" for reason, count in counts.items())


def _statistics(scores: list[float]) -> tuple[float, float, float]:
    """Return mean, standard deviation and half the width of the confidence interval of the mean."""
    if not scores:
        return math.nan, math.nan, math.nan
    mean = math.fsum(scores) / len(scores)
    if len(scores) == 1:
        return mean, math.nan, math.nan
    from scipy.stats import t

    std = float(np.std(scores, ddof=1))
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(scores) - 1))
    return mean, std, quantile * std / math.sqrt(len(scores))


def _mean_metrics(readings: list[Reading]) -> dict[str, float]:
    means = {}
    for name in dict.fromkeys(name for reading in readings for name in reading.metrics):
        values = [reading.metrics.get(name, math.nan) for reading in readings]
        finite = [value for value in values if math.isfinite(value)]
        means[name] = math.fsum(finite) / len(finite) if finite else math.nan
    return means
