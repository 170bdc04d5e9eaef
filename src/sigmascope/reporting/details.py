"""What the page shows of a site when it is opened: batches, axes, transports, a histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sigmascope.measure.result import Signature, Site
from sigmascope.measure.site import PairHistogram
from sigmascope.reporting.packing import column, named

MOST = 2500  # sites of a page; more would not fit, and take long to pack
LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of the histogram's cells


def details_of(signature: Signature) -> dict[str, Any]:
    """Return what is known of the sites beyond their rows in the tables, in columns."""
    sites = signature.sites
    return {
        "scores": [[_rounded(score) for score in site.scores] for site in sites],
        "low": column(_rounded(site.scatter.low) for site in sites),
        "high": column(_rounded(site.scatter.high) for site in sites),
        "shape": named(" × ".join(map(str, site.shape)) for site in sites),
        "dtype": named(site.dtype for site in sites),
        "axis": named(_axis(site) for site in sites),
        "formula": named(site.formula for site in sites),
        "role": named(_role(site) for site in sites),
        "certified": named(_proofs(site) for site in sites),
        "dead": column(_rounded(site.dead) for site in sites),
        "gain": column(_rounded(site.gain) for site in sites),
        "histogram": [_packed(site.histogram) for site in sites],
    }


def _axis(site: Site) -> str:
    where = "no axis" if site.channel_axis is None else f"axis {site.channel_axis}"
    return f"{where}: {site.axis_reason}" if site.axis_reason else where


def _role(site: Site) -> str:
    return f"{site.role} of {site.multiplies}" if site.multiplies else site.role


def _proofs(site: Site) -> str:
    return ", ".join(f"{proof} {count}" for proof, count in site.certified.items())


def _packed(histogram: PairHistogram | None) -> list[Any] | None:
    """Return both ranges, and a character for each cell: its height on a scale of square roots."""
    if histogram is None:
        return None
    counts = [count for row in histogram.counts for count in row]
    ranges = [float(f"{end:.4g}") for end in (*histogram.x_range, *histogram.y_range)]
    return [*ranges, _levels(counts)]


def _levels(counts: Sequence[int]) -> str:
    most, highest = max(counts, default=0) or 1, len(LEVELS) - 1
    return "".join(LEVELS[math.ceil(highest * math.sqrt(count / most))] for count in counts)


def _rounded(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
