"""The companion metrics against the published values, scikit-learn, brute force and their laws."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LinearRegression
from torch import Tensor

from sigmascope.capture.density import NEAR_ZERO
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.companions import METRICS, check_metrics, companions
from tests.golden_grid import ACTIVATIONS

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GRID = json.loads((GOLDEN / "affinity_grid.json").read_text())
PUBLISHED = json.loads((GOLDEN / "companions.json").read_text())
PAIRS = np.load(GOLDEN / "affinity_pairs.npz")
# The published code works in float32. The norm is compared relatively. What leaves an activation
# may differ in its last bit from one processor to another, and then change its bin.
TOLERANCE = {"norm": 1e-4, "cka": 1e-4, "entropy_before": 1e-5, "entropy_after": 1e-3}
KEYS = ("cka", "norm", "sparsity_before", "sparsity_after", "entropy_before", "entropy_after", "r2")
ALL_KEYS = {*KEYS, "norm_per_sample", "sparsity", "entropy"}


def draw(case: dict) -> Tensor:
    normal = np.random.RandomState(case["seed"]).standard_normal((case["n"], case["d"]))
    return torch.from_numpy((case["mean"] + case["std"] * normal).astype(np.float32))


def normal(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def agrees(key: str, value: float, expected: float | None, more: float = 0.0) -> bool:
    if expected is None:
        return math.isnan(value)
    scale = abs(expected) if key == "norm" else 1.0
    return abs(value - expected) <= TOLERANCE.get(key, 1e-6) * scale + more


def undecided(x: Tensor, activation: Callable[[Tensor], Tensor]) -> float:
    """Return the share of outputs that count as silent, or not, by the rounding of float32 alone.

    An activation multiplies its input by a factor of at most 1, such as 1 + erf of GELU, which is
    right up to a few roundings of 1. Processors round those differently.
    """
    exact = activation(x.double())
    rounding = 4 * torch.finfo(torch.float32).eps * torch.maximum(x.double().abs(), exact.abs())
    return float(((exact.abs() - NEAR_ZERO).abs() <= rounding).double().mean())


def textbook_cka(x: Tensor, y: Tensor) -> float:
    centring = torch.eye(len(x), dtype=torch.float64) - 1 / len(x)
    k, m = (centring @ sample.double() @ sample.double().T @ centring for sample in (x, y))
    return float((k * m).sum() / (k.norm() * m.norm()))


def textbook_entropy(values: Tensor) -> float:
    entropies = []
    for row in values:
        counts = torch.histc(row, bins=len(row))
        shares = (counts / counts.sum()).double()
        entropies.append(-sum(float(share * share.log()) for share in shares if share > 0))
    return sum(entropies) / len(entropies)


def sklearn_r2(x: Tensor, y: Tensor) -> float:
    return float(LinearRegression().fit(x.numpy(), y.numpy()).score(x.numpy(), y.numpy()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "expected"),
    list(zip(GRID["draws"], PUBLISHED["draws"], strict=True)),
    ids=[f"n{case['n']}-d{case['d']}-mean{case['mean']:g}" for case in GRID["draws"]],
)
def test_published_grid(case: dict, expected: dict) -> None:
    assert GRID["activations"] == list(ACTIVATIONS)
    assert case["seed"] == expected["seed"]
    x = draw(case)
    off = {}
    for position, (name, activation) in enumerate(ACTIVATIONS.items()):
        y = activation(x)
        found = companions(x, y, compat=True)
        for key in KEYS:
            wanted = expected[key] if key.endswith("_before") else expected[key][position]
            more = undecided(x, activation) if key == "sparsity_after" else 0.0
            if not agrees(key, found.values[key], wanted, more):
                off[name, key] = found.values[key]
        assert undecided(x, activation) <= 1e-3
    # Where hardly anything varies next to a large mean, the kernel of the published CKA drowns in
    # the rounding of float32.
    drowned = {
        key for key in off if key in {("hardtanh", "cka"), ("tanh", "cka")} and case["mean"] == 3
    }
    assert set(off) == drowned
    for name, key in drowned:
        assert off[name, key] == pytest.approx(textbook_cka(x, ACTIVATIONS[name](x)), abs=1e-9)


@pytest.mark.parametrize("name", PUBLISHED["edge"])
def test_published_edge_cases(name: str) -> None:
    x, y = (torch.from_numpy(PAIRS[f"{name}/{side}"]) for side in "xy")
    found = companions(x, y, compat=True)
    # The published R² of outputs that are all constant compares one rounding error with another; it
    # should be 1.
    expected = PUBLISHED["edge"][name] | ({"r2": 1.0} if name == "all_rows_equal" else {})
    assert {
        key: found.values[key] for key in KEYS if not agrees(key, found.values[key], expected[key])
    } == {}
    assert set(found.reasons) == {key for key in KEYS if expected[key] is None}


def test_published_values_can_be_missed() -> None:
    case, expected = GRID["draws"][9], PUBLISHED["draws"][9]
    x = draw(case)
    found = companions(x, 1.1 * F.relu(x), compat=False).values
    assert [
        key
        for key in ("norm", "entropy_before", "r2")
        if agrees(key, found[key], np.ravel(expected[key])[0])
    ] == []


@pytest.mark.parametrize(("n", "d"), [(40, 3), (40, 40), (7, 30), (2, 1)])
def test_cka_is_the_textbook_formula(n: int, d: int) -> None:
    x = normal(n, d) + 3
    assert companions(x, x.tanh(), metrics="cka").values["cka"] == pytest.approx(
        textbook_cka(x, x.tanh()), abs=1e-12
    )


@pytest.mark.parametrize(("n", "d"), [(50, 6), (9, 20)])
def test_cka_ignores_rotation_scale_and_shift(n: int, d: int) -> None:
    x, y = normal(n, d), normal(n, d).abs()
    rotation = torch.linalg.qr(normal(d, d, seed=1)).Q
    plain = companions(x, y, metrics="cka").values["cka"]
    assert companions(-1e-60 * x @ rotation + 2e-60, 1e90 * y + 1e90, metrics="cka").values[
        "cka"
    ] == pytest.approx(plain)
    assert companions(x, 3 * x @ rotation, metrics="cka").values["cka"] == pytest.approx(1)
    skewed = companions(x * torch.arange(1, d + 1), y, metrics="cka").values["cka"]
    assert abs(skewed - plain) > 1e-3
    # rows belong together
    assert companions(x, y.flip(0), metrics="cka").values["cka"] < 0.9 * plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 64, 300])
def test_compat_entropy_bins_as_histc_does(d: int, dtype: torch.dtype) -> None:
    x = normal(60, d).to(dtype)
    # Rounded values fall on the edges of bins; the first rows are constant.
    for sample in (
        x,
        (4 * x).round() / 4,
        x.relu(),
        torch.cat([torch.full((5, d), 0.1, dtype=dtype), x]),
    ):
        found = companions(sample, sample + 1, metrics="entropy", compat=True).values[
            "entropy_before"
        ]
        assert found == pytest.approx(textbook_entropy(sample) + math.log(d), abs=1e-7)


def test_the_compat_offset_of_the_entropy_is_ln_d() -> None:
    x = normal(30, 17)
    ours, theirs = (
        companions(x, x.relu(), metrics="entropy", compat=compat).values for compat in (False, True)
    )
    for key in ("entropy_before", "entropy_after"):
        assert theirs[key] - ours[key] == pytest.approx(math.log(17), abs=1e-14)
    assert (
        theirs["entropy"]
        == ours["entropy"]
        == pytest.approx(ours["entropy_after"] - ours["entropy_before"])
    )


def test_entropy_of_known_histograms() -> None:
    even = torch.arange(8.0).expand(3, 8)
    found = companions(even, torch.ones(3, 8), metrics="entropy").values
    assert found["entropy_before"] == pytest.approx(math.log(8))
    assert (found["entropy_after"], found["entropy"]) == (0, pytest.approx(-math.log(8)))
    column = companions(normal(9, 1), normal(9, 1), metrics="entropy", compat=True).values
    assert set(column.values()) == {0}
    assert str(column["entropy_after"]) == "0.0"


def test_norm_per_sample_does_not_grow_with_the_sample() -> None:
    x = normal(20, 4)
    once = companions(x, x.relu(), metrics="norm").values
    often = companions(x.repeat(9, 1), x.relu().repeat(9, 1), metrics="norm").values
    assert once["norm"] == pytest.approx(float((x - x.relu()).norm()))
    assert often["norm"] == pytest.approx(3 * once["norm"])
    assert often["norm_per_sample"] == pytest.approx(once["norm_per_sample"])
    assert set(companions(x, x.relu(), metrics="norm", compat=True).values) == {"norm"}


def test_sparsity_counts_or_is_told() -> None:
    x = torch.tensor([[0.0, 1e-3], [-2e-3, 5.0]])
    found = companions(x, torch.zeros(2, 2), metrics="sparsity").values
    assert found == {"sparsity_before": 0.5, "sparsity_after": 1.0, "sparsity": 0.5}
    told = companions(x, x, metrics="sparsity", density=(0.75, 0.5)).values
    assert told == {"sparsity_before": 0.25, "sparsity_after": 0.5, "sparsity": 0.25}
    assert companions(x, x, metrics="sparsity", density=(0.0, 0.0)).values["sparsity_before"] == 1


@pytest.mark.parametrize(("n", "d"), [(50, 5), (30, 28), (12, 11), (12, 12), (8, 40), (20, 1)])
def test_compat_r2_is_that_of_scikit_learn(n: int, d: int) -> None:
    x = normal(n, d) + 5
    y = (x - 5).square() + normal(n, d, seed=1)
    found = companions(x, y, metrics="r2", compat=True).values["r2"]
    assert found == pytest.approx(sklearn_r2(x, y), abs=1e-10)
    assert (n <= d + 1) == (found == pytest.approx(1, abs=1e-12))


def test_compat_r2_of_dead_and_repeated_channels_is_that_of_scikit_learn() -> None:
    x = normal(40, 6)
    x[:, 1], x[:, 2], x[:, 3] = 0, x[:, 0], x[:, 4] + x[:, 5]
    y = x.square()
    y[:, 4] = 2
    found = companions(x, y, metrics="r2", compat=True).values["r2"]
    assert found == pytest.approx(sklearn_r2(x, y), abs=1e-10)
    assert found > 2 / 6  # two constant outputs count as 1
    assert companions(torch.ones_like(x), y, metrics="r2", compat=True).values[
        "r2"
    ] == pytest.approx(2 / 6)


def test_r2_is_scored_on_rows_that_were_not_fitted() -> None:
    x, noise = normal(60, 8), normal(60, 8, seed=1)
    model = LinearRegression().fit(x[0::2].numpy(), noise[0::2].numpy())
    expected = model.score(x[1::2].numpy(), noise[1::2].numpy())
    assert expected < 0
    assert companions(x, noise, metrics="r2").values["r2"] == pytest.approx(expected, abs=1e-10)
    assert companions(x, noise, metrics="r2", compat=True).values["r2"] > 0
    assert companions(x, x @ normal(8, 8, seed=2) - 3, metrics="r2").values["r2"] == pytest.approx(
        1
    )


def test_r2_leaves_out_dead_outputs() -> None:
    x, noise = normal(60, 2), normal(60, 2, seed=1)
    noise[:, 1] = 0.1
    alone = companions(x, noise[:, :1].expand(60, 2), metrics="r2").values["r2"]
    assert companions(x, noise, metrics="r2").values["r2"] == pytest.approx(alone)


@pytest.mark.parametrize(("n", "enough"), [(11, False), (12, True), (13, True)])
def test_r2_says_how_many_samples_it_needs(n: int, enough: bool) -> None:
    found = companions(normal(n, 4), normal(n, 4, seed=1), metrics="r2")
    assert math.isnan(found.values["r2"]) != enough
    if not enough:
        assert "at least 12 are needed for 4 channels, and there are 11" in found.reasons["r2"]


def test_nothing_is_missing_from_a_healthy_pair() -> None:
    x = normal(50, 4)
    found = companions(x, x.relu())
    assert set(found.values) == ALL_KEYS
    assert all(map(math.isfinite, found.values.values()))
    assert found.reasons == {}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("compat", [False, True])
def test_bad_numbers_are_reasons(bad: float, side: int, compat: bool) -> None:
    pair = [normal(50, 4), normal(50, 4, seed=1)]
    pair[side][3, 2] = bad
    found = companions(*pair, compat=compat, density=(0.5, 0.5))
    assert (
        set(found.values)
        == set(found.reasons)
        == ALL_KEYS - ({"norm_per_sample"} if compat else set())
    )
    assert all(map(math.isnan, found.values.values()))
    assert all(reason.startswith("xy"[side]) for reason in found.reasons.values())


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_samples_that_do_not_vary_are_reasons(constant: float) -> None:
    x, still = normal(50, 4), torch.full((50, 4), constant, dtype=torch.float64)
    dead = companions(x, still)
    assert dead.reasons == {
        "cka": "the output does not vary",
        "r2": "the output does not vary over the samples to be scored",
    }
    assert companions(x, still, compat=True).values["r2"] == 1
    assert companions(still, x).reasons == {"cka": "the input does not vary"}


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e130])
@pytest.mark.parametrize("compat", [False, True])
def test_a_nan_never_comes_without_its_reason(scale: float, compat: bool) -> None:
    x = scale * normal(50, 4)
    found = companions(x, x.relu(), compat=compat)
    assert {key for key, value in found.values.items() if math.isnan(value)} == set(found.reasons)
    assert found.reasons == {}


@pytest.mark.parametrize("compat", [False, True])
def test_the_float32_extremes_are_binned_without_error(compat: bool) -> None:
    x = torch.tensor([[-3e38, 3e38, 1e38], [1e-45, 0.0, 2e-45]])
    assert companions(x, x.relu(), metrics="entropy", compat=compat).reasons == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_any_floating_type_is_measured_in_float64(dtype: torch.dtype) -> None:
    x = normal(50, 4).to(dtype).requires_grad_()
    y = x.detach().relu().t().contiguous().t()
    assert companions(x, y).values == companions(x.detach().double(), y.double()).values


def test_metrics_are_chosen_by_name() -> None:
    x = normal(50, 4)
    assert check_metrics("all") == tuple(METRICS) == ("cka", "norm", "sparsity", "entropy", "r2")
    assert check_metrics(("r2", "cka", "r2")) == ("r2", "cka")
    assert list(companions(x, x.relu(), metrics=["r2", "cka"]).values) == ["r2", "cka"]
    for name, metric in METRICS.items():
        assert tuple(companions(x, x.relu(), metrics=name).values) == metric.keys


def test_wrong_calls_are_named() -> None:
    x = normal(10, 4)
    with pytest.raises(
        OptionError, match=r"metrics='ckaa' is not a valid choice. Did you mean 'cka'\?"
    ):
        companions(x, x, metrics="ckaa")
    with pytest.raises(OptionError, match="metrics='all' is not a valid choice"):
        check_metrics(["cka", "all"])
    with pytest.raises(OptionError, match=r"metrics must be 'all' or some of .*, got 3"):
        check_metrics(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="x has 10 rows and y 9"):
        companions(x, x[:9])
    with pytest.raises(InputError, match="needs equal widths"):
        companions(x, x[:, :3])
    with pytest.raises(InputError, match="at least 2 samples are needed"):
        companions(x[:1], x[:1])
    with pytest.raises(InputTypeError, match="Pass torch tensors"):
        companions(x.numpy(), x.numpy())  # type: ignore[arg-type]
    for density in ((0.5, math.nan), (-0.1, 0.5), (0.5,)):
        with pytest.raises(InputError, match="density must be two numbers between 0 and 1"):
            companions(x, x, density=density)  # type: ignore[arg-type]
