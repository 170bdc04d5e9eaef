"""Which layers and networks are the most non-linear, and which of them are tied."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sigmascope.choices import ScoreKind
from sigmascope.compare.contrast import lowest, same_samples
from sigmascope.compare.jackknife import ALONG
from sigmascope.compare.networks import has_scores, site_scores
from sigmascope.measure.result import Signature, Site


def ranking_estimator(signatures: Sequence[Signature], shown: ScoreKind) -> ScoreKind:
    """Return the estimator that ranks: population scores, whose intervals tell what is tied."""
    certain = signatures and all(has_scores(one, "population") for one in signatures)
    return "population" if certain else shown


def lowest_sites(signature: Signature, by: ScoreKind) -> list[int]:
    """Return the number of the site with the lowest score, then of those tied with it.

    Published scores have no interval, so that nothing is said to be tied. A population score that
    is only a lower bound does not rank, unless all are.
    """
    scores = site_scores(signature, by)
    known = np.flatnonzero(np.isfinite(scores)).tolist()
    if not known:
        return []
    if by == "published":
        return [int(np.nanargmin(scores))]
    known = [number for number in known if not signature.sites[number].moved] or known
    found = lowest([[signature.sites[number]] for number in known], ALONG["min"])
    return [known[number] for number in found]


def extremes(signatures: Sequence[Signature], by: ScoreKind) -> list[list[int]]:
    """Return the networks with the lowest and the highest median, each with those tied with it."""
    medians = [float(np.nanmedian(site_scores(one, by))) for one in signatures]
    if by == "published":
        return [[int(np.argmin(medians))], [int(np.argmax(medians))]]
    sites = [_scored(one) for one in signatures]

    def paired(one: int, other: int) -> bool:
        return same_samples(signatures[one], signatures[other])

    median = ALONG["median"]
    return [lowest(sites, median, paired), lowest(sites, lambda scores: -median(scores), paired)]


def _scored(signature: Signature) -> list[Site]:
    return [site for site in signature.counted if math.isfinite(site.population)]
