"""By how much published scores exceed population scores, site by site."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sigmascope.measure.result import Signature
from sigmascope_papers.figures.rejudged import MOVE, STAY, WHERE
from sigmascope_papers.item import FAILS, HOLDS, OURS, UNTESTED, WEAKLY, Check
from sigmascope_papers.nonlinearity.population import moves

FEW = 1 / 20


def gaps(published: Sequence[Signature], population: Sequence[Signature]) -> list[dict[str, Any]]:
    """Return a row for every site of the networks; the gap is NaN where a score is missing."""
    return [row for pair in zip(published, population, strict=True) for row in _gaps(*pair)]


def _gaps(published: Signature, population: Signature) -> list[dict[str, Any]]:
    scores = {(site.name, site.kind): site.score for site in published.sites}
    return [
        {
            "network": published.name,
            "site": site.name,
            "d": site.dim,
            "where": MOVE if moves(site) else STAY,
            "gap": scores[site.name, site.kind] - site.population,
            "half-width": (site.high - site.low) / 2,
        }
        for site in population.sites
    ]


def judge_gaps(rows: Sequence[dict[str, Any]]) -> Check:
    """Judge whether published scores are too high.

    They are if none is below the interval of the population score, and weakly if one in twenty is.
    """
    known = [row for row in rows if not math.isnan(row["gap"])]
    below = sum(row["gap"] < -row["half-width"] for row in known)
    verdict = HOLDS if not below else WEAKLY if below <= FEW * len(known) else FAILS
    told = "; ".join(
        _told(where, own)
        for where in WHERE
        if (own := [row for row in known if row["where"] == where])
    )
    if missing := len(rows) - len(known):
        told += f"; {missing} sites have no published score"
    text = f"{OURS} the published score is too high"
    expected = "above the interval of the population score, or in it, at every site"
    return Check(text, expected, told or "no scores", verdict if known else UNTESTED)


def _told(where: str, rows: Sequence[dict[str, Any]]) -> str:
    gap, half = (np.array([row[key] for row in rows]) for key in ("gap", "half-width"))
    above, below = int((gap > half).sum()), int((gap < -half).sum())
    found = f"where {where}, above at {above}, below at {below} of {len(rows)} sites, "
    return found + f"by {np.median(gap):+.3f} in median ({gap.min():+.3f} to {gap.max():+.3f})"
