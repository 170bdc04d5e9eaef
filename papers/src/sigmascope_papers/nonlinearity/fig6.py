"""Figure 6: does the signature explain accuracy better than size does?

In each family of the paper, accuracy is fitted by a line on each of six statistics of the signature
(min, max, mean, median, std, spread) and on depth, parameters and FLOPs; the best statistic stands
beside the best size, by R² on the networks themselves as in the paper. A family has four to nine
networks, and the best of six has an advantage over the best of three, so a claim holds only if the
leave-one-out R² says the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from sigmascope.compare.accuracy import SEARCHED, SIZES, AccuracyFit, AccuracyFits, fit_accuracy
from sigmascope.figures import Drawn, draw_accuracy
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.setting import Setting, facts_of

__all__ = ["ITEM", "Family"]

EARLY, LATE = ("pre-residual", "residual", "NAS"), ("ViTs", "post-ViT")
# A line through three points leaves a single one to judge it by.
FEWEST = 4
# What counts as similar, and as an explanation at all.
SIMILAR, EXPLAINS = 0.1, 0.5


@dataclass(frozen=True, eq=False)
class Family:
    """The fits of one family: predictor -> fit, for every statistic and every size."""

    fits: dict[str, AccuracyFit]

    @property
    def n(self) -> int:
        """How many networks have an accuracy and scores."""
        return self.fits[SEARCHED[0]].n

    def best(self, among: tuple[str, ...]) -> AccuracyFit | None:
        """Return the fit with the highest R² of some predictors, or None where none has one."""
        fitted = [self.fits[key] for key in among if math.isfinite(self.fits[key].r2)]
        return replace(max(fitted, key=lambda fit: fit.r2), tried=len(fitted)) if fitted else None


def measure(setting: Setting) -> dict[str, Family]:
    """Fit every family of the cast on everything."""
    runs = setting.runs(setting.cast.names())
    facts = {name: asdict(one) for name, one in facts_of(runs).items()}
    signatures, families = [run.signature for run in runs], setting.cast.families()
    found = {
        on: fit_accuracy(signatures, facts, on=on, families=families).fits
        for on in (*SEARCHED, *SIZES)
    }
    names = [fit.family for fit in found[SEARCHED[0]]]
    return {
        name: Family({on: fits[place] for on, fits in found.items()})
        for place, name in enumerate(names)
    }


def judge(families: Mapping[str, Family]) -> list[Check]:
    """The signature beats size: by R², clearly if by leave-one-out R² too, and that is positive.

    NAS: parameters beat every statistic, clearly if the other sizes too. Pre-residual: spread is
        the best statistic, within 0.1
    of depth in R², and both are at least 0.5, since two that explain nothing are not similar
    explanations; in direction if only the first is missing. The best statistic is the spread in all
    three early families, in direction in two: if each of six were equally likely, the chances are
    0.005 and 0.07. It is median or min in both late ones: 1 in 9; in one alone it would be more
    likely than not, so that counts as failed.
    """
    return [
        *(_signature_wins(name, families.get(name)) for name in ("residual", *LATE)),
        _parameters_win(families.get("NAS")),
        _spread_like_depth(families.get("pre-residual")),
        _chosen(families, EARLY, ("spread",), most=True),
        _chosen(families, LATE, ("median", "min"), most=False),
    ]


def _rivals(family: Family | None) -> tuple[AccuracyFit, AccuracyFit] | str:
    """Return the best statistic and the best size, or why the family cannot be judged."""
    if family is None:
        return "the family is not among the networks"
    if family.n < FEWEST:
        return (
            f"{family.n} network{'s' * (family.n != 1)} with a known accuracy; a line needs "
            f"{FEWEST} to be judged"
        )
    statistic, size = family.best(SEARCHED), family.best(SIZES)
    return (
        (statistic, size)
        if statistic and size
        else "no fit: the accuracies, the statistics or the sizes do not differ"
    )


def _told(fit: AccuracyFit) -> str:
    slope = "rising" if fit.coefficients[1] > 0 else "falling"
    return f"{fit.on} R² {fit.r2:.2f} (leave-one-out {fit.r2_loo:.2f}, {slope})"


def _told_both(statistic: AccuracyFit, size: AccuracyFit) -> str:
    return (
        f"n = {statistic.n}; best of {statistic.tried}: {_told(statistic)}; best of "
        f"{size.tried}: {_told(size)}"
    )


def _signature_wins(name: str, family: Family | None) -> Check:
    claim, expected = (
        f"{name}: the signature explains accuracy better than size",
        "higher R², leave-one-out too",
    )
    rivals = _rivals(family)
    if isinstance(rivals, str):
        return untried(claim, expected, rivals)
    statistic, size = rivals
    clear = statistic.r2_loo > max(size.r2_loo, 0)
    return relation(
        claim, expected, _told_both(statistic, size), true=statistic.r2 > size.r2, clear=clear
    )


def _parameters_win(family: Family | None) -> Check:
    claim, expected = "NAS: the number of parameters explains most", "highest R² of all"
    rivals = _rivals(family)
    if family is None or isinstance(rivals, str):
        return untried(claim, expected, str(rivals))
    statistic, size = rivals
    parameters = family.fits["parameters"]
    told = (
        f"n = {family.n}; parameters R² {parameters.r2:.2f}; "
        f"{_told_both(*rivals).partition('; ')[2]}"
    )
    return relation(
        claim, expected, told, true=parameters.r2 > statistic.r2, clear=size.on == "parameters"
    )


def _spread_like_depth(family: Family | None) -> Check:
    claim = "pre-residual: the spread explains accuracy similarly to depth"
    expected = f"spread the best statistic; R² at least {EXPLAINS:g}, at most {SIMILAR:g} apart"
    rivals = _rivals(family)
    if family is None or isinstance(rivals, str):
        return untried(claim, expected, str(rivals))
    spread, depth = family.fits["spread"].r2, family.fits["depth"].r2
    return relation(
        claim,
        expected,
        f"n = {family.n}; spread R² {spread:.2f}, depth R² {depth:.2f}; best statistic: "
        f"{_told(rivals[0])}",
        true=abs(spread - depth) <= SIMILAR and min(spread, depth) >= EXPLAINS,
        clear=rivals[0].on == "spread",
    )


def _chosen(
    families: Mapping[str, Family], names: tuple[str, ...], wanted: tuple[str, ...], *, most: bool
) -> Check:
    """Judge which statistic is the best in some families; with `most`, one family may differ for
    the direction to hold.
    """
    when = "before" if names == EARLY else "from"
    claim, expected = (
        f"{when} ViTs {'on ' * (not most)}the best statistic is the {' or the '.join(wanted)}",
        f"in {', '.join(names)}",
    )
    found = {
        name: rivals[0].on
        for name in names
        if not isinstance(rivals := _rivals(families.get(name)), str)
    }
    if len(found) < len(names):
        missing = [name for name in names if name not in found]
        return untried(
            claim, expected, "; ".join(f"{name}: {_rivals(families.get(name))}" for name in missing)
        )
    hits = sum(on in wanted for on in found.values())
    told = ", ".join(f"{name} {on}" for name, on in found.items())
    return relation(claim, expected, told, true=hits >= len(names) - most, clear=hits == len(names))


def draw(families: Mapping[str, Family]) -> dict[str, Drawn]:
    """Draw accuracy against the best statistic of each family, and against the best size."""
    return {
        part: draw_accuracy(AccuracyFits(tuple(fits), {}))
        for part, among in (("", SEARCHED), ("size", SIZES))
        if (
            fits := [
                family.best(among) or family.fits[among[0]]
                for family in families.values()
                if family.n
            ]
        )
    }


ITEM = Item(measure=measure, judge=judge, draw=draw)
