"""How a track is stored: its numbers in columns, since a training may be measured for days.

Version 1 had an object for each site at each step, five times as much; it is still read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.errors import FileFormatError
from sigmascope.measure.options import Options
from sigmascope.monitoring.health import Event
from sigmascope.store import decode, encode

if TYPE_CHECKING:
    from sigmascope.monitoring.track import Entry, Track, TrackedSite

NUMBERS = ("score", "low", "high", "dead", "gain")
KEY = "layouts"  # what only version 2 has
FLOAT = np.dtype("<f8")


@dataclass(frozen=True)
class Layout:
    """The sites of a measurement, which are mostly those of the one before."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """A track in columns.

    Attributes:
        name, options, events, ended: as those of the track.
        steps, seconds: of the measurements.
        layouts: the different ones.
        layout: the number of that of each measurement.
        numbers: for each number of a site, the values at all sites of all measurements one after
            the other: base64 of 64-bit floats, little end first.
        texts: the different reasons.
        reasons: where there is one, the place in that order, and the number of its text.
    """

    name: str
    options: Options
    events: tuple[Event, ...]
    ended: str
    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    layouts: tuple[Layout, ...]
    layout: tuple[int, ...]
    numbers: dict[str, str]
    texts: tuple[str, ...]
    reasons: tuple[tuple[int, int], ...]


def packed(track: Track) -> Any:
    """Return what a file of version 2 holds."""
    layouts: dict[Layout, int] = {}
    numbers = [layouts.setdefault(_layout(entry), len(layouts)) for entry in track.entries]
    sites = [site for entry in track.entries for site in entry.sites]
    told = [(place, site.reason) for place, site in enumerate(sites) if site.reason]
    texts = {text: number for number, text in enumerate(dict.fromkeys(text for _, text in told))}
    stored = Stored(
        track.name,
        track.options,
        track.events,
        track.ended,
        tuple(track.steps),
        tuple(entry.seconds for entry in track.entries),
        tuple(layouts),
        tuple(numbers),
        {name: _text([getattr(site, name) for site in sites]) for name in NUMBERS},
        tuple(texts),
        tuple((place, texts[text]) for place, text in told),
    )
    return encode(stored)


def unpacked(content: Mapping[str, Any], where: str) -> Iterator[Any]:
    """Yield the parts of a track in the order of its fields.

    Raises:
        FileFormatError: the parts do not fit.
    """
    stored = decode(Stored, content, where)
    try:
        entries = tuple(_entries(stored))
    except (ValueError, LookupError, binascii.Error) as error:
        raise FileFormatError(
            f"{where}: the columns do not fit ({error}). Restore a copy or write it again."
        ) from error
    yield from (stored.name, stored.options, entries, stored.events, stored.ended)


def _layout(entry: Entry) -> Layout:
    return Layout(
        tuple(site.name for site in entry.sites), tuple(site.kind for site in entry.sites)
    )


def _text(values: list[float]) -> str:
    return base64.b64encode(np.array(values, dtype=FLOAT).tobytes()).decode()


def _entries(stored: Stored) -> Iterator[Entry]:
    from sigmascope.monitoring.track import Entry  # which stores itself with this module

    sites = _sites(stored)
    for step, seconds, number in zip(stored.steps, stored.seconds, stored.layout, strict=True):
        count = len(stored.layouts[number].names)
        yield Entry(step, tuple(islice(sites, count)), seconds)


def _sites(stored: Stored) -> Iterator[TrackedSite]:
    """Yield the sites of all measurements, after checking that all columns have one length."""
    from sigmascope.monitoring.track import TrackedSite

    if min(chain(stored.layout, *stored.reasons), default=0) < 0:
        raise ValueError("a negative place")
    chosen = [stored.layouts[number] for number in stored.layout]
    pairs = [pair for one in chosen for pair in zip(one.names, one.kinds, strict=True)]
    columns = [_values(stored.numbers[name]) for name in NUMBERS]
    reasons = [""] * len(pairs)
    for place, number in stored.reasons:
        reasons[place] = stored.texts[number]
    for pair, numbers, reason in zip(pairs, zip(*columns, strict=True), reasons, strict=True):
        score, low, high, dead, gain = numbers
        yield TrackedSite(*pair, score, low, high, dead, gain, reason)


def _values(text: str) -> list[float]:
    data = np.frombuffer(base64.b64decode(text, validate=True), dtype=FLOAT)
    found: list[float] = data.tolist()
    return found
