"""The plain functions: floats, invariant under their group and under nothing larger."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sigmascope import symmetry

RELU = (symmetry.relu_procrustes, symmetry.relu_cka)
ORTHOGONAL = (symmetry.orthogonal_procrustes, symmetry.linear_cka)
Function = Callable[[np.ndarray, np.ndarray], float]


def features() -> np.ndarray:
    return np.maximum(np.random.default_rng(0).standard_normal((80, 7)), 0)


@pytest.mark.parametrize("function", [*RELU, *ORTHOGONAL])
def test_they_return_floats_that_are_one_for_equal_features(function: Function) -> None:
    x, y = features(), features()[::-1].copy()
    assert type(function(x, x)) is float
    assert function(x, x) == pytest.approx(1, abs=1e-12)
    assert function(x, y) == pytest.approx(function(y, x), abs=1e-12)
    assert function(x, y) < 0.9
    assert math.isnan(function(x, np.zeros_like(x)))


def test_what_leaves_them_as_they_are() -> None:
    x = features()
    moved = x[:, ::-1] * np.linspace(0.1, 9, 7)
    rotated = x @ np.linalg.qr(np.random.default_rng(1).standard_normal((7, 7)))[0]
    for function in RELU:
        assert function(x, moved) == pytest.approx(1, abs=1e-9)
        assert function(x, rotated) < 0.95
    for function in ORTHOGONAL:
        assert function(x, rotated) == pytest.approx(1, abs=1e-9)
        assert function(x, moved) < 0.95


def test_silent_channels_do_not_count() -> None:
    x, y = (np.hstack([one, np.zeros((80, 20))]) for one in (features(), features()[::-1]))
    expected = symmetry.relu_procrustes(features(), features()[::-1].copy())
    assert symmetry.relu_procrustes(x, y) == pytest.approx(expected, abs=1e-9)
