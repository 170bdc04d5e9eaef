"""Densities against golden values, the sum of kernels written out, and their laws."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sigmascope.choices import Boundary
from sigmascope.compare.density import densities
from sigmascope.errors import OptionError
from tests.compare.made import made

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "comparison.json").read_text()
)
SCORES = np.array([0.2, 0.5, 0.55, 0.9, 0.4])


def summed(scores: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, float]:
    """The definition: the mean of one Gaussian per score."""
    width = np.std(scores, ddof=1) * len(scores) ** -0.2
    kernels = np.exp(-(((grid[:, None] - scores) / width) ** 2) / 2) / (
        width * math.sqrt(2 * math.pi)
    )
    return kernels.mean(axis=1), float(width)


def test_it_is_the_mean_of_one_gaussian_per_score() -> None:
    (curve,) = densities([made("a", SCORES)], boundary="unbounded").curves
    expected, width = summed(SCORES, curve.grid)
    assert curve.name == "a"
    assert curve.values == pytest.approx(expected)
    assert curve.bandwidth == pytest.approx(width)
    assert len(curve.grid) == 200
    assert (curve.grid[0], curve.grid[-1]) == pytest.approx((0.2 - 3 * width, 0.9 + 3 * width))
    assert curve.values != pytest.approx(summed(SCORES + 0.01, curve.grid)[0])


def test_golden_values() -> None:
    scores, grid = np.array(GOLDEN["dtw"]["curves"][3]), np.array(GOLDEN["density"]["grid"])
    golden = np.array(GOLDEN["density"]["values"])
    assert summed(scores, grid)[0] == pytest.approx(golden, abs=1e-12)
    (curve,) = densities([made("a", scores)], points=4001, boundary="unbounded").curves
    inside = (grid > curve.grid[0]) & (grid < curve.grid[-1])
    assert inside.sum() > 20
    assert np.interp(grid[inside], curve.grid, curve.values) == pytest.approx(
        golden[inside], abs=1e-4
    )


@pytest.mark.parametrize("scores", [[0.98, 0.99, 1.0, 0.9], [0.0, 0.05, 0.1], [0.45, 0.5, 0.52]])
@pytest.mark.parametrize("boundary", ["reflect", "unbounded"])
def test_it_integrates_to_one_and_reaches_beyond_it_only_if_unbounded(
    scores: list[float], boundary: Boundary
) -> None:
    (curve,) = densities([made("a", scores)], points=2000, boundary=boundary).curves
    area = (curve.values[1:] + curve.values[:-1]).mean() / 2 * (curve.grid[-1] - curve.grid[0])
    assert area == pytest.approx(1, abs=4e-3)
    assert (curve.grid[-1] <= 1) == (boundary == "reflect" or max(scores) < 0.9)


def test_what_lies_beyond_one_is_reflected() -> None:
    scores = np.array([0.7, 0.8, 0.95, 1.0])
    (curve,) = densities([made("a", scores)]).curves
    expected = summed(scores, curve.grid)[0] + summed(scores, 2 - curve.grid)[0]
    assert curve.grid[-1] == 1
    assert curve.values == pytest.approx(expected)
    assert curve.values[-1] == pytest.approx(2 * summed(scores, np.ones(1))[0][0])
    with pytest.raises(OptionError, match="boundary='cut' is not a valid choice"):
        densities([made("a", scores)], boundary="cut")  # type: ignore[arg-type]


def test_the_order_of_sites_does_not_matter() -> None:
    one, other = densities([made("a", SCORES), made("b", SCORES[::-1])]).curves
    assert one.values == pytest.approx(other.values)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([0.5], "it has a single score, 0.5000"),
        ([0.3, 0.1 + 0.2, math.nan], "all 2 scores are equal, 0.3000"),
        ([0.0, 0.0, 0.0], "all 3 scores are equal, 0.0000"),
    ],
)
def test_equal_scores_have_no_density_but_a_reason(scores: list[float], reason: str) -> None:
    found = densities([made("same", scores), made("a", SCORES)])
    assert found.names == ("same", "a")
    assert [curve.name for curve in found.curves] == ["a"]
    assert found.reasons == {"same": reason}
    assert f"same has no density: {reason}." in repr(found)


def test_it_prints_where_it_is_highest() -> None:
    found = densities([made("a", SCORES)])
    (curve,) = found.curves
    title, _, head, row = repr(found).splitlines()
    assert title == "Densities of published scores"
    assert head.split() == ["network", "bandwidth", "highest", "at", "height"]
    expected = curve.bandwidth, curve.grid[curve.values.argmax()], curve.values.max()
    assert row.split()[1:] == [f"{value:.4f}" for value in expected]


def test_the_frame_is_long() -> None:
    frame = densities([made("a", SCORES), made("b", SCORES / 2)], points=10).to_frame()
    assert frame.columns.tolist() == ["network", "score", "density"]
    assert frame["network"].tolist() == ["a"] * 10 + ["b"] * 10


@pytest.mark.parametrize("points", [1, 0, 2.5, True])
def test_few_points_are_refused(points: int) -> None:
    with pytest.raises(OptionError, match=r"points must be a whole number >= 2"):
        densities([made("a", SCORES)], points=points)
