"""Tests for what `procrustes` and `cka` take, refuse, leave alone and print."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry.cka_similarity import cka
from sigmascope.symmetry.feature_maps import cells_summed, ratios
from sigmascope.symmetry.procrustes_similarity import procrustes
from sigmascope.symmetry.similarity_results import CkaSimilarity, ProcrustesSimilarity

MEASURES: list[Callable[..., ProcrustesSimilarity | CkaSimilarity]] = [procrustes, cka]


def features(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
def test_numpy_and_torch_give_the_same_and_stay_unchanged(
    measure: Callable[..., Any], group: str
) -> None:
    x, y = features(12, 4, 3, 3), features(12, 5, 3, 3, seed=1)
    kept = x.copy(), y.copy()
    tensors = torch.from_numpy(x.copy()).requires_grad_(), torch.from_numpy(y.copy())
    assert measure(x, y, group=group).similarity == measure(*tensors, group=group).similarity
    for one, before, tensor in zip((x, y), kept, tensors, strict=True):
        np.testing.assert_array_equal(one, before)
        np.testing.assert_array_equal(tensor.detach(), before)


@pytest.mark.parametrize("measure", MEASURES)
def test_one_measure_does_not_change_what_the_other_sees(measure: Callable[..., Any]) -> None:
    x, y = (torch.from_numpy(features(12, 4, 3, 3, seed=seed)) for seed in range(2))
    before = procrustes(x, y).similarity
    measure(x, y)
    assert procrustes(x, y).similarity == before


@pytest.mark.parametrize("measure", MEASURES)
def test_layouts_are_the_same_features(measure: Callable[..., Any]) -> None:
    maps = [features(12, 4, 3, 2, seed=seed) for seed in range(2)]
    expected = measure(*maps).similarity
    tokens = [one.reshape(12, 4, 6).transpose(0, 2, 1) for one in maps]
    assert measure(*tokens).similarity == pytest.approx(expected, abs=1e-12)
    assert measure(
        tokens[0], maps[1].reshape(12, 4, 6), channel_axis=(2, 1)
    ).similarity == pytest.approx(expected, abs=1e-12)
    assert measure(
        *(one.transpose(0, 2, 3, 1) for one in maps), channel_axis=-1
    ).similarity == pytest.approx(expected, abs=1e-12)
    flat = [one[:, :, 0, 0] for one in maps]
    assert measure(*flat).similarity == measure(*(one[:, :, None, None] for one in flat)).similarity


@pytest.mark.parametrize("measure", MEASURES)
def test_any_stride_byte_order_and_permission(measure: Callable[..., Any]) -> None:
    x, y = features(12, 4, 3, 3), features(12, 4, 3, 3, seed=1)
    expected = measure(x, y).similarity
    locked = x.copy()
    locked.setflags(write=False)
    assert measure(locked, y).similarity == expected
    assert measure(x.astype(">f8"), y).similarity == expected
    assert measure(x[:, ::-1], y[:, ::-1]).similarity == pytest.approx(expected, abs=1e-12)
    assert measure(torch.from_numpy(x), y).similarity == expected


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("x", "y", "options", "error", "match"),
    [
        ([[1.0]], features(5, 2), {}, InputTypeError, "x is a list"),
        (features(5, 2), np.ones((5, 2), dtype=int), {}, InputTypeError, "y is an array of int64"),
        (
            torch.ones(5, 2, dtype=torch.int64),
            features(5, 2),
            {},
            InputTypeError,
            "tensor of int64",
        ),
        (features(5), features(5, 2), {}, InputError, r"x has shape \(5,\)"),
        (features(5, 0), features(5, 2), {}, InputError, "not empty"),
        (features(5, 2), features(6, 2), {}, InputError, "x has 5 samples and y 6"),
        (
            features(5, 2),
            features(5, 2),
            {"channel_axis": 0},
            InputError,
            "axis 0 holds the samples",
        ),
        (
            features(5, 2),
            features(5, 2),
            {"channel_axis": 2},
            InputError,
            "channel_axis=2 does not fit x",
        ),
        (
            features(5, 2),
            features(5, 2),
            {"channel_axis": (1, 1, 1)},
            InputError,
            "neither an axis nor a pair",
        ),
        (np.full((5, 2), np.nan), features(5, 2), {}, InputError, "NaN or infinite"),
        (features(5, 2), features(5, 2), {"group": "gelu"}, OptionError, "group='gelu'"),
        (features(5, 2), features(5, 2), {"dtype": "float16"}, OptionError, "dtype='float16'"),
    ],
)
def test_refuses(
    measure: Callable[..., Any],
    x: Any,
    y: Any,
    options: dict[str, Any],
    error: type[Exception],
    match: str,
) -> None:
    with pytest.raises(error, match=match):
        measure(x, y, **options)


def test_older_names_of_options() -> None:
    x, y = features(9, 3), features(9, 3, seed=1)
    assert repr(procrustes(x, y, normaliser="live")) == repr(procrustes(x, y, normalizer="live"))
    assert repr(cka(x, y, normalise="none")) == repr(cka(x, y, normalize="none"))


def test_a_flat_dict() -> None:
    found = procrustes(features(9, 3), features(9, 3, seed=1))
    assert found.to_dict("relu/") == {
        "relu/similarity": found.similarity,
        "relu/distance": found.distance,
    }


def test_refuses_options_of_its_own() -> None:
    x = features(5, 2)
    with pytest.raises(OptionError, match="normalizer='all'"):
        procrustes(x, x, normalizer="all")
    for options, match in (
        ({"kernel": "mean"}, "kernel='mean'"),
        ({"kernel": "sum"}, "kernel='sum'"),
        ({"normalize": "all"}, "normalize='all'"),
    ):
        with pytest.raises(OptionError, match=match):
            cka(x, x, **options)  # type: ignore[arg-type]


def test_maps_must_differ_by_whole_ratios() -> None:
    with pytest.raises(InputError, match="3 × 3 and 4 × 4"):
        procrustes(features(5, 2, 3, 3), features(5, 2, 4, 4))
    with pytest.raises(InputError, match="4 × 2 and 2 × 4"):
        procrustes(features(5, 2, 4, 2), features(5, 2, 2, 4))
    assert math.isfinite(cka(features(5, 2, 3, 3), features(5, 2, 4, 4)).similarity)
    assert ratios((6,), (2, 1)) == ((3, 1), (1, 1))


def test_cells_are_summed() -> None:
    x = torch.arange(24.0).reshape(1, 1, 4, 6)
    expected = torch.nn.functional.avg_pool2d(x, (2, 3)) * 6
    torch.testing.assert_close(cells_summed(x, (2, 3)), expected)
    assert cells_summed(x, (1, 1)) is x


def test_cka_needs_four_samples() -> None:
    with pytest.raises(InputError, match="x: 3 samples; the unbiased estimator needs at least 4"):
        cka(features(3, 2), features(3, 2))


def test_without_a_live_channel_there_is_a_reason_and_no_number() -> None:
    x, zero = features(6, 2), np.zeros((6, 3))
    for group in ("relu", "orthogonal"):
        for found in (procrustes(zero, x, group=group), procrustes(zero, zero, group=group)):
            assert math.isnan(found.similarity)
            assert math.isnan(found.distance)
            assert found.alignment is None
            assert found.permutation is None
            assert "3 of 3 channels of x are zero everywhere" in found.reason
        constant = cka(zero + 0.1, x, group=group)
        assert math.isnan(constant.similarity)
        assert "3 of 3 channels of x are constant" in constant.reason
        assert "the kernel of x is the same for all pairs" in constant.reason


def test_some_constant_channels_are_said_and_change_nothing_for_the_linear_kernel() -> None:
    x, y = features(20, 4), features(20, 3, seed=1)
    more = np.concatenate([x, np.full((20, 2), 0.1)], axis=1)
    found = cka(more, y, group="orthogonal")
    assert found.similarity == pytest.approx(cka(x, y, group="orthogonal").similarity, abs=1e-12)
    assert found.live == (4, 3)
    assert found.reason == "2 of 6 channels of x are constant"


def test_results_say_which_number_is_which() -> None:
    x, y = np.maximum(features(40, 4), 0), np.maximum(features(40, 4, seed=1), 0)
    y[:, 0] = 0
    shown = repr(procrustes(x, y))
    assert shown.startswith("Procrustes similarity 0.")
    assert ", distance 0." in shown
    assert "live channels 4/4 and 3/4" in shown
    assert shown.endswith("Note: 1 of 4 channels of y are zero everywhere.")
    assert repr(cka(x, y)).startswith("CKA similarity ")
    assert "kernel=max, normalize=channels, centered=True" in repr(cka(x, y))
    assert repr(cka(0 * x, y)).endswith("samples.")
    assert "No similarity: 4 of 4 channels of x are constant" in repr(cka(0 * x, y))
