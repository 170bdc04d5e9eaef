"""The items on a decade of networks, by rules that can fail: Figures 5 and 11 to 15, on signatures
made up for the purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

import sigmascope as sg
from sigmascope.measure.result import Signature, Site
from sigmascope_papers.cast import PAPER, ZOO, Cast
from sigmascope_papers.chance import trend
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY, Check, overall
from sigmascope_papers.nonlinearity import fig5a, fig12, leads, places, vgg16
from sigmascope_papers.nonlinearity.lineup import Lineup
from sigmascope_papers.nonlinearity.sizes import Sizes, patch_of
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import item, prose

FIGURE_5B, FIGURE_5C = item("fig5b"), item("fig5c")
FIGURE_11, FIGURE_13, FIGURE_14, FIGURE_15 = (item(f"fig{n}") for n in (11, 13, 14, 15))
BASE = Setting().runs(["resnet20:0"])[0].signature
NOISE = np.array([-0.002, -0.001, 0.0, 0.001, 0.002])


def made(
    name: str, scores: Sequence[float], paths: Sequence[str] = (), calls: Sequence[int] = ()
) -> Signature:
    """A signature with these scores, and five batches around each."""

    def site(number: int, score: float) -> Site:
        path, call = paths[number] if paths else str(number), calls[number] if calls else 0
        told = {
            "score": float(score),
            "scores": tuple(score + NOISE),
            "scatter": replace(BASE.sites[0].scatter, std=float(NOISE.std(ddof=1))),
        }
        return replace(BASE.sites[0], path=path, call=call, **told)

    return replace(BASE, name=name, sites=tuple(itertools.starmap(site, enumerate(scores))))


def blocks(name: str, count: int, inside: float, end: float) -> Signature:
    """A residual network: a stem, then blocks of two activations."""
    paths = ["act1", *(f"blocks.{block}.act{place}" for block in range(count) for place in (1, 2))]
    wave = 0.02 * np.sin(np.arange(count))
    return made(name, [0.7, *np.stack([inside + wave, end + 0.3 * wave], axis=1).ravel()], paths)


def dense(name: str, inside: float, transition: float) -> Signature:
    paths = [
        *(f"{n}.act{k}" for n in (1, 2, 3) for k in (1, 2)),
        "8",
        *(f"{n}.act{k}" for n in (11, 12) for k in (1, 2)),
        "28",
    ]
    wave = 0.05 * np.cos(np.arange(len(paths)))
    return made(
        name,
        [
            transition if path == "8" else inside + one
            for path, one in zip(paths, wave, strict=True)
        ],
        paths,
    )


def around(name: str, middle: float, half: float, count: int = 9) -> Signature:
    """Scores evenly around a middle, by turns above and below."""
    signs = np.where(np.arange(count) % 2, 1, -1)
    return made(name, middle + half * signs * np.linspace(0.1, 1, count))


def ideal(cast: Cast = ZOO) -> dict[str, Signature]:
    """Networks of which the paper's claims are true."""
    skewed = 0.97 - 0.25 * np.linspace(0, 1, 15) ** 6
    made_of = {
        "AlexNets": lambda name, k: around(name, 0.72 + 0.005 * k, 0.03, 8),
        "VGGs": lambda name, k: around(name, 0.74, 0.04, 10 + 2 * k),
        "Inceptions": lambda name, k: around(name, 0.76 + 0.015 * k, 0.14, 20),
        "ResNets": lambda name, k: blocks(name, 9 + 3 * k, 0.77 - 0.01 * k, 0.95 + 0.01 * k),
        "DenseNets": lambda name, k: dense(name, 0.82, 0.97),
        "MNASNets": lambda name, k: around(name, 0.88, 0.09, 11),
        "EffNets": lambda name, k: made(name, skewed),
        "ViTs": lambda name, k: made(
            name, np.linspace(0.30, 0.60, 12) if k else [0.4] * 11 + [0.6]
        ),
        "Swins": lambda name, k: around(name, 0.72, 0.04, 12),
        "ConvNeXts": lambda name, k: around(name, 0.735, 0.06, 12),
    }
    found = {}
    for group in made_of:
        for number, name in enumerate(cast.names(group)):
            found[name] = made_of[group](name, number)
    return found


def lineup(changed: Mapping[str, Signature] | None = None, cast: Cast = ZOO) -> Lineup:
    found = ideal(cast) | dict(changed or {})
    return Lineup(cast, {name: found[name] for name in cast.names()})


def without(*groups: str) -> Lineup:
    cast = ZOO.only([name for name, group in ZOO.groups().items() if group not in groups])
    return lineup(cast=cast)


def verdict(checks: Sequence[Check], words: str) -> str:
    (found,) = [check for check in checks if words in check.claim]
    return found.verdict


def group(name: str, make: Any) -> dict[str, Signature]:
    """Other signatures for the whole of a group."""
    return {one: make(one, number) for number, one in enumerate(ZOO.names(name))}


# Figure 5A


@pytest.mark.parametrize("cast", [ZOO, PAPER], ids=["zoo", "paper"])
def test_figure_5a_holds_for_networks_as_the_paper_says(cast: Cast) -> None:
    checks = fig5a.ITEM.judge(lineup(cast=cast))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "changed", "told"),
    [
        ("median rises", group("EffNets", lambda name, k: around(name, 0.73, 0.2)), WEAKLY),
        ("max rises", group("AlexNets", lambda name, k: around(name, 0.9, 0.2)), WEAKLY),
        ("spread little", group("VGGs", lambda name, k: around(name, 0.7, 0.25)), FAILS),
        ("spread little", group("AlexNets", lambda name, k: around(name, 0.7, 0.25)), WEAKLY),
        ("widens", group("Inceptions", lambda name, k: around(name, 0.85, 0.14)), WEAKLY),
        ("widens", group("Inceptions", lambda name, k: around(name, 0.76, 0.01)), FAILS),
        (
            "skewed",
            group("EffNets", lambda name, k: made(name, np.linspace(0.6, 1, 9) ** 0.5)),
            WEAKLY,
        ),
        (
            "skewed",
            group("EffNets", lambda name, k: made(name, np.linspace(0.6, 1, 9) ** 2)),
            FAILS,
        ),
        (
            "ViTs",
            group("ViTs", lambda name, k: around(name, 0.74 if k == 0 else 0.5, 0.05)),
            WEAKLY,
        ),
        ("ViTs", group("ViTs", lambda name, k: around(name, 0.8, 0.05)), FAILS),
        ("return", group("Swins", lambda name, k: around(name, 0.6, 0.04)), WEAKLY),
        ("return", group("ConvNeXts", lambda name, k: around(name, 0.2, 0.06)), FAILS),
    ],
)
def test_figure_5a_notices_networks_that_are_otherwise(
    words: str, changed: dict[str, Signature], told: str
) -> None:
    assert verdict(fig5a.ITEM.judge(lineup(changed)), words) == told


@pytest.mark.parametrize("words", ["median rises", "max rises"])
def test_figure_5a_notices_a_trend_the_other_way(words: str) -> None:
    falling = {
        name: around(name, 0.9 - 0.04 * (member.year - 2012), 0.05)
        for member in ZOO.members
        if (name := member.name) and member.year < 2020
    }
    assert verdict(fig5a.ITEM.judge(lineup(falling)), words) == FAILS


def test_figure_5a_tells_the_chance_of_single_batches() -> None:
    check = next(check for check in fig5a.ITEM.judge(lineup()) if "max rises" in check.claim)
    whole, _, single = check.obtained.partition("; single batches: ")
    chance = whole.partition("p = ")[2].partition(",")[0]
    # in every batch these networks have the same order
    assert single.endswith(f"p = {chance} to {chance}")


@pytest.mark.parametrize(
    ("gone", "untried"),
    [
        (("ViTs",), {"ViTs are", "return"}),
        (("AlexNets",), {"spread little", "widens", "return"}),
        (("EffNets",), {"skewed"}),
        (("ResNets", "DenseNets", "MNASNets", "EffNets"), {"median rises", "max rises", "skewed"}),
    ],
)
def test_figure_5a_leaves_claims_untried_without_their_networks(
    gone: tuple[str, ...], untried: set[str]
) -> None:
    found = [check.claim for check in fig5a.ITEM.judge(without(*gone)) if check.verdict == UNTESTED]
    assert len(found) == len(untried)
    assert all(any(words in claim for claim in found) for words in untried)


def test_figure_5a_draws_all_networks() -> None:
    found = lineup()
    (drawn,) = fig5a.ITEM.draw(found).values()
    rows = {row["network"]: row for row in drawn.table}
    assert list(rows) == ZOO.names()
    assert rows["sigmascope/swin:0"]["median"] == found.lead("Swins").summary()["median"]
    assert rows["sigmascope/swin:0"]["year"] == 2021


def test_a_trend_is_kendalls_and_its_chance_exact() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        values = generator.normal(size=6)
        tau, chance = trend(range(6), values.tolist())
        known = kendalltau(np.arange(6), values, alternative="greater", method="exact")
        assert (tau, chance) == pytest.approx((known.statistic, known.pvalue))
    tied = [2012, 2014, 2014, 2015]
    assert trend(tied, [1, 2, 3, 4])[0] == pytest.approx(kendalltau(tied, [1, 2, 3, 4]).statistic)
    assert trend(tied, [1, 2, 3, 4])[1] == pytest.approx(2 / 24)  # the two of 2014 may swap
    assert trend(tied, [1, 1, 1, 1]) == (0.0, 1.0)


# Figure 5B


def ordered(cast: Cast = ZOO) -> dict[str, Signature]:
    """Leads that move away from the first, turn back, and a ViT that is far from all."""
    levels = (0.7, 0.72, 0.74, 0.76, 0.8, 0.9, 0.3, 0.71, 0.72)
    return {name: made(name, [level] * 5) for name, level in zip(cast.leads, levels, strict=True)}


@pytest.mark.parametrize("cast", [ZOO, PAPER], ids=["zoo", "paper"])
def test_figure_5b_holds_for_networks_as_the_paper_says(cast: Cast) -> None:
    checks = FIGURE_5B.judge(leads.compared(lineup(ordered(cast), cast)))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "name", "level", "told"),
    [
        ("farther", "densenet:0", 0.705, WEAKLY),
        ("turn back", "swin:0", 0.85, WEAKLY),
        ("turn back", "convnext:0", 0.2, FAILS),
        ("dissimilar", "vit-patch4:0", 0.65, FAILS),
        ("dissimilar", "vit-patch4:0", 0.5, WEAKLY),
    ],
)
def test_figure_5b_notices_networks_that_are_otherwise(
    words: str, name: str, level: float, told: str
) -> None:
    name = f"sigmascope/{name}"
    found = ordered() | {name: made(name, [level] * 5)}
    # one that is near the ViT, but not so far from the rest
    if told == WEAKLY and words == "dissimilar":
        found["sigmascope/swin:0"] = made("sigmascope/swin:0", [0.55] * 5)
    assert verdict(FIGURE_5B.judge(leads.compared(lineup(found))), words) == told


def test_figure_5b_notices_networks_that_come_nearer() -> None:
    levels = (0.7, 0.95, 0.9, 0.85, 0.8, 0.75, 0.72, 0.71, 0.71)
    found = {name: made(name, [level] * 5) for name, level in zip(ZOO.leads, levels, strict=True)}
    assert verdict(FIGURE_5B.judge(leads.compared(lineup(found))), "farther") == FAILS


@pytest.mark.parametrize(("gone", "count"), [("AlexNets", 2), ("ViTs", 3), ("Swins", 1)])
def test_figure_5b_leaves_claims_untried_without_their_networks(gone: str, count: int) -> None:
    found = leads.compared(without(gone))
    assert [check.verdict for check in FIGURE_5B.judge(found)].count(UNTESTED) == count
    assert set(FIGURE_5B.draw(found)) == ({""} if gone == "AlexNets" else {"", "from-first"})


def test_figure_5b_draws_the_matrix_and_its_first_column() -> None:
    found = leads.compared(lineup())
    drawn = FIGURE_5B.draw(found)
    rows = {
        (row["network"], row["other"]): row["value"]
        for row in drawn[""].table
        if row["drawn"] == "distance"
    }
    first, last = ZOO.leads[0], ZOO.leads[-1]
    assert rows[last, first] == found.dtw.matrix[-1, 0] > 0
    column = {
        row["network"]: row["value"]
        for row in drawn["from-first"].table
        if row["distance"] == "DTW distance"
    }
    assert column == {name: rows[first, name] for name in ZOO.leads[1:]}
    np.testing.assert_array_equal(
        drawn["from-first"].axes[0].lines[0].get_ydata(), list(column.values())
    )


# Figure 5C


@pytest.mark.parametrize("cast", [ZOO, PAPER], ids=["zoo", "paper"])
def test_figure_5c_holds_for_networks_as_the_paper_says(cast: Cast) -> None:
    normal = np.sort(np.random.default_rng(0).normal(size=400))
    centers = dict(zip(cast.leads, (0.7, 0.8, 0.75, None, 0.85, 0.9, 0.4, 0.7, 0.805), strict=True))
    widths = {cast.lead("AlexNets"): 0.012, cast.lead("Swins"): 0.016}
    found = {
        name: made(name, center + widths.get(name, 0.02) * normal)
        if center
        else blocks(name, 9, 0.6, 0.97)
        for name, center in centers.items()
    }
    checks = FIGURE_5C.judge(leads.spread_of(lineup(found, cast)))
    assert {check.verdict for check in checks} == {HOLDS}, checks


def two_humps(name: str, apart: float, few: int = 20) -> Signature:
    hump = np.linspace(-0.02, 0.02, 20)
    return made(name, [*(0.7 + hump), *(0.7 + apart + hump[:few])])


@pytest.mark.parametrize(
    ("words", "changed", "told"),
    [
        ("the ResNet", {"resnet56:0": two_humps("r", 0.02)}, FAILS),
        ("the ResNet", {"resnet56:0": two_humps("r", 0.25, 1)}, WEAKLY),
        ("the first", {"vgg16:1": two_humps("v", 0.25)}, FAILS),
        ("the first", {"swin:0": two_humps("s", 0.25)}, WEAKLY),
        ("AlexNets are", {"swin:0": around("s", 0.3, 0.02)}, FAILS),
        ("AlexNets are", {"vgg16:1": around("v", 0.72, 0.03, 8)}, WEAKLY),
        ("VGGs are", {"convnext:0": around("c", 0.3, 0.02)}, FAILS),
        ("heavier", {"swin:0": around("s", 0.72, 0.01)}, FAILS),
        ("heavier", {"swin:0": around("s", 0.62, 0.04)}, WEAKLY),
    ],
)
def test_figure_5c_notices_networks_that_are_otherwise(
    words: str, changed: dict[str, Signature], told: str
) -> None:
    even = {name: around(name, 0.8, 0.05, 12) for name in ZOO.leads}
    named = {
        f"sigmascope/{name}": replace(one, name=f"sigmascope/{name}")
        for name, one in changed.items()
    }
    alike = {"sigmascope/myrtle-nobn:0": 0.72, "sigmascope/swin:0": 0.725}
    start = even | {name: around(name, level, 0.03, 8) for name, level in alike.items()}
    start |= {"sigmascope/resnet56:0": two_humps("sigmascope/resnet56:0", 0.25)}
    assert verdict(FIGURE_5C.judge(leads.spread_of(lineup(start | named))), words) == told


def test_figure_5c_tells_all_peaks_of_all_networks() -> None:
    # the second one is faint
    found = lineup({"sigmascope/swin:0": two_humps("sigmascope/swin:0", 0.25, 1)})
    check = next(
        check for check in FIGURE_5C.judge(leads.spread_of(found)) if "the first" in check.claim
    )
    assert "Swins 1 (2)" in check.obtained
    assert "AlexNets 1 (1)" in check.obtained


def test_modes_and_overlaps_of_known_densities() -> None:
    made_up = [two_humps("a", 0.0), two_humps("b", 0.3), made("c", [0.1, 0.11, 0.12])]
    one, two, none = sg.densities(made_up, boundary="unbounded").curves
    assert len(leads.modes(one)) == 1
    assert leads.modes(two) == pytest.approx([0.7, 1.0], abs=0.02)
    assert leads.overlap(one, one) == pytest.approx(1, abs=1e-9)
    assert leads.overlap(one, none) == pytest.approx(0, abs=0.01)
    assert 0.1 < leads.overlap(one, two) < 0.7


def test_figure_5c_leaves_claims_untried_without_their_networks() -> None:
    checks = FIGURE_5C.judge(leads.spread_of(without("Swins", "ResNets")))
    assert [check.verdict for check in checks].count(UNTESTED) == 4
    flat = {ZOO.lead("Swins"): made(str(ZOO.lead("Swins")), [0.5] * 4)}
    assert verdict(FIGURE_5C.judge(leads.spread_of(lineup(flat))), "AlexNets are") == UNTESTED


def test_figure_5c_draws_the_scores() -> None:
    found = leads.spread_of(lineup())
    (drawn,) = FIGURE_5C.draw(found).values()
    rows = [
        row["score"]
        for row in drawn.table
        if row["network"] == ZOO.lead("ViTs") and row["drawn"] == "score"
    ]
    assert rows == found.lineup.lead("ViTs").scores.tolist()


def test_a_cast_without_leads_leaves_all_untried() -> None:
    alone = lineup(cast=ZOO.only(ZOO.names("MNASNets")))
    for figure, found in (
        (FIGURE_5B, leads.compared(alone)),
        (FIGURE_5C, leads.spread_of(alone)),
        (fig12.ITEM, alone),
    ):
        assert {check.verdict for check in figure.judge(found)} == {UNTESTED}
        assert figure.draw(found) == {}


# Figure 11


def training(
    before: Sequence[float], after: Sequence[float], noise: float = 0.005
) -> vgg16.Training:
    generator = np.random.default_rng(0)
    one, other = (
        np.array(some) + generator.normal(0, noise, (9, len(some))) for some in (before, after)
    )
    return vgg16.Training(one, other, np.ones_like(one, dtype=bool), one)


UP, BOWL = np.linspace(0.6, 0.99, 14), 0.6 + 0.2 * np.cos(np.linspace(0, 2 * np.pi, 14))


def test_figure_11_holds_for_a_network_as_the_paper_says() -> None:
    checks = FIGURE_11.judge(training(UP, BOWL))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "found", "told"),
    [
        ("with depth, as published", training(UP[::-1], BOWL), FAILS),
        ("with depth, as published", training([0.5, *[0.6, 0.5] * 6, 0.9], BOWL), WEAKLY),
        ("almost linear, as published", training(UP - 0.2, BOWL), FAILS),
        ("almost linear, as published", training(UP - 0.05, BOWL), WEAKLY),
        ("more non-linear, as published", training(BOWL, BOWL + 0.1), FAILS),
        (
            "more non-linear, as published",
            replace(training([*BOWL], BOWL, 0), after=np.array([BOWL - 0.1] * 8 + [BOWL + 0.1])),
            WEAKLY,
        ),
        ("not monotone", training(UP, UP - 0.1), FAILS),
        ("not monotone", training(UP, [*UP[:-2], 0.85, 0.86]), WEAKLY),
        ("none, as published", training(BOWL, BOWL), FAILS),
        ("none, as published", training(BOWL, BOWL + 0.01, 0.01), WEAKLY),
    ],
)
def test_figure_11_notices_networks_that_are_otherwise(
    words: str, found: vgg16.Training, told: str
) -> None:
    assert verdict(FIGURE_11.judge(found), words) == told


def test_figure_11_judges_every_reading_of_an_untrained_network() -> None:
    found = replace(training(UP, BOWL), normalized=training(UP[::-1], BOWL).before)
    assert verdict(FIGURE_11.judge(found), "with depth, with batch statistics") == FAILS
    assert verdict(FIGURE_11.judge(found), "almost linear, with batch statistics") == FAILS
    assert verdict(FIGURE_11.judge(found), "with depth, as published") == HOLDS
    for words, other in (("more non-linear", BOWL - 0.1), ("none", BOWL)):
        alike = replace(found, normalized=training(other, BOWL).before)
        assert verdict(FIGURE_11.judge(found), f"{words}, with batch statistics") == HOLDS
        assert verdict(FIGURE_11.judge(alike), f"{words}, with batch statistics") == FAILS
        assert verdict(FIGURE_11.judge(alike), f"{words}, as published") == HOLDS
    dying = found.scored.copy()
    dying[:3, -1] = False
    assert verdict(FIGURE_11.judge(replace(found, scored=dying)), "do vary") == WEAKLY
    dying[:, 5:] = False
    assert verdict(FIGURE_11.judge(replace(found, scored=dying)), "do vary") == FAILS


def test_figure_11_draws_both() -> None:
    found = training(UP, BOWL)
    (drawn,) = FIGURE_11.draw(found).values()
    rows = [row["mean"] for row in drawn.table if row["curve"] == "trained"]
    np.testing.assert_allclose(rows, found.after.mean(axis=0))


def test_figure_11_is_about_the_zoo() -> None:
    with pytest.raises(sg.InputError, match="networks of the zoo only"):
        FIGURE_11.measure(Setting(weights="none", data="random"))


# Figure 12


@pytest.mark.parametrize("cast", [ZOO, PAPER], ids=["zoo", "paper"])
def test_figure_12_holds_for_networks_as_the_paper_says(cast: Cast) -> None:
    checks = fig12.ITEM.judge(
        lineup({str(cast.lead("AlexNets")): around(str(cast.lead("AlexNets")), 0.7, 0.01)}, cast)
    )
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "changed", "told"),
    [
        ("stable", {"myrtle-nobn:0": around("", 0.7, 0.3)}, FAILS),
        (
            "stable",
            {"myrtle-nobn:0": around("", 0.7, 0.05), "vgg16:1": around("", 0.7, 0.01)},
            WEAKLY,
        ),
        ("0.6 and 0.9", {"googlenet:0": around("", 0.75, 0.3)}, FAILS),
        ("0.6 and 0.9", {"googlenet:0": around("", 0.75, 0.22)}, WEAKLY),
        ("after a skip", {"resnet56:0": blocks("", 9, 0.8, 0.7)}, FAILS),
        ("after a skip", {"resnet56:0": blocks("", 9, 0.8, 0.9)}, WEAKLY),
        ("slightly", {"densenet:0": dense("", 0.95, 0.97)}, FAILS),
        ("slightly", {"densenet:0": dense("", 0.5, 0.6)}, WEAKLY),
        ("transition", {"densenet:0": dense("", 0.8, 0.7)}, FAILS),
        ("transition", {"densenet:0": dense("", 0.8, 0.82)}, WEAKLY),
    ],
)
def test_figure_12_notices_networks_that_are_otherwise(
    words: str, changed: dict[str, Signature], told: str
) -> None:
    named = {
        f"sigmascope/{name}": replace(one, name=f"sigmascope/{name}")
        for name, one in changed.items()
    }
    assert verdict(fig12.ITEM.judge(lineup(named)), words) == told


def test_transitions_are_found_in_both_kinds_of_densenet() -> None:
    paths = [
        "features.relu0",
        *(f"features.denseblock1.denselayer{n}.relu{k}" for n in (1, 2) for k in (1, 2)),
    ]
    paths += ["features.transition1.relu", "features.denseblock2.denselayer1.relu1", ""]
    ((score, before),) = fig12.transitions(made("torchvision/densenet", np.arange(8) / 10, paths))
    assert (score, before.tolist()) == (0.5, [0.1, 0.2, 0.3, 0.4])
    ((score, before),) = fig12.transitions(dense("ours", 0.8, 0.95))
    assert (score, len(before)) == (0.95, 6)
    stored = Setting().runs(["densenet:0"])[0].signature
    assert [len(before) for _, before in fig12.transitions(stored)] == [12, 12]


def test_figure_12_leaves_claims_untried_without_their_networks() -> None:
    gone = ("AlexNets", "Inceptions", "ResNets", "DenseNets")
    assert {check.verdict for check in fig12.ITEM.judge(without(*gone))} == {UNTESTED}
    name = str(ZOO.lead("DenseNets"))
    plain = {name: made(name, [0.5, 0.6], ["a", "b"])}
    assert verdict(fig12.ITEM.judge(lineup(plain)), "transition") == UNTESTED


def test_places_have_the_same_names_in_all_networks() -> None:
    assert fig12.kinds_of_places(blocks("r", 2, 0.5, 0.9), "ResNets") == [
        fig12.NOWHERE,
        *[places.INSIDE, places.END] * 2,
    ]
    found = fig12.kinds_of_places(dense("d", 0.8, 0.9), "DenseNets")
    assert [place for place, kind in enumerate(found) if kind == fig12.TRANSITION] == [6]
    assert (found[-1], set(found[:6])) == (fig12.NOWHERE, {places.INSIDE})
    gated = made("e", [0.5] * 4, ["2", "3.layers.2", "3.layers.3.act", "3.layers.3.gate"])
    gated = replace(gated, sites=(*gated.sites[:3], replace(gated.sites[3], kind="sigmoid")))
    assert fig12.kinds_of_places(gated, "EffNets") == [
        fig12.NOWHERE,
        places.INSIDE,
        fig12.SQUEEZE,
        fig12.GATE,
    ]
    theirs = [
        "features.0.2",
        "features.1.0.block.1.activation",
        "features.1.0.mlp.1",
        "conv1",
        "inception3a.branch2.1",
    ]
    theirs += ["features.relu0", "features.transition1.relu", "classifier.1", ""]
    expected = [
        fig12.NOWHERE,
        places.INSIDE,
        places.INSIDE,
        fig12.NOWHERE,
        places.INSIDE,
        fig12.NOWHERE,
    ]
    found = fig12.kinds_of_places(made("t", [0.5] * len(theirs), theirs), "DenseNets")
    assert found == [*expected, fig12.TRANSITION, fig12.NOWHERE, fig12.NOWHERE]


def test_figure_12_shows_the_transitions_and_has_one_short_legend() -> None:
    stored = fig12.ITEM.measure(Setting())
    (drawn,) = fig12.ITEM.draw(stored).values()
    rows = [row for row in drawn.table if row["network"] == "sigmascope/densenet:0"]
    own = [row["score"] for row in rows if row["group"] == fig12.TRANSITION]
    assert own == [score for score, _ in fig12.transitions(stored.lead("DenseNets"))]
    assert [row["site"] for row in rows if row["group"] == fig12.NOWHERE] == ["28"]
    (legend,) = drawn.figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {*fig12.KINDS, "no score"}


def test_figure_12_tells_the_spread_over_batches() -> None:
    found = lineup()
    (drawn,) = fig12.ITEM.draw(found).values()
    assert [axes.get_title() for axes in drawn.axes][
        1
    ] == f"vgg16:1, mean std {NOISE.std(ddof=1):.4f}"
    rows = [row["score"] for row in drawn.table if row["network"] == "sigmascope/vgg16:1"]
    assert rows == found.lead("VGGs").scores.tolist()


# Figure 13


def patches(
    fine: Sequence[float],
    coarse: Sequence[float],
    middle: Sequence[float] = (0.3, 0.33, 0.35, 0.34, 0.35, 0.42),
) -> Sizes:
    names = {f"sigmascope/vit-patch{size}:0": size for size in (2, 4, 8)}
    found = {2: fine, 4: middle, 8: coarse}
    return vits({name: made(name, found[size]) for name, size in names.items()})


def vits(signatures: dict[str, Signature], cast: Cast = ZOO) -> Sizes:
    return Sizes(cast, signatures, "ViTs")


RISING, JUMPING = (0.2, 0.3, 0.35, 0.45, 0.5, 0.55), (0.3, 0.31, 0.3, 0.32, 0.31, 0.6)


def test_figure_13_holds_for_networks_as_the_paper_says() -> None:
    checks = FIGURE_13.judge(patches(RISING, JUMPING))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "found", "told"),
    [
        ("small patches", patches(RISING[::-1], JUMPING), FAILS),
        ("small patches", patches((0.2, 0.4, 0.3, 0.5, 0.35, 0.45), JUMPING), WEAKLY),
        ("large patches", patches(RISING, RISING), FAILS),
        ("large patches", patches(RISING, (0.3, 0.22, 0.31, 0.35, 0.3, 0.42)), WEAKLY),
        ("the larger", patches(JUMPING, RISING), FAILS),
        ("the larger", patches(RISING, JUMPING, (0.6, 0.5, 0.4, 0.3, 0.3, 0.2)), WEAKLY),
    ],
)
def test_figure_13_notices_networks_that_are_otherwise(words: str, found: Sizes, told: str) -> None:
    assert verdict(FIGURE_13.judge(found), words) == told


def test_figure_13_takes_16_pixels_for_fine_where_they_are() -> None:
    names = [f"torchvision/vit_{size}" for size in ("h_14", "l_16", "b_32")]
    found = vits({name: made(name, RISING) for name in names}, PAPER)
    assert (found.fine, max(found.patches)) == (16, 32)
    assert [patch_of(name) for name in PAPER.names("ViTs")] == [32, 32, 16, 16, 14]
    assert [patch_of(name) for name in ZOO.names("ViTs")] == [8, 4, 2, None]


@pytest.mark.parametrize(
    "found",
    [
        vits({}),
        vits({"sigmascope/vit-patch4:0": made("sigmascope/vit-patch4:0", RISING)}),
        patches(RISING, (0.1, 0.2, 0.3)),
    ],
)
def test_figure_13_leaves_claims_untried_without_two_sizes(found: Sizes) -> None:
    assert {check.verdict for check in FIGURE_13.judge(found)} == {UNTESTED}
    assert bool(FIGURE_13.draw(found)) == bool(found.patches)


def test_figure_13_draws_all_sizes() -> None:
    (drawn,) = FIGURE_13.draw(patches(RISING, JUMPING)).values()
    assert [row["score"] for row in drawn.table if row["network"].endswith("vit-patch8:0")] == list(
        JUMPING
    )


# Figure 14


def depths(
    levels: Sequence[float], seeds: Sequence[float] = (0.70, 0.72, 0.75), gone: tuple[str, ...] = ()
) -> Sizes:
    base = without(*gone)
    changed = {
        name: made(name, [level] * (10 + 2 * number))
        for number, (name, level) in enumerate(zip(base.cast.names("VGGs"), levels, strict=False))
    }
    trained = [made(f"vgg16:{number}", [level] * 14) for number, level in enumerate(seeds, 1)]
    return Sizes(base.cast, base.signatures | changed, "VGGs", trained)


def test_figure_14_holds_for_networks_as_the_paper_says() -> None:
    checks = FIGURE_14.judge(depths((0.72, 0.73, 0.73, 0.74)))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "levels", "told"),
    [
        ("one signature", (0.2, 0.8, 0.2, 0.8), FAILS),
        ("one signature", (0.72, 0.73, 0.73, 0.85), WEAKLY),
        ("another seed", (0.6, 0.7, 0.8, 0.9), FAILS),
        ("another seed", (0.72, 0.73, 0.74, 0.8), WEAKLY),
        ("median", (0.72, 0.73, 0.74, 0.85), FAILS),
        ("median", (0.72, 0.73, 0.74, 0.79), WEAKLY),
    ],
)
def test_figure_14_notices_networks_that_are_otherwise(
    words: str, levels: Sequence[float], told: str
) -> None:
    assert verdict(FIGURE_14.judge(depths(levels)), words) == told


def test_figure_14_leaves_claims_untried_without_their_networks() -> None:
    assert (
        verdict(FIGURE_14.judge(depths((0.7, 0.7, 0.7, 0.7), seeds=())), "another seed") == UNTESTED
    )
    none = depths((), gone=("VGGs",))
    assert {check.verdict for check in FIGURE_14.judge(none)} == {UNTESTED}
    assert FIGURE_14.draw(none) == {}
    cast = ZOO.only(ZOO.names("VGGs"))
    alone = Sizes(cast, lineup(cast=cast).signatures, "VGGs")
    assert [check.verdict for check in FIGURE_14.judge(alone)] == [UNTESTED, UNTESTED, HOLDS]


def test_figure_14_draws_all_depths_the_shallowest_first() -> None:
    found = depths((0.72, 0.73, 0.73, 0.74))
    (drawn,) = FIGURE_14.draw(found).values()
    assert list(dict.fromkeys(row["network"] for row in drawn.table)) == ZOO.names("VGGs")
    assert [row["score"] for row in drawn.table if row["network"] == "sigmascope/vgg19:1"] == [
        0.74
    ] * 16


# Figure 15


def residual(*values: tuple[float, float], count: int = 3) -> Sizes:
    cast = ZOO.only(ZOO.names("ResNets")[:count])
    found = {
        name: blocks(name, 6 + 3 * number, *values[number])
        for number, name in enumerate(cast.names())
    }
    return Sizes(cast, found, "ResNets", [blocks("resnet20:1", 6, *values[0])])


def test_figure_15_holds_for_networks_as_the_paper_says() -> None:
    checks = FIGURE_15.judge(residual((0.7, 0.9), (0.68, 0.93), (0.65, 0.97)))
    assert {check.verdict for check in checks} == {HOLDS}, checks


@pytest.mark.parametrize(
    ("words", "values", "told"),
    [
        ("gap", ((0.6, 0.9), (0.7, 0.9), (0.7, 0.95)), FAILS),
        ("gap", ((0.7, 0.9), (0.6, 0.9), (0.7, 0.95)), WEAKLY),
        ("approaches 1", ((0.7, 0.95), (0.7, 0.94), (0.7, 0.93)), FAILS),
        ("approaches 1", ((0.7, 0.9), (0.7, 0.91), (0.7, 0.92)), WEAKLY),
        ("apart", ((0.7, 0.9), (0.7, 0.9), (0.7, 0.7)), FAILS),
        ("apart", ((0.7, 0.9), (0.7, 0.9), (0.7, 0.716)), WEAKLY),
    ],
)
def test_figure_15_notices_networks_that_are_otherwise(
    words: str, values: Sequence[tuple[float, float]], told: str
) -> None:
    assert verdict(FIGURE_15.judge(residual(*values)), words) == told


def test_the_end_of_a_block_is_found_in_both_kinds_of_resnet() -> None:
    paths = ["relu", *["layer1.0.relu"] * 3, *["layer1.1.relu"] * 3]
    theirs = made("torchvision/resnet50", [0.5] * 7, paths, [0, 0, 1, 2, 0, 1, 2])
    assert places.places_in(theirs) == [
        places.STEM,
        *[places.INSIDE, places.INSIDE, places.END] * 2,
    ]
    named = {"act1": places.INSIDE, "act2": places.END}
    assert places.places_in(BASE)[1:] == [
        named[site.path.rpartition(".")[2]] for site in BASE.sites[1:]
    ]
    one = places.by_place(BASE)
    assert float((one[places.END][:, None] > one[places.INSIDE]).mean()) == places.separation(BASE)


def test_figure_15_leaves_claims_untried_without_two_depths() -> None:
    one = residual((0.7, 0.95), count=1)
    assert [check.verdict for check in FIGURE_15.judge(one)] == [UNTESTED, UNTESTED, HOLDS]
    rest = without("ResNets")
    none = Sizes(rest.cast, rest.signatures, "ResNets")
    assert {check.verdict for check in FIGURE_15.judge(none)} == {UNTESTED}
    assert FIGURE_15.draw(none) == {}


def test_figure_15_draws_places() -> None:
    found = residual((0.7, 0.9), (0.68, 0.93), (0.65, 0.97))
    (drawn,) = FIGURE_15.draw(found).values()
    assert len(drawn.axes) == 3
    rows = [row for row in drawn.table if row["network"] == "sigmascope/resnet56:0"]
    assert [row["score"] for row in rows] == found.deep[-1].scores.tolist()
    assert [row["group"] for row in rows] == places.places_in(found.deep[-1])


# All


@pytest.mark.parametrize("name", ["fig5a", "fig5b", "fig5c", "fig12", "fig13", "fig14", "fig15"])
def test_the_items_say_what_was_known(name: str) -> None:
    assert prose(name).rule


@pytest.mark.parametrize(
    "name", ["fig5a", "fig5b", "fig5c", "fig11", "fig12", "fig13", "fig14", "fig15"]
)
def test_the_items_run_from_stored_signatures(name: str, tmp_path: Path) -> None:
    figure = item(name)
    results = figure.measure(Setting())
    checks = figure.judge(results)
    assert overall(checks) != UNTESTED
    assert len({check.claim for check in checks}) == len(checks)
    for part, drawn in figure.draw(results).items():
        assert drawn.table
        assert drawn.save(tmp_path / f"{part or 'only'}.png").exists()
