"""Tests for the similarity of features: golden values, independent references, invariances and what
breaks them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

from sigmascope.maths.kernels import accumulate_kernel, empty_kernel, scaling_of
from sigmascope.symmetry.cka_similarity import cka
from sigmascope.symmetry.feature_maps import as_features
from sigmascope.symmetry.procrustes_similarity import procrustes

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "symmetry_similarity.npz"))
PROCRUSTES = sorted({key.partition("__")[0] for key in GOLDEN if key.startswith("proc_")})
CKA = sorted({key.partition("__")[0] for key in GOLDEN if key.startswith("cka_")})
# Without a suffix computed in float64; `_f32` by the published float32 path.
TOLERANCE = {
    "procrustes": 1e-6,
    "orbit": 2e-4,
    "cka": 1e-9,
    "kernel": 1e-12,
    "procrustes_f32": 2e-4,
    "cka_f32": 1e-4,
}


def pair(case: str) -> tuple[np.ndarray, np.ndarray]:
    return GOLDEN[f"{case}__X"], GOLDEN[f"{case}__Y"]


@pytest.mark.parametrize("case", PROCRUSTES)
@pytest.mark.parametrize(("group", "key"), [("relu", "grelu"), ("orthogonal", "orth")])
def test_golden_procrustes(case: str, group: str, key: str) -> None:
    tolerance = TOLERANCE["orbit" if case.endswith("orbit") else "procrustes"]
    expected = GOLDEN[f"{case}__{key}_procrustes_sim"]
    assert procrustes(*pair(case), group=group).similarity == pytest.approx(
        float(expected), abs=tolerance
    )
    if f"{case}__{key}_procrustes_sim_f32" in GOLDEN:
        published = float(GOLDEN[f"{case}__{key}_procrustes_sim_f32"])
        assert procrustes(*pair(case), group=group, dtype="float32").similarity == pytest.approx(
            published, abs=TOLERANCE["procrustes_f32"]
        )


@pytest.mark.parametrize("case", CKA)
def test_golden_cka(case: str) -> None:
    options: dict[str, Any] = {
        "centered": case != "cka_uncentered",
        "kernel": "median" if "median" in case else "max",
    }
    found = {
        dtype: cka(*pair(case), dtype=dtype, **options).similarity
        for dtype in ("float64", "float32")
    }
    assert found["float64"] == pytest.approx(
        float(GOLDEN[f"{case}__grelu_cka"]), abs=TOLERANCE["cka"]
    )
    assert found["float32"] == pytest.approx(
        float(GOLDEN[f"{case}__grelu_cka_f32"]), abs=TOLERANCE["cka_f32"]
    )
    linear = cka(*pair(case), group="orthogonal", **options).similarity
    assert linear == pytest.approx(float(GOLDEN[f"{case}__orth_cka"]), abs=TOLERANCE["cka"])


@pytest.mark.parametrize(
    ("reduction", "key", "group"), [("max", "grelu", "relu"), ("sum", "orth", "orthogonal")]
)
def test_golden_kernels_and_hsic(reduction: str, key: str, group: str) -> None:
    import torch

    for side, name in zip("XY", "KL", strict=True):
        x = as_features(GOLDEN[f"cka_equal__{side}"], "x")
        kernel = empty_kernel(len(x), reduction, torch.float64)
        accumulate_kernel(
            kernel, x, scaling_of(x, centered=True, normalize="channels"), reduction=reduction
        )
        np.testing.assert_allclose(
            kernel, GOLDEN[f"cka_equal__{name}_{key}"], rtol=0, atol=TOLERANCE["kernel"]
        )
    found = cka(*pair("cka_equal"), group=group).hsic
    np.testing.assert_allclose(
        found, GOLDEN[f"cka_equal__hsic1_{key}"], rtol=0, atol=TOLERANCE["kernel"]
    )


@pytest.mark.parametrize(("group", "key"), [("relu", "grelu"), ("orthogonal", "orth")])
def test_golden_matrices(group: str, key: str) -> None:
    for i, j in np.ndindex(3, 3):
        x, y = GOLDEN[f"layers__X{i}"], GOLDEN[f"layers__Y{j}"]
        expected = GOLDEN[f"layers__{key}_procrustes_sim_matrix"][i, j]
        assert procrustes(x, y, group=group).similarity == pytest.approx(
            float(expected), abs=TOLERANCE["procrustes"]
        )
        assert cka(x, y, group=group).similarity == pytest.approx(
            float(GOLDEN[f"layers__{key}_cka_matrix"][i, j]), abs=TOLERANCE["cka"]
        )


# Independent references, as the definitions are written.


def enlarged(x: np.ndarray, side: int, channels: int) -> np.ndarray:
    """Repeat positions up to a side, and append zero channels."""
    factor = side // x.shape[2]
    x = np.repeat(np.repeat(x.astype(np.float64), factor, axis=2), factor, axis=3)
    return np.concatenate([x, np.zeros((len(x), channels - x.shape[1], side, side))], axis=1)


def reference_procrustes(x: np.ndarray, y: np.ndarray, group: str) -> float:
    side, channels = max(x.shape[2], y.shape[2]), max(x.shape[1], y.shape[1])
    x, y = (
        enlarged(one, side, channels).transpose(1, 0, 2, 3).reshape(channels, -1) for one in (x, y)
    )
    if group == "orthogonal":
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
        return 1 - math.sqrt(max(2 - 2 * np.linalg.norm(x @ y.T, "nuc"), 0)) / 2
    norms = [np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y)]
    x, y = (one / np.where(norm > 0, norm, 1) for one, norm in zip((x, y), norms, strict=True))
    rows, columns = linear_sum_assignment(-(x @ y.T))
    return 1 - math.sqrt(((x[rows] - y[columns]) ** 2).sum() / (4 * channels))


def relu_features(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return np.maximum(generator.standard_normal(shape) + 0.3, 0)


SIDES = st.sampled_from([(2, 2), (2, 4), (6, 2), (3, 3), (1, 5)])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    sides=SIDES,
)
def test_procrustes_is_its_definition(
    seed: int, widths: tuple[int, int], sides: tuple[int, int]
) -> None:
    generator = np.random.default_rng(seed)
    x, y = (
        relu_features(generator, 9, width, side, side)
        for width, side in zip(widths, sides, strict=True)
    )
    for group in ("relu", "orthogonal"):
        found = procrustes(x, y, group=group)
        assert found.similarity == pytest.approx(reference_procrustes(x, y, group), abs=1e-7)
        assert found.distance == pytest.approx(1 - found.similarity, abs=1e-15)
        assert procrustes(y, x, group=group).similarity == pytest.approx(
            found.similarity, abs=1e-12
        )
        assert 0 <= found.distance <= 1 / math.sqrt(2) + 1e-12  # features are not negative


def moved(generator: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return x under a random element of the ReLU group."""
    scales = np.exp(generator.standard_normal(x.shape[1]))
    return (x * scales[:, None, None])[:, generator.permutation(x.shape[1])]


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), channels=st.integers(2, 9))
def test_both_measures_do_not_see_the_relu_group(seed: int, channels: int) -> None:
    generator = np.random.default_rng(seed)
    x, y = (relu_features(generator, 16, channels, 3, 3) for _ in range(2))
    assert procrustes(x, moved(generator, x)).similarity == pytest.approx(1, abs=1e-7)
    for measure in (procrustes, cka):
        expected = measure(x, y).similarity
        assert measure(moved(generator, x), moved(generator, y)).similarity == pytest.approx(
            expected, abs=1e-9
        )
        assert measure(y, x).similarity == pytest.approx(expected, abs=1e-9)
    for kernel in ("max", "median"):
        assert cka(x, moved(generator, x), kernel=kernel).similarity == pytest.approx(1, abs=1e-9)


def rotated(seed: int, x: np.ndarray) -> np.ndarray:
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((x.shape[1], x.shape[1])))[0]
    return np.einsum("oc,nchw->nohw", turn, x)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), channels=st.tuples(st.integers(2, 7), st.integers(2, 7)))
def test_the_orthogonal_versions_do_not_see_rotations_of_either_side(
    seed: int, channels: tuple[int, int]
) -> None:
    generator = np.random.default_rng(seed)
    x, y = (relu_features(generator, 16, width, 3, 3) for width in channels)
    turned = rotated(seed + 1, x), rotated(seed + 2, y)
    for measure, options in ((procrustes, {}), (cka, {"normalize": "none"})):
        expected = measure(x, y, group="orthogonal", **options).similarity
        assert measure(*turned, group="orthogonal", **options).similarity == pytest.approx(
            expected, abs=1e-9
        )
        assert measure(y, x, group="orthogonal", **options).similarity == pytest.approx(
            expected, abs=1e-9
        )


def test_who_sees_rotations() -> None:
    generator = np.random.default_rng(0)
    x = relu_features(generator, 60, 8, 3, 3) * np.exp(generator.standard_normal(8))[:, None, None]
    y = rotated(1, x)
    assert procrustes(x, 2.5 * y, group="orthogonal").similarity == pytest.approx(1, abs=1e-7)
    assert cka(x, y, group="orthogonal", normalize="none").similarity == pytest.approx(1, abs=1e-9)
    # As published, linear CKA divides each channel by its norm, and then sees them.
    assert cka(x, y, group="orthogonal").similarity < 0.95
    assert procrustes(x, y).similarity < 0.9
    assert cka(x, y).similarity < 0.95


def test_sign_flips_are_seen_by_procrustes_only() -> None:
    x = np.random.default_rng(0).standard_normal((30, 5, 3, 3))
    flipped = x * np.array([1, -1, 1, -1, -1])[:, None, None]
    assert procrustes(x, flipped).similarity < 0.9
    assert cka(x, flipped).similarity == pytest.approx(1, abs=1e-12)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 12), channels=st.integers(1, 4))
def test_cka_stays_between_its_bounds(seed: int, n: int, channels: int) -> None:
    x, y = np.random.default_rng(seed).standard_normal((2, n, channels))
    for group in ("relu", "orthogonal"):
        assert -1 <= cka(x, y, group=group).similarity <= 1
        assert cka(x, x, group=group).similarity == 1


def test_standard_linear_cka_is_its_definition() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 20, 6))
    n = len(x)
    centring = []
    for one in (x, y):
        one = one - one.mean(axis=0)
        kernel = one @ one.T
        np.fill_diagonal(kernel, 0)
        rows = kernel.sum(axis=1)
        u = kernel - rows[:, None] / (n - 2) - rows / (n - 2) + rows.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(u, 0)
        centring.append(u.ravel())
    expected = np.dot(*centring) / np.linalg.norm(centring[0]) / np.linalg.norm(centring[1])
    assert cka(x, y, group="orthogonal", normalize="none").similarity == pytest.approx(
        expected, abs=1e-12
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
def test_identical_features_are_exactly_one(group: str, dtype: str) -> None:
    for seed in range(20):
        x = relu_features(np.random.default_rng(seed), 10, 7, 3, 3).astype(np.float32) * 0.1
        x[:, 2] = 0
        for found in (
            procrustes(x, x.copy(), group=group, dtype=dtype),
            cka(x, x.copy(), group=group, dtype=dtype),
        ):
            assert (found.similarity, found.distance) == (1.0, 0.0)
            assert found.live == (6, 6)


def test_dead_channels_inflate_only_the_published_normalizer() -> None:
    generator = np.random.default_rng(0)
    x, y = (relu_features(generator, 200, 16) for _ in range(2))
    dead = np.zeros((200, 496))
    more = np.concatenate([x, dead], axis=1), np.concatenate([y, dead], axis=1)
    plain = procrustes(x, y)
    assert procrustes(x, y, normalizer="live").similarity == pytest.approx(
        plain.similarity, abs=1e-12
    )
    assert procrustes(*more).similarity > plain.similarity + 0.3
    assert procrustes(*more, normalizer="live").similarity == pytest.approx(
        plain.similarity, abs=1e-12
    )
    assert procrustes(*more).live == (16, 16)
    assert procrustes(*more).channels == (512, 512)
    assert "496 of 512 channels of x are zero everywhere" in procrustes(*more).reason
    assert plain.reason == ""


def test_planted_permutation_is_recovered_through_noise() -> None:
    generator = np.random.default_rng(0)
    x = relu_features(generator, 100, 12, 2, 2)
    order = generator.permutation(12)
    y = x[:, order] * np.exp(generator.standard_normal(12))[:, None, None]
    y += 0.1 * y.std(axis=(0, 2, 3), keepdims=True) * generator.standard_normal(y.shape)
    found = procrustes(x, y)
    assert found.permutation is not None
    np.testing.assert_array_equal(found.permutation[order], np.arange(12))
    assert found.alignment is not None
    assert procrustes(x, y, group="orthogonal").permutation is None
