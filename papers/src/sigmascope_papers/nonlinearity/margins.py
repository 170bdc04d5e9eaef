"""By how much claims on scores clearly hold: numbers that are positive where they do.

Each is a difference of two numbers on the same images, so that it has an interval of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import skew, t as student

from sigmascope_papers.item import UNTESTED, Check
from sigmascope_papers.nonlinearity import fig5a, fig9
from sigmascope_papers.nonlinearity.fig7 import Twins
from sigmascope_papers.nonlinearity.functions import FUNCTIONS
from sigmascope_papers.nonlinearity.grouping import CLEAR, FIRST, LATER, Apart, remoteness
from sigmascope_papers.nonlinearity.lineup import Lineup, known, level
from sigmascope_papers.nonlinearity.vgg16 import (
    ABSOLUTE,
    LATE,
    LINEAR,
    TURN,
    Repetitions,
    Training,
    turning,
)


def _narrow(lineup: Lineup) -> float:
    points = fig5a.until_transformers(lineup)
    later = [level(some, "spread") for key, some in points.items() if key[0] not in fig5a.EARLY]
    return min(later) - max(one.summary()["spread"] for one in lineup.of(*fig5a.EARLY))


def _wide(lineup: Lineup) -> float:
    early = [one.summary() for one in lineup.of(*fig5a.EARLY)]
    own = lineup.lead("Inceptions").summary()
    low, high = min(one["min"] for one in early), max(one["max"] for one in early)
    return min(low - own["min"], own["max"] - high)


def _skewed(lineup: Lineup) -> float:
    return fig5a.STRONG - max(float(skew(known(one))) for one in lineup.of("EffNets"))


def _non_linear(lineup: Lineup) -> float:
    before = [
        one.summary()["median"]
        for some in fig5a.until_transformers(lineup).values()
        for one in some
    ]
    return min(before) - max(one.summary()["median"] for one in lineup.of("ViTs"))


def _wider(twins: Twins) -> float:
    pairs = zip(twins.residual.values(), twins.plain.values(), strict=True)
    return min(float(known(one).std() - known(other).std()) for one, other in pairs)


def _alike(found: Repetitions) -> float:
    return ABSOLUTE - 2 * float(np.stack(list(found.seeds.values())).std(axis=0, ddof=1).max())


def _falls(found: Repetitions) -> float:
    first, *_, last = found.batches.values()
    return float(first.mean() - last.mean())


def _returned(found: Apart) -> float:
    own, matrix = np.array(found.labels), found.matrix("plain")
    first = np.isin(own, FIRST)
    vits, *others = (float(matrix[own == group][:, first].mean()) for group in LATER)
    return CLEAR * vits - max(others)


def _remote(found: Apart) -> float:
    far = remoteness(found.matrix("plain"), found.labels)
    return far.pop("ViTs") - max(far.values())


def _linear(found: Training, reading: str) -> float:
    return float(getattr(found, reading)[:, -LATE:].mean()) - LINEAR


def _learned(found: Training, reading: str) -> float:
    change = found.after.mean(axis=1) - getattr(found, reading).mean(axis=1)
    return -float(change.max())


def _turns(found: Training) -> float:
    return min(turning(line) for line in found.after) - TURN


def _flat(found: fig9.Robustness, name: str) -> float:
    return 0.05 - float(np.ptp(found.means("ledoit-wolf", name)))


Margin = Callable[[Any], float]
READINGS = {"as published": "before", "with batch statistics": "normalized"}
ENDS: dict[str, Margin] = {
    f"at initialization the last layers are almost linear, {words}": partial(_linear, reading=own)
    for words, own in READINGS.items()
}
LEARNED: dict[str, Margin] = {
    f"training makes the network more non-linear, {words}": partial(_learned, reading=own)
    for words, own in READINGS.items()
}
FLAT: dict[str, Margin] = {f"bottom: {name} stays": partial(_flat, name=name) for name in FUNCTIONS}
MARGINS: Mapping[str, Mapping[str, Margin]] = {
    "fig5a": {
        "early convolutional networks": _narrow,
        "the inception network": _wide,
        "EfficientNets are skewed": _skewed,
        "ViTs are more non-linear": _non_linear,
    },
    "fig7": {"the scores of residual networks": _wider},
    "fig9": FLAT,
    "fig9, correlated channels": FLAT,
    "fig10": {"right: trainings agree": _alike, "the score falls": _falls},
    "fig11": {**ENDS, **LEARNED, "after training the score is not": _turns},
    "fig16": {"ViTs are the most remote": _remote, "Swins and ConvNeXts": _returned},
}
"""Item -> how a claim begins -> its margin."""


def margin_of(item: str, check: Check) -> Margin | None:
    """Return the margin of a claim, or None if it has none or cannot be judged."""
    if check.verdict == UNTESTED:
        return None
    own = MARGINS.get(item, {})
    return next((own[start] for start in own if check.claim.startswith(start)), None)


def interval(margin: Margin, whole: Any, parts: Sequence[Any]) -> tuple[float, float, float]:
    """Return a margin and its 95 % interval, by the jackknife.

    Args:
        margin: of results.
        whole: the results of all samples.
        parts: the results without each group of samples.
    """
    value, count = margin(whole), len(parts)
    without = np.array([margin(part) for part in parts])
    variance = (count - 1) / count * float(np.square(without - without.mean()).sum())
    half = float(student.ppf(0.975, count - 1)) * math.sqrt(variance)
    return value, value - half, value + half
