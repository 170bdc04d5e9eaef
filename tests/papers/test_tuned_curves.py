"""Curves of tuned networks: their goals and their figure, on made-up points."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY, Check
from sigmascope_papers.nonlinearity.beyond_linearize import FILE, ITEM, draw, measure
from sigmascope_papers.nonlinearity.criteria import CHEAP, NEEDED, Advantage
from sigmascope_papers.nonlinearity.tuned_curves import PUBLISHED, Curves, Point
from sigmascope_papers.setting import Setting

ALL = "ours: every network reaches all of its goals"


def points(network: str, removed: int, *drops: float) -> list[Point]:
    return [Point(network, i, removed, 16, 93.0 - drop, 93.0) for i, drop in enumerate(drops)]


def verdicts(curves: Curves) -> dict[str, str]:
    return {one.claim: one.verdict for one in ITEM.judge(curves)}


@pytest.mark.parametrize(
    ("drops", "verdict"),
    [
        ((1.0, 1.5, 2.0), HOLDS),
        ((1.0, 1.5, 2.5), WEAKLY),
        ((1.0, 2.5, 2.9), FAILS),
        ((0.1, 0.1), UNTESTED),
    ],
)
def test_a_goal_is_judged_by_the_mean_drop_of_three_seeds(
    drops: tuple[float, ...], verdict: str
) -> None:
    found = verdicts(Curves(tuple(points("resnet18", 12, *drops))))
    claim = "ours: ResNet-18 without 12 of its 17 activations loses at most 2 points"
    assert found[claim] == verdict
    assert len(found) == 1 + 12 + 4
    assert set(found.values()) <= {verdict, UNTESTED}
    assert found[ALL] == (FAILS if verdict == FAILS else UNTESTED)


def test_all_goals_are_reached_or_one_is_missed() -> None:
    reached = [
        point
        for name, network in PUBLISHED.items()
        for removed, goal in network.goals.items()
        for point in points(name, removed, goal - 0.1, goal - 0.2, goal - 0.3)
    ]
    assert verdicts(Curves(tuple(reached)))[ALL] == HOLDS
    assert verdicts(Curves(tuple(reached[3:])))[ALL] == UNTESTED
    assert verdicts(Curves((*reached[3:], *points("resnet18", 8, 0.1, 0.1, 0.1))))[ALL] == FAILS


def ahead(
    stage: str, networks: int, maps: str = "affine", **points: float
) -> tuple[Advantage, ...]:
    """Affinity ahead of every rival by 5 points, or by those given, and hardly by seed."""
    by = dict.fromkeys(("random", *CHEAP), 5.0) | points
    return tuple(
        Advantage(stage, maps, rival, network, seed, value + 0.1 * seed)
        for rival, value in by.items()
        for network in list(PUBLISHED)[:networks]
        for seed in range(3)
    )


def criteria(*advantages: Advantage) -> dict[tuple[str, str], Check]:
    found = ITEM.judge(Curves((), advantages))[-4:]
    kinds = [(stage, kind) for stage in NEEDED for kind in ("chance", "cheap")]
    return dict(zip(kinds, found, strict=True))


@pytest.mark.parametrize("stage", NEEDED)
def test_the_rule_for_criteria_is_applied(stage: str) -> None:
    def told(**points: float) -> tuple[str, str]:
        found = criteria(*ahead(stage, NEEDED[stage], **points))
        return found[stage, "chance"].verdict, found[stage, "cheap"].verdict

    assert told() == (HOLDS, HOLDS)
    assert told(random=-5.0) == (FAILS, HOLDS)
    assert told(random=-0.1) == (UNTESTED, HOLDS)  # the interval has 0
    assert told(depth=-5.0) == (HOLDS, FAILS)
    assert told(r2=-0.1) == (HOLDS, FAILS)  # a tie
    spread = Advantage(stage, "affine", "r2", "swin", 7, -40.0)
    found = criteria(*ahead(stage, NEEDED[stage]), spread)
    assert found[stage, "cheap"].verdict == UNTESTED
    assert "undecided" in found[stage, "cheap"].obtained


def test_criteria_on_too_few_networks_are_told_and_not_judged() -> None:
    found = criteria(*ahead("untuned", 2), *ahead("tuned", 2))
    told = "2 of 4 networks are measured; so far: random +5.10"
    assert found["untuned", "chance"].obtained.startswith(told)
    assert [one.verdict for one in found.values()] == [UNTESTED, UNTESTED, HOLDS, HOLDS]
    assert {one.obtained for one in criteria().values()} == {
        "0 of 4 networks are measured",
        "0 of 2 networks are measured",
    }


def test_the_second_figure_has_every_comparison() -> None:
    rows = (*ahead("untuned", 2), *ahead("tuned", 1), *ahead("untuned", 2, "identity", depth=-3))
    drawn = draw(Curves((), rows))
    assert list(drawn) == ["criteria"]
    first, second, third = drawn["criteria"].axes
    assert first.get_title() == "without tuning,\nfitted affine maps"
    assert third.get_title() == "without tuning,\nthe identity instead"
    assert next(label.get_text() for label in first.get_yticklabels()) == "random"
    table = {(row["stage"], row["maps"], row["rival"]): row for row in drawn["criteria"].table}
    assert len(table) == 3 * 5
    assert table["untuned", "identity", "depth"]["verdict"] == "loses"
    assert table["untuned", "identity", "depth"]["mean"] == pytest.approx(-2.9)
    assert [len(line.get_xdata()) for line in second.lines[:3]] == [3, 2, 1]


def test_a_drop_that_equals_its_goal_reaches_it() -> None:
    same = [Point("swin", seed, 6, 12, 89.71, 90.01) for seed in range(3)]
    assert same[0].drop > PUBLISHED["swin"].goals[6]  # by rounding
    found = verdicts(Curves(tuple(same)))
    assert found["ours: Swin-T without 6 of its 12 activations loses at most 0.3 points"] == HOLDS


def test_published_numbers_of_removed_activations_have_goals() -> None:
    for network in PUBLISHED.values():
        assert set(network.goals) <= set(network.accuracy)
        assert max(network.accuracy) < network.activations
    assert PUBLISHED["resnet18"].drop(12) == pytest.approx(7.95)


def test_the_figure_shows_the_published_curve_and_the_mean_of_ours() -> None:
    curves = Curves((*points("resnet18", 8, 0.5, 1.5), *points("swin", 10, 2.0)))
    drawn = draw(curves)[""]
    first, second = drawn.axes[:2]
    theirs, ours = first.lines[:2]
    assert list(theirs.get_xdata())[:2] == [17, 15]
    assert list(ours.get_xdata()) == [17, 9]
    assert list(ours.get_ydata()) == [93.0, 92.0]
    told = [text.get_text() for text in first.texts]
    assert told == ["1,280", "16", "epochs: EASIER", "ours"]
    assert second.get_title() == "Swin-T, 1 seed"
    assert [row["drop"] for row in drawn.table] == [0.5, 1.5, 2.0]


def test_points_are_stored(tmp_path: Path) -> None:
    curves = Curves(tuple(points("vgg16", 8, 0.1)))
    (tmp_path / "trainings").mkdir()
    curves.save(tmp_path / FILE)
    assert measure(Setting(results=tmp_path)) == curves
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FileFormatError, match="Pass a tuned-curves file"):
        measure(Setting(results=tmp_path))
    with pytest.raises(InputError, match="is missing"):
        measure(Setting(results=tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=r"only reads results\. It trains dozens of networks"):
        measure(Setting(results=tmp_path, from_scratch=True))
