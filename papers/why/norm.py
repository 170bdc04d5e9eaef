"""Why does the norm correlate with the score with another sign than in the paper (Table 1)?

    python papers/why/norm.py

The norm is ‖X − Y‖ over channels and images: it grows with the number of channels and with the
scale of the inputs, neither of which the score sees. From stored signatures, in seconds: the
correlation of the score with the norm, with the norm per root of channels, and with the norm at a
given depth (partial), beside the correlations of both with depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sigmascope.errors import InputError
from sigmascope.measure.result import Signature
from sigmascope_papers.nonlinearity.correlated import OTHER_AXES, SIGNED
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_1, TABLE_2
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import PUBLISHED, Setting

COLUMNS = ("norm", "per √channels", "at a depth", "score with depth", "norm with depth")
NORM = METRICS.index("norm")
FEWEST = 5


def correlations(one: Signature) -> tuple[float, ...]:
    """Return what `COLUMNS` says, over the calls with both numbers."""
    score = one.scores
    norm = np.array([site.metrics.get("norm", np.nan) for site in one.sites])
    known = np.isfinite(score) & np.isfinite(norm)
    if known.sum() < FEWEST:
        return (np.nan,) * len(COLUMNS)
    width = np.array([site.dim for site in one.sites])[known]
    depth, score, norm = np.flatnonzero(known), score[known], norm[known]
    plain, scores, norms = (
        float(np.corrcoef(a, b)[0, 1]) for a, b in ((score, norm), (score, depth), (norm, depth))
    )
    partial = (plain - scores * norms) / np.sqrt((1 - scores**2) * (1 - norms**2))
    per_channel = float(np.corrcoef(score, norm / np.sqrt(width))[0, 1])
    return plain, per_channel, float(partial), scores, norms


def zoo(setting: Setting) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the rows of our networks by group, with the published axes."""
    cast = setting.cast
    runs = setting.runs(cast.names(), compat=True)
    runs += setting.runs(cast.names(*OTHER_AXES), pool=PUBLISHED, compat=True)
    found = {run.signature.name: run.signature for run in runs}  # the latter replace the former
    rows: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, group in cast.groups().items():
        rows.setdefault(group, {})[name] = correlations(found[name])
    return rows


def real(setting: Setting) -> dict[str, tuple[float, ...]]:
    """Return the rows of the networks of others that are stored."""
    rows = {}
    for name, one in NETWORKS.items():
        try:
            [found] = signatures(setting, [name]).values()
        except InputError:
            continue
        rows[one.title] = correlations(found)
    return rows


def mean(rows: Mapping[str, tuple[float, ...]]) -> Any:
    """Return the mean of the rows that have numbers."""
    known = [row for row in rows.values() if np.isfinite(row).all()]
    return np.mean(known, axis=0) if known else np.full(len(COLUMNS), np.nan)


def line(name: str, row: Any, paper: float | None = None) -> str:
    """Return a row of a table."""
    told = " | ".join(f"{value:.2f}" for value in row)
    return f"| {name} | {told} | {'' if paper is None else f'{paper:.2f}'} |"


def head(what: str) -> None:
    """Print the head of a table."""
    print(f"\n| {what} | {' | '.join(COLUMNS)} | paper's norm |\n|---|{'--:|' * 6}")


def summary(rows: Mapping[str, tuple[float, ...]]) -> str:
    """Return what holds over networks, whatever their group."""
    values = np.array([row for row in rows.values() if np.isfinite(row).all()])
    grows = int((values[:, 4] > 0).sum())
    rank = spearmanr(values[:, 0], values[:, 3])
    return (
        f"the norm grows with depth in {grows} of {len(values)} networks; its correlation with the "
        f"score follows that of the score with depth: Spearman {rank.statistic:.2f}, "
        f"p = {rank.pvalue:.2g}"
    )


def main() -> None:
    """Print the groups, the networks of others, and what holds over all."""
    setting = Setting()
    groups, others = zoo(setting), real(setting)
    head("group of our networks")
    for group, rows in groups.items():
        paper = TABLE_1.get(group, (None,) * len(METRICS))[NORM]
        print(line(group, mean(rows), paper))
    head("network of others")
    papers = {one.title: TABLE_2[name][NORM] for name, one in NETWORKS.items() if name in TABLE_2}
    for name, row in others.items():
        print(line(name, row, papers.get(name)))
    ours = {name: row for rows in groups.values() for name, row in rows.items()}
    print(f"\nOurs: {summary(ours)}.\nOthers: {summary(others)}.")
    compared = {group: TABLE_1[group][NORM] for group in groups if group in TABLE_1}
    signs = {group: value for group, value in compared.items() if abs(value) >= SIGNED}
    for column, told in enumerate(COLUMNS[:3]):
        means = {group: mean(groups[group])[column] for group in signs}
        same = [group for group, value in signs.items() if means[group] * value > 0]
        print(f"Signs as in the paper, {told}: {len(same)} of {len(signs)}: {', '.join(same)}.")


if __name__ == "__main__":
    main()
