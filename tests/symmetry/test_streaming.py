"""Tests for features that come in parts: the same result as at once, and nothing kept."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.errors import InputError, OptionError
from sigmascope.maths import hsic, kernels
from sigmascope.symmetry import procrustes_similarity
from sigmascope.symmetry.cka_similarity import Kernel, cka
from sigmascope.symmetry.cross_grams import CrossGrams, PairedGrams
from sigmascope.symmetry.procrustes_similarity import CrossGram, Procrustes, procrustes


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).relu()


def add(sums: CrossGrams | PairedGrams, xs: list[Tensor], ys: list[Tensor]) -> None:
    """Add all layers of one batch."""
    for side, layers in enumerate((xs, ys)):
        for place, one in enumerate(layers):
            sums.show(side, place, one)
    sums.finish()


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(1, 39), max_size=6, unique=True),
    group=st.sampled_from(["relu", "orthogonal"]),
)
def test_batches_of_any_size_give_what_all_samples_give(cuts: list[int], group: str) -> None:
    x, y = features(40, 5, 4, 4), features(40, 7, 2, 2, seed=1)
    streamed = Procrustes(group)
    ends = [0, *sorted(cuts), 40]
    for start, stop in itertools.pairwise(ends):
        streamed.add(x[start:stop], y[start:stop])
    whole = procrustes(x, y, group=group)
    assert streamed.result().similarity == pytest.approx(whole.similarity, abs=1e-12)
    assert streamed.result().samples == 40


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = features(40, 5, 4, 4), features(40, 7, 2, 2, seed=1)
    whole = procrustes(x, y).similarity
    monkeypatch.setattr(procrustes_similarity, "CHUNK", 3 * 80)
    assert procrustes(x, y).similarity == pytest.approx(whole, abs=1e-12)


def test_sums_are_all_that_is_kept() -> None:
    sums = CrossGram()
    for seed in range(5):
        sums.add(features(8, 3, 4, 4, seed=seed), features(8, 6, 4, 4, seed=seed + 10))
    held = [value for value in vars(sums).values() if isinstance(value, Tensor)]
    assert sorted(value.numel() for value in held) == [3, 6, 18]
    assert all(value.dtype == torch.float64 for value in held)


def test_identical_batches_are_exactly_one_until_one_differs() -> None:
    x = features(20, 5, 3, 3).float() * 0.1
    streamed = Procrustes(dtype="float32")
    for batch in torch.split(x, 7):
        streamed.add(batch, batch.clone())
    assert streamed.result().similarity == 1
    streamed.add(x, x + 0.01)
    assert 0.9 < streamed.result().similarity < 1


def test_refuses_what_cannot_be_added() -> None:
    streamed = Procrustes()
    with pytest.raises(InputError, match="no features yet"):
        streamed.result()
    streamed.add(features(4, 3), features(4, 2))
    with pytest.raises(InputError, match="batches with 4 and 2 channels after"):
        streamed.add(features(4, 4), features(4, 2))
    streamed.add(torch.full((4, 3), math.inf), features(4, 2))
    with pytest.raises(InputError, match="NaN or infinite"):
        streamed.result()
    with pytest.raises(OptionError, match="group='tanh'"):
        Procrustes("tanh")


@pytest.mark.parametrize("kernel", ["max", "sum"])
def test_groups_of_channels_give_what_all_channels_give(kernel: str) -> None:
    x = features(30, 7, 3, 3)
    whole, parts = Kernel(kernel), Kernel(kernel)
    whole.add(x)
    for group in torch.split(x, 2, dim=1):
        parts.add(group)
    torch.testing.assert_close(parts.matrix, whole.matrix, rtol=0, atol=1e-12)
    assert (parts.channels, parts.live) == (7, 7)
    group_name = "relu" if kernel == "max" else "orthogonal"
    y = features(30, 4, 2, 2, seed=1)
    other = Kernel(kernel)
    other.add(y)
    assert parts.similarity(other).similarity == pytest.approx(
        cka(x, y, group=group_name).similarity, abs=1e-12
    )


def test_kernels_refuse_what_cannot_be_added() -> None:
    median = Kernel("median")
    with pytest.raises(InputError, match="no features yet"):
        median.matrix  # noqa: B018
    median.add(features(6, 2))
    with pytest.raises(InputError, match="median over channels needs all"):
        median.add(features(6, 2))
    kernel = Kernel()
    kernel.add(features(6, 2))
    with pytest.raises(InputError, match="7 samples after 6"):
        kernel.add(features(7, 2))
    with pytest.raises(InputError, match="3 samples; the unbiased estimator"):
        Kernel().add(features(3, 2))
    other = Kernel()
    other.add(features(7, 2))
    with pytest.raises(InputError, match="x has 6 samples and y 7"):
        kernel.similarity(other)


@pytest.mark.parametrize("other", [{"kernel": "sum"}, {"normalize": "none"}, {"centered": False}])
def test_kernels_of_other_settings_are_not_compared(other: dict[str, Any]) -> None:
    one, two = Kernel(), Kernel(**other)
    for kernel in (one, two):
        kernel.add(features(6, 2))
    with pytest.raises(InputError, match=f"{next(iter(other))}=.*Compare kernels of one kind"):
        one.similarity(two)


def test_a_refused_group_leaves_the_kernel_as_it_was() -> None:
    kernel, bad = Kernel(), features(6, 2)
    bad[0, 0] = torch.nan
    with pytest.raises(InputError, match="NaN or infinite"):
        kernel.add(bad)
    with pytest.raises(InputError, match="no features yet"):
        kernel.matrix  # noqa: B018
    kernel.add(features(7, 2))  # of another number of samples
    assert len(kernel.matrix) == 7


@pytest.mark.parametrize("kernel", ["max", "sum"])
@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_features_whose_squares_are_out_of_range(kernel: str, size: float) -> None:
    x, y = features(30, 4, 2, 2), features(30, 3, 2, 2, seed=1)
    found = []
    for scale in (1.0, size):
        kernels = Kernel(kernel, normalize="none"), Kernel(kernel, normalize="none")
        kernels[0].add(x * scale)
        kernels[1].add(y)
        found.append(kernels[0].similarity(kernels[1]))
    assert found[1].similarity == pytest.approx(found[0].similarity, rel=1e-9)
    assert not found[1].reason


def test_products_that_overflow_are_refused() -> None:
    with pytest.raises(InputError, match=r"overflow in float32\. Start a new kernel"):
        Kernel(normalize="none", dtype="float32").add(features(6, 2) * 1e30)


class Large(TorchDispatchMode):
    """Notes the storages of at least so many bytes that operations return."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.found: set[int] = set()
        self._alive: list[Any] = []  # so that no address is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(one, Tensor) and one.untyped_storage().nbytes() >= self.size:
                self.found.add(one.untyped_storage().data_ptr())
                self._alive.append(one)
        return result


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["max", "sum", "median"])
def test_nothing_is_as_large_as_the_two_kernels_but_they(
    kernel: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("PRODUCT", {"cpu": 2**12}),
        ("TILE", {"cpu": 16}),
        ("MEDIAN_BYTES", 2**12),
    ):
        monkeypatch.setattr(kernels, name, value)
    monkeypatch.setattr(hsic, "BLOCK_BYTES", 2**12)
    x = features(100, 3, 2)
    with Large(100 * 100 * getattr(torch, dtype).itemsize) as large:
        one, two = Kernel(kernel, dtype=dtype), Kernel(kernel, dtype=dtype)
        one.add(x)
        two.add(x.square())
        assert 0 < one.similarity(two).similarity < 1
    assert len(large.found) == 2
    with large:
        torch.isfinite(one.matrix)  # makes the absolute values of all entries
    assert len(large.found) > 2


# Maps of several sizes, one that fits no other, tokens and plain features.
X = [(4, 8, 8), (3, 8, 8), (6, 4, 4), (5, 2, 2), (2, 1)]
Y = [(5, 8, 8), (4, 4, 4), (6, 4, 4), (7, 2, 2), (3, 3, 3)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
def test_all_layers_at_once_are_all_pairs(group: str, dtype: str) -> None:
    xs, ys = (
        [features(20, *shape, seed=k + 10 * side) for k, shape in enumerate(shapes)]
        for side, shapes in enumerate((X, Y))
    )
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    everything = CrossGrams([shape[0] for shape in X], [shape[0] for shape in Y], dtype=dtype)
    paired = PairedGrams([shape[0] for shape in X], [shape[0] for shape in Y], dtype=dtype)
    for start, stop in ((0, 9), (9, 20)):
        for sums in (everything, paired):
            add(sums, [x[start:stop] for x in xs], [y[start:stop] for y in ys])
    for i, j in np.ndindex(5, 5):
        found = everything.result(i, j, group=group, normalizer="live")
        diagonal = paired.result(i, i, group=group, normalizer="live") if i == j else None
        if j == 4 and i != 4:
            assert isinstance(found, str)
            assert "one must be a whole multiple of the other" in found
            continue
        expected = procrustes(xs[i], ys[j], group=group, normalizer="live", channel_axis=1)
        assert not isinstance(found, str)
        assert found.similarity == pytest.approx(expected.similarity, abs=tolerance)
        assert (found.live, found.samples) == (expected.live, 20)
        if diagonal is not None:
            assert not isinstance(diagonal, str)
            assert diagonal.similarity == pytest.approx(expected.similarity, abs=tolerance)
    assert (
        everything.live()
        == paired.live()
        == tuple(tuple(shape[0] for shape in shapes) for shapes in (X, Y))
    )


def test_layers_that_do_not_fit_or_change_their_ratio_have_a_reason() -> None:
    sums = CrossGrams([2], [2], dtype="float64")
    add(sums, [features(5, 2, 4, 4)], [features(5, 2, 2, 2)])
    add(sums, [features(5, 2, 4, 4)], [features(5, 2, 4, 4)])
    found = sums.result(0, 0, group="relu", normalizer="authors")
    assert found == "the ratio of the numbers of positions changes from batch to batch"
    paired = PairedGrams([2], [2], dtype="float64")
    add(paired, [features(5, 2, 3, 3)], [features(5, 2, 2, 2)])
    apart = paired.result(0, 0, group="relu", normalizer="authors")
    assert isinstance(apart, str)
    assert "3 × 3 and 2 × 2" in apart
    assert paired.live() == ((2,), (2,))
    broken = CrossGrams([2], [2], dtype="float64")
    add(broken, [features(5, 2, 2, 2)], [features(5, 2, 2, 2) * math.nan])
    bad = broken.result(0, 0, group="relu", normalizer="authors")
    assert isinstance(bad, str)
    assert "NaN or infinite" in bad
