"""Tests for kernels between samples: against the (n, n, c) tensor that the code never makes, and
laws of HSIC.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.maths import hsic as hsic_module, kernels
from sigmascope.maths.hsic import hsic_products
from sigmascope.maths.kernels import Scaling, accumulate_kernel, empty_kernel, scaling_of

REDUCE = {
    "max": lambda products: products.amax(dim=2),
    "median": lambda products: products.sort(dim=2).values[:, :, (products.shape[2] - 1) // 2],
    "sum": lambda products: products.sum(dim=2),
}


def hsic(x: Tensor, y: Tensor) -> float:
    return hsic_products([x], [y]).hsic(0, 0)[0]


def features(n: int, c: int, h: int, w: int, seed: int = 0) -> Tensor:
    return torch.randn(
        n, c, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def naive(x: Tensor, reduction: str) -> Tensor:
    """Return the kernel by way of all products at once."""
    kernel: Tensor = REDUCE[reduction](torch.einsum("mchw,nchw->mnc", x, x))
    return kernel.fill_diagonal_(0)


def unscaled(c: int) -> Scaling:
    return Scaling(torch.zeros(c), torch.ones(c), torch.ones(c, dtype=torch.bool))


@pytest.mark.parametrize("reduction", ["max", "median", "sum"])
@pytest.mark.parametrize("shape", [(9, 1, 1, 1), (23, 6, 3, 2), (40, 7, 1, 1), (17, 5, 4, 4)])
@pytest.mark.parametrize("tile", [None, 1, 5, 16])
def test_equals_the_whole_tensor(
    reduction: str, shape: tuple[int, int, int, int], tile: int | None
) -> None:
    x = features(*shape)
    kernel = empty_kernel(len(x), reduction, torch.float64)
    accumulate_kernel(kernel, x, unscaled(shape[1]), reduction=reduction, tile=tile)
    torch.testing.assert_close(kernel, naive(x, reduction), rtol=0, atol=1e-12)
    assert torch.equal(kernel, kernel.T)


@pytest.mark.parametrize("tile", [1, 4, 11, 20])
def test_symmetric_whatever_the_matrix_product_rounds(tile: int) -> None:
    """Not every processor computes (m, n) and (n, m) alike, even in a product of x with itself."""
    kernel = features(11, 11, 1, 1)[:, :, 0, 0]
    above = kernel.triu(1)
    kernels._mirror(kernel, tile)
    assert torch.equal(kernel, above + above.T)


@pytest.mark.parametrize("reduction", ["max", "sum"])
def test_how_work_is_cut_up_changes_nothing(
    reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = features(37, 6, 3, 3)
    monkeypatch.setattr(kernels, "SCALED_BYTES", 37 * 9 * 8 * 2)  # two channels
    monkeypatch.setattr(kernels, "CACHE_BYTES", 9 * 8 * 2 * 5)  # of five samples at a time
    monkeypatch.setattr(kernels, "PRODUCT", {"cpu": 16 * 8, "cuda": 2**29})  # of one channel
    kernel = empty_kernel(37, reduction, torch.float64)
    accumulate_kernel(kernel, x, unscaled(6), reduction=reduction, tile=4)
    torch.testing.assert_close(kernel, naive(x, reduction), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_any_type_and_layout_in_float32_products(dtype: torch.dtype) -> None:
    x = features(20, 4, 3, 3).to(dtype)
    strange = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    kernel = empty_kernel(20, "max", torch.float32)
    accumulate_kernel(kernel, strange, unscaled(4), reduction="max")
    torch.testing.assert_close(kernel.double(), naive(x.double(), "max"), rtol=0, atol=1e-4)


def test_max_kernel_is_not_positive_semi_definite() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    kernel = empty_kernel(3, "max", torch.float64)
    accumulate_kernel(kernel, x, unscaled(2), reduction="max")
    values = torch.linalg.eigvalsh(kernel + torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(
        values, torch.tensor([1 - math.sqrt(2), 1, 1 + math.sqrt(2)], dtype=torch.float64)
    )


def test_scaling_centres_and_normalises() -> None:
    x = features(50, 4, 3, 3) * torch.tensor([1.0, 1e-3, 50.0, 2.0])[:, None, None].double() + 7
    scaling = scaling_of(x, centered=True, normalize="channels")
    scaled = (x - scaling.shift[:, None, None]) * scaling.factor[:, None, None]
    torch.testing.assert_close(
        scaled.sum(dim=(0, 2, 3)), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-9
    )
    torch.testing.assert_close(
        scaled.square().sum(dim=(0, 2, 3)), torch.ones(4, dtype=torch.float64)
    )
    plain = scaling_of(x, centered=False, normalize="none")
    assert torch.equal(plain.shift, torch.zeros(4).double())
    assert torch.equal(plain.factor, torch.ones(4).double())


def test_constant_channels_are_not_alive_though_their_mean_is_rounded() -> None:
    x = features(33, 3, 1, 1)
    x[:, 1] = 0.1
    x[:, 2] = 0.0
    assert scaling_of(x, centered=True, normalize="channels").live.tolist() == [True, False, False]
    assert scaling_of(x, centered=False, normalize="channels").live.tolist() == [True, True, False]
    x[0, 1] += 1e-12  # varies, if only a little
    assert scaling_of(x, centered=True, normalize="channels").live.tolist() == [True, True, False]


def test_scaling_refuses_nan() -> None:
    x = features(5, 2, 1, 1)
    x[0, 0] = math.nan
    with pytest.raises(InputError, match="NaN or infinite"):
        scaling_of(x, centered=True, normalize="channels")


def kernel_of(seed: int, n: int = 12) -> Tensor:
    return naive(features(n, 3, 2, 2, seed), "max")


def test_hsic_is_the_formula_with_sums() -> None:
    one, other = kernel_of(0), kernel_of(1)
    n = len(one)
    rows = one.sum(dim=1), other.sum(dim=1)
    expected = (
        (one * other).sum()
        + one.sum() * other.sum() / ((n - 1) * (n - 2))
        - 2 / (n - 2) * (rows[0] * rows[1]).sum()
    ) / (n * (n - 3))
    assert hsic(one, other) == pytest.approx(float(expected), abs=1e-13)
    assert hsic(one, other) == pytest.approx(hsic(other, one), abs=1e-15)


def test_hsic_is_unbiased() -> None:
    """Of independent samples it is 0 on average, where the biased estimator is not."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(400):
        x, y = (torch.randn(8, 3, generator=generator, dtype=torch.float64) for _ in range(2))
        found.append(hsic((x @ x.T).fill_diagonal_(0), (y @ y.T).fill_diagonal_(0)))
    assert abs(np.mean(found)) < 3 * np.std(found) / math.sqrt(400)


def test_products_of_several_kernels_are_those_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = [kernel_of(0), kernel_of(1)], [kernel_of(2), kernel_of(1), kernel_of(3)]
    monkeypatch.setattr(hsic_module, "BLOCK_BYTES", 8 * 12 * 5 * 2)  # two rows at a time
    found = hsic_products(one, other)
    for i, j in np.ndindex(2, 3):
        assert found.hsic(i, j)[0] == pytest.approx(hsic(one[i], other[j]), abs=1e-13)
    assert found.same.tolist() == [[False, False, False], [False, True, False]]
    assert found.hsic(0, 0)[1] == pytest.approx(hsic(one[0], one[0]), abs=1e-13)


@pytest.mark.parametrize("size", [2.0**-1010, 2.0**-600, 2.0**-3, 2.0**600, 2.0**1015])
def test_large_and_small_kernels_have_the_same_cosine(size: float) -> None:
    """Where squares of entries overflow or vanish; exact, since powers of two round nothing."""
    one, other = kernel_of(0), kernel_of(1)
    plain, scaled = hsic_products([one], [other]), hsic_products([one * size], [other])
    cosines = [
        cross / math.sqrt(x) / math.sqrt(y)
        for cross, x, y in (plain.divided(0, 0), scaled.divided(0, 0))
    ]
    assert cosines[0] == pytest.approx(cosines[1], rel=1e-12)
    assert hsic(one * size, other) == pytest.approx(hsic(one, other) * size, rel=1e-12)


def test_a_mean_far_from_zero_is_taken_off_before_rounding() -> None:
    x = features(40, 3, 1, 1)
    found = []
    for shifted in (x, x + 1e6):
        kernel = empty_kernel(40, "max", torch.float32)
        accumulate_kernel(
            kernel,
            shifted,
            scaling_of(shifted, centered=True, normalize="channels"),
            reduction="max",
        )
        found.append(kernel)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


def test_memory_for_products_is_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *args, **options: taken.append(args[0]) or empty(*args, **options)
    )
    for dtype in (torch.float32, torch.float64):
        accumulate_kernel(
            empty_kernel(9, "max", dtype), features(9, 2, 1, 1), unscaled(2), reduction="max"
        )
    sizes = [one for one in taken if isinstance(one, int)]
    assert sizes == [kernels.PRODUCT["cpu"] // 4, kernels.PRODUCT["cpu"] // 8]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_kernel_has_exactly_no_hsic(dtype: torch.dtype) -> None:
    kernel = torch.full((9, 9), 0.1, dtype=dtype).fill_diagonal_(0)
    assert float(hsic_products([kernel], [kernel]).x) == 0
