"""Dynamic time warping against the enumeration of all paths, golden values, the textbook
recursion, and its laws.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.warping import TOGETHER, dtw, dtw_matrix
from tests.work import calls_of

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "comparison.json").read_text()
)["dtw"]
NUMBERS = st.floats(-3, 3, allow_subnormal=False).map(lambda value: round(value, 6))
CURVES = st.lists(NUMBERS, min_size=1, max_size=6).map(np.array)
# On so few values there are ties between paths, and sums are exact.
STEPS = st.lists(st.integers(0, 2).map(float), min_size=1, max_size=6).map(np.array)
MODES = (None, "path")


def paths(n: int, m: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way from (0, 0) to (n - 1, m - 1) by steps right, down or both."""

    def onwards(i: int, j: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if (i, j) == (n - 1, m - 1):
            yield ((i, j),)
            return
        for k, h in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
            if k < n and h < m:
                for rest in onwards(k, h):
                    yield ((i, j), *rest)

    return onwards(0, 0)


def enumerated(x: np.ndarray, y: np.ndarray, normalize: str | None) -> float:
    found = [
        (sum((x[i] - y[j]) ** 2 for i, j in path), len(path)) for path in paths(len(x), len(y))
    ]
    total, length = min(found)
    return math.sqrt(total / length if normalize else total)


def curves(count: int, shortest: int, longest: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.random(generator.integers(shortest, longest + 1)) for _ in range(count)]


def test_there_are_as_many_paths_as_delannoy_counted() -> None:
    assert [sum(1 for _ in paths(n, n)) for n in range(1, 7)] == [1, 3, 13, 63, 321, 1683]


@settings(max_examples=80)
@given(CURVES, CURVES)
def test_it_is_the_least_over_all_paths(x: np.ndarray, y: np.ndarray) -> None:
    assert dtw(x, y) == pytest.approx(enumerated(x, y, None), abs=1e-12)


@pytest.mark.parametrize("normalize", MODES)
@settings(max_examples=80)
@given(STEPS, STEPS)
def test_of_several_best_paths_the_shortest_counts(
    normalize: str | None, x: np.ndarray, y: np.ndarray
) -> None:
    assert dtw(x, y, normalize=normalize) == enumerated(x, y, normalize)


def test_a_longer_best_path_would_give_another_number() -> None:
    x, y = np.array([0.0, 0, 1]), np.array([0.0, 0, 0])
    best = [(sum((x[i] - y[j]) ** 2 for i, j in path), len(path)) for path in paths(3, 3)]
    lengths = {length for total, length in best if total == min(best)[0]}
    assert lengths == {3, 4, 5}
    assert dtw(x, y, normalize="path") == math.sqrt(1 / 3)


def test_golden_values() -> None:
    matrix = dtw_matrix([np.array(curve) for curve in GOLDEN["curves"]])
    assert matrix == pytest.approx(np.array(GOLDEN["matrix"]), abs=1e-14)
    assert matrix[0, 1] > 0.01


def textbook(x: np.ndarray, y: np.ndarray) -> float:
    """Return the distance by the recursion of Sakoe and Chiba, one cell after the other."""
    total = np.full((len(x) + 1, len(y) + 1), math.inf)
    total[0, 0] = 0
    for i, j in np.ndindex(len(x), len(y)):
        before = min(total[i, j], total[i, j + 1], total[i + 1, j])
        total[i + 1, j + 1] = (x[i] - y[j]) ** 2 + before
    return math.sqrt(total[-1, -1])


def test_it_is_the_textbook_recursion() -> None:
    some = curves(6, 20, 60)
    for x, y in itertools.combinations(some, 2):
        assert dtw(x, y) == pytest.approx(textbook(x, y), abs=1e-12)


@pytest.mark.parametrize("normalize", MODES)
def test_a_matrix_holds_the_distance_of_every_pair(normalize: str | None) -> None:
    some = curves(18, 1, 30)
    assert len(some) * (len(some) - 1) // 2 > TOGETHER
    matrix = dtw_matrix(some, normalize=normalize)
    assert matrix.tolist() == [[dtw(x, y, normalize=normalize) for y in some] for x in some]
    assert (matrix == matrix.T).all()
    assert not matrix.diagonal().any()
    assert (matrix + np.eye(len(some)) > 0).all()


@pytest.mark.parametrize("normalize", MODES)
def test_waiting_costs_nothing_but_order_does(normalize: str | None) -> None:
    x = np.array([0.1, 0.5, 0.3, 0.9])
    assert dtw(x, np.repeat(x, [3, 1, 2, 5]), normalize=normalize) == 0
    assert dtw(x, x[::-1], normalize=normalize) > 0.1


def test_it_is_at_most_the_euclidean_distance() -> None:
    for x, y in zip(curves(40, 20, 20), curves(40, 20, 20)[::-1], strict=True):
        assert dtw(x, y) <= np.linalg.norm(x - y) * (1 + 1e-12)
    assert dtw(x, y) < 0.9 * np.linalg.norm(x - y)


def test_it_is_no_metric() -> None:
    x, y, z = np.array([0.0]), np.array([1.0, 2.0]), np.array([2.0, 3.0, 3.0])
    assert dtw(x, z) > dtw(x, y) + dtw(y, z)


def test_per_step_it_does_not_grow_with_the_length() -> None:
    short, long = np.zeros(10), np.zeros(1000)
    assert (
        dtw(short, short + 0.5, normalize="path") == dtw(long, long + 0.5, normalize="path") == 0.5
    )
    assert dtw(long, long + 0.5) == pytest.approx(10 * dtw(short, short + 0.5))


def test_it_scales_with_the_curves_and_ignores_a_common_shift() -> None:
    x, y = curves(2, 30, 60)
    assert dtw(4 * x, 4 * y) == 4 * dtw(x, y)
    assert dtw(x + 8, y + 8) == pytest.approx(dtw(x, y))


def test_one_number_is_compared_with_all() -> None:
    assert dtw(np.array([1.0]), np.array([1.0, 3.0, 4.0])) == pytest.approx(math.sqrt(4 + 9))
    assert dtw([1, 2], (1, 2, 2)) == 0  # whole numbers and sequences are numbers too


def test_many_deep_networks_are_compared_together() -> None:
    """1770 pairs: a loop over the steps of each pair would make half a million calls."""
    many = curves(60, 50, 260)
    assert calls_of(lambda: dtw_matrix(many)) < 150_000


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.array([]), InputError, r"y has shape \(0,\)\. Pass one axis with at least one number"),
        (np.zeros((2, 2)), InputError, r"y has shape \(2, 2\)\. Pass one axis"),
        (np.array(1.0), InputError, r"y has shape \(\)\. Pass one axis"),
        (np.array([1.0, math.nan]), InputError, "y contains NaN or an infinite value. Drop"),
        (np.array([1.0, math.inf]), InputError, "y contains NaN or an infinite value. Drop"),
        (np.array([1e200]), InputError, r"y reaches 1\.0e\+200: its squares overflow.*Divide both"),
        (np.array([1j]), InputTypeError, "y has dtype complex128. Pass an array of real numbers"),
        (np.array(["a"]), InputTypeError, "y has dtype <U1. Pass an array of real numbers"),
        (None, InputTypeError, "y has dtype object. Pass an array of real numbers"),
    ],
)
def test_other_curves_are_refused(bad: np.ndarray, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dtw(np.zeros(3), bad)
    with pytest.raises(error, match=message.replace("y ", "curve 1 ", 1)):
        dtw_matrix([np.zeros(3), bad])


def test_no_curves_are_refused() -> None:
    with pytest.raises(InputError, match=r"curves is empty. Pass at least one"):
        dtw_matrix([])


@pytest.mark.parametrize("normalize", ["paths", "", 3])
def test_other_normalisations_are_refused(normalize: object) -> None:
    with pytest.raises(OptionError, match=r"normalize=.* is not a valid.*Choose from 'path'"):
        dtw(np.zeros(2), np.zeros(2), normalize=normalize)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"normalize=.* is not a valid.*Choose from 'path'"):
        dtw_matrix([np.zeros(2)], normalize=normalize)  # type: ignore[arg-type]
