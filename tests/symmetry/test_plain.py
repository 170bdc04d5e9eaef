"""The plain functions: floats, invariant under their group and under nothing larger."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope import symmetry
from sigmascope.errors import InputError, InputTypeError

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


def distances(
    registry: dict[str, Function], layers: list[np.ndarray]
) -> dict[str, list[list[float]]]:
    """Compare every two layers, as a benchmark does with the measures it was given."""
    return {
        name: [[measure(a, b) for b in layers] for a in layers]
        for name, measure in registry.items()
    }


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "strided", "read-only", "torch"])
def test_registries_call_them_with_any_array(kind: str) -> None:
    """Widths differ, as they do between networks; positions may too."""
    random = np.random.default_rng(3)
    layers = [np.maximum(random.standard_normal((40, width)), 0) for width in (3, 7, 7, 12)]

    def given(x: np.ndarray) -> Any:
        if kind == "torch":
            return torch.from_numpy(x).float().requires_grad_()
        if kind == "strided":
            return np.asfortranarray(x)[::-1][::-1]
        if kind == "read-only":
            x = x.copy()
            x.flags.writeable = False
            return x
        return x.astype(kind)

    registry = {one.__name__: one for one in (*RELU, *ORTHOGONAL)}
    expected, found = distances(registry, layers), distances(registry, [given(x) for x in layers])
    for name, table in found.items():
        assert all(type(value) is float for row in table for value in row)
        np.testing.assert_allclose(table, expected[name], atol=5e-3 if kind == "float16" else 2e-4)
        np.testing.assert_allclose(np.array(table), np.array(table).T, atol=2e-4)
        np.testing.assert_allclose(np.diag(table), 1, atol=2e-4)


def test_maps_of_other_sizes() -> None:
    random = np.random.default_rng(4)
    fine, coarse = (random.random((20, 5, side, side)) for side in (8, 4))
    odd = random.random((20, 5, 3, 3))
    for function in (*RELU, *ORTHOGONAL):
        assert 0 < function(fine, fine) <= 1
        assert -1 <= function(fine, coarse) < 0.999
    for function in (symmetry.relu_cka, symmetry.linear_cka):  # needs no common size
        assert -1 <= function(coarse, odd) < 0.999
    for function in (symmetry.relu_procrustes, symmetry.orthogonal_procrustes):
        with pytest.raises(InputError, match=r"one must be a whole multiple of the other.*CKA"):
            function(coarse, odd)


@pytest.mark.parametrize("function", [*RELU, *ORTHOGONAL])
def test_what_cannot_be_compared_has_a_named_error(function: Function) -> None:
    x = features()
    with pytest.raises(InputError, match=r"x has 80 samples and y 79\. Row n of both"):
        function(x, x[:79])
    with pytest.raises(InputError, match=r"y has shape \(80,\)\. Pass \(n, c\)"):
        function(x, x[:, 0])
    with pytest.raises(InputError, match=r"shape \(80, 0\)\. Pass \(n, c\).* not empty"):
        function(x[:, :0], x)
    with pytest.raises(InputError, match="NaN"):
        function(x, np.where(x > 2, np.nan, x))
    with pytest.raises(InputTypeError, match=r"x is an array of int64\. Pass a NumPy array"):
        function((10 * x).astype(np.int64), x)
    with pytest.raises(InputTypeError, match=r"y is a list\. Pass a NumPy array"):
        function(x, x.tolist())
