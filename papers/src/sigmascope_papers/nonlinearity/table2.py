"""Table 2: correlations of the affinity score with other metrics, network by network.

How they come about stands in `correlated`. The paper's own networks are compared row by row. The
paper reads off that no metric can reliably replace the score; reliably is taken as: |r| at least
0.7, which is half of the variance, with one sign.
"""

from __future__ import annotations

import numpy as np

from sigmascope.compare.correlation import Correlations
from sigmascope.figures import Drawn, draw_correlations
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.nonlinearity.correlated import (
    TITLES,
    Correlated,
    compare_row,
    measure_correlations,
)
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_2

__all__ = ["ITEM"]

FEWEST = 5
STRONG = 0.7
# A metric that is strong in no more than half of the networks is unreliable; one that is in nine of
# ten is reliable.
HALF, MOST = 0.5, 0.9
# Of the last line of the paper's table the least std is 0.35.
SPREAD, SOME_SPREAD = 0.3, 0.2


def _table(found: Correlations) -> dict[str, Array]:
    """Return the rows of all networks, in the order of the paper's metrics."""
    columns = [found.metrics.index(metric) for metric in METRICS]
    return dict(zip(found.names, found.values[:, columns], strict=True))


def judge(found: Correlated) -> list[Check]:
    """No metric is reliable: |r| of 0.7 or more with one sign in at most half of the networks, in
    direction in under 90 %.

    The correlations differ between networks: their std is at least 0.3 for every metric, in
    direction 0.2; the paper has 0.35 to 0.50. Rows of the paper's networks: see `compare_row`.
    """
    checks = [
        *_unreliable(_table(found.published), "published axes"),
        *_unreliable(_table(found.kept), "channels kept"),
    ]
    return checks + _rows_beside(found)


def _unreliable(rows: dict[str, Array], axes: str) -> list[Check]:
    claims = (
        f"no metric can replace the score, {axes}",
        f"correlations differ between networks, {axes}",
    )
    wanted = (
        f"|r| ≥ {STRONG} in at most half of them",
        f"std {SPREAD} or more (0.35 to 0.50 in the paper)",
    )
    table = np.array(list(rows.values())).reshape(-1, len(METRICS))
    known = [column[np.isfinite(column)] for column in table.T]
    if min(map(len, known)) < FEWEST:
        reason = f"{min(map(len, known))} networks with every metric; {FEWEST} are needed"
        return [
            untried(claim, expected, reason) for claim, expected in zip(claims, wanted, strict=True)
        ]
    shares = [float(max((column >= STRONG).mean(), (column <= -STRONG).mean())) for column in known]
    stds = [float(column.std()) for column in known]
    told = [f"{TITLES[metric]} {share:.0%}" for metric, share in zip(METRICS, shares, strict=True)]
    lines = [
        f"{TITLES[metric]} {column.mean():.2f} ± {std:.2f}"
        for metric, column, std in zip(METRICS, known, stds, strict=True)
    ]
    return [
        relation(
            claims[0],
            wanted[0],
            ", ".join(told),
            true=max(shares) < MOST,
            clear=max(shares) <= HALF,
        ),
        relation(
            claims[1],
            wanted[1],
            ", ".join(lines),
            true=min(stds) >= SOME_SPREAD,
            clear=min(stds) >= SPREAD,
        ),
    ]


def _rows_beside(found: Correlated) -> list[Check]:
    """Compare the rows of networks that the paper has; there are none among ours."""
    if not found.trained:
        reason = (
            "these are other networks, or other weights; --weights default --data "
            "imagefolder:DIR compares them"
        )
        return [untried("the rows of the paper's networks", "within 0.1", reason)]
    rows = {name.rpartition("/")[2]: row for name, row in _table(found.published).items()}
    return [compare_row(name, TABLE_2[name], row) for name, row in rows.items() if name in TABLE_2]


def draw(found: Correlated) -> dict[str, Drawn]:
    """Draw ours with both axes, and the paper's where it has the networks."""
    tables = {
        "published axes": {name: row.tolist() for name, row in _table(found.published).items()},
        "channels kept": {name: row.tolist() for name, row in _table(found.kept).items()},
    }
    paper = {
        name: list(TABLE_2[short])
        for name in found.kept.names
        if (short := name.rpartition("/")[2]) in TABLE_2
    }
    return {
        "": draw_correlations(
            ({"paper": paper} if paper else {}) | tables, [TITLES[metric] for metric in METRICS]
        )
    }


ITEM = Item(measure=measure_correlations, judge=judge, draw=draw)
