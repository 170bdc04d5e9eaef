"""What the report shows, as plain numbers and texts: the only input of its scripts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sigmascope import __version__
from sigmascope.choices import ScoreKind
from sigmascope.compare.block_places import places_of
from sigmascope.compare.density import densities
from sigmascope.compare.distances import distances
from sigmascope.compare.networks import checked_networks, estimator_of, has_scores
from sigmascope.compare.statistics import Statistics, statistics
from sigmascope.measure.result import STATISTICS, Coverage, Signature, Site
from sigmascope.reporting.context import Missing, checked_data, facts_of, missing_of
from sigmascope.reporting.details import MOST, details_of
from sigmascope.reporting.packing import column, front_coded, named
from sigmascope.reporting.provenance import settings_of
from sigmascope.reporting.ranking import extremes, lowest_sites, ranking_estimator

KIND, VERSION = "report", 1
DENSITY_POINTS = 120  # more than a chart of this size can show
DECIMALS = 4
DIGITS = 4


def document_of(
    signatures: Sequence[Signature],
    *,
    facts: Mapping[str, Any] | None = None,
    data: str | None = None,
    missing: Missing = (),
    by: ScoreKind | None = None,
) -> dict[str, Any]:
    """Return what the page shows: dicts, lists, texts and numbers, None for NaN.

    Long columns are rounded to the digits that are shown; the rest is not, since rounding twice
    misleads.

    Args:
        signatures: one per network, at least one. Those without any score are shown, but not
            compared.
        facts: of networks, by name, as in `report`.
        data: name of the data.
        missing: networks that could not be measured, with reasons.
        by: the scores to compare; by default published scores if all networks have them.
    """
    listed = isinstance(signatures, Sequence) and bool(signatures)
    if not listed or not all(isinstance(one, Signature) for one in signatures):
        checked_networks(signatures)  # raises
    shown = estimator_of(signatures, by)
    scored = [number for number, one in enumerate(signatures) if has_scores(one, shown)]
    comparable = [signatures[number] for number in scored]
    ranked = ranking_estimator(comparable, shown)
    found = statistics(comparable, by=shown) if scored else None
    unique = dict(zip(scored, found.names, strict=True)) if found else {}
    detailed = sum(map(len, signatures)) <= MOST
    return {
        "sigmascope": __version__,
        "by": shown,
        "ranked": ranked,
        "data": checked_data(data),
        "missing": missing_of(missing),
        "networks": [
            _network(one, unique.get(number, one.name))
            | _summary(found, scored.index(number) if number in scored else None)
            | {"lowest": lowest_sites(one, ranked), "population": _certain(one)}
            | {"facts": facts_of(facts, unique.get(number, one.name), one.name)}
            | {"details": details_of(one) if detailed else None}
            for number, one in enumerate(signatures)
        ],
        "extremes": [[scored[place] for place in tied] for tied in extremes(comparable, ranked)]
        if len(scored) > 1
        else None,
        "distances": _distances(comparable, scored, shown) if len(scored) > 1 else None,
        "densities": _densities(comparable, scored, shown)
        if scored
        else {"curves": [], "lacking": []},
        "settings": settings_of(signatures, data or None),
        "companionsLeftOut": False,
    }


def without_details(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without what is shown of single sites only."""
    return document | {"networks": [one | {"details": None} for one in document["networks"]]}


def without_companions(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the companion metrics of the sites, if it has any."""
    networks = document["networks"]
    return document | {
        "networks": [network | {"metrics": {}} for network in networks],
        "companionsLeftOut": any(network["metrics"] for network in networks),
    }


def _network(signature: Signature, name: str) -> dict[str, Any]:
    certified: Counter[str] = Counter()
    for site in signature.sites:
        certified.update(site.certified)
    return {
        "name": name or "(no name)",
        "count": len(signature),
        "parameters": signature.parameters,
        "samples": signature.samples,
        "batches": signature.batches,
        "coverage": _coverage(signature.coverage),
        "certified": dict(certified.most_common()),
        "sites": _sites(signature.sites) | {"reasons": _reasons(signature)},
        "metrics": _metrics(signature.sites),
    }


def _summary(found: Statistics | None, place: int | None) -> dict[str, Any]:
    """Return the statistics of a network, and half the widths of their intervals."""
    if found is None or place is None:
        return {"summary": dict.fromkeys(STATISTICS), "halves": {}}
    return {
        "summary": {name: found.table[name][place] for name in STATISTICS},
        "halves": {name: _finite(values[place]) for name, values in found.half_width.items()},
    }


def _certain(signature: Signature) -> dict[str, float | None] | None:
    """Return the median of the population scores, and half the width of its interval."""
    if not has_scores(signature, "population"):
        return None
    found = statistics([signature], by="population")
    return {"median": found.table["median"][0], "half": _finite(found.half_width["median"][0])}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "text": str(coverage),
        "seen": coverage.seen,
        "scored": coverage.scored,
        "skipped": [[one.path, one.call, one.kind, one.reason] for one in coverage.skipped],
        "never_called": list(coverage.never_called),
        "notes": list(coverage.notes),
    }


def _sites(sites: Sequence[Site]) -> dict[str, Any]:
    """Return the sites in columns, which repeat most values of their neighbors."""
    shared, ends = front_coded([site.path for site in sites])
    return {
        "shared": shared,
        "ends": ends,
        "call": column(site.call for site in sites),
        "kind": named(site.kind for site in sites),
        "place": named(places_of(sites)),
        "score": [_rounded(site.score) for site in sites],
        "std": column(_rounded(site.scatter.std) for site in sites),
        "population": column(_rounded(site.population) for site in sites),
        "half": column(_rounded(site.population - site.low) for site in sites),
        "batches": column(site.batches for site in sites),
        "n": column(site.n for site in sites),
        "dim": column(site.dim for site in sites),
    }


def _reasons(signature: Signature) -> dict[str, str]:
    """Return by the numbers of sites why a score that was asked for is missing, or too low."""
    found = {}
    for number, site in enumerate(signature.sites):
        reasons = [site.reason] * signature.options.published
        reasons += [site.population_reason] * signature.options.population
        if site.moved:
            reasons.append(
                "the population score is a lower bound: the identity coupling is not optimal on "
                f"{site.moved} of {site.tested} sampled rows"
            )
        found[str(number)] = "; ".join(dict.fromkeys(filter(None, reasons)))
    return {number: reason for number, reason in found.items() if reason}


def _metrics(sites: Sequence[Site]) -> dict[str, Any]:
    """Return the companion metrics in columns: changes from before to after, and one norm."""
    names = dict.fromkeys(name for site in sites for name in site.metrics)
    chosen = [name for name in names if not name.endswith(("_before", "_after", "_per_sample"))]
    return {
        name: column(_significant(site.metrics.get(name, math.nan)) for site in sites)
        for name in chosen
    }


def _distances(
    signatures: Sequence[Signature], numbers: Sequence[int], by: ScoreKind
) -> dict[str, Any]:
    """Return the rows of the lower triangle, and the clustering."""
    found = distances(signatures, by=by)
    clusters = found.cluster()
    merges = clusters.linkage.tolist()
    return {
        "networks": list(numbers),
        "rows": [row[:number] for number, row in enumerate(found.matrix.tolist())],
        "order": clusters.order,
        "merges": [[int(left), int(right), height] for left, right, height, _ in merges],
        "method": clusters.method,
    }


def _densities(
    signatures: Sequence[Signature], numbers: Sequence[int], by: ScoreKind
) -> dict[str, Any]:
    """Return densities as values at equal steps, and why the other networks have none."""
    found = densities(signatures, points=DENSITY_POINTS, by=by)
    number_of = dict(zip(found.names, numbers, strict=True))
    curves = [
        {
            "network": number_of[curve.name],
            "low": _rounded(float(curve.grid[0])),
            "high": _rounded(float(curve.grid[-1])),
            "values": [_significant(float(value), 3) for value in curve.values],
        }
        for curve in found.curves
    ]
    lacking = [[number_of[name], reason] for name, reason in found.reasons.items()]
    return {"curves": curves, "lacking": lacking}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded(value: float) -> float | None:
    return round(value, DECIMALS) if math.isfinite(value) else None


def _significant(value: float, digits: int = DIGITS) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
