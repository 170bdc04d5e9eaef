"""The items of the paper on symmetries: rules that can hold, weakly hold and fail, and
drawings that show the numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sigmascope as sg
from sigmascope.errors import FileFormatError, InputError, ResumeError
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY, Check
from sigmascope_papers.run import load_outcome, reproduce
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import arithmetic, similarities
from sigmascope_papers.symmetry.plans import RESNET18_LAYERS
from sigmascope_papers.symmetry.similarities import (
    GROUPS,
    MYRTLE,
    RESNET18,
    RESNET20,
    WIDE,
    Pairs,
    Subject,
    file_name,
    pairs_of,
    similarity,
)
from sigmascope_papers.symmetry.similarity_items import ITEMS, MATRICES, NUMBERS, Widths
from sigmascope_papers.symmetry.similarity_rules import CKA_LIMITS, PROCRUSTES_LIMITS
from tests.papers.staged import verdicts

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "papers/src/sigmascope_papers/results"
FOUR_PAIRS: list[tuple[str, Subject, str]] = [
    ("sym-table2", MYRTLE, "procrustes"),
    ("sym-fig2", MYRTLE, "cka"),
    ("sym-fig9", RESNET20, "procrustes"),
    ("sym-fig5", RESNET20, "cka"),
]
LARGER: list[tuple[str, Subject, str]] = [
    ("sym-fig10", RESNET18, "procrustes"),
    ("sym-fig11", RESNET18, "cka"),
    ("sym-table4", WIDE, "procrustes"),
    ("sym-fig16", WIDE, "cka"),
]
PAPER = {**MATRICES, **NUMBERS}


def judge(name: str, found: Any) -> list[Check]:
    return ITEMS[name].judge(found)


def told(name: str, found: Any) -> dict[str, str]:
    return verdicts(judge(name, found))


def made(
    network: str, pair: tuple[int, int], measure: str, group: str, values: np.ndarray
) -> LayerSimilarity:
    """A result with these similarities (k, k)."""
    sites = tuple(f"act{number}" for number in range(len(values)))
    return LayerSimilarity(
        measure=measure,
        group=group,
        settings={},
        networks=(f"sigmascope/{network}:{pair[0]}", f"sigmascope/{network}:{pair[1]}"),
        rows=sites,
        columns=sites,
        similarities=tuple(map(tuple, values.tolist())),
        channels=((8,) * len(values),) * 2,
        live=((8,) * len(values),) * 2,
        pairs="all",
        samples=10,
        missing=(),
    )


def staged(
    subject: Subject, measure: str, values: dict[str, np.ndarray], noise: float = 0.001
) -> Pairs:
    """Pairs with these similarities, group -> (k, k), which differ a little from pair to pair."""
    found = {}
    for group, matrix in values.items():
        shifts = noise * (np.arange(len(subject.pairs)) - (len(subject.pairs) - 1) / 2)
        found[group] = tuple(
            made(subject.network, pair, measure, group, matrix + shift)
            for pair, shift in zip(subject.pairs, shifts, strict=True)
        )
    return Pairs(subject.layers, found)


def banded(diagonal: np.ndarray, *, step: float = 0.05) -> np.ndarray:
    """A matrix with this diagonal that falls away from it."""
    k = len(diagonal)
    least = np.minimum.outer(diagonal, diagonal)
    return least - step * np.abs(np.subtract.outer(np.arange(k), np.arange(k)))


def myrtle_procrustes(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {
        group: banded(np.array(list(PAPER["sym-table2"][group].values())) + shift)
        for group in GROUPS
    }


def myrtle_cka(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {group: np.array(PAPER["sym-fig2"][group]) + shift for group in GROUPS}


def resnet(outer: dict[str, np.ndarray], inner: dict[str, float]) -> dict[str, np.ndarray]:
    """Similarities at the ends of blocks, and all of those inside alike."""
    diagonals = {group: np.full(19, inner[group]) for group in GROUPS}
    for group in GROUPS:
        diagonals[group][::2] = outer[group]
    return {group: banded(diagonal) for group, diagonal in diagonals.items()}


def resnet_procrustes(shift: float = 0.0) -> dict[str, np.ndarray]:
    outer = {group: np.array(list(PAPER["sym-fig9"][group].values())) + shift for group in GROUPS}
    return resnet(outer, {"relu": 0.45 + shift, "orthogonal": 0.52 + shift})


def resnet_cka(shift: float = 0.0) -> dict[str, np.ndarray]:
    outer = {group: np.linspace(*PAPER["sym-fig5"][group].values(), 10) + shift for group in GROUPS}
    return resnet(outer, {"relu": 0.3 + shift, "orthogonal": 0.6 + shift})


def resnet18(name: str, fill: dict[str, float], shift: float) -> dict[str, np.ndarray]:
    """The known numbers on the diagonal, others between or, inside blocks, as told."""
    values = {}
    for group in GROUPS:
        known = PAPER[name][group]
        ends = [place for place in range(0, 17, 2) if RESNET18.layers[place] in known]
        diagonal = np.full(17, fill[group])
        diagonal[::2] = np.interp(
            np.arange(0, 17, 2), ends, [known[RESNET18.layers[place]] for place in ends]
        )
        for layer in known:
            diagonal[RESNET18.layers.index(layer)] = known[layer]
        values[group] = banded(diagonal + shift)
    return values


def resnet18_procrustes(shift: float = 0.0) -> dict[str, np.ndarray]:
    return resnet18("sym-fig10", {"relu": 0.45, "orthogonal": 0.5}, shift)


def resnet18_cka(shift: float = 0.0) -> dict[str, np.ndarray]:
    return resnet18("sym-fig11", {"relu": 0.4, "orthogonal": 0.8}, shift)


def wide_procrustes(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {
        group: banded(np.array(list(PAPER["sym-table4"][group].values())) + shift)
        for group in GROUPS
    }


def wide_cka(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {group: np.array(PAPER["sym-fig16"][group]) + shift for group in GROUPS}


MADE = {
    "sym-table2": myrtle_procrustes,
    "sym-fig2": myrtle_cka,
    "sym-fig9": resnet_procrustes,
    "sym-fig5": resnet_cka,
    "sym-fig10": resnet18_procrustes,
    "sym-fig11": resnet18_cka,
    "sym-table4": wide_procrustes,
    "sym-fig16": wide_cka,
}


def results(name: str, pairs: Pairs) -> Any:
    """What the item judges; Figure 16 also has networks of growing width."""
    return Widths(pairs, staged(MYRTLE, "cka", myrtle_cka())) if name == "sym-fig16" else pairs


def thinned(pairs: Pairs, layer: str, live: int) -> Pairs:
    """The same with so many live channels of 512 in a layer of all networks."""
    at = pairs.layers.index(layer)
    sides = tuple(
        tuple(live if place == at else 512 for place in range(len(pairs.layers))) for _ in range(2)
    )
    full = ((512,) * len(pairs.layers),) * 2
    found = {
        group: tuple(replace(one, channels=full, live=(sides[0], sides[1])) for one in ones)
        for group, ones in pairs.found.items()
    }
    return replace(pairs, found=found)


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS + LARGER)
def test_the_papers_own_numbers_hold(name: str, subject: Subject, measure: str) -> None:
    pairs = staged(subject, measure, MADE[name]())
    if name == "sym-fig10":
        pairs = thinned(pairs, "70*", 3)
    found = verdicts(judge(name, results(name, pairs)))
    assert {claim for claim, verdict in found.items() if verdict != HOLDS} == set()


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS + LARGER)
def test_numbers_off_weakly_hold_and_then_fail(name: str, subject: Subject, measure: str) -> None:
    near, far = CKA_LIMITS if measure == "cka" else PROCRUSTES_LIMITS
    numbers = MADE[name]
    seen = []
    for shift in (0.9 * near, (near + far) / 2, 1.1 * far):
        found = verdicts(judge(name, results(name, staged(subject, measure, numbers(-shift)))))
        seen.append(
            {
                verdict
                for claim, verdict in found.items()
                if "group, layers" in claim and "inside" not in claim
            }
        )
    assert seen == [{HOLDS}, {WEAKLY}, {FAILS}]


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS)
def test_the_other_group_lower_fails(name: str, subject: Subject, measure: str) -> None:
    claim = "the relu group finds layers less alike than the orthogonal one"
    values = MADE[name]()
    exchanged = {"relu": values["orthogonal"], "orthogonal": values["relu"]}
    assert verdicts(judge(name, staged(subject, measure, exchanged)))[claim] == FAILS
    pairs = staged(subject, measure, values)
    one = replace(pairs.found["relu"][0], similarities=pairs.found["orthogonal"][0].similarities)
    # one pair of four
    mixed = replace(pairs, found={**pairs.found, "relu": (one, *pairs.found["relu"][1:])})
    assert verdicts(judge(name, mixed))[claim] == WEAKLY


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS)
def test_a_pair_without_a_similarity_does_not_hold(
    name: str, subject: Subject, measure: str
) -> None:
    values = MADE[name]()
    values["relu"][0, 0] = math.nan
    found = verdicts(judge(name, staged(subject, measure, values)))
    assert found["the relu group finds layers less alike than the orthogonal one"] == FAILS
    assert any(
        verdict == FAILS
        for claim, verdict in found.items()
        if claim.startswith("relu group, layers")
    )


def test_table_2_notices_the_shape_and_the_spread() -> None:
    diagonals = {group: np.array([0.6, 0.5, 0.7, 0.4]) for group in GROUPS}
    turned = {group: banded(diagonal) for group, diagonal in diagonals.items()}
    found = told("sym-table2", staged(MYRTLE, "procrustes", turned))
    assert found["relu group: similarity falls over the first three layers"] == FAILS
    assert found["relu group: it rises again at the last layer"] == FAILS
    bent = {group: banded(np.array([0.6, 0.61, 0.5, 0.52])) for group in GROUPS}
    found = told("sym-table2", staged(MYRTLE, "procrustes", bent))
    assert found["orthogonal group: similarity falls over the first three layers"] == WEAKLY
    spreads = [
        told("sym-table2", staged(MYRTLE, "procrustes", myrtle_procrustes(), noise))[
            "pairs differ little"
        ]
        for noise in (0.01, 0.05, 0.1)
    ]
    assert spreads == [HOLDS, WEAKLY, FAILS]


@pytest.mark.parametrize(
    ("last", "verdict"), [(0.43, HOLDS), (0.76, WEAKLY), (0.83, FAILS), (0.9, FAILS)]
)
def test_a_decay_that_is_not_faster_fails(last: float, verdict: str) -> None:
    values = myrtle_cka()
    values["relu"][3, 3] = last  # from 0.84, where the orthogonal group goes from 0.98 to 0.93
    found = told("sym-fig2", staged(MYRTLE, "cka", values))
    assert found["by the relu group similarity decays faster with depth"] == verdict


def test_layers_that_are_like_others_fail() -> None:
    claim = "orthogonal group: layers are most like those at their own place"
    assert told("sym-fig2", staged(MYRTLE, "cka", myrtle_cka()))[claim] == HOLDS
    one, all_ = myrtle_cka(), myrtle_cka()
    one["orthogonal"][0, 1] = 0.99  # a row and a column
    all_["orthogonal"] = all_["orthogonal"][::-1]
    assert told("sym-fig2", staged(MYRTLE, "cka", one))[claim] == WEAKLY
    assert told("sym-fig2", staged(MYRTLE, "cka", all_))[claim] == FAILS


@pytest.mark.parametrize(("name", "measure"), [("sym-fig9", "procrustes"), ("sym-fig5", "cka")])
def test_layers_inside_of_blocks_can_be_more_alike(name: str, measure: str) -> None:
    claim = "relu group: layers inside residual blocks are less alike than those at their ends"
    outer = {group: np.full(10, 0.6) for group in GROUPS}
    seen = []
    for some in (1, 3, 9):
        values = resnet(outer, dict.fromkeys(GROUPS, 0.4))
        for matrix in values.values():
            places = np.arange(1, 2 * some, 2)
            matrix[places, places] = 0.65
        seen.append(verdicts(judge(name, staged(RESNET20, measure, values)))[claim])
    assert seen == [HOLDS, WEAKLY, FAILS]


def test_figure_9_compares_the_orders_and_the_range_inside() -> None:
    values = resnet_procrustes()
    order = np.random.default_rng(0).permutation(19)
    shuffled = {**values, "relu": banded(values["relu"].diagonal()[order])}
    found = told("sym-fig9", staged(RESNET20, "procrustes", shuffled))
    assert found["both groups order the layers alike"] == FAILS
    seen = []
    for inner in (0.38, 0.34, 0.3):
        outer = {group: np.array(list(PAPER["sym-fig9"][group].values())) for group in GROUPS}
        pairs = staged(RESNET20, "procrustes", resnet(outer, {"relu": inner, "orthogonal": 0.52}))
        seen.append(told("sym-fig9", pairs)["relu group, layers inside"])
    assert seen == [HOLDS, WEAKLY, FAILS]


def test_live_channels_alone_are_what_the_other_normaliser_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = torch.rand(2, 200, 9, generator=generator)
    one[:, 4:], other[:, 6:] = 0, 0
    authors, live = (
        sg.symmetry.procrustes(one, other, normaliser=normaliser)
        for normaliser in ("authors", "live")
    )
    found = made("made", (0, 1), "procrustes", "relu", np.array([[authors.similarity]]))
    found = replace(found, channels=((9,), (9,)), live=((authors.live[0],), (authors.live[1],)))
    pairs = Pairs(("1",), {"relu": (found,)})
    assert authors.live == (4, 6)
    assert pairs.by_live_channels() == pytest.approx(np.array([[live.similarity]]))
    assert live.similarity < authors.similarity - 0.1
    dead = replace(found, similarities=((math.nan,),), live=((0,), (0,)))
    assert np.isnan(Pairs(("1",), {"relu": (dead,)}).by_live_channels()).all()


@pytest.mark.parametrize(
    ("live", "verdict"), [(2, HOLDS), (4, HOLDS), (8, WEAKLY), (20, FAILS), (512, FAILS)]
)
def test_figure_10_asks_whether_dead_channels_explain_layer_70(live: int, verdict: str) -> None:
    claim = "ours: layer 70* is more alike by the relu group because of channels without output"
    # 0.98, orthogonal 0.73
    pairs = thinned(staged(RESNET18, "procrustes", resnet18_procrustes()), "70*", live)
    (check,) = [one for one in judge("sym-fig10", pairs) if one.claim == claim]
    assert check.verdict == verdict
    assert (
        f"{live} to {live} of 512 channels are live; by all 0.98, by these "
        f"{1 - 0.02 * math.sqrt(512 / live):.2f}" in check.obtained
    )


@pytest.mark.parametrize("value", [0.6, 0.75, math.nan])  # orthogonal 0.73
def test_figure_10_explains_nothing_where_layer_70_is_like_the_others(value: float) -> None:
    values = resnet18_procrustes()
    values["relu"][15, 15] = value
    found = told("sym-fig10", thinned(staged(RESNET18, "procrustes", values), "70*", 3))
    assert (
        found["ours: layer 70* is more alike by the relu group because of channels without output"]
        == UNTESTED
    )
    assert found["layers 60* and 70* are more alike by the relu group"] == (
        WEAKLY if value > 0.73 else FAILS
    )
    assert found["relu group, layers 60* and 70*"] == FAILS


def test_figure_10_notices_the_shape() -> None:
    falls = "relu group: similarity falls over three stages and rises in the fourth"
    below = "at the ends of blocks the relu group finds layers less alike than the orthogonal one"
    stand = "layers 60* and 70* are more alike by the relu group"
    seen = []
    for low, count, more in ((0.52, 0, 0.2), (0.6, 2, 0.05), (0.65, 3, -0.1)):  # from 0.62 to 0.69
        values = resnet18_procrustes()
        relu, orthogonal = values["relu"], values["orthogonal"]
        relu[12, 12] = low
        orthogonal[12, 12] = 0.7
        places = np.arange(0, 2 * count, 2)
        relu[places, places] = orthogonal[places, places] + 0.01
        relu[0, 0] = 0.62
        orthogonal[0, 0] = 0.61 if count else 0.75
        relu[15, 15] = orthogonal[15, 15] + more
        found = told("sym-fig10", staged(RESNET18, "procrustes", values))
        seen.append((found[falls], found[below], found[stand]))
    assert seen == [(HOLDS,) * 3, (WEAKLY,) * 3, (FAILS,) * 3]


@pytest.mark.parametrize("group", GROUPS)
def test_figure_11_wants_layer_70_below_its_neighbors(group: str) -> None:
    claim = f"{group} group: layer 70*, inside the last block, is unlike itself"
    last = PAPER["sym-fig11"][group]["73"]
    seen = []
    for odd in (PAPER["sym-fig11"][group]["70*"], last - 0.03, last + 0.005, math.nan):
        values = resnet18_cka()
        values[group][15, 15] = odd
        found = told("sym-fig11", staged(RESNET18, "cka", values))
        seen.append(found[claim])
        # but there
        assert found["the relu group finds layers less alike than the orthogonal one"] == HOLDS
    assert seen == [HOLDS, WEAKLY, FAILS, FAILS]


def test_figure_16_compares_the_widths() -> None:
    decay, alike = (
        "the decay by the relu group is not due to width",
        "relu group: constant width gives what growing width gives",
    )
    seen = []
    for last in (0.44, 0.58, 0.75, math.nan):  # from 0.84; at growing width to 0.43
        values = wide_cka()
        values["relu"][3, 3] = last
        found = told("sym-fig16", results("sym-fig16", staged(WIDE, "cka", values)))
        seen.append((found[decay], found[alike]))
    assert seen == [(HOLDS, HOLDS), (WEAKLY, WEAKLY), (FAILS, FAILS), (FAILS, FAILS)]
    without = Widths(
        staged(WIDE, "cka", wide_cka()),
        staged(MYRTLE, "cka", {group: np.eye(4) for group in GROUPS}),
    )
    # nothing decays that could be due to anything
    assert told("sym-fig16", without)[decay] == FAILS


def test_table_4_notices_which_group_is_above_and_the_spread() -> None:
    above = (
        "the relu group finds layers 6 and 10 more alike, 3 and 14 less alike than the "
        "orthogonal one"
    )
    seen = []
    for orthogonal in (
        (0.846, 0.6735, 0.5409, 0.605),
        (0.846, 0.77, 0.5409, 0.605),
        (0.846, 0.77, 0.6, 0.605),
    ):
        values = wide_procrustes() | {"orthogonal": banded(np.array(orthogonal))}
        seen.append(told("sym-table4", staged(WIDE, "procrustes", values))[above])
    assert seen == [HOLDS, WEAKLY, FAILS]
    spreads = [
        told("sym-table4", staged(WIDE, "procrustes", wide_procrustes(), noise))[
            "pairs differ little"
        ]
        for noise in (0.01, 0.03, 0.05)
    ]
    assert spreads == [HOLDS, WEAKLY, FAILS]
    rising = wide_procrustes() | {"relu": banded(np.array([0.8, 0.7, 0.5, 0.6]))}
    found = told("sym-table4", staged(WIDE, "procrustes", rising))
    assert found["relu group: similarity falls over all layers"] == WEAKLY


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS + LARGER)
def test_one_pair_and_pairs_without_numbers_are_judged_and_drawn(
    name: str, subject: Subject, measure: str
) -> None:
    one = replace(subject, pairs=subject.pairs[:1])
    values = MADE[name]()
    nothing = {group: np.full_like(matrix, math.nan) for group, matrix in values.items()}
    assert all(
        "±" not in check.obtained
        for check in judge(name, results(name, staged(one, measure, values)))
    )
    told = verdicts(judge(name, results(name, staged(subject, measure, nothing))))
    assert set(told.values()) <= {FAILS, UNTESTED}
    for numbers in (values, nothing):
        assert all(
            drawn.table
            for drawn in ITEMS[name].draw(results(name, staged(one, measure, numbers))).values()
        )


# Drawings


@pytest.mark.parametrize(
    ("name", "subject"),
    [("sym-table2", MYRTLE), ("sym-fig9", RESNET20), ("sym-fig10", RESNET18), ("sym-table4", WIDE)],
)
def test_the_curves_show_means_and_the_papers_numbers(name: str, subject: Subject) -> None:
    pairs = staged(subject, "procrustes", MADE[name](0.02))
    drawn = ITEMS[name].draw(pairs)[""]
    for group in GROUPS:
        rows = [row for row in drawn.table if row["curve"] == f"{group} group"]
        assert [row["layer"] for row in rows] == list(subject.layers)
        np.testing.assert_allclose(
            [row["mean"] for row in rows], pairs.same_place(group).mean(axis=0)
        )
        np.testing.assert_allclose(
            [row["std"] for row in rows], pairs.same_place(group).std(axis=0)
        )
        paper = {
            row["layer"]: row["mean"]
            for row in drawn.table
            if row["curve"] == f"{group} group, the paper's"
        }
        assert paper == PAPER[name][group]
    assert drawn.axes[0].get_ylabel() == "Procrustes similarity"
    assert [label.get_text() for label in drawn.axes[-1].get_xticklabels()] == list(subject.layers)
    lines = {line.get_label(): line.get_ydata() for line in drawn.axes[0].get_lines()}
    for group in GROUPS:
        np.testing.assert_allclose(lines[f"{group} group"], pairs.same_place(group).mean(axis=0))
        np.testing.assert_allclose(
            lines[f"{group} group, the paper's"], list(PAPER[name][group].values())
        )
    curves = [label for label in lines if not label.startswith("_") and "paper" not in label]
    # one pair has no deviation
    assert len(drawn.axes[0].containers) == (len(curves) if len(subject.pairs) > 1 else 0)


def test_live_channels_are_drawn() -> None:
    pairs = thinned(staged(RESNET18, "procrustes", resnet18_procrustes()), "70*", 32)
    drawn = ITEMS["sym-fig10"].draw(pairs)[""]
    curves = {
        line.get_label(): line.get_ydata() for panel in drawn.axes for line in panel.get_lines()
    }
    np.testing.assert_allclose(
        curves["relu group, live channels only"], pairs.by_live_channels()[0]
    )
    at = RESNET18.layers.index("70*")
    np.testing.assert_allclose(
        curves["share of live channels"], np.where(np.arange(17) == at, 32 / 512, 1)
    )
    rows = {
        row["layer"]: row["mean"]
        for row in drawn.table
        if row["curve"] == "relu group, live channels only"
    }
    assert rows["70*"] == pytest.approx(1 - 0.02 * math.sqrt(512 / 32))
    assert rows["73"] == pytest.approx(0.69)  # nothing is dead there


@pytest.mark.parametrize(
    ("name", "subject"),
    [("sym-fig2", MYRTLE), ("sym-fig5", RESNET20), ("sym-fig11", RESNET18), ("sym-fig16", WIDE)],
)
def test_the_maps_show_the_mean_matrices(name: str, subject: Subject) -> None:
    pairs = staged(subject, "cka", MADE[name]())
    drawn = ITEMS[name].draw(results(name, pairs))[""]
    for panel, group in zip(drawn.axes, GROUPS, strict=True):
        mean = pairs.matrices(group).mean(axis=0)
        np.testing.assert_allclose(
            [row["similarity"] for row in drawn.table if row["group"] == group], mean.ravel()
        )
        np.testing.assert_allclose(panel.images[0].get_array(), mean)
        assert group in panel.get_title()


def test_figure_16_draws_the_decay_at_both_widths() -> None:
    widths = Widths(staged(WIDE, "cka", wide_cka(), 0.02), staged(MYRTLE, "cka", myrtle_cka()))
    drawn = ITEMS["sym-fig16"].draw(widths)["decay"]
    for panel, group in zip(drawn.axes, GROUPS, strict=True):
        lines = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
        for name, pairs in zip(("constant width", "growing width"), widths, strict=True):
            np.testing.assert_allclose(lines[name], pairs.same_place(group).mean(axis=0))
            rows = [row for row in drawn.table if (row["group"], row["curve"]) == (group, name)]
            np.testing.assert_allclose(
                [row["std"] for row in rows], pairs.same_place(group).std(axis=0)
            )
        np.testing.assert_allclose(
            lines["constant width, the paper's"], np.diagonal(PAPER["sym-fig16"][group])
        )
        assert panel.get_title() == f"{group} group"


# Stored and measured results


def store(folder: Path, subject: Subject, measure: str, values: dict[str, np.ndarray]) -> None:
    (folder / "similarities").mkdir(parents=True, exist_ok=True)
    for group, matrix in values.items():
        for pair in subject.pairs:
            one = made(subject.network, pair, measure, group, matrix)
            one.save(folder / "similarities" / file_name(subject.network, pair, measure, group))


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS + LARGER)
def test_an_item_runs_from_what_is_stored(
    name: str, subject: Subject, measure: str, tmp_path: Path
) -> None:
    store(tmp_path / "zoo", subject, measure, MADE[name]())
    store(tmp_path / "zoo", MYRTLE, "cka", myrtle_cka())  # which Figure 16 also wants
    outcome = reproduce(name, tmp_path / "out", setting=Setting(results=tmp_path / "zoo"))
    assert outcome == load_outcome(tmp_path / "out" / f"{name}.json")
    assert outcome.figures == ((name, f"{name}-decay") if name == "sym-fig16" else (name,))
    assert outcome.verdict == HOLDS


@pytest.mark.parametrize("name", ["sym-table2", "sym-fig5"])
def test_an_item_runs_in_a_tiny_size_without_the_zoo(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path / "no zoo"))
    outcome = reproduce(name, tmp_path, setting=Setting(smoke=True, progress=False))
    assert {check.verdict for check in outcome.checks} == {UNTESTED}
    assert all((tmp_path / f"{figure}.svg").is_file() for figure in outcome.figures)
    assert not (tmp_path / "similarities").exists()


@pytest.mark.parametrize(("name", "subject", "measure"), FOUR_PAIRS + LARGER)
def test_the_items_run_from_the_zoo(name: str, subject: Subject, measure: str) -> None:
    found = ITEMS[name].measure(Setting(results=FOLDER))
    for pairs in found if name == "sym-fig16" else [found]:
        assert {one.samples for ones in pairs.found.values() for one in ones} == {
            similarities.IMAGES
        }
    assert judge(name, found)
    assert all(drawn.table for drawn in ITEMS[name].draw(found).values())


def test_what_is_not_stored_is_named(tmp_path: Path) -> None:
    told = r"myrtle-0-1-procrustes-relu\.json is missing\. .*--from-scratch"
    with pytest.raises(InputError, match=told):
        ITEMS["sym-table2"].measure(Setting(results=tmp_path))


def test_the_other_papers_networks_are_refused() -> None:
    with pytest.raises(InputError, match=r"networks of the zoo only\. Leave out --weights"):
        similarity(Setting(weights="none", data="random"), "myrtle", (0, 1), "cka", "relu")


def test_a_result_under_another_name_is_refused(tmp_path: Path) -> None:
    store(tmp_path, MYRTLE, "cka", myrtle_cka())
    folder = tmp_path / "similarities"
    (folder / "myrtle-0-1-cka-relu.json").replace(folder / "myrtle-0-1-cka-orthogonal.json")
    with pytest.raises(
        ResumeError, match=r"belongs to another run: group is 'relu' there and 'orthogonal' here"
    ):
        similarity(Setting(results=tmp_path), "myrtle", (0, 1), "cka", "orthogonal")


def test_other_layers_are_refused(tmp_path: Path) -> None:
    store(tmp_path, MYRTLE, "cka", {group: np.eye(3) for group in GROUPS})
    with pytest.raises(
        InputError,
        match=r"sigmascope/myrtle:0 and sigmascope/myrtle:1: expected 4 layers, got 3 and 3",
    ):
        pairs_of(Setting(results=tmp_path), MYRTLE, "cka")


@pytest.fixture
def few_images(tmp_path: Path) -> str:
    """A folder of data sets with a few of the images that the package carries, under the name of
    CIFAR-10.
    """
    images, labels = next(iter(sg.catalog.data("embedded", batch_size=12)))
    (tmp_path / "cifar10").mkdir()
    np.save(tmp_path / "cifar10" / "test_images.npy", images.numpy().astype(np.uint8))
    np.save(tmp_path / "cifar10" / "test_labels.npy", labels.numpy())
    return str(tmp_path)


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_from_scratch_networks_are_compared_once(
    measure: str, few_images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(ROOT / "zoo"))
    setting = Setting(
        from_scratch=True, data_root=few_images, keep=tmp_path / "kept", progress=False
    )
    found = similarity(setting, "resnet20", (0, 1), measure, "relu")
    assert (found.samples, found.networks) == (
        12,
        ("sigmascope/resnet20:0", "sigmascope/resnet20:1"),
    )
    assert found.similarity.shape == (len(RESNET20.layers),) * 2
    (kept,) = (tmp_path / "kept" / "similarities").iterdir()
    assert kept.name == f"resnet20-0-1-{measure}-relu.json"
    before = kept.stat().st_mtime_ns
    assert similarity(setting, "resnet20", (0, 1), measure, "relu") == found
    assert kept.stat().st_mtime_ns == before
    monkeypatch.setattr(similarities, "compared", lambda *args, **options: found)
    # kept nowhere
    assert similarity(replace(setting, keep=None), "resnet20", (2, 3), measure, "relu") == found


def test_from_scratch_the_images_must_be_there(tmp_path: Path) -> None:
    setting = Setting(from_scratch=True, data_root=str(tmp_path), progress=False)
    with pytest.raises(InputError, match=r"expected cifar10/test_images\.npy"):
        similarity(setting, "resnet20", (0, 0), "cka", "relu")


def test_the_papers_names_are_the_places_of_relu_among_the_modules() -> None:
    assert RESNET20.layers[:4] == ("3", "8*", "11", "16*")
    assert RESNET20.layers[-2:] == ("72*", "75")
    assert len(RESNET20.layers) == 19
    assert [name.endswith("*") for name in RESNET20.layers] == [
        number % 2 == 1 for number in range(19)
    ]
    assert RESNET18.layers == tuple(RESNET18_LAYERS.values())
    assert WIDE.layers == MYRTLE.layers


@pytest.mark.parametrize("network", ["resnet18", "myrtle-wide"])
def test_weights_that_are_not_in_the_repository_are_missed(
    network: str, few_images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path / "no zoo"))
    setting = Setting(from_scratch=True, data_root=few_images, progress=False)
    with pytest.raises(InputError, match=r"zoo/README\.md says how it is trained"):
        similarity(setting, network, (0, 1), "cka", "relu")


def test_what_is_damaged_or_foreign_is_refused(tmp_path: Path) -> None:
    store(tmp_path, RESNET18, "procrustes", resnet18_procrustes())
    place = tmp_path / "similarities" / "resnet18-0-1-procrustes-relu.json"
    whole = place.read_text()
    place.write_text(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"resnet18-0-1-procrustes-relu\.json"):
        ITEMS["sym-fig10"].measure(Setting(results=tmp_path))
    place.write_text(whole.replace("layer-similarity", "signature"))
    with pytest.raises(FileFormatError, match=r"resnet18-0-1-procrustes-relu\.json"):
        ITEMS["sym-fig10"].measure(Setting(results=tmp_path))
    place.unlink()
    with pytest.raises(InputError, match=r"resnet18-0-1-procrustes-relu\.json is missing"):
        ITEMS["sym-fig10"].measure(Setting(results=tmp_path))


# What needs no networks


def test_figure_17_holds_and_fails() -> None:
    found = arithmetic.ITEMS["sym-fig17"].measure(Setting())
    assert set(verdicts(arithmetic.ITEMS["sym-fig17"].judge(found)).values()) == {HOLDS}
    broken = {
        "GELU and ReLU differ near 0 only": replace(found, gelu=1.01 * found.gelu),
        "GELU is homogeneous for λ = 1 only": replace(found, at_one=1e-3),
        "10⁵ samples give ξ": replace(found, sampled=1.03 * found.sampled),
        "asymptotic slope, as printed": replace(found, slope=0.128),
        "ξ(λ)/λ at λ = 10⁶": replace(found, far=0.1268),
    }
    for claim, one in broken.items():
        assert verdicts(arithmetic.ITEMS["sym-fig17"].judge(one))[claim] == FAILS, claim
    # right as printed, wrong in the ninth digit
    near = verdicts(arithmetic.ITEMS["sym-fig17"].judge(replace(found, slope=0.1267538549)))
    assert (near["asymptotic slope, as printed"], near["asymptotic slope, to ten digits"]) == (
        HOLDS,
        FAILS,
    )


def test_figure_17_draws_what_was_computed() -> None:
    found = arithmetic.ITEMS["sym-fig17"].measure(Setting())
    drawn = arithmetic.ITEMS["sym-fig17"].draw(found)[""]
    for name, values in (
        ("ξ by quadrature", found.quadrature),
        ("ξ from 10⁵ samples", found.sampled),
        ("GELU", found.gelu),
    ):
        np.testing.assert_array_equal(
            [row["value"] for row in drawn.table if row["curve"] == name], values
        )
    at = int(np.argmax(found.quadrature[:500]))
    # the bump below 1, computed independently
    assert found.quadrature[at] == pytest.approx(0.0725675, abs=1e-6)
    assert arithmetic.SCALES[at] == pytest.approx(0.38884, abs=2e-3)


def test_the_capacities_hold_and_fail() -> None:
    found = arithmetic.ITEMS["sym-capacity"].measure(Setting())
    assert set(verdicts(arithmetic.ITEMS["sym-capacity"].judge(found)).values()) == {HOLDS}
    assert found["fine"][64, 1].difference == pytest.approx(-898.3, abs=0.05)
    assert found["fine"][512, 4].difference == pytest.approx(-57651.3, abs=0.05)
    larger = found["fine"] | {(64, 7): found["fine"][64, 7]._replace(difference=1.0)}
    told = verdicts(arithmetic.ITEMS["sym-capacity"].judge(found | {"fine": larger}))
    assert (told["the group is the smaller family for every rank"], told["rank 1 is nearest"]) == (
        FAILS,
        FAILS,
    )
    off = found["fine"] | {(64, 1): found["fine"][64, 1]._replace(difference=-2000.0)}
    assert (
        verdicts(arithmetic.ITEMS["sym-capacity"].judge(found | {"fine": off}))[
            "the paper's approximation"
        ]
        == WEAKLY
    )
    exchanged = verdicts(
        arithmetic.ITEMS["sym-capacity"].judge(found | {"n": found["n/16"], "n/16": found["n"]})
    )
    assert exchanged["M/ε = n is enough"] == FAILS
    assert exchanged["M/ε = n/16 is not, so that a condition is needed"] == FAILS


def test_the_capacity_table_holds_the_numbers() -> None:
    found = arithmetic.ITEMS["sym-capacity"].measure(Setting())
    rows = arithmetic.ITEMS["sym-capacity"].draw(found)[""].table
    assert len(rows) == len(arithmetic.WIDTHS) * len(arithmetic.RANKS)
    for row in rows:
        one = found["fine"][row["n"], row["r"]]
        assert (row["log_group"], row["log_matrices"], row["difference"]) == tuple(one)
