"""Accuracy, correlations with other metrics, trainings and distances: each rule can hold and can
fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.compare.accuracy import SEARCHED, SIZES, AccuracyFit
from sigmascope.compare.correlation import Correlations
from sigmascope.runs import Run
from sigmascope_papers.cast import PAPER, ZOO
from sigmascope_papers.chance import correlation_p, numbered, p_value
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, VERDICTS, WEAKLY, Check
from sigmascope_papers.nonlinearity import accuracy
from sigmascope_papers.nonlinearity.correlated import Correlated, compare_row
from sigmascope_papers.nonlinearity.grouping import remoteness
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_1, TABLE_2
from sigmascope_papers.nonlinearity.trainings import KINDS, Criteria, Trainings, averages, groupings
from sigmascope_papers.setting import PUBLISHED, Setting
from sigmascope_papers.table import item
from tests.compare.made import made
from tests.papers.staged import Stage, staged, verdicts

NAMES = ("fig6", "claim-accuracy", "table1", "table2", "table3", "fig16", "fig17", "fig19", "fig20")
GROUPS = ZOO.groups()
FIGURE_6, CLAIM = item("fig6"), item("claim-accuracy")
TABLE1, TABLE2, TABLE3 = item("table1"), item("table2"), item("table3")
FIGURE_16, FIGURE_17, FIGURE_19, FIGURE_20 = (item(f"fig{n}") for n in (16, 17, 19, 20))


def seed_of(name: str) -> int:
    return sum(place * ord(letter) for place, letter in enumerate(name, 1))


def random_run(name: str, **options: Any) -> Run:
    generator = np.random.default_rng(seed_of(name))
    sites = int(generator.integers(8, 14))
    metrics = {metric: generator.normal(size=sites) for metric in METRICS}
    accuracy = float(generator.uniform(80, 95))
    return staged(
        name,
        generator.random(sites),
        accuracy=accuracy,
        size=float(generator.uniform(0.5, 3)),
        metrics=metrics,
    )


@pytest.fixture(autouse=True)
def _fewer_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (p_value, correlation_p):
        monkeypatch.setattr(function, "__kwdefaults__", {"draws": 999, "seed": 0})


# All of them


def untrained_run(name: str, **options: Any) -> Run:
    return replace(
        run := random_run(name), facts=replace(run.facts, accuracy=None) if run.facts else None
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cast", ["zoo", "paper", "one", "random weights"])
def test_they_run_on_every_cast(name: str, cast: str, tmp_path: Path) -> None:
    stages = {
        "zoo": Stage(random_run),
        "paper": Stage(random_run, PAPER, "default"),
        "one": Stage(random_run, ZOO.only(["sigmascope/vit:0"]), networks=("sigmascope/vit:0",)),
        "random weights": Stage(untrained_run, PAPER.only(PAPER.leads), "none", PAPER.leads),
    }
    found = item(name).measure(stages[cast])
    checks = item(name).judge(found)
    assert set(verdicts(checks).values()) <= set(VERDICTS)
    assert checks
    if cast in ("zoo", "paper"):  # many networks are drawn in tests of their own
        return
    for part, drawn in item(name).draw(found).items():
        drawn.save(tmp_path / f"{part or 'only'}.png")
        assert drawn.table


@pytest.mark.parametrize("name", NAMES)
def test_the_items_run_from_stored_signatures(name: str) -> None:
    found = item(name).measure(Setting())
    left = [check.claim for check in item(name).judge(found) if check.verdict == UNTESTED]
    assert left == (["the rows of the paper's networks"] if name == "table2" else [])
    assert item(name).draw(found)


@pytest.mark.parametrize("name", ["fig6", "claim-accuracy", "fig16", "fig17"])
def test_a_part_of_the_cast_is_enough(name: str) -> None:
    part = tuple(
        f"sigmascope/{network}:0" for network in ("resnet20", "resnet32", "resnet56", "densenet")
    )
    checks = item(name).judge(item(name).measure(Setting(networks=part)))
    assert any(check.verdict != UNTESTED for check in checks)


@pytest.mark.parametrize("name", ["table3", "fig19", "fig20"])
def test_trainings_are_of_the_zoo_only(name: str) -> None:
    with pytest.raises(sg.InputError, match="networks of the zoo only"):
        item(name).measure(Setting(weights="none", data="random"))


# Figure 6


def family(n: int = 5, **worth: tuple[float, float]) -> accuracy.Family:
    """Fits with these R², on the networks and left out; 0 and -1 for the others."""
    line = np.arange(float(n))
    names = tuple(map(str, range(n)))
    fits = {}
    for on in (*SEARCHED, *SIZES):
        r2, loo = worth.get(on, (0.0, -1.0))
        fits[on] = AccuracyFit("made", on, 1, names, line, line, (0.0, 1.0), r2, loo, 1, "")
    return accuracy.Family(fits)


FITTED = {
    "pre-residual": family(spread=(0.8, 0.6), depth=(0.75, 0.6)),
    "residual": family(spread=(0.9, 0.7), flops=(0.6, 0.3)),
    "NAS": family(spread=(0.5, 0.1), parameters=(0.9, 0.8), depth=(0.3, 0.1)),
    "ViTs": family(median=(0.9, 0.5), parameters=(0.4, 0.1)),
    "post-ViT": family(min=(0.9, 0.5), parameters=(0.4, 0.1)),
}


def judged(change: Mapping[str, accuracy.Family] | None = None) -> list[str]:
    return [check.verdict for check in FIGURE_6.judge({**FITTED, **(change or {})})]


@pytest.mark.parametrize(
    ("place", "change", "verdict"),
    [
        (0, {"residual": family(spread=(0.9, 0.2), flops=(0.6, 0.3))}, WEAKLY),
        (0, {"residual": family(spread=(0.9, -0.2), flops=(0.6, -0.3))}, WEAKLY),
        (0, {"residual": family(spread=(0.5, 0.4), flops=(0.6, 0.3))}, FAILS),
        (0, {"residual": family(3, spread=(0.9, 0.7), flops=(0.6, 0.3))}, UNTESTED),
        (1, {"ViTs": family(median=(0.3, 0.1), parameters=(0.4, 0.1))}, FAILS),
        (2, {"post-ViT": family(median=(math.nan, math.nan), parameters=(0.4, 0.1))}, FAILS),
        (3, {"NAS": family(spread=(0.5, 0.1), parameters=(0.6, 0.1), depth=(0.8, 0.6))}, WEAKLY),
        (3, {"NAS": family(spread=(0.7, 0.1), parameters=(0.6, 0.1))}, FAILS),
        (4, {"pre-residual": family(std=(0.9, 0.8), spread=(0.8, 0.6), depth=(0.75, 0.6))}, WEAKLY),
        (4, {"pre-residual": family(spread=(0.8, 0.6), depth=(0.3, 0.1))}, FAILS),
        (4, {"pre-residual": family(spread=(0.08, 0.0), depth=(0.03, 0.0))}, FAILS),
        (5, {"NAS": family(max=(0.6, 0.4), parameters=(0.9, 0.8))}, WEAKLY),
        (5, {"NAS": family(max=(0.6, 0.4)), "residual": family(max=(0.6, 0.4))}, FAILS),
        (5, {"NAS": family(2, spread=(0.6, 0.4))}, UNTESTED),
        (6, {"ViTs": family(spread=(0.9, 0.5), parameters=(0.4, 0.1))}, FAILS),
    ],
)
def test_figure_6_judges(place: int, change: Mapping[str, accuracy.Family], verdict: str) -> None:
    assert judged() == [HOLDS] * 7
    assert judged(change)[place] == verdict


def test_figure_6_says_what_is_missing() -> None:
    checks = FIGURE_6.judge({name: one for name, one in FITTED.items() if name != "ViTs"})
    assert [check.verdict for check in checks].count(UNTESTED) == 2
    assert "not among the networks" in checks[1].obtained


def test_figure_6_draws_the_fits_it_judges() -> None:
    found = FIGURE_6.measure(Stage(random_run))
    assert list(found) == ["pre-residual", "residual", "NAS", "ViTs", "post-ViT"]
    drawn = FIGURE_6.draw(found)
    for part, among in (("", SEARCHED), ("size", SIZES)):
        for name, one in found.items():
            best = max(one.fits[key].r2 for key in among)
            rows = [row for row in drawn[part].table if row["family"] == name]
            assert {row["r2"] for row in rows} == {best}
            assert {row["tried"] for row in rows} == {len(among)}
            assert len(rows) == one.n == sum(member.family == name for member in ZOO.members)


# The claim about accuracy


def of_accuracy(slope: float, noise: float, *, seed: int = 0) -> dict[str, accuracy.Trial]:
    """All networks, with accuracies that follow the median by a slope, give or take."""

    def make(name: str, **options: Any) -> Run:
        generator = np.random.default_rng(seed + seed_of(name))
        scores = generator.random(9)
        accuracy = 90 + slope * float(np.median(scores)) + noise * generator.normal()
        return staged(name, scores, accuracy=accuracy)

    return CLAIM.measure(Stage(make))


def test_a_clear_correlation_holds_and_a_faint_one_has_a_direction() -> None:
    exact = CLAIM.judge(of_accuracy(-8, 0.0))
    assert [check.verdict for check in exact[:3]] == [HOLDS] * 3
    assert "n = 62; best of 7: median, r = -1.00" in exact[0].obtained
    assert exact[0].obtained.endswith("leave-one-out R² = 1.00")
    faint = CLAIM.judge(of_accuracy(8, 1.5))
    # seeds count in the first two
    assert [check.verdict for check in faint[:3]] == [FAILS, FAILS, WEAKLY]
    assert "p = 0.001" in faint[0].obtained
    assert {check.verdict for check in CLAIM.judge(of_accuracy(0, 1.0, seed=3))} == {FAILS}


def test_the_sets_are_those_that_are_told() -> None:
    trials = of_accuracy(8, 1.5)
    titles = ["all networks", "without leaky slopes ≥ 0.5", "each recipe once"]
    assert list(trials) == [*titles, "pre-residual", "residual", "NAS", "ViTs", "post-ViT"]
    sizes = [len(one.names) for one in trials.values()]
    assert sizes[:3] == [62, 59, 34]
    assert sum(sizes[3:]) == 34
    assert not {"sigmascope/resnet20-simclr:0", "sigmascope/resnet20-rotation:0"} & set(
        trials["all networks"].names
    )
    assert "sigmascope/resnet20-leaky1:0" in trials["all networks"].names
    assert "sigmascope/resnet20-leaky1" not in trials["residual"].names
    others = CLAIM.measure(Stage(random_run, PAPER, "default"))
    assert len(others["all networks"].names) == 36
    assert "each recipe once" not in others
    assert [one.independent for one in trials.values()] == [False, False, *[True] * 6]
    assert others["all networks"].independent


def test_seeds_of_a_recipe_are_averaged() -> None:
    trials = of_accuracy(8, 1.5)
    one, all_of_them = trials["each recipe once"], trials["all networks"]
    own = [
        place
        for place, name in enumerate(all_of_them.names)
        if name.startswith("sigmascope/myrtle:")
    ]
    assert len(own) == 8
    place = one.names.index("sigmascope/myrtle")
    assert one.accuracies[place] == pytest.approx(all_of_them.accuracies[own].mean())
    assert one.values["median"][place] == pytest.approx(all_of_them.values["median"][own].mean())


def test_an_outlier_can_carry_the_first_set_alone() -> None:
    def make(name: str, **options: Any) -> Run:
        generator = np.random.default_rng(seed_of(name))
        strong = name in accuracy.STRONG
        return staged(
            name,
            1 - generator.random(9) * (0.01 if strong else 0.4),
            accuracy=30.0 if strong else generator.normal(90),
        )

    checks = CLAIM.judge(CLAIM.measure(Stage(make)))
    assert "p = 0.001" in checks[0].obtained
    assert [check.verdict for check in checks[:3]] == [HOLDS, FAILS, FAILS]


def test_a_correlation_that_predicts_nothing_is_no_direction() -> None:
    """One network far from the others gives a small p, and no line without it predicts it."""
    numbers = [(0.5 + 0.001 * (number % 7), 90.0 + number % 3) for number in range(30)]
    points = [
        {**dict.fromkeys(accuracy.TRIED, x), "accuracy": y} for x, y in [*numbers, (0.6, 93.0)]
    ]
    one = accuracy.trial({str(number): point for number, point in enumerate(points)})
    (check,) = CLAIM.judge({"made": one})
    assert one.independent
    assert one.p < accuracy.LEVEL
    assert check.verdict == FAILS, check


def test_the_heat_map_has_the_correlations() -> None:
    trials = of_accuracy(8, 1.5)
    drawn = CLAIM.draw(trials)
    rows = {row["row"]: row for row in drawn[""].table}
    assert rows["all networks (62)"]["median"] == pytest.approx(trials["all networks"].r["median"])
    best = trials["NAS"].best
    assert {row["on"] for row in drawn["best"].table if row["family"] == "NAS"} == {best}


# Tables 1 and 2


def correlated(
    rows: Mapping[str, tuple[float, ...]], groups: Mapping[str, str], *, trained: bool = False
) -> Correlated:
    values = np.array(list(rows.values()), dtype=np.float64)
    found = Correlations(
        tuple(rows),
        tuple(groups[name] for name in rows),
        METRICS,
        values,
        np.full(values.shape, 9),
        {},
    )
    return Correlated(found, found, trained)


def as_in_the_paper(*, trained: bool = False, factor: float = 1.0) -> Correlated:
    rows = {
        f"torchvision/{name}": tuple(factor * value for value in row)
        for name, row in TABLE_2.items()
    }
    return correlated(rows, PAPER.groups(), trained=trained)


def by_groups(rows: Mapping[str, tuple[float, ...]]) -> Correlated:
    return correlated(rows, {name: name for name in rows})


def test_table_1_holds_for_the_papers_own_numbers() -> None:
    found = verdicts(TABLE1.judge(as_in_the_paper(trained=True)))
    told = found.pop("EffNets: CKA, norm, sparsity, entropy, R²")
    assert set(found.values()) == {HOLDS}
    assert told == WEAKLY  # the paper's own two tables differ there
    assert len(found) == 3 + 6  # MNASNets are not in Table 2
    assert set(verdicts(TABLE1.judge(by_groups(TABLE_1))).values()) == {HOLDS}


def test_table_1_fails_where_a_metric_is_consistent() -> None:
    like = {group: (0.9, *row[1:]) for group, row in TABLE_1.items()}
    found = verdicts(TABLE1.judge(by_groups(like)))
    assert found["no metric correlates strongly in all groups, published axes"] == FAILS
    weaker = {group: (-0.5, *row[1:]) for group, row in TABLE_1.items()}
    found = verdicts(TABLE1.judge(by_groups(weaker)))
    assert found["no metric correlates strongly in all groups, published axes"] == WEAKLY
    assert found["CKA: sign of the correlation"] == FAILS


def test_table_1_counts_the_strongest_metrics() -> None:
    claim = "different metrics are the strongest in different groups"
    one = {group: (0.1, -0.99, *row[2:]) for group, row in TABLE_1.items()}
    assert verdicts(TABLE1.judge(by_groups(one)))[claim] == FAILS
    two = one | {"VGGs": (0.1, 0.2, 0.3, -0.9, 0.1)}
    assert verdicts(TABLE1.judge(by_groups(two)))[claim] == WEAKLY


def test_table_1_may_turn_entropy_as_a_whole_but_not_in_parts() -> None:
    claim = "entropy: sign of the correlation"
    turned = {group: (*row[:3], -row[3], row[4]) for group, row in TABLE_1.items()}
    check = next(check for check in TABLE1.judge(by_groups(turned)) if check.claim == claim)
    assert check.verdict == HOLDS
    assert "turned" in check.obtained
    partly = {**turned, "VGGs": TABLE_1["VGGs"]}
    assert verdicts(TABLE1.judge(by_groups(partly)))[claim] == WEAKLY
    half = {**partly, "ResNets": TABLE_1["ResNets"]}
    assert verdicts(TABLE1.judge(by_groups(half)))[claim] == FAILS


def test_table_1_with_three_groups_cannot_be_tried() -> None:
    few = {group: TABLE_1[group] for group in ("VGGs", "ViTs", "Swins")}
    found = verdicts(TABLE1.judge(by_groups(few)))
    assert found["no metric correlates strongly in all groups, channels kept"] == UNTESTED
    assert found["R²: sign of the correlation"] == UNTESTED
    assert found["norm: sign of the correlation"] == HOLDS


def test_table_1_draws_means_beside_the_papers() -> None:
    drawn = TABLE1.draw(as_in_the_paper())[""]
    rows = {(row["table"], row["row"]): row for row in drawn.table}
    assert rows["paper", "ViTs"]["norm"] == -0.67
    assert rows["here, published axes", "ViTs"]["norm"] == pytest.approx(-0.67)
    assert rows["here, channels kept", "ViTs"]["norm std"] == pytest.approx(0.20, abs=0.005)
    assert rows["here, channels kept", "ViTs"]["networks"] == 5
    # in the order of the cast, empty where the paper has no such row
    assert next(iter(rows)) == ("paper", "AlexNets")
    assert math.isnan(rows["paper", "AlexNets"]["norm"])
    assert math.isnan(rows["paper", "AlexNets"]["norm std"])


def test_the_axes_as_published_are_measured_where_they_differ() -> None:
    def make(name: str, *, pool: str = "channels", compat: bool = False) -> Run:
        assert compat
        run = random_run(name)
        return (
            random_run(name)
            if pool == "channels"
            else replace(run, signature=replace(run.signature, sites=run.signature.sites[:5]))
        )

    stage = Stage(make)
    found = TABLE2.measure(stage)
    assert [options.get("pool") for _, options in stage.asked] == [None, PUBLISHED]
    different = [
        name
        for name, a, b in zip(
            found.kept.names, found.kept.values, found.published.values, strict=True
        )
        if (a != b).any()
    ]
    assert different == ZOO.names("ViTs", "Swins", "ConvNeXts")


def test_table_2_holds_for_the_papers_own_numbers_and_notices_one_wrong() -> None:
    assert set(verdicts(TABLE2.judge(as_in_the_paper(trained=True))).values()) == {HOLDS}
    rows = {f"torchvision/{name}": row for name, row in TABLE_2.items()}
    name = "torchvision/vgg11"
    for wrong, verdict in (
        ((0.3, -0.5, -0.3, -0.9, 0.0), WEAKLY),
        ((0.0, 0.5, -0.3, -0.9, 0.0), FAILS),
    ):
        found = verdicts(
            TABLE2.judge(correlated(rows | {name: wrong}, PAPER.groups(), trained=True))
        )
        assert found.pop("vgg11") == verdict
        assert set(found.values()) == {HOLDS}


def test_table_2_draws_the_papers_rows_where_it_has_the_networks(tmp_path: Path) -> None:
    drawn = TABLE2.draw(as_in_the_paper())[""]
    rows = {(row["table"], row["row"]): row for row in drawn.table}
    assert len(rows) == 3 * 32
    assert rows["paper", "torchvision/vit_h_14"]["sparsity"] == 0.92
    drawn.save(tmp_path / "table.png")
    ours = TABLE2.draw(TABLE2.measure(Stage(random_run)))[""]
    assert {row["table"] for row in ours.table} == {"published axes", "channels kept"}


def test_entropy_of_a_row_may_have_either_sign() -> None:
    row = np.array(TABLE_2["vgg16"])
    row[3] *= -1
    assert compare_row("", TABLE_2["vgg16"], row).verdict == HOLDS
    row[1] *= -1
    assert compare_row("", TABLE_2["vgg16"], row).verdict == FAILS
    assert compare_row("", TABLE_2["vgg16"], np.full(5, np.nan)).verdict == FAILS


def test_table_2_fails_where_a_metric_replaces_the_score() -> None:
    generator = np.random.default_rng(0)

    def rows(strong: int) -> dict[str, tuple[float, ...]]:
        table = generator.uniform(-0.6, 0.6, (20, 5))
        table[:strong, 2] = -0.95
        return {str(place): tuple(row) for place, row in enumerate(table)}

    groups = {str(place): "made" for place in range(20)}
    claim = "no metric can replace the score, channels kept"
    for strong, verdict in ((10, HOLDS), (15, WEAKLY), (18, FAILS)):
        found = verdicts(TABLE2.judge(correlated(rows(strong), groups)))
        assert found[claim] == verdict
        assert found["the rows of the paper's networks"] == UNTESTED
    spread = "correlations differ between networks, channels kept"
    for factor, verdict in ((1, HOLDS), (0.7, WEAKLY), (0.3, FAILS)):
        assert verdicts(TABLE2.judge(as_in_the_paper(factor=factor)))[spread] == verdict


# Trainings


def trainings(between: float, within: float, *, seed: int = 0, far: float = 0.5) -> Trainings:
    """Signatures that differ by their kind, and a little by training and seed."""
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.4, 0.6, 12)
    kinds = {kind: between * generator.normal(size=12) for kind in dict.fromkeys(KINDS.values())}
    trained = []
    for training, kind in KINDS.items():
        own = base + kinds[kind] + within * generator.normal(size=12)
        for number in range(4 if training == "resnet20" else 2):
            scores = own + 0.3 * within * generator.normal(size=12)
            trained.append(made(f"sigmascope/{training}:{number}", scores))
    others = [made(f"other{number}", base + far * generator.normal(size=12)) for number in range(5)]
    return Trainings(tuple(trained), tuple(others))


def mixed_up(found: Trainings) -> Trainings:
    """The same signatures, but every training except the first has the name of the next, so that no
    kind is left whole.
    """
    names = [one.name for one in found.trained]
    turned = [*names[:4], *names[6:], *names[4:6]]
    return replace(
        found,
        trained=tuple(
            replace(one, name=name) for one, name in zip(found.trained, turned, strict=True)
        ),
    )


def test_figure_19_holds_for_kinds_and_fails_without() -> None:
    clear = trainings(0.1, 0.01)
    found = FIGURE_19.judge(clear)
    assert [check.verdict for check in found] == [HOLDS, HOLDS, HOLDS]
    assert "1 of 15 as tight" in found[0].obtained
    assert "1.00; 1 of 15 as good" in found[1].obtained
    assert {check.verdict for check in FIGURE_19.judge(mixed_up(clear))[:2]} == {FAILS}


def test_figure_19_does_not_take_seeds_for_kinds() -> None:
    """Two seeds of each training are one in the tree; judged is which trainings are pairs."""

    def judged(*levels: float) -> list[Check]:
        trained = [
            made(f"sigmascope/{name}:{seed}", [level] * 12)
            for name, level in zip(KINDS, levels, strict=True)
            for seed in "01"
        ]
        return FIGURE_19.judge(Trainings(tuple(trained), ()))

    # no kind is a pair
    assert [check.verdict for check in judged(0.1, 0.9, 0.11, 0.5, 0.91, 0.51)] == [
        FAILS,
        FAILS,
        HOLDS,
    ]
    check = judged(0.1, 0.11, 0.5, 0.9, 0.51, 0.91)[1]
    assert check.verdict == WEAKLY
    # one kind is, which it also is in 7 groupings that share a pair with the tree
    assert "7 of 15 as good" in check.obtained


def test_figure_19_groups_trainings_in_all_ways() -> None:
    ways = groupings(numbered([KINDS[name] for name in KINDS]))
    assert len(ways) == 15
    assert ways[0].tolist() == [0, 0, 1, 1, 2, 2]
    pairs = {
        frozenset(frozenset(np.flatnonzero(way == group).tolist()) for group in range(3))
        for way in ways
    }
    assert len(pairs) == 15
    assert {len(pair) for way in pairs for pair in way} == {2}


def test_figure_19_averages_over_seeds() -> None:
    found = trainings(0.1, 0.05)
    names, matrix = found.averaged()
    assert names == list(KINDS)
    apart = found.distances()
    labels = found.trainings
    pairs = [
        apart.matrix[i, j]
        for i in range(14)
        for j in range(14)
        if (labels[i], labels[j]) == ("resnet20", "resnet20-simclr")
    ]
    assert matrix[0, 5] == pytest.approx(np.mean(pairs))
    assert len(pairs) == 8
    assert matrix[1, 1] == pytest.approx(apart.matrix[4, 5])


def test_figure_19_draws_a_leaf_for_each() -> None:
    found = trainings(0.1, 0.01)
    drawn = FIGURE_19.draw(found)[""]
    leaves = {row["network"]: row["family"] for row in drawn.table if row["drawn"] == "leaf"}
    assert leaves == found.kinds
    heights = [row["value"] for row in drawn.table if row["drawn"] == "merge"]
    assert heights == found.distances().cluster().linkage[:, 2].tolist()


def test_figure_20_holds_for_near_trainings_and_fails_for_far_ones() -> None:
    assert [check.verdict for check in FIGURE_20.judge(trainings(0.05, 0.02))] == [HOLDS] * 3
    far = FIGURE_20.judge(trainings(0.3, 0.3, far=0.05))
    assert [check.verdict for check in far[:2]] == [FAILS, FAILS]
    between = FIGURE_20.judge(trainings(0.05, 0.05, far=0.15))
    assert [check.verdict for check in between[:2]] == [WEAKLY, WEAKLY]
    alone = FIGURE_20.judge(replace(trainings(0.05, 0.02), others=()))
    assert [check.verdict for check in alone[:2]] == [UNTESTED, UNTESTED]
    assert list(FIGURE_20.draw(replace(trainings(0.05, 0.02), others=()))) == [""]


def test_figure_20_notices_neighbors_of_other_trainings() -> None:
    found = trainings(0.05, 0.02)
    names = [one.name for one in found.trained]
    turned = [names[place] for place in (0, 4, 6, 8, 10, 12, 1, 5, 7, 9, 11, 13, 2, 3)]
    mixed = replace(
        found,
        trained=tuple(
            replace(one, name=name) for one, name in zip(found.trained, turned, strict=True)
        ),
    )
    assert FIGURE_20.judge(mixed)[2].verdict == FAILS


def criteria(**spread: float) -> Criteria:
    """Criteria with these deviations over trainings, around 1, and deviations of 1 between
    architectures.
    """
    around = np.tile([-1.0, 1.0], 7)
    spreads = dict.fromkeys(("score", "cka", "norm", "sparsity", "entropy"), 0.5) | spread
    trained = {key: 1 + value * around for key, value in spreads.items()}
    names = [
        f"{training}:{seed}"
        for training in KINDS
        for seed in range(4 if training == "resnet20" else 2)
    ]
    kinds = tuple(KINDS[name.partition(":")[0]] for name in names)
    others = dict.fromkeys(trained, np.array([0.0, 2.0, 0.0, 2.0]))
    return Criteria(tuple(names), kinds, trained, others, trained["score"][:, None] + np.zeros(5))


def test_table_3_holds_for_the_lowest_spread_alone() -> None:
    for score, verdict in ((0.1, HOLDS), (0.45, WEAKLY), (0.6, FAILS)):
        assert {check.verdict for check in TABLE3.judge(criteria(score=score))} == {verdict}
    assert TABLE3.judge(criteria(score=0.1, cka=0.05))[0].verdict == FAILS


def test_table_3_relates_spreads_to_means_and_architectures() -> None:
    found = criteria(score=0.1, cka=0.2)
    larger = replace(found, trained=found.trained | {"cka": found.trained["cka"] + 9})
    assert [check.verdict for check in TABLE3.judge(larger)] == [HOLDS, FAILS, HOLDS]
    wider = replace(found, others=found.others | {"cka": np.array([0.0, 200.0, 0.0])})
    assert [check.verdict for check in TABLE3.judge(wider)] == [HOLDS, HOLDS, FAILS]
    alone = replace(found, others={key: values[:2] for key, values in found.others.items()})
    assert TABLE3.judge(alone)[2].verdict == UNTESTED


def test_table_3_averages_over_the_activations_that_have_a_value() -> None:
    one = made("one", [0.2, 0.4, math.nan], {"cka": [0.5, math.nan, 0.7]})
    found = averages([one])
    assert found["score"] == pytest.approx([0.3])
    assert found["cka"] == pytest.approx([0.6])
    assert np.isnan(found["norm"]).all()


def test_table_3_draws_every_network() -> None:
    found = criteria(score=0.1)
    drawn = TABLE3.draw(found)[""]
    assert [row["score"] for row in drawn.table] == found.trained["score"].tolist()
    assert {row["training"] for row in drawn.table} == set(KINDS.values())


# Figures 16 and 17


def grouped(spread: float, *, vit: float = 3.0, late: float = 0.5) -> Stage:
    """Networks at the level of their group, give or take; ViTs far off, Swins and ConvNeXts near
    the first.
    """
    levels = {group: 0.4 * place for place, group in enumerate(dict.fromkeys(GROUPS.values()))}
    levels |= {"ViTs": -vit, "Swins": -late, "ConvNeXts": -0.5 * late}

    def make(name: str, **options: Any) -> Run:
        generator = np.random.default_rng(seed_of(name))
        return staged(
            name,
            levels[GROUPS[name]] + spread * generator.normal() + 0.01 * generator.normal(size=10),
        )

    return Stage(make)


def test_figure_16_holds_for_groups_and_fails_without() -> None:
    claims = [check.verdict for check in FIGURE_16.judge(FIGURE_16.measure(grouped(0.03, vit=6)))]
    assert claims == [HOLDS] * 5
    none = FIGURE_16.judge(FIGURE_16.measure(Stage(random_run)))
    assert none[0].verdict in (FAILS, WEAKLY)
    assert none[2].verdict == FAILS
    middle = FIGURE_16.judge(FIGURE_16.measure(grouped(0.03, vit=-1.4, late=5)))
    assert [check.verdict for check in middle[3:]] == [FAILS, FAILS]
    nearly = FIGURE_16.judge(FIGURE_16.measure(grouped(0.01, vit=1.0, late=0.9)))
    assert nearly[4].verdict == WEAKLY


def test_figure_16_without_groups_cannot_be_tried() -> None:
    few = ZOO.only(["sigmascope/vit:0", "sigmascope/swin:0", "sigmascope/convnext:0"])
    checks = FIGURE_16.judge(FIGURE_16.measure(replace(grouped(0.03), cast=few)))
    assert [check.verdict for check in checks] == [UNTESTED, UNTESTED, UNTESTED, HOLDS, UNTESTED]


def test_remoteness_is_the_mean_distance_to_others() -> None:
    matrix = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    assert remoteness(matrix, ["a", "a", "b"]) == {"a": 3.0, "b": 3.0}
    assert remoteness(matrix, ["a", "b", "c"])["b"] == 1.5


def test_figure_16_draws_the_matrix() -> None:
    found = FIGURE_16.measure(grouped(0.03))
    rows = [row for row in FIGURE_16.draw(found)[""].table if row["drawn"] == "distance"]
    names = found.found["plain"].names
    assert len(rows) == len(names) ** 2
    assert (
        rows[5]["value"]
        == found.matrix("plain")[names.index(rows[5]["network"]), names.index(rows[5]["other"])]
    )


def test_figure_17_holds_for_groups_and_fails_without() -> None:
    plane = FIGURE_17.measure(grouped(0.03, vit=6))
    checks = FIGURE_17.judge(plane)
    assert len(checks) == 6
    assert [check.verdict for check in checks[:3]] == [HOLDS] * 3
    assert FIGURE_17.judge(FIGURE_17.measure(Stage(random_run)))[0].verdict == FAILS
    stressed = replace(
        plane, found={of: replace(one, stress=0.15) for of, one in plane.found.items()}
    )
    assert FIGURE_17.judge(stressed)[2].verdict == WEAKLY
    groups = dict(
        zip(
            plane.groups,
            np.random.default_rng(0).permutation(list(plane.groups.values())).tolist(),
            strict=True,
        )
    )
    assert FIGURE_17.judge(replace(plane, groups=groups))[0].verdict == FAILS


def test_figure_17_draws_both_planes() -> None:
    plane = FIGURE_17.measure(grouped(0.03))
    drawn = FIGURE_17.draw(plane)
    assert list(drawn) == ["", "cophenetic"]
    assert [row["x"] for row in drawn[""].table] == plane.found["distances"].points[:, 0].tolist()
    assert numbered([row["family"] for row in drawn[""].table]).max() == 9
