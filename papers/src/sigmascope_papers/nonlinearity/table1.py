"""Table 1: no other metric says what the affinity score says; correlations averaged over groups of
networks.

How the correlations come about stands in `correlated`. The paper's own networks are compared number
by number. Ours have no counterpart, so that signs are compared, group by group, wherever the
paper's mean is at least 0.3 in size; entropy, whose sign there is unknown, may be turned once for
all groups. The paper's claim is that no metric correlates strongly *and*
consistently: the consistency of a metric is the largest c such that all groups of the table have a
    mean of c or more, or all
of -c or less.
"""

from __future__ import annotations

import math

import numpy as np

from sigmascope.compare.correlation import FamilyCorrelations
from sigmascope.figures import Drawn, draw_correlations
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.nonlinearity.correlated import (
    SIGNED,
    TITLES,
    Correlated,
    compare_row,
    measure_correlations,
)
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_1, TABLE_1_STD

__all__ = ["ITEM", "consistency"]

# Of fewer groups nothing can be said about all.
FEWEST = 4
WEAK, STRONG = 0.3, 0.7
UNKNOWN = (math.nan,) * len(METRICS)


def group_means(found: FamilyCorrelations) -> dict[str, Array]:
    """Return the means of the groups of the paper's table, in the order of its metrics; NaN where
    one has none.
    """
    return {group: np.array(row) for group, row in _rows(found).items() if group in TABLE_1}


def consistency(means: Array) -> float:
    """Return the weakest of correlations that all have one sign; negative where they have not.

    >>> consistency(np.array([-0.5, -0.9])), consistency(np.array([-0.5, 0.9]))
    (0.5, -0.5)
    """
    return float(max(means.min(), -means.max()))


def judge(found: Correlated) -> list[Check]:
    """No metric is consistent: at most 0.3 (a tenth of the variance) in some group, in direction
    0.7 (half of it).

    Different metrics are the strongest in different groups: three or more of the five somewhere, in
    direction two. Signs: the same in all groups, in direction in more than half.
    """
    means = group_means(found.published.by_family())
    checks = [
        _no_consistent(means, "published axes"),
        _no_consistent(group_means(found.kept.by_family()), "channels kept"),
        _strongest(means),
    ]
    if found.trained:
        return checks + [
            compare_row(f"{group}: {', '.join(TITLES.values())}", TABLE_1[group], row)
            for group, row in means.items()
        ]
    return checks + [_signs(metric, means) for metric in METRICS]


def _complete(means: dict[str, Array]) -> Array:
    return np.array([row for row in means.values() if np.isfinite(row).all()]).reshape(
        -1, len(METRICS)
    )


def _no_consistent(means: dict[str, Array], axes: str) -> Check:
    claim, expected = (
        f"no metric correlates strongly in all groups, {axes}",
        f"below {WEAK} in some group, for every metric",
    )
    table = _complete(means)
    if len(table) < FEWEST:
        return untried(
            claim,
            expected,
            f"{len(table)} groups of the table with all metrics; {FEWEST} are needed",
        )
    worst = {
        TITLES[metric]: consistency(column) for metric, column in zip(METRICS, table.T, strict=True)
    }
    told = ", ".join(
        f"{name} {column.mean():.2f} ({column.std():.2f})"
        for name, column in zip(worst, table.T, strict=True)
    )
    name = max(worst, key=worst.__getitem__)
    obtained = (
        f"{name} comes nearest, with {worst[name]:.2f} in its weakest group; means (std) over "
        f"{len(table)} groups: {told}"
    )
    return relation(claim, expected, obtained, true=worst[name] < STRONG, clear=worst[name] < WEAK)


def _strongest(means: dict[str, Array]) -> Check:
    claim, expected = (
        "different metrics are the strongest in different groups",
        "3 or more (5 in the paper)",
    )
    known = {group: row for group, row in means.items() if np.isfinite(row).all()}
    if len(known) < FEWEST:
        return untried(
            claim,
            expected,
            f"{len(known)} groups of the table with all metrics; {FEWEST} are needed",
        )
    strongest = {group: TITLES[METRICS[int(np.abs(row).argmax())]] for group, row in known.items()}
    count = len(set(strongest.values()))
    obtained = f"{count}: " + ", ".join(f"{group} {name}" for group, name in strongest.items())
    return relation(claim, expected, obtained, true=count >= 2, clear=count >= 3)


def _signs(metric: str, means: dict[str, Array]) -> Check:
    """Compare the signs of one metric in the groups where the paper's correlation is clear."""
    place = METRICS.index(metric)
    clear = {group: row[place] for group, row in TABLE_1.items() if abs(row[place]) >= SIGNED}
    ours = {
        group: float(means[group][place])
        for group in clear
        if group in means and np.isfinite(means[group][place])
    }
    claim = f"{TITLES[metric]}: sign of the correlation"
    expected = ", ".join(f"{group} {value:.2f}" for group, value in clear.items())
    if len(ours) < 2:
        return untried(claim, expected, "fewer than two of these groups are here")
    same = [np.sign(value) == np.sign(clear[group]) for group, value in ours.items()]
    hits = max(sum(same), len(same) - sum(same)) if metric == "entropy" else sum(same)
    turned = " with the sign turned" if metric == "entropy" and hits > sum(same) else ""
    told = ", ".join(f"{group} {value:.2f}" for group, value in ours.items())
    obtained = f"{hits} of {len(same)} agree{turned}: {told}"
    return relation(claim, expected, obtained, true=hits > len(same) / 2, clear=hits == len(same))


def draw(found: Correlated) -> dict[str, Drawn]:
    """Draw the paper's table, ours with the axes as published, and ours with the channels kept."""
    tables = {
        "paper": {
            group: list(TABLE_1.get(group, UNKNOWN)) for group in dict.fromkeys(found.kept.families)
        },
        "here, published axes": _rows(found.published.by_family()),
        "here, channels kept": _rows(found.kept.by_family()),
    }
    drawn = draw_correlations(tables, [TITLES[metric] for metric in METRICS])
    table = [{**row, **_spreads(found, str(row["table"]), str(row["row"]))} for row in drawn.table]
    return {"": Drawn(drawn.figure, drawn.axes, table)}


def _rows(found: FamilyCorrelations) -> dict[str, list[float]]:
    means = np.array([found.mean[:, found.metrics.index(metric)] for metric in METRICS]).T
    return dict(zip(found.families, means.tolist(), strict=True))


def _spreads(found: Correlated, title: str, group: str) -> dict[str, float]:
    """Return the standard deviations over the networks of a group, and how many there are."""
    if title == "paper":
        stds = TABLE_1_STD.get(group, UNKNOWN)
        return {f"{TITLES[metric]} std": std for metric, std in zip(METRICS, stds, strict=True)}
    own = (found.published if "published" in title else found.kept).by_family()
    place = own.families.index(group)
    own_stds = {
        f"{TITLES[metric]} std": float(own.std[place, own.metrics.index(metric)])
        for metric in METRICS
    }
    return {"networks": int(own.counts[place].max()), **own_stds}


ITEM = Item(measure=measure_correlations, judge=judge, draw=draw)
