"""Beyond the paper: does the covariance estimator change which network is more non-linear?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import kendalltau, spearmanr

from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import look
from sigmascope.measure.result import STATISTICS, Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import Setting

SAME, COARSE = 0.9, 0.7  # Kendall's tau: one pair in twenty swaps, or one in seven
CLOSE, NEAR = 0.02, 0.05
LEAST = 4  # networks: with fewer there are at most three pairs to be ordered
RATIO = "channels per image"


@dataclass(frozen=True, eq=False)
class Estimates:
    """Signatures of the same networks with both estimators, and network -> family."""

    shrunk: tuple[Signature, ...]
    unbiased: tuple[Signature, ...]
    families: dict[str, str]

    def summaries(self, statistic: str) -> tuple[Array, Array]:
        """Return a statistic of all networks, (m,), with either estimator."""
        shrunk, unbiased = (
            np.array([one.summary()[statistic] for one in some])
            for some in (self.shrunk, self.unbiased)
        )
        return shrunk, unbiased


def measure(setting: Setting) -> Estimates:
    """Read or measure the signatures of the whole cast, twice."""
    names = setting.cast.names()
    both = setting.runs(names), setting.runs(names, covariance="unbiased", metrics=())
    shrunk, unbiased = (tuple(run.signature for run in runs) for runs in both)
    return Estimates(shrunk, unbiased, setting.cast.families())


def _ranking(found: Estimates, statistic: str) -> Finding:
    shrunk, unbiased = found.summaries(statistic)
    count = len(shrunk)
    if count < LEAST:
        return f"a ranking needs at least {LEAST} networks, and there are {count}"
    tau, rho = (float(by(shrunk, unbiased).statistic) for by in (kendalltau, spearmanr))
    swapped, pairs = len(swaps(shrunk, unbiased)), count * (count - 1) // 2
    obtained = f"τ {tau:.3f}, Spearman {rho:.3f}; {swapped} of {pairs} pairs swap"
    if (halves := _by_images(found.shrunk, statistic)) is not None:
        obtained += f"; other images alone: τ {float(kendalltau(*halves).statistic):.3f}"
    return obtained, tau >= COARSE, tau >= SAME


def swaps(one: Array, other: Array) -> list[tuple[int, int]]:
    """Return the pairs of places that are ordered one way here and the other way there."""
    pairs = combinations(range(len(one)), 2)
    return [(i, j) for i, j in pairs if (one[i] - one[j]) * (other[i] - other[j]) < 0]


def _by_images(signatures: Sequence[Signature], statistic: str) -> Array | None:
    """Return the statistic on the odd and on the even batches (2, m); None for a single batch."""
    if any(one.batches < 2 for one in signatures):
        return None
    batches = [
        np.array([site.scores for site in one.sites if site.batches == one.batches])
        for one in signatures
    ]
    of = STATISTICS[statistic]
    return np.array([[of(one[:, start::2].mean(axis=1)) for one in batches] for start in (0, 1)])


def _swapped(found: Estimates) -> Finding:
    shrunk, unbiased = found.summaries("median")
    if len(shrunk) < LEAST:
        return f"there are {len(shrunk)} networks"
    pairs = swaps(shrunk, unbiased)
    if not pairs:
        return "no pair swaps", True
    farthest = max(pairs, key=lambda pair: abs(float(shrunk[pair[0]] - shrunk[pair[1]])))
    apart = float(np.ptp(shrunk[list(farthest)]))
    names = " and ".join(found.shrunk[place].name.rpartition("/")[2] for place in farthest)
    return f"{apart:.3f} at most, {names}; {len(pairs)} pairs", apart <= NEAR, apart <= CLOSE


def shift_rows(found: Estimates) -> list[dict[str, Any]]:
    """Return one row for each call that both estimators scored."""
    return [
        {
            "network": one.name,
            "family": found.families.get(one.name, ""),
            "site": site.name,
            RATIO: site.dim / site.n,
            "shift": same.score - site.score,
        }
        for one, other in zip(found.shrunk, found.unbiased, strict=True)
        for site, same in zip(one.sites, other.sites, strict=True)
        if np.isfinite(site.score) and np.isfinite(same.score)
    ]


def _widths(found: Estimates) -> Finding:
    rows = shift_rows(found)
    ratios, shifts = (np.array([row[key] for row in rows]) for key in (RATIO, "shift"))
    if len(np.unique(ratios)) < LEAST:
        return "the calls have too few different numbers of channels"
    rho = float(spearmanr(ratios, shifts).statistic)
    wide, over = ratios >= 0.5, shifts[ratios > 1]
    halves = {"below d / n = 0.5": shifts[~wide], "from there on": shifts[wide]}
    parts = [f"{name}: {part.mean():+.4f}" for name, part in halves.items() if len(part)]
    told = f"{rho:.2f} over {len(rows)} calls; mean shift {', '.join(parts)}"
    if len(over):
        told += f"; {len(over)} calls with d above n, up to {ratios.max():g} n: "
        told += f"{over.min():+.4f} to {over.max():+.4f}"
    return told, rho > 0, rho >= 0.5


@styled()
def draw(found: Estimates) -> dict[str, Drawn]:
    """Draw the medians with both estimators, in order of one, and the shifts over d / n."""
    left, right = panels = new_figure(7, 3.2).subplots(1, 2, width_ratios=(1.5, 1))
    shrunk, unbiased = found.summaries("median")
    order = np.argsort(shrunk, kind="stable")
    names = [found.shrunk[place].name for place in order]
    short = [name.rpartition("/")[2] for name in names]
    curves = {"Ledoit–Wolf": shrunk[order], "unbiased": unbiased[order]}
    drawn = draw_curves(range(len(order)), curves, left)
    for line in left.lines:
        line.set_linestyle("none")
    left.set_xticks(range(len(order)), short, rotation=60, ha="right", fontsize=6.5)
    left.set(ylabel="median of the affinity scores")
    left.legend(loc="upper left")
    table: list[dict[str, Any]] = []
    for row in drawn.table:
        told = {"panel": "medians", "network": names[int(row["at"])], "estimator": row["curve"]}
        table.append({**told, "median": row["mean"]})
    rows = shift_rows(found)
    _draw_shifts(right, rows)
    return {"": finished(panels, [*table, *({"panel": "shifts", **row} for row in rows)])}


def _draw_shifts(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    for number, family in enumerate(dict.fromkeys(row["family"] for row in rows)):
        color, marker, _ = look(number)
        points = [(row[RATIO], row["shift"]) for row in rows if row["family"] == family]
        style: dict[str, Any] = {"markersize": 3, "markeredgewidth": 0, "alpha": 0.7}
        axes.plot(*zip(*points, strict=True), marker, color=color, label=family, **style)
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="channels per image, d / n", ylabel="unbiased − Ledoit–Wolf")
    axes.legend(fontsize=6.5)


RANKINGS = [partial(_ranking, statistic=one) for one in ("median", "mean")]
ITEM = item_of("beyond_covariance", measure, draw, *RANKINGS, _swapped, _widths)
