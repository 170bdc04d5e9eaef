"""One row of statistics per network."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from sigmascope.compare.statistics import statistics
from tests.compare.made import made, populated

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


def test_population_scores_have_intervals() -> None:
    network = populated(made("a", SCORES), bias=0.05)
    found = statistics([network], by="population")
    assert found.by == "population"
    assert found.table["mean"] == pytest.approx((0.4,))
    shares = np.mean([site.influence for site in network.sites], axis=0)
    stderr = math.sqrt(8 / 7 * np.square(shares).sum())
    assert found.half_width["mean"] == pytest.approx((student.ppf(0.975, 7) * stderr,))
    assert found.half_width["min"] == pytest.approx((student.ppf(0.975, 7) * 0.01,))
    lines = repr(found).splitlines()
    assert lines[0] == "Population scores, ± half the width of the 95 % interval"
    assert lines[2].split() == ["network", "sites", "min", "median", "max", "mean", "spread"]
    assert lines[3].startswith("a            4  0.0500 ± 0.0236  0.4000 ± ")
    assert found.to_frame().loc[0, "min_half_width"] == pytest.approx(0.0236, abs=1e-4)
    assert statistics([network]).half_width == {}
