"""Claims judged again with population scores: the setting, its draws, the verdicts, the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sigmascope as sg
from sigmascope.errors import InputError
from sigmascope.maths.moments import Moments
from sigmascope.measure.result import Signature
from sigmascope.runs import Facts, Run
from sigmascope_papers.cast import ZOO
from sigmascope_papers.figures.rejudged import MARKS, draw_gaps
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY, Check
from sigmascope_papers.nonlinearity import beyond_population, fig8, fig9
from sigmascope_papers.nonlinearity.beyond_population import Outcomes, Rejudged
from sigmascope_papers.nonlinearity.functions import FUNCTIONS
from sigmascope_papers.nonlinearity.gaps import gaps, judge_gaps
from sigmascope_papers.nonlinearity.lineup import Lineup
from sigmascope_papers.nonlinearity.margins import MARGINS, interval, margin_of
from sigmascope_papers.nonlinearity.population import (
    ALL,
    CORRELATED,
    INDEPENDENT,
    LAWS,
    WIDTHS,
    PopulationSetting,
    drawn,
    functions_of,
    measure_everything,
    normal,
)
from sigmascope_papers.setting import Setting
from tests.compare.made import made, populated

SIGNED = ("fig5a", "fig7", "fig10", "fig11", "fig16", "claim-accuracy")
"""Items that read signatures."""


def population(name: str, scores: Sequence[float], **how: float) -> Signature:
    """A signature of population scores alone, lower than these by 0.02."""
    found = populated(made(name, scores), **how)
    options = replace(found.options, estimator="population")
    sites = tuple(replace(site, score=math.nan) for site in found.sites)
    return replace(found, sites=sites, options=options)


Asked = list[tuple[str, tuple[tuple[str, object], ...]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What is asked of `Setting`: a name, and the options; answered by made signatures."""
    seen: Asked = []

    def runs(self: Setting, names: Sequence[str], **options: Any) -> list[Run]:
        full = [name if "/" in name else f"sigmascope/{name}" for name in names]
        seen.extend((name, tuple(sorted(options.items()))) for name in full)
        kind = population if options.get("estimator") == "population" else made
        facts = [Facts(name, 80.0 + len(name) % 7, 1, 1, 1, "made") for name in full]
        curve = np.linspace(0.5, 0.9, 14)
        return [
            Run(kind(name, curve), Path(name), one) for name, one in zip(full, facts, strict=True)
        ]

    def signature(
        self: Setting, name: str, kind: str, measure: Callable[..., Signature]
    ) -> Signature:
        seen.append((name, (("kind", kind),)))
        return population(name, np.linspace(0.5, 0.9, 14))

    monkeypatch.setattr(Setting, "runs", runs)
    monkeypatch.setattr(Setting, "signature", signature)
    return seen


def test_population_scores_are_asked_for_on_all_images(asked: Asked) -> None:
    setting = PopulationSetting()
    (run,) = setting.runs(["vgg16:1"], degenerate="published", pool="sum", metrics="all")
    ((name, options),) = asked
    assert name == "sigmascope/vgg16:1"
    chosen = {"pool": "sum", "estimator": "population", "metrics": (), "images": ALL}
    assert {key: value for key, value in options if key in (*chosen, "degenerate")} == chosen
    np.testing.assert_allclose(run.signature.scores, np.linspace(0.48, 0.88, 14))
    setting.runs(["vgg16:1"], degenerate="published", pool="sum", metrics="all")
    assert len(asked) == 1  # read once


def test_rows_that_move_keep_the_published_score(asked: Asked) -> None:
    setting = PopulationSetting(keeps_moved=True)
    (run,) = setting.runs(["a"])
    np.testing.assert_allclose(run.signature.scores, np.linspace(0.48, 0.88, 14))
    (found,) = Setting().runs(["a"], estimator="population")
    sites = [replace(site, moved=13, tested=256) for site in found.signature.sites[:2]]
    sites[1] = replace(sites[1], moved=12)
    moving = replace(found.signature, sites=(*sites, *found.signature.sites[2:]))
    setting.read[next(iter(setting.read))] = [replace(run, signature=moving)]
    (run,) = setting.runs(["a"])
    # 13 of 256 rows are more than one in twenty, 12 are not
    np.testing.assert_allclose(run.signature.scores[:2], [0.5, 0.48 + 0.4 / 13])


def test_what_is_measured_is_what_is_read(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list(measure_everything(PopulationSetting()))
    planned = set(asked)
    assert len(done) == len(planned) == len(asked)
    asked.clear()
    again = PopulationSetting()
    for name in SIGNED:
        beyond_population.SUBJECTS[name].population(again)
    widths = [functions_of(again, law, width) for law in LAWS for width in WIDTHS]
    assert len(widths) == 18
    read = {(name, tuple(item for item in options)) for name, options in asked}
    assert read == planned


def test_only_some_are_measured(asked: Asked) -> None:
    assert list(measure_everything(PopulationSetting(), ["d = 64", "vit:0"])) == [
        "sigmascope/vit:0",
        "independent channels, d = 64",
        "correlated channels, d = 64",
    ]


# Draws


def test_draws_have_the_standard_error_of_student() -> None:
    site = population("a", [0.6], error=0.01).sites[0]
    draws = np.array([drawn(site, draw, "images", "a") for draw in range(1, 2001)])
    assert draws.mean() == pytest.approx(0.58, abs=0.001)
    inside = np.mean((draws > site.low) & (draws < site.high))
    assert inside == pytest.approx(0.95, abs=0.02)  # four binomial standard errors
    wider = replace(site, stderr=2 * site.stderr)  # the rest is not explained by the groups
    more = np.array([drawn(wider, draw, "images", "a") for draw in range(1, 2001)])
    assert np.median(np.abs(more - 0.58)) == pytest.approx(
        2 * np.median(np.abs(draws - 0.58)), rel=0.1
    )
    near = replace(site, population=0.999)
    assert max(drawn(near, draw, "images", "a") for draw in range(1, 50)) == 1


def test_what_shares_its_samples_deviates_alike() -> None:
    site = population("a", [0.6]).sites[0]
    same, other = (
        np.array([drawn(site, draw, samples, "b") for draw in range(1, 200)])
        for samples in ("images", "others")
    )
    first = np.array([drawn(site, draw, "images", "a") for draw in range(1, 200)])
    np.testing.assert_allclose(first, same, atol=1e-12)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.3
    nothing = replace(site, influence=(), population=math.nan)
    assert math.isnan(drawn(nothing, 1, "images", "a"))


def test_a_setting_draws_every_site(asked: Asked) -> None:
    setting = PopulationSetting()
    (run,) = setting.runs(["a"])
    (again,) = replace(setting, draw=3).runs(["a"])
    assert (again.signature.scores != run.signature.scores).all()
    np.testing.assert_allclose(again.signature.scores, run.signature.scores, atol=0.1)


# Widths


def test_independent_channels_are_those_of_figure_9() -> None:
    rows = normal(128, 8, seed=3)
    np.testing.assert_array_equal(rows, np.random.default_rng([3, 8]).standard_normal((128, 8)))


def test_correlated_channels_have_eigenvalues_that_fall() -> None:
    rows = normal(200_000, 4, law=CORRELATED)
    eigenvalues = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
    expected = 1 / np.arange(1, 5)
    np.testing.assert_allclose(eigenvalues, 4 * expected / expected.sum(), rtol=0.02)
    assert np.abs(np.corrcoef(rows.T) - np.eye(4)).max() > 0.1


def test_the_population_score_of_independent_channels_is_the_plateau_at_every_width() -> None:
    setting = PopulationSetting(from_scratch=True, progress=False)
    for width in (8, 32):
        site = functions_of(setting, INDEPENDENT, width)["ReLU"]
        assert site.population == pytest.approx(fig9.PLATEAU, abs=0.01)
        assert site.high - site.low < 0.03
        assert site.population_n == 4096


# Figures 8 and 9


def test_one_channel_of_figure_8_stands_for_all() -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(1, 0.5, size=(1000, 30)))
    for act in (torch.relu, torch.sigmoid):
        wide, narrow = Moments(), Moments()
        wide.update(x, act(x))
        narrow.update(x.reshape(-1, 1), act(x).reshape(-1, 1))
        both = wide.score(), narrow.score()
        assert both[0].score == pytest.approx(both[1].score, abs=3 * both[0].stderr)
        assert both[0].score != pytest.approx(both[1].score + 0.05, abs=3 * both[0].stderr)


@pytest.fixture(scope="module")
def few_inputs() -> Iterator[None]:
    """Figure 8 with fewer numbers."""
    inputs = fig8.inputs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig8, "inputs", lambda means: inputs(means, size=(50, 20)))
        yield


def test_figure_8_by_population_scores(few_inputs: None) -> None:
    setting = PopulationSetting()
    found = beyond_population.ranges(setting)
    assert found.scores["Sigmoid"].shape == (20, 6)
    np.testing.assert_array_equal(found.guarded["ReLU"], np.isnan(found.scores["ReLU"]))
    assert found.guarded["ReLU"][0].all()  # dead
    assert not found.guarded["Sigmoid"].any()  # which the published guard sets to 1 far from 0
    assert found.baselines["ReLU"] == pytest.approx(fig8.BASELINE, abs=0.05)
    assert beyond_population.ranges(setting).scores["ReLU"][19, 0] == 1
    one = beyond_population.ranges(replace(setting, draw=1))
    assert (one.scores["Sigmoid"] != found.scores["Sigmoid"]).all()
    flags = dict.fromkeys(fig8.FUNCTIONS, np.zeros((20, 6), dtype=bool))
    moving = flags | {"SiLU": np.eye(20, 6, dtype=bool)}
    ones = dict.fromkeys(fig8.FUNCTIONS, np.ones((20, 6)))
    published = fig8.Ranges(fig8.MEANS, ones, flags, {}, moving)
    setting.read["published", "fig8"] = published
    mixed = beyond_population.ranges(replace(setting, keeps_moved=True))
    assert mixed.scores["SiLU"][0, 0] == 1 != found.scores["SiLU"][0, 0]
    assert mixed.scores["SiLU"][1, 0] == found.scores["SiLU"][1, 0]


def test_flattening_has_too_few_images_for_its_channels(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(setting: Setting, law: str, width: int) -> Signature:
        found = population(f"{law} {width}", [0.64, 0.8, 0.9])
        paths = zip(found.sites, FUNCTIONS, strict=True)
        return replace(found, sites=tuple(replace(one, path=path, call=0) for one, path in paths))

    monkeypatch.setattr(beyond_population, "functions_of", stored)
    signatures = fig9.pooled_signatures
    monkeypatch.setattr(fig9, "pooled_signatures", lambda **how: signatures(160, **how))
    found = beyond_population.robustness(PopulationSetting())
    checks = {check.claim: check for check in fig9.ITEM.judge(found)}
    assert checks["top: averaging agrees with summing"].verdict == HOLDS
    flat = checks["top: averaging agrees with flattening"]
    assert flat.verdict == UNTESTED
    assert "too few for 16384 channels" in flat.obtained
    assert checks["bottom: ReLU stays constant with shrinkage"].verdict == HOLDS
    assert checks["middle: ReLU rises toward 1 once d exceeds n"].verdict == FAILS
    correlated = beyond_population.correlated(PopulationSetting())
    judge = beyond_population.SUBJECTS[beyond_population.FIGURE_9].judge
    assert {check.verdict for check in judge(correlated)} == {HOLDS}


# Verdicts


def rejudged(before: str, after: str, *, draws: int = 20, mixed: str = "") -> Rejudged:
    checks = (Check("a claim", "0", "1", before), Check("a claim", "0", "2", after))
    others = [FAILS if after != FAILS else HOLDS] * (20 - draws)
    return Rejudged("fig0", *checks, mixed or after, (*[after] * draws, *others))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (HOLDS, HOLDS, "same"),
        (UNTESTED, UNTESTED, "same"),
        (HOLDS, WEAKLY, "weaker"),
        (WEAKLY, FAILS, "weaker"),
        (FAILS, HOLDS, "stronger"),
        (HOLDS, UNTESTED, "no longer testable"),
        (UNTESTED, FAILS, "now testable"),
    ],
)
def test_a_change_has_a_direction(before: str, after: str, change: str) -> None:
    assert rejudged(before, after).change == change


def outcomes(*claims: Rejudged) -> Outcomes:
    names = ZOO.names()[:3]
    curves = {name: np.linspace(0.4, 0.8, 6) for name in names}
    published = Lineup(ZOO, {name: made(name, curve) for name, curve in curves.items()})
    again = Lineup(ZOO, {name: population(name, curve) for name, curve in curves.items()})
    scores = {name: np.full((3, len(WIDTHS)), 0.6) for name in ("ReLU", "Tanh", "Sigmoid")}
    widths = {
        law: {"unbiased": scores, "ledoit-wolf": scores, "population": scores} for law in LAWS
    }
    return Outcomes(claims, published, again, widths)


def test_verdicts_are_those_of_the_population_scores() -> None:
    found = outcomes(rejudged(HOLDS, FAILS, mixed=HOLDS), rejudged(WEAKLY, WEAKLY, draws=17))
    first, _, changed, same = beyond_population.judge(found)
    told = "1 of 2 change: 1 weaker; 1 do not if sites where rows move keep the published score"
    assert (first.verdict, first.obtained) == (FAILS, told)
    assert (changed.claim, changed.expected) == ("fig0: a claim", "published: holds, 1")
    assert changed.verdict == FAILS
    told = "weaker: 2; in 20 of 20 draws; holds if sites where rows move keep the published score"
    assert changed.obtained == told
    assert (same.verdict, same.obtained) == (WEAKLY, "same: 2; in 17 of 20 draws")


@pytest.mark.parametrize(("changed", "verdict"), [(0, HOLDS), (1, WEAKLY), (2, FAILS)])
def test_few_changes_are_told_from_none_and_many(changed: int, verdict: str) -> None:
    claims = [rejudged(HOLDS, FAILS)] * changed + [rejudged(HOLDS, HOLDS)] * (20 - changed)
    assert beyond_population.judge(outcomes(*claims))[0].verdict == verdict


def test_claims_of_ours_stay_ours() -> None:
    one = rejudged(HOLDS, HOLDS)
    mine = replace(one, published=replace(one.published, claim="ours: a claim"))
    assert beyond_population.judge(outcomes(mine))[2].claim == "ours: fig0: a claim"


def test_verdicts_scores_and_networks_are_drawn() -> None:
    found = outcomes(rejudged(HOLDS, FAILS, mixed=WEAKLY), rejudged(WEAKLY, WEAKLY, draws=17))
    drawn_parts = beyond_population.draw(found)
    claims = drawn_parts[""]
    (axes,) = claims.axes
    colors = [line.get_color() for line in axes.lines]
    assert colors[:3] == [MARKS[verdict][0] for verdict in (HOLDS, FAILS, WEAKLY)]
    assert [text.get_text() for text in axes.texts] == ["", "20 / 20", "17 / 20"]  # an arrow
    assert claims.table[0]["change"] == "weaker"
    rows = drawn_parts["widths"].table
    assert len(rows) == 2 * 3 * 3 * len(WIDTHS)
    gaps = [row["gap"] for row in drawn_parts["networks"].table if "gap" in row]
    np.testing.assert_allclose(gaps, [0.02] * 18)


def test_sites_where_rows_move_are_drawn_apart() -> None:
    one = population("a", [0.5, 0.6])
    moving = replace(one, sites=(replace(one.sites[0], moved=200, tested=256), one.sites[1]))
    published = made("a", [0.5, 0.6])
    drawn_gaps = draw_gaps([published], [moving], gaps([published], [moving]))
    stay, move = drawn_gaps.axes[1].lines[:2]
    assert len(stay.get_xdata()) == len(move.get_xdata()) == 1


@pytest.mark.parametrize(("below", "verdict"), [(0, HOLDS), (1, WEAKLY), (2, FAILS)])
def test_published_scores_below_the_interval_are_counted(below: int, verdict: str) -> None:
    scores = np.linspace(0.4, 0.8, 20)
    published = made("a", np.where(np.arange(20) < below, scores - 0.1, scores))
    again = population("a", scores, error=0.001)
    check = judge_gaps(gaps([published], [again]))
    assert check.verdict == verdict
    assert f"above at {20 - below}, below at {below} of 20 sites" in check.obtained
    assert "have no published score" not in check.obtained


def test_sites_where_rows_move_or_without_a_score_are_told_apart() -> None:
    one = population("a", [0.5, 0.6, 0.7], error=0.001)
    moving = replace(one, sites=(replace(one.sites[0], moved=200, tested=256), *one.sites[1:]))
    check = judge_gaps(gaps([made("a", [0.9, 0.6, math.nan])], [moving]))
    assert "where rows stay, above at 1, below at 0 of 1 sites, by +0.020" in check.obtained
    assert "where rows move, above at 1, below at 0 of 1 sites, by +0.420" in check.obtained
    assert check.obtained.endswith("1 sites have no published score")
    assert judge_gaps(gaps([made("a", [math.nan])], [population("a", [0.5])])).verdict == UNTESTED


def test_the_papers_own_networks_are_refused() -> None:
    with pytest.raises(InputError, match="networks of the zoo only"):
        beyond_population.ITEM.measure(Setting(weights="none", data="imagefolder:x"))


# Margins


def test_every_margin_belongs_to_one_claim() -> None:
    for name, own in MARGINS.items():
        subject = beyond_population.SUBJECTS[name]
        if name.startswith("fig9"):
            claims = [f"bottom: {function} stays constant" for function in FUNCTIONS]
        else:
            claims = [check.claim for check in subject.judge(subject.published(Setting()))]
        for start in own:
            assert sum(claim.startswith(start) for claim in claims) == 1, start


@pytest.mark.parametrize("name", SIGNED)
def test_a_margin_is_positive_where_the_claim_clearly_holds(name: str) -> None:
    subject = beyond_population.SUBJECTS[name]
    results = subject.published(Setting())
    for check in subject.judge(results):
        margin = margin_of(name, check)
        if margin is not None:
            assert (margin(results) > 0) == (check.verdict == HOLDS), check.claim


def test_the_interval_of_a_margin_is_that_of_the_difference() -> None:
    """The same as `sigmascope.difference` of two networks on the same samples."""
    one, other = population("a", [0.5, 0.7, 0.6]), population("b", [0.4, 0.6, 0.9], seed=1)
    (expected,) = (row for row in sg.difference(one, other).summary if row.name == "median")
    parts = [
        [PopulationSetting(without=group).varied(found) for found in (one, other)]
        for group in range(8)
    ]

    def margin(pair: Sequence[Signature]) -> float:
        medians = [found.summary()["median"] for found in pair]
        return medians[0] - medians[1]

    found = interval(margin, [one, other], parts)
    assert found == pytest.approx((expected.difference, expected.low, expected.high), abs=1e-12)


def test_claims_that_cannot_be_judged_have_no_margin() -> None:
    check = Check("ViTs are more non-linear than all before", "", "", UNTESTED)
    assert margin_of("fig5a", check) is None
    assert margin_of("fig5a", replace(check, verdict=HOLDS)) is not None
    assert margin_of("fig5a", Check("until 2019", "", "", HOLDS)) is None


def test_margins_are_told() -> None:
    one = replace(rejudged(HOLDS, HOLDS), margin=(0.1, -0.02, 0.22))
    assert beyond_population.judge(outcomes(one))[2].obtained.endswith(
        "margin +0.1000 (-0.0200 to +0.2200)"
    )
    assert one.row()["low"] == -0.02


# The stored scores


@pytest.fixture(scope="module")
def stored() -> Outcomes:
    """The item from the stored scores of the zoo, with two draws; Figures 8 and 9 measure more."""
    subjects = {name: beyond_population.SUBJECTS[name] for name in SIGNED}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beyond_population, "SUBJECTS", subjects)
        patch.setattr(beyond_population, "DRAWS", 2)
        patch.setattr(beyond_population, "WIDTHS_OF", {})
        return beyond_population.ITEM.measure(Setting(progress=False))


def test_stored_scores_change_these_verdicts(stored: Outcomes) -> None:
    changed = {
        (one.item, one.published.claim): (one.change, one.mixed == one.published.verdict)
        for one in stored.claims
        if one.change != "same"
    }
    assert changed == {
        ("fig5a", "early convolutional networks spread little"): ("stronger", True),
        ("fig5a", "EfficientNets are skewed toward linearity"): ("stronger", True),
        ("fig5a", "ViTs are more non-linear than all before"): ("weaker", True),
        ("fig10", "left: batch sizes order the activations alike"): ("stronger", True),
        ("fig10", "right: trainings agree at every activation"): ("weaker", True),
        ("fig10", "the score falls with the batch size (the authors' AlexNet)"): ("weaker", False),
        **{
            ("fig11", f"at initialization {what}, as published"): ("weaker", False)
            for what in ("the score increases with depth", "the last layers are almost linear")
        },
        ("fig11", "ours: the last layers, at initialization, do vary"): ("stronger", False),
        ("fig11", "training makes the network more non-linear, with batch statistics"): (
            "stronger",
            True,
        ),
    }


def test_stored_scores_are_told_and_drawn(stored: Outcomes) -> None:
    first, second, *rest = beyond_population.judge(stored)
    assert (first.verdict, second.verdict) == (FAILS, WEAKLY)
    assert second.obtained.startswith("where rows stay, above at 327, below at 22 of 387 sites")
    assert len(rest) == len(stored.claims)
    parts = beyond_population.draw(replace(stored, widths=outcomes().widths))
    assert len(parts["networks"].axes[0].get_yticklabels()) == len(stored.published.of())


def test_stored_widths_stay_flat() -> None:
    """With independent and with correlated channels, where shrinkage does not."""
    setting = PopulationSetting()
    judge = beyond_population.SUBJECTS[beyond_population.FIGURE_9].judge
    for law in LAWS:
        scores = beyond_population._by_width(setting, law)
        found = fig9.Robustness({}, WIDTHS, dict.fromkeys(fig9.ESTIMATORS, scores))
        assert {check.verdict for check in judge(found)} == {HOLDS}
