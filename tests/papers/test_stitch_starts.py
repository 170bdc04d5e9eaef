"""Stitches by where they start: the claims about them and their figure, on made-up trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.beyond_stitch import FILE, ITEM, LABELS, draw, measure
from sigmascope_papers.symmetry.stitch_starts import (
    ALIGNED,
    SITES,
    WAYS,
    SiteStarts,
    StitchStarts,
    ahead,
    best_epoch,
    wins,
)

RANDOM = (70.0, 75.0, 80.0, 79.0)  # best in epoch 3
GOOD, BAD = (60.0, 82.0, 81.0, 80.0, 80.0), (60.0, 70.0, 70.0, 70.0, 70.0)
# ahead by 2 points: at the start; in epoch 2; in epoch 3, as late as the random start
WON = ((82.0, 60.0), GOOD, (60.0, 60.0, 82.0))
SLOW, CLOSE = (60.0, 60.0, 60.0, 82.0, 60.0), (60.0, 80.5, 60.0, 60.0, 60.0)


def site(name: str, **own: tuple[float, ...]) -> SiteStarts:
    """The stitches of a site, whose starts do no good unless they are given."""
    accuracies = {"random": RANDOM, **dict.fromkeys(WAYS[1:], BAD), **own}
    return SiteStarts(
        name, 1406, (320, 40, 80), accuracies, dict.fromkeys(WAYS, 1.0), "2", "made up"
    )


def starts(count: int, way: str = "activations") -> StitchStarts:
    """Four sites, at so many of which a start wins."""
    return StitchStarts(
        tuple(site(name, **{way: GOOD if n < count else BAD}) for n, name in enumerate(SITES))
    )


def verdicts(found: StitchStarts) -> list[str]:
    """The verdicts by activations and by weights."""
    checks = ITEM.judge(found)
    assert [one.claim for one in checks] == [
        f"ours: a stitch that starts at the element found by {by} beats a random start"
        for by in ("activations", "weights")
    ]
    return [one.verdict for one in checks]


@pytest.mark.parametrize("way", ALIGNED)
@pytest.mark.parametrize(
    ("count", "verdict"), [(4, HOLDS), (3, WEAKLY), (2, FAILS), (1, FAILS), (0, FAILS)]
)
def test_a_start_holds_at_all_sites_and_weakly_at_most(count: int, verdict: str, way: str) -> None:
    found = verdicts(starts(count, way))
    other = FAILS  # of which no start wins
    assert found == ([verdict, other] if way == "activations" else [other, verdict])


def test_a_start_wins_by_a_point_and_sooner() -> None:
    for own, won in (*((one, True) for one in WON), (SLOW, False), (CLOSE, False), (BAD, False)):
        assert wins(site("9", weights=own).accuracies, "weights") is won
    assert wins(site("9", weights=(81.0, 60.0)).accuracies, "weights")  # by a point, not by more
    never = site("9", weights=(80.0, 80.0), random=(70.0, 80.0)).accuracies
    assert (wins(never, "weights"), ahead(never, "weights")) == (False, 0.0)
    assert [best_epoch(never, way) for way in ("random", "weights")] == [2, 0]


def test_what_came_out_is_told_by_site() -> None:
    found = StitchStarts(
        tuple(
            site(name, activations=own)
            for name, own in zip(SITES, (GOOD, SLOW, CLOSE, BAD), strict=True)
        )
    )
    by_activations, by_weights = (one.obtained for one in ITEM.judge(found))
    assert by_activations == (
        "wins at 1 of 4 sites: "
        "9 wins (+2.00 points, passes in epoch 1 what random reaches in 3); "
        "19 does not (+2.00 points, passes in epoch 3 what random reaches in 3); "
        "29 does not (+0.50 points, passes in epoch 1 what random reaches in 3); "
        "39 does not (-10.00 points)"
    )
    assert by_weights.startswith("wins at 0 of 4 sites: 9 does not (-10.00 points); ")


def test_sites_that_are_missing_leave_it_open() -> None:
    found = StitchStarts(starts(4).sites[:3])
    assert verdicts(found) == [UNTESTED] * 2
    assert {one.obtained for one in ITEM.judge(found)} == {"not measured: site 39"}


def test_what_is_stored_fails_at_the_sites_that_are_named() -> None:
    found = measure(Setting())
    won = {way: [one.site for one in found.sites if wins(one.accuracies, way)] for way in WAYS[1:]}
    assert won == {"matched": ["19", "29"], "weights": [], "activations": ["9", "29"]}
    assert verdicts(found) == [FAILS, FAILS]


def test_the_figure_has_every_epoch() -> None:
    found = StitchStarts(starts(2).sites[:3])
    drawn = draw(found)[""]
    assert [panel.get_title() for panel in drawn.axes] == ["site 9", "site 19", "site 29"]
    assert len(drawn.table) == 3 * (4 + 3 * 5)
    for panel, one in zip(drawn.axes, found.sites, strict=True):
        *lines, level = panel.lines
        assert [line.get_label() for line in lines] == list(LABELS.values())
        for line, way in zip(lines, WAYS, strict=True):
            assert tuple(line.get_ydata()) == one.accuracies[way]
            assert line.get_xdata()[0] == (1 if way == "random" else 0)
            (place,) = line.get_markevery()
            assert line.get_xdata()[place] == best_epoch(one.accuracies, way)
        assert set(level.get_ydata()) == {80.0}
    rows = [row for row in drawn.table if (row["site"], row["start"]) == ("9", "random")]
    assert [(row["epoch"], row["held-out accuracy"]) for row in rows] == list(enumerate(RANDOM, 1))


def test_the_starts_are_stored(tmp_path: Path) -> None:
    found = starts(3)
    (tmp_path / "trainings").mkdir()
    found.save(tmp_path / FILE)
    assert measure(Setting(results=tmp_path)) == found
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FileFormatError, match="Pass a stitch-starts file"):
        measure(Setting(results=tmp_path))
    with pytest.raises(InputError, match="is missing"):
        measure(Setting(results=tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=r"only reads results\. It trains stitches"):
        measure(Setting(results=tmp_path, from_scratch=True))
    with pytest.raises(InputError, match="networks of one experiment only"):
        measure(Setting(results=tmp_path, weights="none", data="imagefolder:/data"))
