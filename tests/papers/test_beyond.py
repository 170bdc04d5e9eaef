"""Figures 10 and 18, and what goes beyond the paper: rules that can hold and can fail, and drawings
that show the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from torch import nn

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.errors import InputError
from sigmascope.measure.result import Signature
from sigmascope.runs import Run
from sigmascope_papers.cast import FAMILIES, ZOO, Cast
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY, Check
from sigmascope_papers.nonlinearity import (
    beyond_axes,
    beyond_covariance,
    beyond_images,
    fig18,
    vgg16,
)
from sigmascope_papers.nonlinearity.beyond_axes import (
    AXES,
    CLEAN,
    NOT_IDEMPOTENT,
    PUBLISHED,
    Twice,
    acting_twice,
    first_calls,
)
from sigmascope_papers.nonlinearity.convergence import Convergence
from sigmascope_papers.setting import PUBLISHED as POOL, Setting
from sigmascope_papers.table import item, prose
from tests.compare.made import made

NAMES = ("fig10", "fig18", "beyond-axes", "beyond-covariance", "beyond-images")
FIGURE_10 = item("fig10")


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    return {check.claim: check.verdict for check in checks}


def with_batches(
    signature: Signature, scores: np.ndarray, *, n: int = 64, dims: Sequence[int] | None = None
) -> Signature:
    """The same sites with scores (k, r) of r batches of n images."""
    widths = dims or [16] * len(scores)
    sites = [
        replace(
            site,
            score=float(own.mean()),
            scores=tuple(map(float, own)),
            batches=len(own),
            n=n,
            dim=width,
        )
        for site, own, width in zip(signature.sites, scores, widths, strict=True)
    ]
    return replace(signature, sites=tuple(sites), batches=scores.shape[1])


@pytest.mark.parametrize("name", NAMES)
def test_the_items_run_from_stored_signatures(name: str) -> None:
    results = item(name).measure(Setting())
    assert item(name).judge(results)
    assert all(drawn.table for drawn in item(name).draw(results).values())


@pytest.mark.parametrize("name", NAMES)
def test_the_items_say_what_was_known(name: str) -> None:
    assert prose(name).rule


# Figure 10


def repetitions(*, by_size: float = 0.0, noise: float = 0.0) -> vgg16.Repetitions:
    """A signature of 14 calls that falls a little with the batch size, wherever by so much more,
    and trainings with noise.
    """
    shape = np.linspace(0.9, 0.5, 14)
    sizes = {
        size: shape + (0.001 + by_size * (np.arange(14) == 5)) * 128 / size
        for size in vgg16.BATCHES
    }
    seeds = {
        seed: shape + noise * np.random.default_rng(seed).standard_normal(14)
        for seed in vgg16.SEEDS
    }
    return vgg16.Repetitions(sizes, seeds)


def test_figure_10_holds_and_fails() -> None:
    assert set(verdicts(FIGURE_10.judge(repetitions())).values()) == {HOLDS}
    left, order, right, kept, trend = FIGURE_10.judge(repetitions(by_size=0.08, noise=0.03))
    assert (left.verdict, order.verdict) == (WEAKLY, HOLDS)
    assert (right.verdict, kept.verdict, trend.verdict) == (WEAKLY, HOLDS, HOLDS)
    left, order, right, kept, _ = FIGURE_10.judge(repetitions(by_size=0.5, noise=0.3))
    assert [one.verdict for one in (left, order, right, kept)] == [FAILS, HOLDS, FAILS, FAILS]
    turned = repetitions()
    turned = replace(turned, batches=turned.batches | {128: turned.batches[128][::-1]})
    assert FIGURE_10.judge(turned)[1].verdict == FAILS
    rising = replace(
        repetitions(),
        batches={size: size / 1e6 + np.linspace(0.9, 0.5, 14) for size in vgg16.BATCHES},
    )
    assert FIGURE_10.judge(rising)[-1].verdict == FAILS


def test_figure_10_draws_both_panels() -> None:
    found = repetitions(noise=0.02)
    drawn = FIGURE_10.draw(found)[""]
    np.testing.assert_allclose(drawn.axes[0].lines[0].get_ydata(), found.batches[128])
    own = [row["mean"] for row in drawn.table if row["curve"] == "seed 3"]
    np.testing.assert_array_equal(own, found.seeds[3])
    mean = [
        row["mean"]
        for row in drawn.table
        if row["panel"] == "right" and row["curve"].startswith("mean")
    ]
    np.testing.assert_allclose(mean, np.mean(list(found.seeds.values()), axis=0))


# Figure 18


class Shelf(Setting):
    """A setting with made signatures."""

    def __init__(self, shift: Mapping[str, float], **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        object.__setattr__(self, "shift", shift)

    def runs(
        self, names: Sequence[str], *, data: str | None = None, **options: object
    ) -> list[Run]:
        if (data or "cifar10") not in self.shift:
            raise InputError(f"{data} is not here. Place it there.")
        curves = [
            np.linspace(0.5, 0.8, 5 + place) + self.shift[data or "cifar10"]
            for place in range(len(names))
        ]
        return [
            Run(made(name, curve), Path(name), None)
            for name, curve in zip(names, curves, strict=True)
        ]


OWN = {"cifar10": 0.0, "fashion-mnist": 0.02, "mnist": -0.03, "random": 0.1}


def test_figure_18_measures_both_distances() -> None:
    found = fig18.ITEM.measure(Shelf(OWN))
    assert len(found.names) == 9
    for place in range(9):
        assert found.distances["Euclidean"]["noise"][place] == pytest.approx(
            0.1 * math.sqrt(5 + place)
        )
        assert (
            found.distances["DTW"]["noise"][place] <= found.distances["Euclidean"]["noise"][place]
        )
    assert set(verdicts(fig18.ITEM.judge(found)).values()) == {HOLDS, UNTESTED}
    assert [check.claim for check in fig18.ITEM.judge(found) if check.verdict == UNTESTED] == [
        "cifar100 deviates less than noise"
    ]


def test_figure_18_can_fail() -> None:
    found = fig18.ITEM.measure(Shelf(OWN | {"mnist": 0.3}))
    rules = verdicts(fig18.ITEM.judge(found))
    assert rules["mnist deviates less than noise, DTW"] == FAILS
    assert rules["fashion-mnist deviates less than noise, DTW"] == HOLDS
    distances = found.distances["DTW"] | {
        "fashion-mnist": np.where(np.arange(9) < 3, 1.01, 0.1) * found.distances["DTW"]["noise"]
    }
    mixed = replace(found, distances={"DTW": distances})  # lower in six networks of nine
    assert (
        verdicts(fig18.ITEM.judge(mixed))["fashion-mnist deviates less than noise, DTW"] == WEAKLY
    )


def test_figure_18_says_which_data_are_not_here() -> None:
    paper = Shelf(
        {"imagefolder:x": 0.0, "random": 0.1, "cifar10": 0.0}, weights="none", data="imagefolder:x"
    )
    found = fig18.ITEM.measure(paper)
    checks = {check.claim: check for check in fig18.ITEM.judge(found)}
    assert checks["cifar10 deviates less than noise, DTW"].verdict == HOLDS
    assert checks["cifar100 deviates less than noise"].verdict == UNTESTED
    assert (
        checks["cifar100 deviates less than noise"].obtained
        == "cifar100 is not here. Place it there."
    )
    with pytest.raises(InputError, match="mnist is not here"):
        fig18.ITEM.measure(Shelf({"cifar10": 0.0}))


def test_figure_18_leaves_out_calls_without_a_score() -> None:
    found = fig18.between(
        fig18.euclidean, made("a", [0.5, math.nan, 0.6]), made("b", [0.5, 0.1, 0.9])
    )
    assert found == pytest.approx(0.3)
    assert math.isnan(
        fig18.between(fig18.euclidean, made("a", [math.nan, 0.5]), made("b", [0.5, math.nan]))
    )


def test_the_floor_of_figure_18_compares_two_parts() -> None:
    one = with_batches(
        made("a", [0, 0]), np.array([[0.1, 0.1, 0.4, 0.4, 0.4], [0.5, 0.5, 0.1, 0.1, 0.1]])
    )
    assert fig18.floor_of(one, fig18.euclidean) == pytest.approx(0.5)
    assert math.isnan(fig18.floor_of(with_batches(one, np.ones((2, 1))), fig18.euclidean))


def test_figure_18_draws_every_distance() -> None:
    found = fig18.ITEM.measure(Shelf(OWN))
    drawn = fig18.ITEM.draw(found)[""]
    own = [
        row["value"] for row in drawn.table if (row["distance"], row["data"]) == ("DTW", "mnist")
    ]
    np.testing.assert_array_equal(own, found.distances["DTW"]["mnist"])
    assert len(drawn.table) == 2 * 4 * 9
    legend = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert "noise" in legend  # the word of the claims
    assert "random" not in legend


# Axes and capture


def in_place() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8),
        nn.SiLU(inplace=True),
        nn.Linear(8, 8),
        nn.ReLU(inplace=True),
        nn.Linear(8, 3),
        nn.SiLU(),
    )


def test_the_emulation_does_what_a_hook_does_that_calls_the_activation() -> None:
    """The same logits, and the same first inputs and outputs, as with forward pre-hooks."""
    network, images = in_place(), torch.randn(64, 6)
    seen = []

    def hook(module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        before = inputs[0].clone()
        seen.append((before, module.forward(inputs[0]).clone()))

    clean = network(images)
    with torch.no_grad():
        twice = acting_twice(network)(images)
        for module in network:
            if not isinstance(module, nn.Linear):
                module.register_forward_pre_hook(hook)
        hooked = network(images)
    torch.testing.assert_close(twice, hooked)
    assert (twice - clean).norm() > 0.1 * clean.norm()
    found = first_calls(sg.signature(acting_twice(in_place()), images, progress=False))
    expected = [float(sg.affinity(x, y, covariance="ledoit-wolf")) for x, y in seen]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert [site.name for site in found.sites] == ["1", "3", "5"]
    assert found.coverage.seen == found.coverage.scored == 3


def test_what_does_not_overwrite_or_is_idempotent_is_left_alone() -> None:
    changed = acting_twice(in_place())
    assert [type(one) for one in changed if not isinstance(one, nn.Linear)] == [
        Twice,
        nn.ReLU,
        nn.SiLU,
    ]


def test_every_second_call_is_left_out() -> None:
    shared = nn.SiLU(inplace=True)
    network = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared)
    found = first_calls(sg.signature(acting_twice(network), torch.randn(32, 4), progress=False))
    assert len(found.sites) == 2


def test_only_the_effnets_of_the_zoo_are_concerned() -> None:
    concerned = {
        ZOO.groups()[name]
        for name in ZOO.names()
        for module in NETWORKS[name.removeprefix("sigmascope/").partition(":")[0]]().modules()
        if isinstance(module, NOT_IDEMPOTENT) and getattr(module, "inplace", False)
    }
    assert concerned == {"EffNets"}


MEDIANS = dict.fromkeys(FAMILIES, 0.8) | {
    "EffNets": 0.9,
    "ViTs": 0.4,
    "AlexNets": 0.7,
    "VGGs": 0.7,
    "Swins": 0.7,
    "ConvNeXts": 0.7,
}


def axes(cast: Cast = ZOO, **changed: dict[str, float]) -> beyond_axes.Axes:
    """Signatures around given medians, by procedure; those of EffNets with a long tail below."""

    def one(name: str, level: float) -> Signature:
        tail = cast.groups()[name] == "EffNets"
        shape = -0.3 * np.linspace(0, 1, 15) ** 4 if tail else np.linspace(-0.02, 0.02, 9)
        return made(name, level + shape)

    procedures = {CLEAN: "clean", AXES: "axes", PUBLISHED: "published"}
    levels = {procedure: MEDIANS | changed.get(word, {}) for procedure, word in procedures.items()}
    groups = cast.groups()
    return beyond_axes.Axes(
        cast,
        {
            procedure: {name: one(name, by[groups[name]]) for name in cast.names()}
            for procedure, by in levels.items()
        },
    )


def test_claims_survive_or_are_lost() -> None:
    assert set(verdicts(beyond_axes.ITEM.judge(axes())).values()) == {HOLDS}
    lost = {
        check.claim: check
        for check in beyond_axes.ITEM.judge(
            axes(clean={"ViTs": 0.95, "Swins": 0.9, "EffNets": 0.75})
        )
    }
    assert lost["ViTs are the most non-linear"].verdict == FAILS
    assert lost["ViTs are the most non-linear"].obtained.startswith(
        "changes sign: corrected -0.250"
    )
    assert lost["Swin is like the early convnets"].verdict == FAILS
    assert lost["EffNets are more linear than what came before"].verdict == FAILS
    assert lost["ConvNeXt is like the early convnets"].verdict == HOLDS
    found = {
        check.claim: check for check in beyond_axes.ITEM.judge(axes(published={"ViTs": 0.695}))
    }
    assert found["ViTs are the most non-linear"].verdict == WEAKLY
    assert found["ViTs are the most non-linear"].obtained.startswith("appears")


def test_the_skew_can_be_lost() -> None:
    found = axes()
    turned = {
        name: made(name, one.scores[0] + one.scores[0] - one.scores)
        if "efficientnet" in name
        else one
        for name, one in found.signatures[CLEAN].items()
    }
    checks = verdicts(
        beyond_axes.ITEM.judge(replace(found, signatures=found.signatures | {CLEAN: turned}))
    )
    assert checks["EffNets are skewed toward linearity"] == FAILS


def test_claims_without_networks_are_untried() -> None:
    part = ZOO.only(["sigmascope/resnet20:0", "sigmascope/vgg16:1"])
    found = axes(part)
    assert set(verdicts(beyond_axes.ITEM.judge(found)).values()) == {UNTESTED}
    assert set(beyond_axes.ITEM.draw(found)) == {"", "distances-corrected", "distances-published"}
    assert set(verdicts(beyond_axes.ITEM.judge(axes(ZOO.only(["sigmascope/vit:0"])))).values()) == {
        UNTESTED
    }


def test_the_drawings_of_the_procedures_hold_their_numbers() -> None:
    found = axes(clean={"ViTs": 0.9}, axes={"ViTs": 0.5})
    drawn = beyond_axes.ITEM.draw(found)
    assert set(drawn) == {"", "signatures", "distances-corrected", "distances-published"}
    (legend,) = drawn["signatures"].figure.legends  # above the panels, and in none of them
    assert [text.get_text() for text in legend.get_texts()] == [CLEAN, AXES, PUBLISHED]
    assert not any(axes.get_legend() for axes in drawn["signatures"].axes)
    rows = {(row["procedure"], row["network"]): row["median"] for row in drawn[""].table}
    assert rows[CLEAN, "sigmascope/vit:0"] == pytest.approx(0.9)
    assert rows[AXES, "sigmascope/vit:0"] == pytest.approx(0.5)
    curves = {
        row["curve"]
        for row in drawn["signatures"].table
        if row["network"] == "sigmascope/vit-patch4:0"
    }
    assert curves == {CLEAN, AXES, PUBLISHED}


def test_a_procedure_looks_the_same_in_all_panels() -> None:
    found = axes(published={"EffNets": 0.95})
    same = dict(found.signatures[CLEAN])
    effnets = {name: found.signatures[PUBLISHED][name] for name in ZOO.names("EffNets")}
    others = {
        name: found.signatures[AXES][name] for name in ZOO.names("ViTs", "Swins", "ConvNeXts")
    }
    found = replace(
        found, signatures={CLEAN: same, AXES: same | others, PUBLISHED: same | others | effnets}
    )
    drawn = beyond_axes.ITEM.draw(found)["signatures"]
    colors = {line.get_label(): set[str]() for panel in drawn.axes for line in panel.lines}
    for panel in drawn.axes:
        for line in panel.lines:
            colors[line.get_label()].add(line.get_color())
    assert set(colors) == {CLEAN, AXES, PUBLISHED}
    assert [len(own) for own in colors.values()] == [1, 1, 1]
    assert len(set.union(*colors.values())) == 3


def test_only_what_is_concerned_is_measured_again(tmp_path: Path) -> None:
    asked = []

    class Counting(Shelf):
        def runs(self, names: Sequence[str], **options: object) -> list[Run]:
            asked.append((list(names), options))
            return super().runs(names)

        def signature(self, name: str, kind: str, measure: object) -> Signature:
            asked.append(([name], {"kind": kind}))
            return made(name, [0.5] * 9)

    found = beyond_axes.ITEM.measure(Counting({"cifar10": 0.0}))
    assert asked[0] == (ZOO.names(), {})
    assert asked[1] == (ZOO.names("ViTs", "Swins", "ConvNeXts"), {"pool": POOL, "metrics": ()})
    assert asked[2:] == [
        ([name], {"kind": "cifar10 published capture"}) for name in ZOO.names("EffNets")
    ]
    effnet, vit = "sigmascope/efficientnet:0", "sigmascope/vit:0"
    assert (
        found.signatures[CLEAN][effnet]
        is found.signatures[AXES][effnet]
        is not found.signatures[PUBLISHED][effnet]
    )
    assert (
        found.signatures[CLEAN][vit]
        is not found.signatures[AXES][vit]
        is found.signatures[PUBLISHED][vit]
    )


# Covariance


def estimates(
    levels: Sequence[float], unbiased: Sequence[float], *, slope: float = 0.05
) -> beyond_covariance.Estimates:
    """Networks with seven calls of 4 to 256 channels; unbiased scores are also higher by a slope
    times d / n.
    """
    widths = [2**power for power in range(2, 9)]
    noise = 1e-3 * np.random.default_rng(0).standard_normal((7, 4))
    shape = np.linspace(-0.1, 0.1, 7)[:, None] + noise
    extra = slope * (np.array(widths)[:, None] / 64 - widths[3] / 64)  # none at the median
    shrunk, others = (
        tuple(
            with_batches(made(f"n{place}", shape[:, 0]), shape + level + more, dims=widths)
            for place, level in enumerate(ones)
        )
        for ones, more in ((levels, 0.0), (unbiased, extra))
    )
    return beyond_covariance.Estimates(shrunk, others, {one.name: "residual" for one in others})


LEVELS = [0.5, 0.54, 0.6, 0.64, 0.7, 0.71, 0.8, 0.85]


def test_the_ranking_stays_or_changes() -> None:
    assert set(verdicts(beyond_covariance.ITEM.judge(estimates(LEVELS, LEVELS))).values()) == {
        HOLDS
    }
    near = [*LEVELS[:4], 0.71, 0.70, *LEVELS[6:]]
    checks = beyond_covariance.ITEM.judge(estimates(LEVELS, near))
    assert checks[0].verdict == HOLDS
    assert "1 of 28 pairs swap" in checks[0].obtained
    assert "other images alone: τ 1.000" in checks[0].obtained
    assert "0.010 at most, n4 and n5" in checks[2].obtained
    turned = [
        check.verdict for check in beyond_covariance.ITEM.judge(estimates(LEVELS, LEVELS[::-1]))
    ]
    assert turned[:3] == [FAILS] * 3
    some = [*LEVELS[4:6], *LEVELS[2:4], *LEVELS[:2], *LEVELS[6:]]
    assert beyond_covariance.ITEM.judge(estimates(LEVELS, some))[0].verdict == FAILS
    swapped = [0.54, 0.5, 0.64, 0.6, *LEVELS[4:]]
    assert beyond_covariance.ITEM.judge(estimates(LEVELS, swapped))[0].verdict == WEAKLY
    assert beyond_covariance.ITEM.judge(estimates(LEVELS, swapped))[2].verdict == WEAKLY


def test_the_shift_follows_the_channels_or_not() -> None:
    check = beyond_covariance.ITEM.judge(estimates(LEVELS, LEVELS, slope=-0.05))[-1]
    assert check.verdict == FAILS
    # Of each network the calls with 128 and 256 channels for 64 images.
    assert "16 calls with d above n, up to 4 n: -0.1750 to -0.0750" in check.obtained


def test_few_networks_have_no_ranking() -> None:
    found = estimates([0.5, 0.6], [0.5, 0.6])
    assert [check.verdict for check in beyond_covariance.ITEM.judge(found)] == [UNTESTED] * 3 + [
        HOLDS
    ]
    assert beyond_covariance.ITEM.draw(found)[""].table


def test_swaps_are_counted_as_pairs() -> None:
    assert beyond_covariance.swaps(np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])) == [
        (0, 1),
        (0, 2),
    ]


def test_the_estimators_are_drawn() -> None:
    found = estimates(LEVELS, LEVELS)
    drawn = beyond_covariance.ITEM.draw(found)[""]
    medians = [row["median"] for row in drawn.table if row.get("estimator") == "unbiased"]
    np.testing.assert_allclose(medians, sorted(found.summaries("median")[1]))
    shifts = [row for row in drawn.table if row["panel"] == "shifts"]
    assert len(shifts) == 8 * 7
    assert shifts[6]["channels per image"] == 4
    assert shifts[6]["shift"] == pytest.approx(0.05 * (4 - 0.5))


# Images


def converging(
    bias: float, *, power: float = 1.0, noise: float = 0.01, calls: int = 6
) -> Convergence:
    """Scores with a bias of `bias` at n = 64 that falls as a power of n, and noise that falls as 1
    / √n.
    """
    generator = np.random.default_rng(0)
    limits = np.linspace(0.5, 0.9, calls)
    scores = {}
    for n in beyond_images.SIZES:
        count = min(beyond_images.MOST, beyond_images.IMAGES // n)
        drawn = generator.standard_normal((count, calls)) * noise * math.sqrt(64 / n)
        scores[n] = limits + bias * (64 / n) ** power + drawn
    return Convergence(scores)


@pytest.mark.parametrize(("power", "form"), [(1.0, "1 / n"), (0.5, "1 / √n")])
def test_the_form_and_the_limit_of_a_bias_are_found(power: float, form: str) -> None:
    one = converging(0.1, power=power, noise=0.003)
    assert one.form == form
    np.testing.assert_allclose(one.limits, np.linspace(0.5, 0.9, 6), atol=0.002)


def test_the_images_that_are_needed() -> None:
    exact = converging(0.1, noise=1e-9)
    # 0.1 · 64 / n ≤ 0.01 from n = 640 on
    assert exact.needed(batch=False) == exact.needed(batch=True) == 1024
    assert exact.unbiased_from() in (640, 641)
    noisy = converging(0.0, noise=0.008)
    # The noise of one batch is four times that of the mean of sixteen, and falls as 1 / √n.
    several, alone = noisy.needed(batch=False), noisy.needed(batch=True)
    assert several is not None
    assert alone is not None
    assert several < alone
    assert converging(2.0).needed(batch=False) is None


def test_512_images_are_enough_or_not() -> None:
    judged = beyond_images.ITEM.judge(
        {
            "a/good": converging(0.02, noise=0.002),
            "a/bad": converging(0.8),
            "a/one": converging(0.02),
        }
    )
    rules = verdicts(judged)
    assert rules["good: 512 images give every score to 0.01"] == HOLDS
    assert rules["good: the distance shrinks with every doubling"] == HOLDS
    assert rules["bad: 512 images give every score to 0.01"] == FAILS
    mixed = converging(0.0, noise=1e-6)
    mixed.scores.update(
        {n: one + (np.arange(6) == 2) * 2 / n**0.5 for n, one in mixed.scores.items()}
    )
    (check, _) = beyond_images.ITEM.judge({"mixed": Convergence(mixed.scores)})
    assert check.verdict == FAILS  # 0.088 at one call of six is 0.0147 in the mean
    mild = {
        n: converging(0.0, noise=1e-6).scores[n] + (np.arange(6) == 2) / n**0.5
        for n in beyond_images.SIZES
    }
    assert beyond_images.ITEM.judge({"mild": Convergence(mild)})[0].verdict == WEAKLY


def test_a_distance_that_grows_is_noticed() -> None:
    good = converging(0.1).scores
    grown = dict(
        zip(good, [good[1024], *list(good.values())[1:4], good[64], good[2048]], strict=True)
    )
    assert beyond_images.ITEM.judge({"grown": Convergence(grown)})[1].verdict == FAILS


def test_few_images_show_no_convergence() -> None:
    one = Convergence({8: np.full((1, 4), 0.5)})
    found = {"torchvision/alexnet": one}
    (check,) = beyond_images.ITEM.judge(found)
    assert check.verdict == UNTESTED
    assert "batches of 8 only" in check.obtained
    assert beyond_images.ITEM.draw(found)[""].table[0]["score"] == 0.5


def test_convergence_is_drawn() -> None:
    one = converging(0.1)
    parts = beyond_images.ITEM.draw({"a": one, "b": converging(0.05, power=0.5)})
    drawn = parts[""]
    rows = [row for row in drawn.table if row["network"] == "a"]
    assert [row["n"] for row in rows] == list(beyond_images.SIZES)
    assert rows[0]["distance"] == pytest.approx(float(one.apart(64).mean()))
    assert rows[0]["score ±"] == pytest.approx(
        student.ppf(0.975, 15) * one.scores[64].mean(axis=1).std(ddof=1) / 4
    )
    np.testing.assert_allclose(drawn.axes[1].lines[0].get_ydata(), [row["score"] for row in rows])


def test_every_call_is_drawn_for_itself() -> None:
    one = replace(converging(0.1), calls=tuple("abcdef"))
    drawn = beyond_images.ITEM.draw({"x/one": one, "x/two": converging(0.05, calls=3)})["calls"]
    assert [len(panel.lines) for panel in drawn.axes] == [6, 3]
    np.testing.assert_allclose(drawn.axes[0].lines[2].get_ydata(), one.means[:, 2] - one.limits[2])
    assert len(drawn.table) == (6 + 3) * len(beyond_images.SIZES)
    rows = [row for row in drawn.table if (row["network"], row["call"]) == ("x/one", "c")]
    np.testing.assert_allclose([row["score"] for row in rows], one.means[:, 2])
    np.testing.assert_allclose([row["limit"] for row in rows], one.limits[2])
    last = one.scores[2048][:, 2]
    assert rows[-1]["score ±"] == pytest.approx(student.ppf(0.975, 3) * last.std(ddof=1) / 2)


def test_bands_are_wider_where_there_are_fewer_batches() -> None:
    one = converging(0.1)
    np.testing.assert_allclose(one.quantiles[:, 0], student.ppf(0.975, [15, 15, 15, 15, 7, 3]))
    # as uncertain as what it is taken from
    alone = Convergence({64: one.scores[64], 128: one.scores[128][:1]})
    np.testing.assert_allclose(alone.quantiles[:, 0], student.ppf(0.975, [15, 15]))


def test_biases_that_cancel_are_told() -> None:
    """The mean falls as 1 / n, while all calls but one have larger biases of both signs that fall
    as 1 / √n.
    """
    signs, wide, plain = (
        np.array([1, -1, 1, -1, 0]),
        converging(0.1, power=0.5, noise=1e-4, calls=5),
        converging(0, noise=1e-4, calls=5),
    )
    scores = {
        n: plain.scores[n]
        + signs * (wide.scores[n] - plain.scores[n])
        + np.array([0, 0, 0, 0, 1.0]) / n
        for n in beyond_images.SIZES
    }
    one = Convergence(scores)
    assert (one.form, one.other_form, one.fitting()) == ("1 / n", "1 / √n", 1)
    check, _ = beyond_images.ITEM.judge({"one": one})
    assert "which fits 1 of 5 calls better" in check.obtained
    assert one.within(512, form="1 / √n").mean() > one.within(512).mean()


def test_calls_without_all_scores_are_left_out() -> None:
    whole = with_batches(made("a", [0, 0, 0]), np.full((3, 4), 0.5))
    gap = replace(whole, sites=(replace(whole.sites[0], batches=3), *whole.sites[1:]))
    found = beyond_images.common_calls({64: whole, 128: gap})
    assert found.scores[64].shape == (4, 2)
    assert found.calls == tuple(site.name for site in whole.sites[1:])
