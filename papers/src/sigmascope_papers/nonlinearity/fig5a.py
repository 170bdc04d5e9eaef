"""Figure 5A: min, median and max score of a decade of networks, in order of their years."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.stats import skew

from sigmascope.compare.statistics import statistics
from sigmascope.figures import Drawn
from sigmascope.measure.result import STATISTICS, Signature
from sigmascope_papers.chance import Array, trend
from sigmascope_papers.figures.years import draw_years
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, level, measure_cast

EARLY = ("AlexNets", "VGGs")
BETWEEN = ("ResNets", "DenseNets", "MNASNets", "EffNets", "ViTs")
LAST = 2019  # the year before the first transformer
FEWEST = 4  # of three groups no order is rarer than one in six
RARE = 0.05
STRONG = -1.0  # the usual rule of thumb: beyond 1 a skewness is strong


def until_transformers(lineup: Lineup) -> dict[tuple[str, int], list[Signature]]:
    """Return the networks until the transformers, by group and year."""
    points: dict[tuple[str, int], list[Signature]] = {}
    for member in lineup.cast.members:
        if member.year <= LAST and member.name in lineup.signatures:
            own = points.setdefault((member.group, member.year), [])
            own.append(lineup.signatures[member.name])
    return points


def _rises(lineup: Lineup, statistic: str) -> Finding:
    points = until_transformers(lineup)
    years = [year for _, year in points]
    if len(points) < FEWEST:
        return f"there are {len(points)} groups until {LAST}, and a trend needs {FEWEST}"
    tau, chance = trend(years, [level(some, statistic) for some in points.values()])
    obtained = f"tau {tau:.2f}, p = {chance:.3f}, {len(points)} groups"
    batches = np.array(
        [np.median([_by_batch(one, statistic) for one in some], axis=0) for some in points.values()]
    )
    if batches.size > len(points):  # of one batch there is no more to say
        taus, chances = zip(*(trend(years, column) for column in batches.T.tolist()), strict=True)
        obtained += f"; single batches: tau {min(taus):.2f} to {max(taus):.2f}, "
        obtained += f"p = {min(chances):.3f} to {max(chances):.3f}"
    return obtained, tau > 0, chance <= RARE


def _by_batch(signature: Signature, statistic: str) -> Array:
    """Return a statistic over the sites for each of the batches."""
    sites = [site.scores for site in signature.sites if np.isfinite(site.score)]
    return np.array([STATISTICS[statistic](np.array(batch)) for batch in zip(*sites, strict=False)])


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.3f} to {high:.3f}" if low < high else f"{low:.3f}"


def _early_are_narrow(lineup: Lineup) -> Finding:
    later = [some for key, some in until_transformers(lineup).items() if key[0] not in EARLY]
    if not later:
        return f"there is nothing later until {LAST}"
    early = [one.summary()["spread"] for one in lineup.of(*EARLY)]
    others = [level(some, "spread") for some in later]
    narrower = np.median(early) < np.median(others)
    return f"{_span(early)}, later {_span(others)}", narrower, max(early) < min(others)


def _inception_widens(lineup: Lineup) -> Finding:
    early, own = [one.summary() for one in lineup.of(*EARLY)], lineup.lead("Inceptions").summary()
    low, high = min(one["min"] for one in early), max(one["max"] for one in early)
    obtained = f"{own['min']:.3f} to {own['max']:.3f}, early {low:.3f} to {high:.3f}"
    wider = own["spread"] > max(one["spread"] for one in early)
    return obtained, wider, own["min"] < low and own["max"] > high


def _nas_is_skewed(lineup: Lineup) -> Finding:
    found = [float(skew(known(one))) for one in lineup.of("EffNets")]
    return ", ".join(f"{one:.2f}" for one in found), max(found) < 0, max(found) <= STRONG


def _transformers_break_it(lineup: Lineup) -> Finding:
    points = until_transformers(lineup)
    if not points:
        return "there is nothing before them"
    own = [one.summary()["median"] for one in lineup.of("ViTs")]
    before = [one.summary()["median"] for some in points.values() for one in some]
    below = np.median(own) < min(level(some, "median") for some in points.values())
    return f"{_span(own)}, before {_span(before)}", below, max(own) < min(before)


def _priors_bring_back(lineup: Lineup) -> Finding:
    home = corner_of(lineup, *EARLY)
    apart = {
        group: float(np.linalg.norm(corner_of(lineup, group) - home))
        for group in ("Swins", "ConvNeXts", *BETWEEN)
        if lineup.of(group)
    }
    back = max(apart["Swins"], apart["ConvNeXts"])
    obtained = ", ".join(f"{group} {distance:.3f}" for group, distance in apart.items())
    nearest = min(apart[group] for group in BETWEEN if group in apart)
    return obtained, back < apart["ViTs"], back < nearest


def corner_of(lineup: Lineup, *groups: str) -> Array:
    """Return min, median and max score of some groups, each the median over their networks."""
    return np.array([level(lineup.of(*groups), key) for key in ("min", "median", "max")])


def draw(lineup: Lineup) -> dict[str, Drawn]:
    """Draw all networks by their years."""
    cast = lineup.cast
    return {"": draw_years(statistics(lineup.of()), cast.years(), families=cast.families())}


RISES = [partial(_rises, statistic=key) for key in ("median", "max")]
OTHERS = (_early_are_narrow, _inception_widens, _nas_is_skewed, _transformers_break_it)
ITEM = item_of("fig5a", measure_cast, draw, *RISES, *OTHERS, _priors_bring_back)
