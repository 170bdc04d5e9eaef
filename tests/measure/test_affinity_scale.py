"""The score does not depend on the scale of the data, on constant columns, or on one far row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.maths.transport import FAR
from tests.networks import torchvision_models

Array = np.ndarray
ESTIMATORS = ("ledoit-wolf", "unbiased", "biased")
SCALES = [1e-30, 1e-12, 1e-3, 1e3, 1e12, 1e30]
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x - x.mean(0), 0),
    "tanh": np.tanh,
    "affine": lambda x: 3 * x + 1,
}
# (rows, columns, rank)
SHAPES = [(64, 8, 8), (40, 60, 60), (40, 120, 3), (128, 3, 1), (50, 1, 1)]


def sample(n: int, d: int, rank: int) -> Array:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + rng.standard_normal(d)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scales_change_nothing(shape: tuple[int, int, int], function: str, estimator: str) -> None:
    x = sample(*shape)
    y = FUNCTIONS[function](x)
    still = sg.affinity(x, y, covariance=estimator)
    pairs = [(scale * x, scale * y) for scale in SCALES] + [(1e-30 * x, 1e30 * y), (1e30 * x, y)]
    for result in sg.affinities(pairs, covariance=estimator):
        assert result.score == pytest.approx(still.score, abs=1e-9)
    # negative control: a number for eps is absolute
    absolute = sg.affinity(1e-3 * x, 1e-3 * y, covariance=estimator, eps=1e-6)
    assert function == "affine" or abs(absolute.score - still.score) > 1e-4


# Powers of two, so that scaling rounds nothing, that keep the data inside the range of the type.
@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (torch.float32, (-100, -40, 40, 100)),
        (torch.bfloat16, (-100, -40, 40, 100)),
        (torch.float16, (-4, 10)),
    ],
    ids=str,
)
def test_scales_change_nothing_in_any_type(dtype: torch.dtype, exponents: tuple[int, ...]) -> None:
    x = torch.from_numpy(sample(64, 8, 8)).to(dtype)
    y = torch.relu(x)
    still = sg.affinity(x, y)
    for exponent in exponents:
        scaled = sg.affinity(x * 2.0**exponent, y * 2.0**exponent)
        assert float(scaled) == pytest.approx(float(still), abs=1e-9)


def test_eps_is_a_share_of_the_variance() -> None:
    x = sample(64, 8, 8)
    # exactly white, of unit variance: then both are the same
    x = (x - x.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, bias=True))).T
    turned = x @ np.linalg.qr(sample(8, 8, 8))[0]
    relative, absolute = (
        sg.affinity(x, turned, covariance="biased", eps=eps) for eps in (None, 1e-6)
    )
    assert relative.score == pytest.approx(absolute.score, abs=1e-12)
    assert relative.bound == pytest.approx(absolute.bound, rel=1e-12)
    # and at other scales it is the absolute one, scaled
    assert sg.affinity(5 * x, 5 * turned, covariance="biased").bound == pytest.approx(
        sg.affinity(5 * x, 5 * turned, covariance="biased", eps=25e-6).bound, rel=1e-12
    )
    best = sg.affine_map(x, 1e-9 * x, covariance="biased")
    np.testing.assert_allclose(best.matrix, 1e-9 * np.eye(8), atol=1e-18)


@pytest.mark.parametrize("eps", [None, 1e-6])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("value", [-1e30, 1e100, 0.1])
def test_constant_columns_change_nothing(value: float, estimator: str, eps: float | None) -> None:
    x = sample(60, 9, 9)
    y = np.maximum(x, 0)
    x[:, 4], y[:, 4] = 0, 0
    still = sg.affinity(x, y, covariance=estimator, eps=eps)
    for mask_x, mask_y in ((value, 0), (value, value), (0, value)):
        x[:, 4], y[:, 4] = mask_x, mask_y
        masked = sg.affinity(x, y, covariance=estimator, eps=eps)
        assert (masked.score, masked.w2, masked.bound) == (still.score, still.w2, still.bound)


def test_columns_that_are_constant_to_their_own_rounding_change_nothing() -> None:
    x = sample(60, 9, 9).astype(np.float32)
    y = np.maximum(x, 0)
    y[:, 4] = 0
    still = sg.affinity(x, y)
    y[:, 4] = 1e8 + 8 * np.random.default_rng(0).integers(-2, 3, 60)  # steps of float32
    assert sg.affinity(x, y).score == pytest.approx(still.score, abs=1e-9)
    # negative controls: in float64 that is a signal, and so are larger steps in float32
    assert abs(sg.affinity(x.astype(float), y.astype(float)).score - still.score) > 0.01
    y[:, 4] = 1e8 + 80 * np.random.default_rng(0).integers(-2, 3, 60)
    assert abs(sg.affinity(x, y).score - still.score) > 0.01


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(64, 8, 8), (40, 60, 60), (128, 3, 1)], ids=str)
@pytest.mark.parametrize("distance", [1e3, 1e8])
def test_a_far_row_does_not_blur_the_others(
    distance: float, shape: tuple[int, int, int], estimator: str
) -> None:
    x = sample(*shape)
    x[0] *= distance
    order = 1 + np.random.default_rng(1).permutation(len(x) - 1)
    result = sg.affinity(x, x[np.r_[0, order]], covariance=estimator)
    assert result.certified == "solver"
    assert result.w2 <= 1e-9 * np.abs(x).max()
    assert result.score == pytest.approx(1, abs=1e-9)


def test_far_rows_cost_no_proof() -> None:
    x = sample(64, 8, 8) * np.logspace(0, 12, 64)[:, None]
    for y in (np.maximum(x, 0), np.sign(x) * np.abs(x) ** 0.9, x[::-1]):
        result = sg.affinity(x, y)
        assert result.certified not in ("no", "none")
        assert math.isfinite(result.score)


def test_far_rows_in_samples_of_unequal_size() -> None:
    x = sample(64, 8, 8)
    x[0] *= math.sqrt(FAR) * 100
    result = sg.affinity(np.repeat(x, 2, axis=0), x, covariance="biased")
    assert result.certified == "network simplex"
    assert result.w2 <= 1e-9 * np.abs(x).max()


@pytest.mark.parametrize("which", ["x", "y", "x and y"])
def test_an_eps_that_float64_cannot_resolve_is_noted(which: str) -> None:
    x = sample(64, 8, 8)
    pair = [1e12 * x if name in which else x for name in ("x", "y")]
    result = sg.affinity(*pair, covariance="unbiased", eps=1e-6)
    assert result.note == (
        f"eps 1e-06 is less than float64 resolves beside the variance of {which}: about "
        "1e-24 of it was added instead"
    )
    assert result.note in repr(result)
    assert result.reason == ""
    for quiet in ({}, {"eps": 1e6}, {"covariance": "ledoit-wolf", "eps": 1e-6}):
        assert sg.affinity(*pair, **{"covariance": "unbiased", **quiet}).note == ""


class Shrinking(nn.Module):
    """A deep network whose activations fall below 1e-12 and hardly lose their shape."""

    def __init__(self, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        layers = [nn.Conv2d(8, 8, 3, padding=1, bias=False, dtype=dtype) for _ in range(10)]
        for layer in layers:
            nn.init.normal_(layer.weight, std=0.004)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_layer_of_a_shrinking_network_has_a_score(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network, x = Shrinking(dtype=dtype), torch.randn(48, 8, 6, 6, dtype=dtype)
    with torch.no_grad():
        assert 0 < float(network(x).abs().max()) < 1e-12
    found = sg.signature(network, x)
    assert len(found) == 10
    assert all(0.3 < site.score < 1 and site.reason == "" for site in found.sites)
    larger = sg.signature(network, 2.0**40 * x)
    np.testing.assert_allclose(larger.scores, found.scores, atol=1e-9)


def test_average_of_a_constant_in_half_precision_has_no_score() -> None:
    """Neighboring values in bfloat16, whose averages have more digits than they stand for."""
    noise = torch.randn(32, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    gate, options = nn.Sigmoid(), {"channel_axis": {"*": 1}}
    gates = torch.sigmoid((4e-3 * noise).bfloat16())
    assert len(gates.unique()) > 2
    (constant,) = sg.signature(gate, (4e-3 * noise).bfloat16(), **options).sites
    assert math.isnan(constant.score)
    assert constant.reason.startswith("the output is constant up to rounding")
    # negative controls: larger values, and more digits
    for x in ((0.2 * noise).bfloat16(), 4e-3 * noise):
        (site,) = sg.signature(gate, x, **options).sites
        assert site.score > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_b0", "resnet18", "resnet50"])
def test_networks_at_initialization_have_scores(name: str) -> None:
    torch.manual_seed(0)
    network = getattr(torchvision_models(), name)(weights=None)
    found = sg.signature(network, torch.randn(32, 3, 64, 64))
    unscored = [site for site in found.sites if math.isnan(site.score)]
    # Gates of squeeze-and-excitation are one half to the last digit.
    assert {site.kind for site in unscored} <= {"sigmoid"}
    assert all(site.reason.startswith("the output is constant up") for site in unscored)
    assert len(unscored) <= 12
