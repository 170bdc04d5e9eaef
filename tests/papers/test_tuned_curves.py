"""Curves of tuned networks: their goals and their figure, on made-up points."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.nonlinearity.tuned_curves import PUBLISHED, Curves, Point
from sigmascope_papers.nonlinearity.waiting.beyond_linearize import FILE, ITEM, draw, measure
from sigmascope_papers.setting import Setting


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
    assert len(found) == 12
    assert set(found.values()) <= {verdict, UNTESTED}


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
    assert [text.get_text() for text in first.texts] == ["16 epochs,\nnot 1,280"]
    assert second.get_title() == "Swin-T"
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
