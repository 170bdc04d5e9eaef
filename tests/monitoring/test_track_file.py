"""Files of tracks: the same to the bit, small, and those of earlier versions too."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.monitoring.track import KIND, Entry, TrackedSite
from sigmascope.monitoring.track_file import NUMBERS, packed
from sigmascope.store import encode, write_json
from tests.reporting.made_tracks import entry, made_track, troubled

VARIED = replace(
    made_track(measurements=3, ended="finished"),
    entries=(
        *made_track(measurements=3).entries,
        Entry(100, ()),
        entry(200, [1 / 3, math.nan]),
        Entry(300, (TrackedSite("gelu", "gelu", 0.1, math.nan, 1.0, 0.0, 1e300, ""),), 2.5),
    ),
)


@pytest.mark.parametrize("track", [VARIED, troubled(), made_track(measurements=0)])
def test_a_track_comes_back_unchanged(track: sg.Track, tmp_path: Path) -> None:
    back = sg.Track.load(track.save(tmp_path / "track.json"))
    assert repr(back.entries) == repr(track.entries)  # where NaN is equal to itself
    assert replace(back, entries=()) == replace(track, entries=())
    for name in NUMBERS:
        assert np.array_equal(back.values(name), track.values(name), equal_nan=True)


@pytest.mark.parametrize("track", [VARIED, troubled()])
def test_files_of_version_1_are_read(track: sg.Track, tmp_path: Path) -> None:
    content: Any = encode(track)
    del content["ended"]  # which came later
    write_json(tmp_path / "track.json", KIND, 1, content)
    back = sg.Track.load(tmp_path / "track.json")
    assert repr(back) == repr(replace(track, ended=""))
    assert repr(back.entries) == repr(track.entries)


def test_long_trainings_fit_into_a_file(tmp_path: Path) -> None:
    """An earlier version ended a training of 50 sites after some 4,000 measurements."""
    sizes = [
        made_track(measurements=count, sites=50).save(tmp_path / "t.json").stat().st_size
        for count in (100, 200)
    ]
    assert (sizes[1] - sizes[0]) / 100 < 3000  # bytes for each measurement; the limit is 64 MiB
    many = json.dumps(packed(made_track(measurements=200, sites=50))).count(",")
    assert many < 2000  # values; the limit is 2 million


def changed(name: str, value: Any) -> Any:
    return packed(troubled()) | {name: value}


@pytest.mark.parametrize(
    "content",
    [
        changed("steps", [0, 10]),
        changed("layout", [0, 0, 0, 1]),
        changed("layout", [0, 0, 0, -1]),
        changed("reasons", [[99, 0]]),
        changed("reasons", [[-1, 0]]),
        changed("texts", []),
        changed("numbers", {}),
        changed("numbers", dict.fromkeys(NUMBERS, "")),
        changed("numbers", dict.fromkeys(NUMBERS, "not base64")),
        changed("numbers", dict.fromkeys(NUMBERS, base64.b64encode(b"odd").decode())),
        changed("layouts", [{"names": ["a", "b", "c"], "kinds": ["relu"]}]),
    ],
)
def test_columns_that_do_not_fit_are_named(content: Any, tmp_path: Path) -> None:
    file = tmp_path / "track.json"
    write_json(file, KIND, 2, content)
    with pytest.raises(sg.FileFormatError, match=r"track\.json: content: the columns do not fit"):
        sg.Track.load(file)


def test_the_time_for_the_file_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch
    from torch import nn

    clock = [100.0]
    monkeypatch.setattr("sigmascope.monitoring.monitor.time.perf_counter", lambda: clock[0])

    def slow(self: sg.Track, path: Path) -> Path:
        clock[0] += 5
        return path

    monkeypatch.setattr(sg.Track, "save", slow)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    monitor = sg.Monitor(model, torch.randn(64, 4), file=tmp_path / "run.json", budget=0.5)
    monitor.step(0)
    assert monitor.seconds == 5
    assert monitor.step(1) is None
    clock[0] += 5
    assert monitor.step(2) is not None
