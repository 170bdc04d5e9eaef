"""What all results of a comparison have: text, HTML, a frame, numbers for loggers, a figure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope.choices import Predictor, Statistic, values_of
from sigmascope.compare.accuracy import SEARCHED, SIZES
from sigmascope.figures import Drawn
from sigmascope.measure.result import STATISTICS
from sigmascope.tables import Table, aligned, as_lines
from tests.compare.made import made, populated

METRICS = {"cka": [0.1, 0.5, 0.4, 0.9]}
THREE = [
    made("one", [0.2, 0.4, 0.9, 0.7], METRICS),
    made("<two>", [0.3, 0.1, 0.8, 0.5], METRICS),
    made("three", [0.3, 0.2, 0.9, 0.9], METRICS),
]
POPULATED = [populated(one) for one in THREE]
ACCURACIES = {"one": 70.0, "<two>": 75.0, "three": 76.0}
RESULTS: dict[str, Callable[[], Any]] = {
    "statistics": lambda: sg.statistics(THREE),
    "distances": lambda: sg.distances(THREE),
    "clustering": lambda: sg.distances(THREE).cluster(),
    "embedding": lambda: sg.distances(THREE).embed(),
    "population statistics": lambda: sg.statistics(POPULATED, by="population"),
    "densities": lambda: sg.densities(THREE),
    "difference": lambda: sg.difference(*POPULATED[:2]),
    "correlations": lambda: sg.correlations(THREE),
    "family correlations": lambda: sg.correlations(THREE).by_family(),
    "fits": lambda: sg.fit_accuracy(THREE, ACCURACIES, on="mean"),
}
each_result = pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)


@each_result
def test_it_draws_itself(make: Callable[[], Any]) -> None:
    drawn = make().plot()
    assert isinstance(drawn, Drawn)
    assert drawn.table


@each_result
def test_the_html_shows_what_the_text_shows(make: Callable[[], Any]) -> None:
    result = make()
    shown = html.unescape(re.sub(r"<[^<>]*>", " ", result._repr_html_()))
    assert shown.split() == repr(result).split()
    assert "<two>" not in result._repr_html_()


@each_result
def test_the_dict_is_flat_and_prefixed(make: Callable[[], Any]) -> None:
    numbers = make().to_dict("run/")
    assert numbers
    assert all(key.startswith("run/") for key in numbers)
    assert all(type(value) in (int, float) for value in numbers.values())
    assert make().to_dict() == {
        key.removeprefix("run/"): pytest.approx(value, nan_ok=True)
        for key, value in numbers.items()
    }


def test_the_keys_name_networks_and_columns() -> None:
    assert sg.statistics(THREE).to_dict()["one/mean"] == pytest.approx(0.55)
    found = sg.distances(THREE)
    assert list(found.to_dict()) == ["one vs <two>", "one vs three", "<two> vs three"]
    assert found.to_dict("d/")["d/one vs three"] == found.matrix[0, 2]
    assert found.embed().to_dict("d/")["d/stress"] == found.embed().stress
    assert {"1/height", "2/networks"} <= set(found.cluster().to_dict())
    assert set(sg.correlations(THREE).to_dict()) == {"one/cka", "<two>/cka", "three/cka"}
    assert {"all/r2", "all/r2_loo"} <= set(sg.fit_accuracy(THREE, ACCURACIES).to_dict())
    assert "all/cka_std" in sg.correlations(THREE).by_family().to_dict()


def test_the_predictors_are_the_statistics_and_sizes() -> None:
    assert values_of(Statistic) == tuple(STATISTICS)
    assert values_of(Predictor) == ("best", *STATISTICS, *SIZES)
    assert set(SEARCHED) < set(STATISTICS)


def test_a_table_has_a_title_and_notes() -> None:
    table = Table({"name": ["a", "b"], "value": [1, math.nan]}, "Title", ["A & B."])
    assert table.text().splitlines() == ["Title", "", *as_lines(table.columns), "", "A & B."]
    assert table.html().endswith("</table><p>A &amp; B.</p>")
    assert aligned([["a"]], set()) == ["a"]


def test_a_generator_is_a_seed() -> None:
    found = sg.distances(THREE)
    one, two = (found.embed(seed=torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.to_dict() == two.to_dict()
