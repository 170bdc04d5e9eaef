"""Figure 5A: least, median and largest score of a decade of networks, in order of their years.

Signatures of all networks of the cast; five batches of 512 images, Ledoit–Wolf covariance. A group
of one year counts once, by the median over its networks. Early means AlexNets and VGGs.

That the maximum and average "non-linearity" kept increasing is read as said of the scores, since
the text calls the trend one toward linearity. A trend is judged by Kendall's tau with the year,
and by the share of all orders of the groups that rise as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import skew

from sigmascope.compare.statistics import statistics
from sigmascope.figures import Drawn
from sigmascope.measure.signature import STATISTICS, Signature
from sigmascope_papers.chance import trend
from sigmascope_papers.figures.years import draw_years
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.lineup import Array, Lineup, known, line_up
from sigmascope_papers.setting import Setting

__all__ = ["EARLY", "FEWEST", "ITEM", "LAST", "RARE", "corner_of"]

EARLY = ("AlexNets", "VGGs")
BETWEEN = ("ResNets", "DenseNets", "MNASNets", "EffNets", "ViTs")
LAST = 2019  # the year before the first transformer
FEWEST = 4  # of three groups no order is rarer than one in six
RARE = 0.05
STRONG = -1.0  # the usual rule of thumb: beyond 1 a skewness is strong


def measure(setting: Setting) -> Lineup:
    """Read or measure the signatures of the whole cast."""
    return line_up(setting, setting.cast.names())


def judge(lineup: Lineup) -> list[Check]:
    """A trend holds with p at most 0.05, in direction with any rise; the other claims as their
    functions say.
    """
    return [
        _rises(lineup, "median"),
        _rises(lineup, "max"),
        _early_are_narrow(lineup),
        _inception_widens(lineup),
        _nas_is_skewed(lineup),
        _transformers_break_it(lineup),
        _priors_bring_back(lineup),
    ]


def _level(signatures: Sequence[Signature], statistic: str) -> float:
    return float(np.median([one.summary()[statistic] for one in signatures]))


def _points(lineup: Lineup) -> dict[tuple[str, int], list[Signature]]:
    """Return the networks until the transformers, by group and year."""
    points: dict[tuple[str, int], list[Signature]] = {}
    for member in lineup.cast.members:
        if member.year <= LAST and member.name in lineup.signatures:
            points.setdefault((member.group, member.year), []).append(
                lineup.signatures[member.name]
            )
    return points


def _rises(lineup: Lineup, statistic: str) -> Check:
    claim, expected = (
        f"until {LAST} the {statistic} rises with the years",
        f"tau above 0, p at most {RARE}",
    )
    points = _points(lineup)
    years = [year for _, year in points]
    if len(points) < FEWEST:
        return untried(
            claim,
            expected,
            f"there are {len(points)} groups until {LAST}, and a trend needs {FEWEST}",
        )
    tau, chance = trend(years, [_level(some, statistic) for some in points.values()])
    levels = np.array(
        [np.median([_by_batch(one, statistic) for one in some], axis=0) for some in points.values()]
    )
    taus, chances = zip(*(trend(years, column) for column in levels.T.tolist()), strict=True)
    obtained = (
        f"tau {tau:.2f}, p = {chance:.3f}, {len(points)} groups; single batches: tau "
        f"{min(taus):.2f} to {max(taus):.2f}, "
    )
    obtained += f"p = {min(chances):.3f} to {max(chances):.3f}"
    return relation(claim, expected, obtained, true=tau > 0, clear=chance <= RARE)


def _by_batch(signature: Signature, statistic: str) -> Array:
    """Return a statistic over the sites for each of the batches."""
    sites = [site.scores for site in signature.sites if np.isfinite(site.score)]
    return np.array([STATISTICS[statistic](np.array(batch)) for batch in zip(*sites, strict=False)])


def _early_are_narrow(lineup: Lineup) -> Check:
    """Early networks spread less than later ones in the median; clearly if each less than every
    later group until 2019.
    """
    claim, expected = "early convolutional networks spread little", "less than each later group"
    later = {key: some for key, some in _points(lineup).items() if key[0] not in EARLY}
    if (reason := lineup.lacks(*EARLY)) or not later:
        return untried(claim, expected, reason or f"there is nothing later until {LAST}")
    early = [one.summary()["spread"] for one in lineup.of(*EARLY)]
    others = [_level(some, "spread") for some in later.values()]
    obtained = f"{min(early):.3f} to {max(early):.3f}, later {min(others):.3f} to {max(others):.3f}"
    return relation(
        claim,
        expected,
        obtained,
        true=bool(np.median(early) < np.median(others)),
        clear=max(early) < min(others),
    )


def _inception_widens(lineup: Lineup) -> Check:
    """GoogLeNet spreads more than each early network; clearly if it goes beyond all of them at both
    ends.
    """
    claim, expected = (
        "the inception network widens the range at both ends",
        "beyond all early networks",
    )
    if reason := lineup.lacks(*EARLY, "Inceptions"):
        return untried(claim, expected, reason)
    early, own = [one.summary() for one in lineup.of(*EARLY)], lineup.lead("Inceptions").summary()
    low, high = min(one["min"] for one in early), max(one["max"] for one in early)
    return relation(
        claim,
        expected,
        f"{own['min']:.3f} to {own['max']:.3f}, early {low:.3f} to {high:.3f}",
        true=own["spread"] > max(one["spread"] for one in early),
        clear=own["min"] < low and own["max"] > high,
    )


def _nas_is_skewed(lineup: Lineup) -> Check:
    """The skewness of the scores is negative in every EfficientNet; clearly if at most -1 in each."""
    claim, expected = "EfficientNets are skewed toward linearity", f"skewness at most {STRONG:g}"
    if reason := lineup.lacks("EffNets"):
        return untried(claim, expected, reason)
    found = [float(skew(known(one))) for one in lineup.of("EffNets")]
    obtained = ", ".join(f"{one:.2f}" for one in found)
    return relation(claim, expected, obtained, true=max(found) < 0, clear=max(found) <= STRONG)


def _transformers_break_it(lineup: Lineup) -> Check:
    """The median of the ViTs lies below that of every group before; clearly if each ViT lies below
    each network before.
    """
    claim, expected = (
        "ViTs are more non-linear than all before",
        "every median below all earlier ones",
    )
    points = _points(lineup)
    if (reason := lineup.lacks("ViTs")) or not points:
        return untried(claim, expected, reason or "there is nothing before them")
    own = [one.summary()["median"] for one in lineup.of("ViTs")]
    before = [one.summary()["median"] for some in points.values() for one in some]
    return relation(
        claim,
        expected,
        f"{min(own):.3f} to {max(own):.3f}, before {min(before):.3f} to {max(before):.3f}",
        true=bool(np.median(own) < min(_level(some, "median") for some in points.values())),
        clear=max(own) < min(before),
    )


def _priors_bring_back(lineup: Lineup) -> Check:
    """By least, median and largest score, both are nearer to the early networks than the ViTs;
    clearly if than all between.
    """
    claim, expected = (
        "Swin and ConvNeXt return to the early networks",
        "nearer than all from 2015 to 2020",
    )
    if reason := lineup.lacks(*EARLY, "ViTs", "Swins", "ConvNeXts"):
        return untried(claim, expected, reason)
    home = corner_of(lineup, *EARLY)
    apart = {
        group: float(np.linalg.norm(corner_of(lineup, group) - home))
        for group in ("Swins", "ConvNeXts", *BETWEEN)
        if lineup.of(group)
    }
    back = max(apart["Swins"], apart["ConvNeXts"])
    return relation(
        claim,
        expected,
        ", ".join(f"{group} {distance:.3f}" for group, distance in apart.items()),
        true=back < apart["ViTs"],
        clear=back < min(apart[group] for group in BETWEEN if group in apart),
    )


def corner_of(lineup: Lineup, *groups: str) -> Array:
    """Return least, median and largest score of some groups, each the median over their networks."""
    return np.array(
        [_level(lineup.of(*groups), statistic) for statistic in ("min", "median", "max")]
    )


def draw(lineup: Lineup) -> dict[str, Drawn]:
    """Draw all networks by their years."""
    return {
        "": draw_years(
            statistics(lineup.of()), lineup.cast.years(), families=lineup.cast.families()
        )
    }


ITEM = Item(measure=measure, judge=judge, draw=draw)
