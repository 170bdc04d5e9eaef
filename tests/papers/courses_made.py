"""Made-up trainings of a ResNet-20 and its plain twin, as the item on the split reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sigmascope.measure.options import Options
from sigmascope.monitoring.track import Entry, Track, TrackedSite
from sigmascope_papers.nonlinearity.courses import PLAIN, RESIDUAL, STATISTICS, Course, Courses

STEPS = (0, 1, 10, 93, 930, 7440)
EPOCH = 93
SITES = ("act1", *(f"blocks.{block}.act{call}" for block in range(9) for call in (1, 2)))
Gap = Callable[[int], float]


def track(gaps: Sequence[float], *, rise: float = 0.0, seed: int = 0) -> Track:
    """A track whose gaps at `STEPS` are these; its ends rise by `rise` from first to last."""
    noise = 0.02 * np.random.default_rng(seed).standard_normal(9)
    noise -= noise.mean()
    entries = []
    for number, (step, gap) in enumerate(zip(STEPS, gaps, strict=True)):
        end = 0.8 + rise * number / (len(STEPS) - 1)
        scores = [0.5]
        for extra in noise:
            scores += [end - gap - extra, end + extra]
        sites = tuple(
            TrackedSite(name, "relu", score, score - 0.01, score + 0.01, 0.0, 0.5, "")
            for name, score in zip(SITES, scores, strict=True)
        )
        entries.append(Entry(step, sites, 0.1))
    return Track("ResNet", Options(estimator="population"), tuple(entries))


def courses(
    residual: Sequence[float],
    plain: Sequence[float] = (0.01,) * 6,
    *,
    rise: float = 0.0,
    running: float = 0.0,
) -> Courses:
    """Two seeds of both networks; `running` is added to all gaps by running statistics."""
    found = []
    for network, gaps in ((RESIDUAL, residual), (PLAIN, plain)):
        for seed in (0, 1):
            for statistics, more in zip(STATISTICS, (0.0, running), strict=True):
                made = track([gap + more for gap in gaps], rise=rise, seed=seed)
                facts = {"network": network, "seed": seed, "epoch": EPOCH, "accuracy": 0.9}
                found.append(Course.of(made, statistics=statistics, **facts))
    return Courses(tuple(found))
