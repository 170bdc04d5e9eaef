"""Tracks made of given numbers, for tests that show them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sigmascope.measure.options import Options
from sigmascope.monitoring.health import Event
from sigmascope.monitoring.track import Entry, Track, TrackedSite

LOST = "the output does not vary"


def entry(step: int, scores: Sequence[float], names: Sequence[str] = ()) -> Entry:
    """Return a measurement; NaN is a site that has died."""
    paths = names or [f"layer{number}.relu" for number in range(len(scores))]
    sites = [
        TrackedSite(
            *(name, "relu", score, score - 0.02, min(1.0, score + 0.01)),
            *(1.0 if math.isnan(score) else 0.25, 0.5, LOST if math.isnan(score) else ""),
        )
        for name, score in zip(paths, scores, strict=True)
    ]
    return Entry(step, tuple(sites), 0.1)


def made_track(
    name: str = "net", measurements: int = 12, sites: int = 5, *, seed: int = 0, ended: str = ""
) -> Track:
    """Return a track whose scores fall from 0.95 in random steps."""
    falls = np.random.default_rng(seed).uniform(-0.01, 0.03, (measurements, sites)).cumsum(axis=0)
    scores = 0.95 - 0.5 * np.tanh(falls)
    entries = tuple(entry(10 * number, row) for number, row in enumerate(scores.tolist()))
    return Track(name, Options(estimator="population"), entries, ended=ended)


def troubled() -> Track:
    """Return a track of a training in which things happened."""
    rows = [[0.9, 0.8, 0.7], [0.85, 0.99, 0.6], [math.nan, 0.995, 0.65], [math.nan, 0.995, 0.5]]
    events = (
        Event(20, "layer0.relu", "dead", "layer0.relu died: 100% of its channels do not vary"),
        Event(30, "layer1.relu", "affine", "layer1.relu became affine: score 0.995"),
    )
    entries = tuple(entry(10 * number, row) for number, row in enumerate(rows))
    return Track("troubled", Options(estimator="population"), entries, events)
