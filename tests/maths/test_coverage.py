"""The short form of `benchmarks/coverage.py`: intervals contain the truth as often as they say."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def coverage():
    """The benchmark under a name of its own, since a well-known package has the same."""
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("coverage_benchmark", BENCHMARKS / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))
        del sys.modules[spec.name]


def test_the_short_form_meets_its_goals(coverage):
    outcomes = [coverage.measure(row, "cpu", None) for row in coverage.rows(True, {})]
    assert {coverage.verdict(one) for one in outcomes} == {"ok"}


def test_an_interval_half_as_wide_would_fail(coverage):
    """Negative control: the goal can be missed."""
    one = coverage.measure(next(coverage.rows(True, {})), "cpu", None)
    middle = (one.lows + one.highs) / 2
    narrow = replace(one, lows=(one.lows + 3 * middle) / 4, highs=(one.highs + 3 * middle) / 4)
    assert coverage.verdict(narrow) == "coverage"
