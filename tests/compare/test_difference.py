"""Differences of signatures: laws on real networks, coverage on simulated and on real scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from torch import nn

import sigmascope as sg
from sigmascope.compare.contrast import lowest
from sigmascope.compare.jackknife import ALONG, coarsened, statistic_half_widths
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.result import STATISTICS
from tests.compare.made import made, populated, populated_site

STATISTIC_NAMES = ["mean", "median", "min", "spread"]


def network(activation: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(8, 12), activation(), nn.Linear(12, 6), activation(), nn.Linear(6, 12), nn.Tanh()
    )


def measured(model: nn.Module, seed: int = 0, samples: int = 256, name: str = "") -> sg.Signature:
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(seed))
    return sg.signature(model, [x], name=name, estimator="population", progress=False)


@pytest.fixture(scope="module")
def pair() -> tuple[sg.Signature, sg.Signature]:
    return measured(network(nn.ReLU), name="relu"), measured(network(nn.GELU), name="gelu")


def sampled(
    columns: np.ndarray, base: sg.Signature, groups: Sequence[int] | int = 8
) -> sg.Signature:
    """A signature whose scores are the means of columns, with their exact influences."""
    sites = []
    many = [groups] * columns.shape[1] if isinstance(groups, int) else groups
    for site, values, count in zip(base.sites, columns.T, many, strict=True):
        shares = np.bincount(
            np.arange(len(values)) % count, (values - values.mean()) / len(values), count
        )
        sites.append(populated_site(site, float(values.mean()), shares))
    options = replace(base.options, estimator="both")
    return replace(base, sites=tuple(sites), options=options)


def test_by_hand() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 64, 3))
    base = made("a", [0.5] * 3)
    found = sg.difference(sampled(one, base), sampled(other, base))
    gaps = (one - other)[:, 0].reshape(-1, 8).mean(axis=0)  # of each group
    stderr = math.sqrt(np.square(gaps - gaps.mean()).sum() / 8 / 7)
    half = student.ppf(0.975, 7) * stderr
    first = found.sites[0]
    assert first.difference == pytest.approx(gaps.mean())
    assert first.stderr == pytest.approx(stderr)
    assert (first.low, first.high) == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    means = (one - other).mean(axis=1).reshape(-1, 8).mean(axis=0)
    expected = student.ppf(0.975, 7) * math.sqrt(np.square(means - means.mean()).sum() / 8 / 7)
    assert found.summary[0].high - found.summary[0].difference == pytest.approx(expected)
    assert [one.name for one in found.summary] == STATISTIC_NAMES


def test_finer_groups_are_added_up() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random((2, 64, 3))
    base = made("a", [0.5] * 3)
    coarse = sg.difference(sampled(one, base), sampled(other, base))
    for groups in (16, [8, 32, 16]):
        finer = sg.difference(sampled(one, base, groups), sampled(other, base))
        assert [one.low for one in finer.sites] == pytest.approx([x.low for x in coarse.sites])
        assert finer.summary[0].high == pytest.approx(coarse.summary[0].high)
    assert coarsened(range(8), 4).tolist() == [4, 6, 8, 10]


def test_identical_signatures_differ_by_exactly_zero(pair: tuple[sg.Signature, ...]) -> None:
    found = sg.difference(pair[0], pair[0])
    for one in (*found.sites, *found.summary):
        assert (one.difference, one.stderr, one.low, one.high) == (0, 0, 0, 0)
        assert not one.excludes_zero
    assert "0 of 3 intervals of sites exclude 0" in repr(found)


def test_the_difference_changes_its_sign_with_the_order(pair: tuple[sg.Signature, ...]) -> None:
    one, other = sg.difference(*pair), sg.difference(*pair[::-1])
    for a, b in zip((*one.sites, *one.summary), (*other.sites, *other.summary), strict=True):
        assert (a.difference, a.low, a.high) == (-b.difference, -b.high, -b.low)
        assert (a.a, a.b, a.stderr) == (b.b, b.a, b.stderr)


def test_pairing_narrows_the_interval(pair: tuple[sg.Signature, ...]) -> None:
    paired, apart = sg.difference(*pair), sg.difference(*pair, paired=False)
    assert (paired.paired, apart.paired) == (True, False)
    for one, other in zip(paired.sites, apart.sites, strict=True):
        assert one.difference == other.difference
    assert paired.sites[0].stderr < apart.sites[0].stderr / 3  # the same input to both
    assert paired.summary[0].stderr < apart.summary[0].stderr
    assert "independent samples" in repr(apart)
    assert apart.sites[0].stderr == pytest.approx(
        math.hypot(pair[0].sites[0].stderr, pair[1].sites[0].stderr)
    )


def test_other_samples_count_as_independent_and_it_says_so(pair: tuple[sg.Signature, ...]) -> None:
    other = measured(network(nn.GELU), seed=3)
    found = sg.difference(pair[0], other)
    assert not found.paired
    assert "the digests of the data differ, so the samples count as " in repr(found)
    asked = sg.difference(pair[0], other, paired=True)
    assert asked.paired
    assert "paired as requested" in repr(asked)
    with pytest.raises(InputError, match="paired=True needs the same samples, and relu has 256"):
        sg.difference(pair[0], measured(network(nn.GELU), samples=128), paired=True)


def test_a_smaller_last_batch_is_among_the_same_samples() -> None:
    """It counts for the population score only, whether published scores are measured or not."""
    model, x = network(nn.ReLU), torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    both = sg.signature(model, x.split(128), progress=False)
    alone = sg.signature(model, x.split(128), estimator="population", progress=False)
    assert (both.samples, alone.samples) == (256, 300)
    assert sg.difference(both, alone).paired
    fewer = sg.signature(model, x.split(100), progress=False)
    assert not sg.difference(both, fewer).paired
    assert sg.difference(both, fewer, paired=True).sites[0].high == pytest.approx(0, abs=1e-6)


def covered(found: sg.Difference, truth: Sequence[float]) -> list[bool]:
    return [
        one.low <= value <= one.high
        for one, value in zip((*found.sites, *found.summary[:2]), truth, strict=True)
    ]


def test_the_interval_covers_the_true_difference_of_simulated_scores() -> None:
    rng = np.random.default_rng(2)
    base, truth = made("a", [0.5] * 3), np.array([0.02, 0.0, -0.01])
    levels = np.array([0.5, 0.6, 0.7])
    wanted = [*truth, truth.mean(), truth[1]]  # mean and median too
    hits = []
    for _ in range(300):
        shared, noise = 0.1 * rng.standard_normal((64, 3)), 0.03 * rng.standard_normal((64, 3))
        one = sampled(levels + truth + shared + noise, base)
        hits.append(covered(sg.difference(one, sampled(levels + shared, base)), wanted))
    rates = np.mean(hits, axis=0)
    assert rates.min() > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300)
    assert rates.max() < 1


def test_the_interval_covers_the_true_difference_of_networks() -> None:
    models = [network(nn.ReLU), network(nn.GELU)]
    truth = sg.difference(*(measured(model, 1000, 40_000) for model in models))
    wanted = [one.difference for one in (*truth.sites, *truth.summary[:2])]
    hits = [
        covered(sg.difference(*(measured(model, seed, 160) for model in models)), wanted)
        for seed in range(40)
    ]
    assert np.mean(hits) > 0.88  # 200 intervals, not independent of each other
    assert truth.sites[0].excludes_zero


def test_sites_are_matched_by_path_and_call() -> None:
    one = populated(made("a", [0.5, 0.6, 0.7], paths=["stem", "x", "both"]))
    other = populated(made("b", [0.4, 0.8, 0.3], paths=["both", "y", "stem"]), seed=1)
    found = sg.difference(one, other)
    assert [(site.name, site.a, site.b) for site in found.sites] == [
        ("stem", pytest.approx(0.48), pytest.approx(0.28)),
        ("both", pytest.approx(0.68), pytest.approx(0.38)),
    ]
    assert (found.only_a, found.only_b) == (("x",), ("y",))
    assert "Only in a: x." in repr(found)
    assert found.summary[0].a == pytest.approx(0.58)  # of all its sites
    apart = sg.difference(one, populated(made("c", [0.5] * 9, paths=list("klmnopqrs"))))
    assert apart.sites == ()
    assert "Only in c: k, l, m, n, o, p, q, r, and 1 more." in repr(apart)


def test_calls_of_one_name_are_matched_by_kind() -> None:
    base = populated(made("a", [0.5, 0.6], paths=["x", "x"]))
    relu, gelu = base.sites[0], replace(base.sites[1], kind="gelu")
    found = sg.difference(
        replace(base, sites=(relu, gelu)), replace(base, name="b", sites=(gelu, relu))
    )
    assert [one.difference for one in found.sites] == [0, 0]


def test_a_site_without_a_population_score_says_why() -> None:
    one, other = populated(made("a", [0.5, math.nan, 0.7])), populated(made("b", [0.5, 0.6, 0.7]))
    found = sg.difference(one, other)
    assert math.isnan(found.sites[1].low)
    assert "No interval at 1 site: 3 samples are too few" in repr(found)
    assert found.summary[0].a == pytest.approx(0.58)
    assert math.isfinite(found.summary[0].low)


def test_it_prints_a_table() -> None:
    one, other = populated(made("a", [0.5, 0.6, 0.9])), populated(made("b", [0.5, 0.6, 0.2]))
    lines = repr(sg.difference(one, other)).splitlines()
    assert lines[0] == "Population scores, a = a minus b = b, paired"
    assert lines[2].split() == ["site", "a", "b", "a", "-", "b", "95", "%", "interval"]
    assert lines[5] == (
        "layer1.relu    0.8800  0.1800  +0.7000  +0.7000 to +0.7000  *"  # the same influences
    )
    assert lines[-1] == (
        "1 of 3 intervals of sites exclude 0 (*); without any difference, about 0.2 would by "
        "chance (95 % intervals)."
    )


def test_frame_and_dict() -> None:
    one = populated(made("a", [0.5, 0.6], paths=["mean", "x"]))
    found = sg.difference(one, populated(made("b", [0.4, 0.6], paths=["mean", "x"]), seed=2))
    frame = found.to_frame()
    assert frame["site"].tolist() == ["mean", "x"]
    assert frame["difference"].tolist() == pytest.approx([0.1, 0], abs=1e-9)
    assert frame["excludes_zero"].tolist() == [True, False]
    numbers = found.to_dict("d/")
    assert numbers["d/mean/difference"] == pytest.approx(0.1)
    assert numbers["d/summary/mean/difference"] == pytest.approx(0.05)


def test_different_settings_are_noted(pair: tuple[sg.Signature, ...]) -> None:
    other = replace(pair[1], options=replace(pair[1].options, pool="sum", covariance="biased"))
    assert "different settings (pool), so compare with care" in repr(sg.difference(pair[0], other))


def test_lower_bounds_are_noted() -> None:
    one = populated(made("a", [0.5, 0.6]))
    narrow = replace(one, sites=(replace(one.sites[0], moved=3, tested=9), one.sites[1]))
    told = repr(sg.difference(one, narrow))
    assert "Note: at 1 of 4 sites the population score is a lower bound" in told
    assert "lower bound" not in repr(sg.difference(one, one))


def test_what_has_no_population_scores_is_refused() -> None:
    one = populated(made("a", [0.5]))
    with pytest.raises(OptionError, match="was measured with estimator='published'"):
        sg.difference(one, made("b", [0.5]))
    with pytest.raises(InputTypeError, match="b must be of type Signature, got str"):
        sg.difference(one, "b.json")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="The signature of b has no population score at all"):
        sg.difference(one, populated(made("b", [math.nan])))


def test_statistics_along_rows_are_the_statistics() -> None:
    vectors = np.random.default_rng(0).random((5, 7))
    assert list(ALONG) == list(STATISTICS)
    for name, statistic in STATISTICS.items():
        assert ALONG[name](vectors) == pytest.approx([statistic(row) for row in vectors])


def test_the_interval_of_the_least_of_one_site_is_its_own() -> None:
    one = populated(made("a", [0.5]))
    widened = replace(one.sites[0], stderr=2 * one.sites[0].stderr)
    for site in (one.sites[0], widened):
        half = statistic_half_widths(replace(one, sites=(site,)))
        assert half["min"] == pytest.approx(student.ppf(0.975, 7) * site.stderr)
        assert half["spread"] == pytest.approx(0, abs=1e-12)
    lost = replace(one, sites=(replace(one.sites[0], influence=()),))
    assert math.isnan(statistic_half_widths(lost)["mean"])


def test_the_lowest_is_tied_with_those_it_cannot_be_told_apart_from() -> None:
    rng = np.random.default_rng(4)
    noise = 0.15 * rng.standard_normal((64, 1)) + 0.01 * rng.standard_normal((64, 4))
    found = sampled(noise + np.array([0.5, 0.53, 0.5005, 0.9]), made("a", [0.5] * 4))
    each = [[site] for site in found.sites]
    assert sorted(lowest(each, ALONG["min"])) == [0, 2]
    assert lowest(each[1:2] + each[3:], ALONG["min"]) == [0]
    # as if independent, the noise that all share hides the difference
    assert sorted(lowest(each[:2], ALONG["min"], lambda one, other: False)) == [0, 1]
