"""What the page knows of trainings: packed, thinned, and true."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.reporting.content import Shown, content_of
from sigmascope.reporting.page import report
from sigmascope.reporting.tracks import DRAWN, thinned, tracks_of
from tests.compare.made import made
from tests.reporting.made_tracks import LOST, made_track, troubled


def unpacked(differences: list[int | None]) -> list[float]:
    """Undo the differences, as scripts/tracks.js does."""
    before, found = 0, []
    for value in differences:
        before += value or 0
        found.append(math.nan if value is None else before / 10_000)
    return found


def scores_in(packed: dict[str, Any]) -> np.ndarray:
    return np.array([unpacked(site) for site in packed["score"]]).T


@pytest.mark.parametrize("track", [made_track(), troubled(), made_track(measurements=1)])
def test_scores_come_back_as_they_went_in(track: sg.Track) -> None:
    [packed] = tracks_of([track])
    assert packed["steps"] == track.steps
    np.testing.assert_allclose(scores_in(packed), track.scores, atol=0.5e-4, equal_nan=True)
    assert packed["all"] is None
    json.dumps(packed, allow_nan=False)


@pytest.mark.parametrize(
    "one", [made_track(), made("net", [0.5, 0.75])], ids=["track", "signature"]
)
def test_a_single_result_is_shown_as_a_list_of_it(one: Any) -> None:
    assert Shown.of(one) == Shown.of([one])


def test_reasons_are_told_from_where_they_begin() -> None:
    [packed] = tracks_of([troubled()])
    assert packed["reasonTexts"] == ["", LOST]
    assert packed["reasons"] == [[[2, 1]], [], []]
    assert [event[:3] for event in packed["events"]] == [[20, 0, "dead"], [30, 1, "affine"]]


@pytest.mark.parametrize("count", [0, 1, 2, 399, 400, 401, 799, 5000, 10_000])
def test_few_steps_are_drawn_with_the_first_and_the_last(count: int) -> None:
    found = thinned(count)
    assert len(found) <= DRAWN
    assert len(found) >= min(count, DRAWN // 2 - 1)
    assert found[:1] == [0][:count]
    assert found[-1:] == [count - 1][:count]
    assert len({later - one for one, later in itertools.pairwise(found[:-1])}) <= 1


def test_what_was_drawn_stays_while_a_training_goes_on() -> None:
    for count in range(DRAWN + 1, 3 * DRAWN, 37):
        later = {*thinned(count + 37)}
        kept = [place for place in thinned(count)[:-1] if place in later]
        assert len(kept) >= len(thinned(count)) // 2 - 1


def test_the_scores_of_all_steps_are_kept_for_the_tables() -> None:
    track = made_track(measurements=1000, sites=3)
    [packed] = tracks_of([track])
    assert len(packed["steps"]) <= DRAWN
    assert packed["all"]["steps"] == track.steps
    whole = np.array([unpacked(site) for site in packed["all"]["score"]]).T
    np.testing.assert_allclose(whole, track.scores, atol=0.5e-4)
    places = thinned(1000)
    np.testing.assert_allclose(scores_in(packed), track.scores[places], atol=0.5e-4)
    assert tracks_of([track], whole=False)[0]["all"] is None


def test_a_page_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.reporting.tracks.WHOLE", 2000)
    tracks = [made_track(measurements=500, sites=3), made_track(measurements=500, sites=3)]
    assert [packed["all"] is None for packed in tracks_of(tracks)] == [False, True]


def test_namesakes_are_told_apart() -> None:
    tracks = [made_track("net"), made_track("net"), made_track("net"), made_track("other")]
    assert [one["name"] for one in tracks_of(tracks)] == ["net", "net (2)", "net (3)", "other"]
    files = [Path("a/one.json"), Path("b/two.json"), Path("c/two.json"), Path("d.json")]
    names = [one["name"] for one in tracks_of(tracks, files)]
    assert names == ["net, one", "net, two", "net, two (2)", "other"]


def test_signatures_and_tracks_and_files_of_both(tmp_path: Path) -> None:
    signature, track = made("alpha", [0.5, 0.6]), made_track()
    files = [signature.save(tmp_path / "signature.json"), track.save(tmp_path / "track.json")]
    shown = Shown.of([track, signature, *files])
    assert [one.name for one in shown.signatures] == ["alpha", "alpha"]
    assert (len(shown.tracks), shown.files) == (2, (None, files[1]))
    content = content_of(shown)
    assert len(content["networks"]) == 2
    assert [one["file"] for one in content["tracks"]] == [None, str(files[1])]
    alone = content_of(Shown.of([str(files[1])]), data="cifar10")
    assert (alone["networks"], alone["data"], len(alone["tracks"])) == ([], "cifar10", 1)
    assert report([track], tmp_path / "page.html").stat().st_size < 700_000


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ("track.json", sg.InputTypeError, "a single path. Pass a list"),
        ([], sg.InputError, "no signatures"),
        ([made_track(), 3], sg.InputTypeError, "int"),
    ],
)
def test_bad_input(given: Any, error: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        report(given, tmp_path / "page.html")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    made("alpha", [0.5]).save(tmp_path / "runs" / "alpha.json")
    with pytest.raises(sg.InputTypeError, match="holds a Runs, which a report does not show"):
        report([tmp_path / "runs"], tmp_path / "page.html")
