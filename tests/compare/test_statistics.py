"""One row of statistics per network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.compare.statistics import statistics
from tests.compare.made import made

SCORES = [0.1, 0.4, 0.8, 0.5]


def test_every_statistic_by_hand() -> None:
    found = statistics([made("a", SCORES), made("b", [0.5, math.nan])])
    assert found.names == ("a", "b")
    assert {name: values[0] for name, values in found.table.items()} == pytest.approx(
        {
            "sites": 4,
            "min": 0.1,
            "median": 0.45,
            "max": 0.8,
            "mean": 0.45,
            "std": math.sqrt((0.35**2 + 0.05**2 + 0.35**2 + 0.05**2) / 4),
            "spread": 0.7,
            "iqr": 0.575 - 0.325,
        }
    )
    assert found.table["sites"] == (4, 1)
    assert found.table["spread"][1] == 0


def test_the_order_of_sites_does_not_matter_but_their_scores_do() -> None:
    table = statistics(
        [made("a", SCORES), made("b", SCORES[::-1]), made("c", [0.05, 0.3, 0.9, 0.95, 0.2])]
    ).table
    for values in table.values():
        assert values[0] == pytest.approx(values[1])
        assert values[0] != pytest.approx(values[2])


def test_it_prints_one_row_per_network() -> None:
    assert repr(statistics([made("resnet18", SCORES), made("b", [0.5])])).splitlines() == [
        "network   sites     min  median     max    mean     std  spread     iqr",
        "resnet18      4  0.1000  0.4500  0.8000  0.4500  0.2500  0.7000  0.2500",
        "b             1  0.5000  0.5000  0.5000  0.5000  0.0000  0.0000  0.0000",
    ]


def test_the_frame_holds_the_numbers() -> None:
    frame = statistics([made("a", SCORES), made("b", [0.5])]).to_frame()
    assert frame.columns.tolist() == [
        "network",
        "sites",
        "min",
        "median",
        "max",
        "mean",
        "std",
        "spread",
        "iqr",
    ]
    assert frame["network"].tolist() == ["a", "b"]
    assert frame["sites"].tolist() == [4, 1]
    assert frame.loc[0, "max"] == np.max(SCORES)
