"""Table 2 on networks that others have trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigmascope.compare.correlation import Correlations, correlations
from sigmascope.figures import Drawn, draw_correlations
from sigmascope_papers.item import OURS, Check, Item, judge_by
from sigmascope_papers.nonlinearity.correlated import (
    DIFFER,
    REPLACE,
    TITLES,
    Correlated,
    compare_row,
)
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_2
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import Setting

SAME = ("resnet18",)  # the paper's own, whole and with its weights
FEWEST = 8  # calls: of AlexNet's five a correlation says nothing
NAMES = [name for name, one in NETWORKS.items() if sum(one.calls.values()) >= FEWEST]


@dataclass(frozen=True, eq=False)
class Rows(Correlated):
    """Correlations of the networks; the channels are kept in all of them."""

    def row(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the correlations of a network, in the order of the paper's columns."""
        found: Correlations = self.kept
        columns = [found.metrics.index(metric) for metric in METRICS]
        values: np.ndarray[tuple[int], np.dtype[np.float64]]
        values = found.values[found.names.index(name), columns]
        return values


def measure(setting: Setting) -> Rows:
    """Correlate the scores of every network with the metrics."""
    found = correlations(list(signatures(setting, NAMES).values()))
    return Rows(found, found, trained=False)


def _rows(found: Rows) -> list[Check]:
    """Compare the rows that the paper has: its own network, and relatives of others."""
    checks = []
    for name in NAMES:
        if name in TABLE_2:
            claim = name if name in SAME else f"{OURS} {name}, {NETWORKS[name].paper}"
            checks.append(compare_row(claim, TABLE_2[name], found.row(name)))
    return checks


def draw(found: Rows) -> dict[str, Drawn]:
    """Draw our rows, and the paper's where it has the networks."""
    here = {NETWORKS[name].title: found.row(name).tolist() for name in NAMES}
    paper = {NETWORKS[name].title: list(TABLE_2[name]) for name in NAMES if name in TABLE_2}
    return {"": draw_correlations({"paper": paper, "here": here}, list(TITLES.values()))}


ITEM = Item(measure, judge_by("real.real_table2", REPLACE[1], DIFFER[1], _rows), draw)
ITEMS = {"real-table2": ITEM}
