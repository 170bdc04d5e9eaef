"""Beyond the paper: does the estimator of the covariance change which network is the more
non-linear one?

Signatures of all networks of the cast with the covariance of Ledoit and Wolf, which the paper uses,
and with the unbiased one, on the same images: 2560 in batches of n = 512. Networks are ranked by
the median and by the mean of their scores. A call with d channels is the harder to estimate the
larger d / n.

A rank correlation (Kendall's τ) of 0.9 leaves one pair of networks in twenty in the other order,
which changes no sentence about groups of networks; 0.7 one in seven, which spares only coarse ones.
How much the choice of images matters, at the same estimator, is told beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import kendalltau, spearmanr

from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.style import look
from sigmascope.measure.signature import STATISTICS, Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Estimates", "swaps"]

SAME, COARSE = 0.9, 0.7
CLOSE, NEAR = 0.02, 0.05
LEAST = 4  # networks: with fewer there are at most three pairs to be ordered
NAMES = {"shrunk": "Ledoit–Wolf", "unbiased": "unbiased"}


@dataclass(frozen=True, eq=False)
class Estimates:
    """Signatures of the same networks with both estimators.

    Attributes:
        shrunk: with that of Ledoit and Wolf.
        unbiased: with the unbiased one, in the same order.
        families: name of a network -> its family.
    """

    shrunk: tuple[Signature, ...]
    unbiased: tuple[Signature, ...]
    families: dict[str, str]

    def summaries(self, statistic: str) -> tuple[Array, Array]:
        """Return a statistic of all networks, (m,), with either estimator."""
        return _statistics(self.shrunk, statistic), _statistics(self.unbiased, statistic)


def _statistics(signatures: Sequence[Signature], statistic: str) -> Array:
    return np.array([one.summary()[statistic] for one in signatures])


def measure(setting: Setting) -> Estimates:
    """Read or measure the signatures of the whole cast, twice."""
    names = setting.cast.names()
    shrunk = [run.signature for run in setting.runs(names)]
    unbiased = [run.signature for run in setting.runs(names, covariance="unbiased", metrics=())]
    return Estimates(tuple(shrunk), tuple(unbiased), setting.cast.families())


def judge(found: Estimates) -> list[Check]:
    """The ranking stays: Kendall's τ of 0.9 or more, in direction 0.7; who changes places was
    within 0.02, or 0.05.

    Unbiased scores exceed the others the more, the more channels there are for each image: a rank
    correlation over all calls of 0.5 or more, in direction above 0.
    """
    checks = [_ranking(found, statistic) for statistic in ("median", "mean")]
    return [*checks, _swapped(found), _widths(found)]


def _ranking(found: Estimates, statistic: str) -> Check:
    claim, expected = f"the ranking by {statistic} is the same", f"Kendall's τ of {SAME} or more"
    shrunk, unbiased = found.summaries(statistic)
    if len(shrunk) < LEAST:
        return untried(
            claim,
            expected,
            f"a ranking needs at least {LEAST} networks, and there are {len(shrunk)}",
        )
    tau, rho = (
        float(kendalltau(shrunk, unbiased).statistic),
        float(spearmanr(shrunk, unbiased).statistic),
    )
    pairs = len(shrunk) * (len(shrunk) - 1) // 2
    told = f"τ {tau:.3f}, Spearman {rho:.3f}; {len(swaps(shrunk, unbiased))} of {pairs} pairs swap"
    if (halves := _by_images(found.shrunk, statistic)) is not None:
        told += f"; other images alone: τ {float(kendalltau(*halves).statistic):.3f}"
    return relation(claim, expected, told, true=tau >= COARSE, clear=tau >= SAME)


def swaps(one: Array, other: Array) -> list[tuple[int, int]]:
    """Return the pairs of places that are ordered one way here and the other way there."""
    pairs = combinations(range(len(one)), 2)
    return [(i, j) for i, j in pairs if (one[i] - one[j]) * (other[i] - other[j]) < 0]


def _by_images(signatures: Sequence[Signature], statistic: str) -> tuple[Array, Array] | None:
    """Return the statistic on the odd and on the even batches; None where there is only one batch."""
    if any(one.batches < 2 for one in signatures):
        return None
    batches = [
        np.array([site.scores for site in one.sites if site.batches == one.batches])
        for one in signatures
    ]
    odd, even = (
        np.array([STATISTICS[statistic](scores[:, start::2].mean(axis=1)) for scores in batches])
        for start in (0, 1)
    )
    return odd, even


def _swapped(found: Estimates) -> Check:
    claim, expected = (
        "networks that change places by median were close",
        f"within {CLOSE:g} with Ledoit–Wolf",
    )
    shrunk, unbiased = found.summaries("median")
    if len(shrunk) < LEAST:
        return untried(claim, expected, f"there are {len(shrunk)} networks")
    pairs = sorted(
        swaps(shrunk, unbiased), key=lambda pair: -abs(float(shrunk[pair[0]] - shrunk[pair[1]]))
    )
    if not pairs:
        return relation(claim, expected, "no pair swaps", true=True)
    i, j = pairs[0]
    apart = abs(float(shrunk[i] - shrunk[j]))
    names = " and ".join(found.shrunk[place].name.rpartition("/")[2] for place in (i, j))
    return relation(
        claim,
        expected,
        f"{apart:.3f} at most, {names}; {len(pairs)} pairs",
        true=apart <= NEAR,
        clear=apart <= CLOSE,
    )


def _shifts(found: Estimates) -> list[dict[str, Any]]:
    """Return one row for each call that both estimators scored."""
    return [
        {
            "network": one.name,
            "family": found.families.get(one.name, ""),
            "site": site.name,
            "channels per image": site.dim / site.n,
            "shift": same.score - site.score,
        }
        for one, other in zip(found.shrunk, found.unbiased, strict=True)
        for site, same in zip(one.sites, other.sites, strict=True)
        if np.isfinite(site.score) and np.isfinite(same.score)
    ]


def _widths(found: Estimates) -> Check:
    claim = "unbiased scores exceed the others the more, the larger d / n"
    rows = _shifts(found)
    ratios, shifts = (
        np.array([row[key] for row in rows]) for key in ("channels per image", "shift")
    )
    if len(np.unique(ratios)) < LEAST:
        return untried(
            claim,
            "rank correlation of 0.5 or more",
            "the calls have too few different numbers of channels",
        )
    rho = float(spearmanr(ratios, shifts).statistic)
    wide, over = ratios >= 0.5, ratios > 1
    parts = [
        f"{name}: {shifts[part].mean():+.4f}"
        for name, part in (("below d / n = 0.5", ~wide), ("from there on", wide))
        if part.any()
    ]
    told = f"{rho:.2f} over {len(rows)} calls; mean shift {', '.join(parts)}"
    if over.any():
        told += (
            f"; {over.sum()} calls with d above n, up to {ratios.max():g} n: "
            f"{shifts[over].min():+.4f} to "
        )
        told += f"{shifts[over].max():+.4f}"
    return relation(claim, "rank correlation of 0.5 or more", told, true=rho > 0, clear=rho >= 0.5)


@styled()
def draw(found: Estimates) -> dict[str, Drawn]:
    """Draw the medians with both estimators, in the order of one of them, and the shift of every
    call over d / n.
    """
    figure = new_figure(7, 3.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    medians = dict(zip(NAMES.values(), found.summaries("median"), strict=True))
    order = np.argsort(medians["Ledoit–Wolf"], kind="stable")
    names = [found.shrunk[place].name for place in order]
    drawn = draw_curves(
        range(len(order)), {name: values[order] for name, values in medians.items()}, left
    )
    for line in left.lines:
        line.set_linestyle("none")
    left.set_xticks(
        range(len(order)),
        [name.rpartition("/")[2] for name in names],
        rotation=60,
        ha="right",
        fontsize=6.5,
    )
    left.set(ylabel="median of the affinity scores")
    left.legend(loc="upper left")
    table: list[dict[str, Any]] = [
        {
            "panel": "medians",
            "network": names[int(row["at"])],
            "estimator": row["curve"],
            "median": row["mean"],
        }
        for row in drawn.table
    ]
    rows = _shifts(found)
    _draw_shifts(right, rows)
    return {
        "": Drawn(figure, (left, right), [*table, *({"panel": "shifts", **row} for row in rows)])
    }


def _draw_shifts(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    for number, family in enumerate(dict.fromkeys(row["family"] for row in rows)):
        color, marker, _ = look(number)
        own = [row for row in rows if row["family"] == family]
        points = [[row[key] for row in own] for key in ("channels per image", "shift")]
        axes.plot(
            *points, marker, color=color, markersize=3, markeredgewidth=0, alpha=0.7, label=family
        )
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="channels per image, d / n", ylabel="unbiased − Ledoit–Wolf")
    axes.legend(fontsize=6.5)


ITEM = Item(measure=measure, judge=judge, draw=draw)
