"""The split in training: its numbers, its rule and its figure, on made-up trainings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sigmascope.errors import FileFormatError, InputError
from sigmascope.measure.options import Options
from sigmascope.monitoring.track import Track
from sigmascope_papers.nonlinearity.beyond_training import draw, measure
from sigmascope_papers.nonlinearity.courses import (
    END,
    INSIDE,
    PLAIN,
    RESIDUAL,
    RULES,
    RUNNING,
    Course,
    Courses,
    table,
)
from sigmascope_papers.setting import Setting
from tests.papers.courses_made import EPOCH, STEPS, courses, track

BUILT_IN = (0.2, 0.2, 0.18, 0.2, 0.24, 0.25)
EARLY = (0.0, 0.0, 0.1, 0.2, 0.24, 0.25)
LATE = (0.0, 0.0, 0.0, 0.1, 0.2, 0.25)
LOST = (0.2, 0.2, 0.0, 0.05, 0.2, 0.25)
YES, WEAKLY, NO = (True, True), (True, False), (False, False)


def judged(name: str, found: Courses) -> tuple[bool, bool]:
    _, true, clear = RULES[name](found)
    return true, true and clear


def test_the_numbers_of_a_course() -> None:
    (one, _) = courses(EARLY).of(RESIDUAL)
    assert one.at(END).shape == one.at(INSIDE).shape == (6, 9)  # without the stem
    assert one.gaps == pytest.approx(EARLY, abs=1e-5)
    expected = stats.t.interval(
        0.95, 8, loc=one.gaps[-1], scale=stats.sem(one.at(END)[-1] - one.at(INSIDE)[-1])
    )
    assert (one.gaps[-1] - one.margins[-1], one.gaps[-1] + one.margins[-1]) == pytest.approx(
        expected
    )
    assert one.separation[-1] == 1
    assert 0.3 < one.separation[0] < 0.7


@pytest.mark.parametrize(
    ("gaps", "step"), [(BUILT_IN, 0), (EARLY, 93), (LATE, 930), (LOST, 930), ((0.0,) * 6, None)]
)
def test_when_the_split_has_come_about(gaps: Sequence[float], step: int | None) -> None:
    assert {one.halfway for one in courses(gaps).of(RESIDUAL)} == {step}


def test_a_missing_score_is_not_half_of_the_gap() -> None:
    (one, _) = courses(BUILT_IN).of(RESIDUAL)
    scores = [list(row) for row in one.scores]
    scores[2][3] = float("nan")
    torn = Course(**{**vars(one), "scores": tuple(map(tuple, scores))})
    assert torn.halfway == STEPS[3]


@pytest.mark.parametrize(
    ("name", "found", "verdict"),
    [
        ("split", courses(BUILT_IN), YES),
        ("split", courses((0.05,) * 6), WEAKLY),
        ("split", courses((0.0,) * 6), NO),
        ("not split", courses(BUILT_IN), YES),
        ("not split", courses(BUILT_IN, (0.2, 0.2, 0.2, -0.06, 0.06, 0.06)), YES),
        ("not split", courses(BUILT_IN, (0.0, 0.0, 0.0, -0.07, 0.0, 0.0)), WEAKLY),
        ("not split", courses(BUILT_IN, (0.0, 0.0, 0.0, 0.0, 0.0, -0.07)), NO),
        ("not split", courses((-0.25,) * 6), NO),
        ("built in", courses(BUILT_IN), YES),
        ("built in", courses(EARLY), WEAKLY),
        ("built in", courses(LATE), NO),
        ("built in", courses(LOST), NO),
        ("built in", courses((0.0,) * 6), NO),
        ("ends rise", courses(BUILT_IN, rise=0.06), YES),
        ("ends rise", courses(BUILT_IN, rise=0.01), WEAKLY),
        ("ends rise", courses(BUILT_IN, rise=-0.01), NO),
        ("alike", courses(BUILT_IN, running=0.01), YES),
        ("alike", courses(BUILT_IN, running=-0.03), WEAKLY),
        ("alike", courses(BUILT_IN, running=0.06), NO),
    ],
)
def test_the_rule(name: str, found: Courses, verdict: tuple[bool, bool]) -> None:
    assert judged(name, found) == verdict


def test_one_seed_is_not_enough() -> None:
    early, late = courses(BUILT_IN).courses, courses(LATE).courses
    mixed = Courses((*early[:2], *late[2:4], *early[4:]))
    assert [one.halfway for one in mixed.of(RESIDUAL)] == [0, 930]
    assert judged("built in", mixed) == NO


def test_the_table() -> None:
    text = table(courses(BUILT_IN, rise=0.06))
    assert "| resnet20, seed 0 | 90.00 | +0.200 ± 0.0" in text
    assert "| step 0 | step 1 | step 10 | step 93 | step 930 | step 7440 |" in text
    assert [line.split(" (")[0] for line in text.splitlines()[-5:]] == [
        f"- {name}: yes" for name in RULES
    ]
    assert "built in: yes (step 0, step 0; at step 0 a share of 0.80, 0.80" in text


def test_the_file(tmp_path: Path) -> None:
    found = courses(EARLY)
    place = tmp_path / "trainings" / "split.json"
    place.parent.mkdir()
    found.save(place)
    assert Courses.load(place) == found
    assert measure(Setting(results=tmp_path)) == found
    place.write_text("{}")
    with pytest.raises(FileFormatError, match=r"split\.json"):
        Courses.load(place)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({}, "split.json is missing. Restore the file from the repository"),
        ({"from_scratch": True}, "Run python zoo/split_experiment.py DATA OUT"),
        ({"weights": "none", "data": "random"}, "networks of the zoo only. Leave out --weights"),
    ],
)
def test_where_trainings_cannot_be_read(
    setting: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        measure(Setting(results=tmp_path, **setting))  # type: ignore[arg-type]


def test_what_is_missing_is_named() -> None:
    empty = Track("ResNet", Options(estimator="population"))
    facts = {"network": RESIDUAL, "seed": 0, "epoch": EPOCH, "accuracy": 0.9}
    with pytest.raises(InputError, match="track of ResNet is empty"):
        Course.of(empty, statistics=RUNNING, **facts)
    one = Course.of(track(EARLY), statistics=RUNNING, **facts)
    with pytest.raises(InputError, match=r"no call \*\.act3"):
        one.at(".act3")
    with pytest.raises(InputError, match="no training of plain20 by running statistics"):
        Courses((one,)).of(PLAIN, RUNNING)


def test_the_figure() -> None:
    found = courses(EARLY, rise=0.1)
    drawn = draw(found)[""]
    left, right = drawn.axes
    assert left.get_title() == "ResNet-20, with residual connections\nfinal gap +0.25, +0.25"
    assert right.get_title() == "the same network without them\nfinal gap +0.01, +0.01"
    lines = {line.get_label(): line for line in left.lines}
    end, inside = (
        np.asarray(lines[label].get_ydata())
        for label in ("at the end of a block", "inside a block")
    )
    assert end - inside == pytest.approx(EARLY, abs=1e-5)
    assert list(lines["half of the final gap"].get_xdata()) == [EPOCH, EPOCH]
    assert len(left.lines) == 2 * (2 * 9 + 1) + 2  # calls of two seeds, a mean; two marks
    assert left.get_xlim() == (0, STEPS[-1])
    assert len(drawn.table) == 4 * len(STEPS) * 19
    assert drawn.table[0] == {
        "network": "resnet20",
        "seed": 0,
        "step": 0,
        "site": "act1",
        "score": 0.5,
        "low": 0.49,
        "high": 0.51,
    }
