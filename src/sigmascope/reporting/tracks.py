"""What the report shows of trainings: scores over steps, packed as plain numbers and texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.monitoring.track import Entry, Numbers, Track
from sigmascope.reporting.packing import column, front_coded, named

DRAWN = 400  # steps; a chart has about two pixels for each
WHOLE = 600_000  # scores of a page, beyond which only those of the steps drawn are in it
LISTED = 500  # events
SHOWN = ("score", "low", "high", "dead")
SCALE = 10_000  # scores are whole numbers on the page: four decimals


def tracks_of(
    tracks: Sequence[Track], files: Sequence[Path | None] = (), *, whole: bool = True
) -> list[dict[str, Any]]:
    """Return the tracks as dicts, lists, texts and numbers, None for NaN.

    Args:
        tracks: the tracks.
        files: the file of each, where it has one. It tells namesakes apart.
        whole: whether to add the scores of the steps that are not drawn, for tables.
    """
    places = list(files) or [None] * len(tracks)
    left = WHOLE if whole else 0
    found = []
    for track, file, name in zip(tracks, places, _names(tracks, places), strict=True):
        size = len(track) * len(track.sites)
        found.append(_track(track, whole=size <= left) | {"name": name, "file": _text(file)})
        left -= size if size <= left else 0
    return found


def thinned(count: int, most: int = DRAWN) -> list[int]:
    """Return the numbers of the measurements to draw: every so many, and the last.

    The distance is a power of 2, so that what was drawn mostly stays while a training goes on.

    >>> thinned(10, 5)
    [0, 4, 8, 9]
    """
    stride = 1
    while math.ceil(count / stride) + 1 > most and stride < count:
        stride *= 2
    return sorted({*range(0, count, stride), *([count - 1] if count else [])})


def _names(tracks: Sequence[Track], files: Sequence[Path | None]) -> list[str]:
    """Return a name for each: that of the network, and where it is not unique more."""
    counts = Counter(track.name for track in tracks)
    names: list[str] = []
    for track, file in zip(tracks, files, strict=True):
        name = track.name or "(no name)"
        if counts[track.name] > 1 and file is not None:
            name = f"{name}, {file.stem}"
        again, number = name, 1
        while again in names:
            number += 1
            again = f"{name} ({number})"
        names.append(again)
    return names


def _text(file: Path | None) -> str | None:
    return None if file is None else str(file)


def _track(track: Track, *, whole: bool) -> dict[str, Any]:
    drawn = thinned(len(track))
    kinds = {site.name: site.kind for entry in track.entries for site in entry.sites}
    columns = {name: number for number, name in enumerate(kinds)}
    chosen = [track.entries[place] for place in drawn]
    score, low, high, dead = (_whole(chosen, columns, name) for name in SHOWN)
    shared, ends = front_coded(list(kinds))
    everything = whole and len(drawn) < len(track)
    return {
        "measurements": len(track),
        "ended": track.ended,
        "estimator": "population" if track.options.population else "published",
        "steps": [entry.step for entry in chosen],
        "shared": shared,
        "ends": ends,
        "kinds": named(kinds.values()),
        "score": _differences(score),
        # as distances from the score, which are short
        "below": _columns(score - low),
        "above": _columns(high - score),
        "dead": _columns(dead),
        **_reasons(chosen, columns),
        "events": [
            [event.step, columns.get(event.site, -1), event.what, event.text]
            for event in track.events[:LISTED]
        ],
        "moreEvents": max(0, len(track.events) - LISTED),
        "all": _all(track, columns) if everything else None,
    }


def _all(track: Track, columns: Mapping[str, int]) -> dict[str, Any]:
    score = _whole(track.entries, columns, "score")
    return {"steps": track.steps, "score": _differences(score)}


def _whole(entries: Sequence[Entry], columns: Mapping[str, int], name: str) -> Numbers:
    """Return (measurements, sites) of a number in units of the page, NaN where there is none."""
    found = np.full((len(entries), len(columns)), math.nan)
    for row, entry in enumerate(entries):
        places = [columns[site.name] for site in entry.sites]
        found[row, places] = [getattr(site, name) for site in entry.sites]
    return np.asarray(np.round(found * SCALE), dtype=np.float64)


def _columns(values: Numbers) -> list[Any]:
    """Return a list for each site, or a number where all are equal."""
    return [column(map(_number, site)) for site in values.T.tolist()]


def _differences(values: Numbers) -> list[list[int | None]]:
    """Return for each site the differences to the score before, over gaps too."""
    found = []
    for site in values.T.tolist():
        before, row = 0, list[int | None]()
        for value in map(_number, site):
            row.append(None if value is None else value - before)
            before = before if value is None else value
        found.append(row)
    return found


def _number(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _reasons(entries: Sequence[Entry], columns: Mapping[str, int]) -> dict[str, Any]:
    """Return why scores are missing: the texts, and for each site where another one begins."""
    texts: dict[str, int] = {"": 0}
    changes: list[list[list[int]]] = [[] for _ in columns]
    for place, entry in enumerate(entries):
        told = {site.name: site.reason for site in entry.sites}
        for name, number in columns.items():
            text = told.get(name, "not measured at this step")
            reason = texts.setdefault(text, len(texts))
            before = changes[number][-1][1] if changes[number] else 0
            if reason != before:
                changes[number].append([place, reason])
    return {"reasonTexts": list(texts), "reasons": changes}
