"""The items on networks of the zoo: from stored signatures, judged by rules that can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.compare.density import densities
from sigmascope.measure.result import Signature
from sigmascope.runs import Run
from sigmascope_papers.cast import PAPER
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.nonlinearity import fig7, places
from sigmascope_papers.setting import Setting
from tests.papers.staged import Stage, staged, verdicts

DRAWN = ("signature", "all calls", "densities")


def with_scores(signature: Signature, scores: np.ndarray) -> Signature:
    sites = tuple(
        replace(site, score=float(score))
        for site, score in zip(signature.sites, scores, strict=True)
    )
    return replace(signature, sites=sites)


def shuffled(signature: Signature, seed: int = 0) -> Signature:
    """The same scores at other calls: no place of a block is special."""
    return with_scores(signature, np.random.default_rng(seed).permutation(signature.scores))


ENDS = "activations at the end of a block score above those inside"
PLAIN = "in plain networks they do not"
WIDER = "the scores of residual networks spread wider"
TWO, ONE = "residual networks have two modes", "plain networks have one mode"


def judged(twins: fig7.Twins) -> dict[str, str]:
    return verdicts(fig7.ITEM.judge(twins))


def apart(signature: Signature, gap: float) -> Signature:
    """Scores around 0.5 inside the blocks, and higher by a gap at their ends."""
    ends = np.array([place == places.END for place in places.places_in(signature)])
    return with_scores(
        signature, 0.5 + gap * ends + np.random.default_rng(0).normal(0, 0.02, len(ends))
    )


@pytest.fixture(scope="module")
def twins() -> fig7.Twins:
    return fig7.ITEM.measure(Setting())


def test_figure_7_notices_a_network_without_a_split(twins: fig7.Twins) -> None:
    assert judged(twins) == {ENDS: HOLDS, PLAIN: HOLDS, WIDER: HOLDS, TWO: FAILS, ONE: HOLDS}
    name, one = next(iter(twins.residual.items()))
    assert judged(replace(twins, residual=twins.residual | {name: shuffled(one)}))[ENDS] == FAILS
    turned = judged(replace(twins, residual=twins.plain, plain=twins.residual))
    # three of five have one mode
    assert turned == dict.fromkeys((ENDS, PLAIN, WIDER, TWO), FAILS) | {ONE: WEAKLY}
    blurred = with_scores(
        one, one.scores + np.random.default_rng(0).normal(0, 0.12, len(one.scores))
    )
    assert 0.75 < places.separation(blurred) < 0.9
    assert judged(replace(twins, residual=twins.residual | {name: blurred}))[ENDS] == WEAKLY


@pytest.mark.parametrize(("clear", "verdict"), [(5, HOLDS), (3, WEAKLY), (2, FAILS)])
def test_figure_7_counts_networks_with_two_modes(
    twins: fig7.Twins, clear: int, verdict: str
) -> None:
    named = enumerate(twins.residual.items())
    found = {name: apart(one, 0.4 if number < clear else 0.0) for number, (name, one) in named}
    assert judged(replace(twins, residual=found))[TWO] == verdict
    others = dict(zip(twins.plain, found.values(), strict=True))
    assert (
        judged(replace(twins, plain=others))[ONE]
        == {HOLDS: FAILS, WEAKLY: FAILS, FAILS: WEAKLY}[verdict]
    )


def test_figure_7_draws_the_pairs(twins: fig7.Twins) -> None:
    drawn = fig7.ITEM.draw(twins)
    for part, network in (("", "resnet20:0"), ("deep", "resnet56:0")):
        rows = {
            word: [
                row for row in drawn[part].table if row["panel"] == f"sigmascope/{network}, {word}"
            ]
            for word in DRAWN
        }
        assert [row["score"] for row in rows["signature"]] == twins.residual[
            network
        ].scores.tolist()
        (curve,) = densities([twins.residual[network]], boundary="unbounded").curves
        assert [row["density"] for row in rows["all calls"]] == curve.values.tolist()
        assert {row["network"] for row in rows["densities"]} == {places.INSIDE, places.END}
    titles = {part: [axes.get_title() for axes in one.axes[1::2]] for part, one in drawn.items()}
    assert titles == {
        "": ["separation 0.99", "separation 0.56"],
        "deep": ["separation 1.00", "separation 0.56"],
    }


def test_figure_7_takes_the_papers_networks_without_plain_twins(twins: fig7.Twins) -> None:
    def make(name: str) -> Run:
        return staged(name, twins.residual["resnet56:0"].scores)

    stage = Stage(make, PAPER, "default")
    fig7.ITEM.measure(stage)
    assert stage.asked == [(("torchvision/resnet18", "torchvision/resnet34"), {})]
    alone = fig7.Twins({"torchvision/resnet18": twins.residual["resnet56:0"]}, {})
    assert judged(alone) == {
        ENDS: HOLDS,
        PLAIN: UNTESTED,
        WIDER: UNTESTED,
        TWO: HOLDS,
        ONE: UNTESTED,
    }
    assert list(fig7.ITEM.draw(alone)) == [""]
    none = fig7.ITEM.measure(Stage(make, PAPER.only(["torchvision/vit_b_32"]), "default"))
    assert set(judged(none).values()) == {UNTESTED}
    assert fig7.ITEM.draw(none) == {}


def test_figure_7_says_where_scores_are_missing(twins: fig7.Twins) -> None:
    one = twins.residual["resnet20:0"]
    dead = fig7.Twins({"dead": with_scores(one, np.full(len(one), np.nan))}, {})
    (check, *_) = fig7.ITEM.judge(dead)
    assert (check.verdict, check.obtained) == (UNTESTED, "too few scores in dead")
    assert fig7.ITEM.draw(dead) == {}


def test_what_is_not_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        sg.InputError, match=r"has no signature of sigmascope/vit:0\. .*--from-scratch"
    ):
        Setting(results=tmp_path).runs(["vit:0"])
