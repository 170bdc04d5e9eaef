"""Quantiles of values that come in parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.dissection.readings import Tops, kept_values
from sigmascope.errors import InputError


@given(st.integers(1, 400), st.integers(1, 60), st.floats(0.5, 0.9999), st.integers(0, 2**31))
def test_quantiles_are_those_of_numpy(total: int, part: int, quantile: float, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((3, total))
    values[2] = np.maximum(values[2], 0)  # ties, as behind a ReLU
    tops = Tops(total, quantile)
    for start in range(0, total, part):
        tops.add(torch.from_numpy(values[:, start : start + part]))
    assert tops.quantiles().numpy() == pytest.approx(
        np.quantile(values, quantile, axis=1), rel=1e-12, abs=1e-12
    )


def test_memory_holds_the_tail_only() -> None:
    tops = Tops(100_000, 0.995)
    for seed in range(100):
        tops.add(torch.rand(2, 1000, generator=torch.Generator().manual_seed(seed)))
        assert tops._values is not None
        assert tops._values.shape[1] <= kept_values(100_000, 0.995) == 501
    assert tops.quantiles().tolist() == pytest.approx([0.995, 0.995], abs=1e-3)


def test_too_few_values_are_refused() -> None:
    tops = Tops(10, 0.9)
    with pytest.raises(InputError, match="expected 10 values of each unit, got 0"):
        tops.quantiles()
    tops.add(torch.rand(1, 9))
    with pytest.raises(InputError, match="expected 10 values of each unit, got 9"):
        tops.quantiles()
