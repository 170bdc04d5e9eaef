"""Lines between networks: the claims about them and their figure, on made-up pairs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.beyond_align import FILE, ITEM, draw, measure
from sigmascope_papers.symmetry.lines import CURVES, Line, Lines

BEST = "activations, all, corrected"
NAMES = [f"{curve}{end}" for curve in CURVES for end in ("", ", corrected")]
Points = dict[str, float]
CLAIMS = {
    "reduced": "matched by activations and corrected",
    "scales": "by weights, with the correction, scales",
    "correction": "the correction of statistics",
    "width": "wider networks",
    "procrustes": "the more alike two networks are by G-Procrustes",
    "cka": "the more alike two networks are by G-CKA",
}


def family(name: str, points: Points, *, width: int = 1, networks: int = 5) -> list[Line]:
    """Pairs whose lines lose 60 points, or so many; and 0.01 more for each number of a seed."""
    found = []
    for seeds in combinations(range(networks), 2):
        lost = {one: points.get(one, 60.0) + sum(seeds) / 100 for one in NAMES}
        heights = {
            one: {"losses": value, "calibrated": value / 30, "accuracies": value}
            for one, value in lost.items()
        }
        similarity = {"procrustes": 1 - lost[BEST] / 100, "cka": lost[BEST] / 100}
        found.append(Line(name, width, seeds, heights, similarity))
    return found


def verdicts(*families: list[Line]) -> dict[str, str]:
    lines = Lines(tuple(one for own in families for one in own), 2500)
    found = {one.claim.removeprefix("ours: "): one.verdict for one in ITEM.judge(lines)}
    assert len(found) == 9
    return {
        name: next(word for claim, word in found.items() if claim.startswith(begin))
        for name, begin in CLAIMS.items()
    }


def test_the_goal_holds_in_both_families_or_not() -> None:
    good, bad = family("myrtle", {BEST: 5.0}), family("vgg16", {BEST: 30.0})
    assert verdicts(good, family("vgg16", {BEST: 9.0}))["reduced"] == HOLDS
    assert verdicts(good, bad)["reduced"] == FAILS
    assert verdicts(good)["reduced"] == UNTESTED
    sure = family("vgg16", {BEST: 9.0})
    for one in sure:
        one.heights[BEST]["calibrated"] = 1.9
    assert verdicts(good, sure)["reduced"] == WEAKLY


def test_scales_add_nothing_only_within_a_point() -> None:
    more, some = ({"weights, permutations, corrected": 60.0 + by} for by in (5.0, 0.5))
    assert verdicts(family("myrtle", some))["scales"] == FAILS  # they help by half a point
    assert verdicts(family("myrtle", more))["scales"] == FAILS
    pairs = family("myrtle", {})
    assert verdicts(pairs)["scales"] == HOLDS
    for one in pairs:
        one.heights["weights, permutations, corrected"]["accuracies"] += 9 * (one.seeds[0] - 1)
    assert verdicts(pairs)["scales"] == UNTESTED  # wide
    assert verdicts(family("vit-patch4", {}))["scales"] == UNTESTED  # no such family


def test_correction_width_and_prediction() -> None:
    low = family("vgg16", {BEST: 20.0})
    wider = [family("vgg16", {BEST: 12.0}, width=2), family("vgg16", {BEST: 8.0}, width=4)]
    found = verdicts(low, *wider)
    assert [found[name] for name in ("correction", "width")] == [HOLDS, HOLDS]
    assert [found[name] for name in ("procrustes", "cka")] == [HOLDS, FAILS]
    assert verdicts(low, *wider[:1])["width"] == UNTESTED
    slow = family("vgg16", {BEST: 15.0}, width=4)
    assert verdicts(low, family("vgg16", {BEST: 17.0}, width=2), slow)["width"] == WEAKLY
    assert verdicts(low, slow, family("vgg16", {BEST: 30.0}, width=2))["width"] == FAILS
    assert verdicts(family("myrtle", {BEST: 70.0}))["correction"] == FAILS


def test_the_figures_have_every_pair_and_every_line() -> None:
    pairs = [*family("vgg16", {BEST: 8.0}, width=2, networks=3), *family("myrtle", {BEST: 3.0})]
    drawn = draw(Lines(tuple(pairs), 2500))
    assert len(drawn["similarity"].table) == 13
    for panel in drawn["similarity"].axes:
        assert [len(line.get_xdata()) for line in panel.lines] == [3, 10]
        assert [line.get_label() for line in panel.lines] == [
            "VGG-16, 2 times as wide",
            "Myrtle CNN",
        ]
    rows = drawn[""].table
    assert len(rows) == 2 * 2 * len(CURVES)
    aligned = [row["points lost"] for row in rows if row["line"] == BEST]
    assert aligned == pytest.approx([3.04, 8.02])
    first, second = drawn[""].axes
    shown = [label.get_text() for label in first.get_yticklabels()]
    assert shown == ["Myrtle CNN\n10 pairs", "VGG-16, 2 times as wide\n3 pairs"]  # most lost below
    for panel in (first, second):
        points = [line for line in panel.lines if line.get_marker() == "|"]
        assert [len(line.get_xdata()) for line in points] == [10] * 5 + [3] * 5


def test_lines_are_stored(tmp_path: Path) -> None:
    lines = Lines(tuple(family("vgg16", {})), 2500)
    (tmp_path / "trainings").mkdir()
    lines.save(tmp_path / FILE)
    assert measure(Setting(results=tmp_path)) == lines
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FileFormatError, match="Pass a lines file"):
        measure(Setting(results=tmp_path))
    with pytest.raises(InputError, match="is missing"):
        measure(Setting(results=tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=r"only reads results\. It follows hundreds of lines"):
        measure(Setting(results=tmp_path, from_scratch=True))
    with pytest.raises(InputError, match="networks of one experiment only"):
        measure(Setting(results=tmp_path, weights="none", data="imagefolder:/data"))
