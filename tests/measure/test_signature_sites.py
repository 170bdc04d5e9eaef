"""What becomes of each activation call: scored, failed with a reason, skipped with a reason, or
silent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.measure.companions import METRICS

KEYS = {key for metric in METRICS.values() for key in metric.keys}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(inputs: int, outputs: int, seed: int = 0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(normal(outputs, inputs, seed=seed))
        layer.bias.copy_(normal(outputs, seed=seed + 1))
    return layer


class Around(nn.Module):
    """A ReLU and a tanh that are fine, with something between them that need not be."""

    def __init__(self, between: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.first, self.relu, self.last, self.tanh = (
            linear(4, 6),
            nn.ReLU(),
            linear(6, 5, 2),
            nn.Tanh(),
        )
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x))
        self.between(x)
        return self.tanh(self.last(x))


def around(between: Callable[[Tensor], object] = lambda x: None) -> Around:
    return Around(between)


X = normal(40, 4)
FINE = sg.signature(around(), X)

# What happens between -> a pattern of the reason, and whether the call is a site at all.
BETWEEN: dict[str, tuple[Callable[[Tensor], object], str, bool]] = {
    "NaN": (
        lambda x: F.silu(x * math.nan),
        r"^x contains NaN at row 0, column 0 .* \(1 of 1 batch\)$",
        True,
    ),
    "infinite": (
        lambda x: F.silu(x + math.inf),
        r"^x contains an infinite value at row 0, column 0",
        True,
    ),
    "infinite output": (
        lambda x: F.threshold(x, 0.5, math.inf),
        r"^y contains an infinite value at row",
        True,
    ),
    "dead output": (
        lambda x: F.relu(-1 - x.abs()),
        r"^the output is constant up to rounding \(1 of 1 batch\)$",
        True,
    ),
    "unknown axis": (
        lambda x: F.silu(normal(40, 3, 7)),
        r"^nothing is known of .*; pass channel_axis=\{pattern: axis\}",
        True,
    ),
    "no sample": (
        lambda x: F.silu(x[0, :5]),
        r"^a tensor of shape \[5\] computed from sample 0 of the batch alone; the score compares",
        False,
    ),
    "a number": (lambda x: F.silu(x.mean()), r"^a single number, not samples$", False),
    "gated": (
        lambda x: F.glu(x),
        r"^input \[40, 6\] and output \[40, 3\] differ in shape, so no affine map compares",
        False,
    ),
    "sparse": (
        lambda x: F.relu(x.to_sparse()),
        r"^a float32 tensor of layout torch.sparse_coo, for which no score is",
        False,
    ),
    "whole numbers": (
        lambda x: F.relu(x.long()),
        r"^a int64 tensor of layout torch.strided",
        False,
    ),
}


@pytest.mark.parametrize("metrics", [(), "all"], ids=["alone", "with companions"])
@pytest.mark.parametrize("case", BETWEEN)
def test_a_bad_call_costs_the_others_nothing(case: str, metrics: Any) -> None:
    between, pattern, is_site = BETWEEN[case]
    result = sg.signature(around(between), X, metrics=metrics)
    good = [site for site in result.sites if site.path]
    assert [site.name for site in good] == ["relu", "tanh"]
    assert [site.score for site in good] == pytest.approx(FINE.scores, abs=1e-12)
    coverage = result.coverage
    assert (coverage.seen, coverage.scored, coverage.failed, len(coverage.skipped)) == (
        3,
        2,
        int(is_site),
        int(not is_site),
    )
    bad = result.sites[1] if is_site else coverage.skipped[0]
    assert (bad.path, bad.call) == ("", 0)
    assert re.search(pattern, bad.reason)
    if is_site:
        assert math.isnan(result.scores[1])
        assert (result.sites[1].batches, result.sites[1].certified) == (0, {})
        assert "forward." in repr(result)
        assert result.summary()["min"] == pytest.approx(FINE.summary()["min"])


def test_all_is_well_without_them() -> None:
    """Negative control."""
    coverage = FINE.coverage
    assert (
        coverage.seen,
        coverage.scored,
        coverage.failed,
        coverage.skipped,
        coverage.never_called,
    ) == (2, 2, 0, (), ())
    assert str(coverage) == "2 activation calls seen, 2 scored"
    assert [site.reason for site in FINE.sites] == ["", ""]


def test_the_axis_can_be_told() -> None:
    between = BETWEEN["unknown axis"][0]
    result = sg.signature(around(between), X, channel_axis={"": 1})
    assert (result.coverage.failed, result.sites[1].dim, result.sites[1].channel_axis) == (0, 3, 1)
    assert result.sites[1].axis_reason == "channel_axis={'': 1}"


def test_a_bad_batch_costs_the_others_nothing() -> None:
    """The mean is that of the good batches, and the reason says how many were not."""
    spoilt = X.clone()
    spoilt[3, 2] = math.nan
    result = sg.signature(
        around(), [X, spoilt, X[torch.arange(39, -1, -1)], spoilt[:, [1, 0, 2, 3]]], metrics="cka"
    )
    for site, fine in zip(result.sites, FINE.sites, strict=True):
        assert (site.batches, len(site.scores)) == (2, 4)
        assert [math.isnan(score) for score in site.scores] == [False, True, False, True]
        assert site.score == pytest.approx(fine.score)
        assert re.search(r"^x contains NaN at row 3, column 0 .* \(2 of 4 batches\)$", site.reason)
        assert re.search(
            r"^x contains NaN at row 3, column 0 .* \(2 of 4 batches\)$", site.metric_reasons["cka"]
        )
        assert math.isfinite(site.metrics["cka"])
        assert sum(site.certified.values()) == 2
    assert (result.coverage.scored, result.coverage.failed) == (2, 0)


def test_a_site_is_described_by_the_first_batch_that_can_be_read() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(
                self.flat(x)[:, :, None].expand(-1, -1, 3) if x[0, 0] > 0 else x[:, :, None] + 0
            )

    batches = [normal(9, 4).abs() * sign for sign in (-1, 1)]
    (site,) = sg.signature(Late(), batches).sites
    assert (site.batches, site.n, site.dim, site.shape) == (1, 9, 4, (9, 4, 3))
    assert "nothing is known" in site.reason


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_samples(count: int) -> None:
    result = sg.signature(around(), X[:count], metrics="all")
    for site in result.sites:
        assert set(site.metrics) == KEYS
        assert math.isfinite(site.score) == (count == 2)
        if count == 1:
            assert site.reason.startswith("a batch of one sample has none: use larger batches")
            assert set(site.metric_reasons) == KEYS
            assert all(math.isnan(value) for value in site.metrics.values())


@pytest.mark.parametrize(
    ("pool", "pattern"),
    [
        (lambda t: t.long(), r"x has dtype int64, not a floating type"),
        (
            lambda t: t.mean(1),
            r"the function given as pool returned a tensor of shape \(40,\), not a matrix \(n, d\)",
        ),
        (lambda t: [t], r"the function given as pool returned a list, not a matrix"),
        (lambda t: t[:1], r"x has 1 row"),
        (lambda t: t[:0], r"x has 0 rows"),
        (
            lambda t: t if t.amin() < 0 else t[:, 0],
            r"returned a tensor of shape \(40,\), not a matrix",
        ),
    ],
)
def test_a_pooling_of_the_user_that_gives_no_samples(
    pool: Callable[[Tensor], Any], pattern: str
) -> None:
    """Whether it fails on the input or on the output, with companions or without."""
    for metrics in ((), "all"):
        site = sg.signature(around(), X, pool=pool, metrics=metrics).sites[0]
        assert math.isnan(site.score)
        assert re.search(pattern, site.reason)


def test_a_pooling_of_the_user() -> None:
    result = sg.signature(around(), X, pool=lambda t: t)
    assert np.array_equal(result.scores, FINE.scores)
    assert result.options.pool == "function test_a_pooling_of_the_user.<locals>.<lambda>"


def test_metrics_are_means_over_batches() -> None:
    batches = [normal(40, 4, seed=seed) for seed in range(3)]
    together = sg.signature(around(), batches, metrics="all")
    alone = [sg.signature(around(), batch, metrics="all") for batch in batches]
    for place, site in enumerate(together.sites):
        assert list(site.metrics) == [key for metric in METRICS.values() for key in metric.keys]
        for key, value in site.metrics.items():
            assert value == pytest.approx(
                np.mean([one.sites[place].metrics[key] for one in alone]), abs=1e-12
            )
        assert site.metric_reasons == {}


def test_a_metric_without_a_value_has_a_reason() -> None:
    (site, _) = sg.signature(around(), X[:10], metrics=["r2", "cka"]).sites
    assert math.isfinite(site.score)
    assert math.isfinite(site.metrics["cka"])
    assert math.isnan(site.metrics["r2"])
    assert list(site.metric_reasons) == ["r2"]
    assert site.metric_reasons["r2"].endswith(
        "at least 16 are needed for 6 channels, and there are 10 (1 of 1 batch)"
    )


def test_compat_metrics_differ() -> None:
    plain, compat = (
        sg.signature(around(), X, metrics="all", compat=flag).sites[0].metrics
        for flag in (False, True)
    )
    assert set(plain) - set(compat) == {"norm_per_sample"}
    assert compat["entropy_before"] == pytest.approx(plain["entropy_before"] + math.log(6))
    assert compat["r2"] > plain["r2"]
    assert compat["cka"] == plain["cka"]


def test_sparsity_is_that_of_the_whole_feature_maps() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    images = normal(8, 3, 6, 6)
    (site,) = sg.signature(network, images, metrics="sparsity").sites
    with torch.no_grad():
        before = network[0](images)
    shares = [float((values.abs() <= 1e-3).double().mean()) for values in (before, before.relu())]
    assert (site.metrics["sparsity_before"], site.metrics["sparsity_after"]) == pytest.approx(
        shares
    )
    assert site.metrics["sparsity"] == pytest.approx(shares[1] - shares[0])


class Branches(nn.Module):
    """Which calls it makes depends on the first number of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = linear(4, 6), linear(6, 5)
        self.gelu, self.never = nn.GELU(), nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        way = int(x[0, 0].round())
        y = self.first(x)
        if way == 9:
            return y
        y = F.relu(y)
        if way == 1:
            y = self.gelu(y) + F.silu(y)
        if way == 2:
            y = F.elu(y)
        return torch.tanh(self.last(y))


def way(number: int, seed: int = 0) -> Tensor:
    x = normal(12, 4, seed=seed)
    x[0, 0] = number
    return x


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ([1, 1], [("relu", 2), ("gelu", 2), ("silu", 2), ("tanh", 2)]),
        ([0, 1], [("relu", 2), ("gelu", 1), ("silu", 1), ("tanh", 1), ("tanh", 1)]),
        ([1, 0, 1], [("relu", 3), ("gelu", 2), ("silu", 2), ("tanh", 1), ("tanh", 2)]),
        ([0, 2], [("relu", 2), ("elu", 1), ("tanh", 1), ("tanh", 1)]),
        ([1, 9, 9], [("relu", 1), ("gelu", 1), ("silu", 1), ("tanh", 1)]),
    ],
)
def test_branches_between_batches(ways: list[int], expected: list[tuple[str, int]]) -> None:
    """Each site counts its own batches, and stands where it ran. A batch that exits early is a
    batch all the same.
    """
    result = sg.signature(Branches(), [way(number, seed) for seed, number in enumerate(ways)])
    assert sorted((site.kind, site.batches) for site in result.sites) == sorted(expected)
    kinds = [site.kind for site in result.sites]
    assert kinds[0] == "relu"
    assert kinds[-1] == "tanh"
    assert [kind for kind in kinds if kind in ("gelu", "silu")] == ["gelu", "silu"] * (1 in ways)
    assert result.batches == len(ways)
    gelu = () if 1 in ways else ("gelu",)
    assert result.coverage.never_called == (*gelu, "never.0", "never.1")
    assert f"{len(result.coverage.never_called)} activation modules never ran" in str(
        result.coverage
    )
    assert result.coverage.seen == len(expected)


def test_the_statistics_of_a_branch_are_its_own() -> None:
    batches = [way(number, seed) for seed, number in enumerate([0, 1, 0, 1])]
    mixed = {(site.kind, site.call): site for site in sg.signature(Branches(), batches).sites}
    alone = {(site.kind, site.call): site for site in sg.signature(Branches(), batches[1::2]).sites}
    for key in (("gelu", 0), ("silu", 1), ("tanh", 2)):
        assert mixed[key].scores == pytest.approx(alone[key].scores, abs=1e-12)
        assert mixed[key].std == pytest.approx(alone[key].std, abs=1e-12)
    assert mixed["relu", 0].batches == 4


def test_names_of_calls() -> None:
    names = [site.name for site in sg.signature(Branches(), way(1)).sites]
    assert names == ["forward.relu", "gelu", "forward.silu#1", "forward.tanh#2"]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNNCell])
def test_of_a_recurrent_network_the_fused_gates_are_named(layer: type[nn.Module]) -> None:
    kind = layer.__name__
    network = nn.ModuleDict({"gates": layer(4, 5)})
    match = rf"could be seen\. Note that the gates of gates \({kind}\) run in one fused kernel"
    with pytest.raises(sg.NoActivationError, match=match):
        sg.signature(network, X, forward=lambda network, x: network["gates"](x))


def test_nothing_to_be_seen() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(-1) + x.exp()

    match = (
        r"^Net made no activation call that could be seen\. Looked for functions and modules "
        r"of the kinds .*\bgelu, .*\brelu, "
        r".*Register an activation of another name with sigmascope\.register_activation; "
        r"softmax is found with "
        r"activations='all'\.$"
    )
    with pytest.raises(sg.NoActivationError, match=match):
        sg.signature(Net(), X)
    (site,) = sg.signature(Net(), X, activations="all").sites
    assert site.kind == "softmax"


def test_only_some_kinds() -> None:
    assert [site.kind for site in sg.signature(around(), X, activations=["tanh"]).sites] == ["tanh"]
    both = sg.signature(around(), X, activations={"tanh", "relu"})
    assert both.options.activations == ("relu", "tanh")
    assert np.array_equal(both.scores, FINE.scores)


OPTIONS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "covariance": (
        {"covariance": "ledoit"},
        sg.OptionError,
        r"covariance='ledoit' is not a valid choice\. Did you mean 'ledoit-wolf'",
    ),
    "pool": (
        {"pool": "chanels"},
        sg.OptionError,
        r"pool='chanels' is not a valid choice\. Did you mean 'channels'",
    ),
    "samples": (
        {"samples": "token"},
        sg.OptionError,
        r"samples='token' is not a valid choice\. Did you mean 'tokens'",
    ),
    "metrics": ({"metrics": "CKA"}, sg.OptionError, r"metrics='CKA' is not a valid choice.*'cka'"),
    "one metric": (
        {"metrics": ["cka", "r3"]},
        sg.OptionError,
        r"metrics='r3' is not a valid choice\. Choose from 'cka'",
    ),
    "activations": (
        {"activations": "rlu"},
        sg.OptionError,
        r"activations='rlu' is not a valid choice\. Choose from 'all', a family",
    ),
    "degenerate": (
        {"degenerate": "zero"},
        sg.OptionError,
        r"degenerate='zero' is not a valid choice",
    ),
    "mode": (
        {"mode": "train"},
        sg.OptionError,
        r"mode='train' is not a valid choice.*'eval', 'as-is'",
    ),
    "eps": ({"eps": -1}, sg.InputError, r"eps must be None or a number >= 0 such as 1e-6, got -1"),
    "seed": ({"seed": -1}, sg.OptionError, r"seed must be a whole number from 0 to .* got -1"),
    "max_batches": (
        {"max_batches": 0},
        sg.OptionError,
        r"max_batches must be a whole number >= 1, got 0",
    ),
    "max_batches true": (
        {"max_batches": True},
        sg.OptionError,
        r"max_batches must be a whole number >= 1, got True",
    ),
    "max_tokens": (
        {"max_tokens": 1},
        sg.OptionError,
        r"max_tokens must be a whole number >= 2, got 1",
    ),
    "batch_axis": (
        {"batch_axis": -1},
        sg.OptionError,
        r"batch_axis must be a whole number from 0 to 7, got -1",
    ),
    "channel_axis": (
        {"channel_axis": {"relu": "1"}},
        sg.InputTypeError,
        r"channel_axis must map patterns of paths to axes",
    ),
    "tokens pooled": (
        {"samples": "tokens", "pool": "sum"},
        sg.InputError,
        r"pool='sum' has nothing to do\. Leave pool out",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_bad_option_is_named(case: str) -> None:
    options, error, match = OPTIONS[case]
    with pytest.raises(error, match=match):
        sg.signature(around(), X, **options)


def test_no_network() -> None:
    with pytest.raises(
        sg.InputTypeError,
        match=r"model is a type, not a torch\.nn\.Module\. Pass the network itself",
    ):
        sg.signature(nn.ReLU, X)


def test_what_cannot_be_seen_is_noted() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.act = nn.LSTM(4, 5, batch_first=True), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.rnn(x)[0])

    result = sg.signature(Recurrent(), normal(32, 3, 4))
    assert result.coverage.notes == (
        "the gates of rnn (LSTM) run in one fused kernel and are not seen",
    )
    assert result.coverage.scored == 1


def unfit(**options: Any) -> list[str]:
    found = sg.signature(around(), X, progress=False, **options)
    return [note for note in found.coverage.notes if "the pattern" in note]


def test_a_pattern_of_an_axis_that_fits_nothing_is_named() -> None:
    axes = {"q*": 1, "relu": 1}
    assert unfit(channel_axis=axes) == ["channel_axis: the pattern 'q*' fits no site"]
    axes = {"q*": 0, "ta*": 0}
    assert unfit(sample_axis=axes) == ["sample_axis: the pattern 'q*' fits no site"]
    assert unfit(channel_axis={"*": 1}, sample_axis={"*": 0}) == []


def test_a_pattern_of_an_axis_that_fits_no_chosen_site_is_named() -> None:
    note = "channel_axis: the pattern 'relu' fits none of the chosen sites"
    assert unfit(channel_axis={"relu": 1, "tanh": 1}, sites=["tanh"]) == [note]
