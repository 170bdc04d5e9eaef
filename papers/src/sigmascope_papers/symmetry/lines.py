"""Barriers on the lines between two networks: what is stored of them, and their statistics.

The rule that they serve is in zoo/align_experiment.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.stats import spearmanr, t as student

from sigmascope.store import decode, encode, read_json, write_json

KIND, VERSION = "lines", 1
BEST = "activations, all"
BY = ("weights", "activations")
CURVES = ("naive", *(f"{by}, {group}" for by in BY for group in ("permutations", "all")))
SCALED = ("myrtle", "vgg16", "resnet20", "myrtle-nobn")
"""Families whose activations admit scales."""
FEWEST, MARGIN = 4, 1.0
"""Networks of which a jackknife is made, and the points within which scales add nothing."""
MEASURES = {"procrustes": "G-Procrustes", "cka": "G-CKA"}
LOSS, CALIBRATED, LOST = "losses", "calibrated", "accuracies"

Estimate: TypeAlias = tuple[float, float]
"""A mean and its standard error, NaN of fewer than `FEWEST` networks."""


@dataclass(frozen=True)
class Line:
    """A pair of networks that differ in their seeds.

    Attributes:
        family: the architecture.
        width: its multiple of the usual width.
        seeds: of both.
        heights: curve, as it is or corrected -> `LOSS`, `CALIBRATED`, `LOST` -> the barrier, the
            last in points of accuracy.
        similarity: measure -> similarity before aligning.
    """

    family: str
    width: int
    seeds: tuple[int, int]
    heights: dict[str, dict[str, float]]
    similarity: dict[str, float]

    @property
    def name(self) -> str:
        """The family with its width."""
        return self.family if self.width == 1 else f"{self.family} x{self.width}"

    def lost(self, curve: str) -> float:
        """Return the points of accuracy lost on a curve."""
        return self.heights[curve][LOST]


@dataclass(frozen=True)
class Lines:
    """The pairs of an experiment, and the number of images of which their lines were evaluated."""

    pairs: tuple[Line, ...]
    images: int

    @property
    def families(self) -> dict[str, list[Line]]:
        """Family and width -> its pairs."""
        found: dict[str, list[Line]] = {}
        for one in self.pairs:
            found.setdefault(one.name, []).append(one)
        return found

    @property
    def plain(self) -> dict[str, list[Line]]:
        """The same, without wider networks."""
        return {name: own for name, own in self.families.items() if own[0].width == 1}

    def save(self, path: Path) -> None:
        """Write a JSON file."""
        write_json(path, KIND, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Lines:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, KIND, VERSION), str(path))


def height(values: Sequence[float]) -> float:
    """Return the largest height of equidistant points above the chord.

    >>> height([1.0, 4.0, 2.0])
    2.5
    """
    share, y = np.linspace(0, 1, len(values)), np.asarray(values)
    return float(np.max(y - ((1 - share) * y[0] + share * y[-1])))


def heights(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Return the barriers of all curves."""
    return {
        name: {
            LOSS: height(curve[LOSS]),
            CALIBRATED: height(curve[CALIBRATED]),
            LOST: height([-100 * one for one in curve[LOST]]),
        }
        for name, curve in curves.items()
    }


def jackknifed(pairs: Sequence[Line], statistic: Callable[[Sequence[Line]], float]) -> Estimate:
    """Return a statistic of pairs and its standard error, leaving out one network at a time."""
    seeds = sorted({seed for one in pairs for seed in one.seeds})
    whole, n = statistic(pairs), len(seeds)
    left = [[one for one in pairs if seed not in one.seeds] for seed in seeds]
    if n < FEWEST or not all(left):  # all pairs so far may share a network
        return whole, math.nan
    without = [statistic(own) for own in left]
    mean = statistics.fmean(without)
    return whole, math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in without))


def interval(estimate: Estimate, networks: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval by Student's t."""
    half = float(student.ppf(0.975, max(networks - 1, 1))) * estimate[1]
    return estimate[0] - half, estimate[0] + half


def reduction(pairs: Sequence[Line], curve: str, of: str) -> float:
    """Return by how much the mean barrier falls below that of the naive line."""
    before, after = (
        statistics.fmean(one.heights[name][of] for one in pairs) for name in ("naive", curve)
    )
    return 1 - after / before if before > 0 else math.nan


def reduced(pairs: Sequence[Line], curve: str, of: str) -> tuple[float, float, float]:
    """Return the reduction of a family with its interval."""
    estimate = jackknifed(pairs, lambda part: reduction(part, curve, of))
    seeds = {seed for one in pairs for seed in one.seeds}
    return estimate[0], *interval(estimate, len(seeds))


def mean_difference(
    families: Mapping[str, Sequence[Line]], measure: Callable[[Line], float]
) -> tuple[float, float, float]:
    """Return the mean over families of which errors are known, with its interval."""
    parts, counts = list[Estimate](), list[int]()
    for own in families.values():
        estimate = jackknifed(own, lambda part: statistics.fmean(map(measure, part)))
        if math.isfinite(estimate[1]):
            parts.append(estimate)
            counts.append(len({seed for one in own for seed in one.seeds}))
    if not parts:
        return math.nan, math.nan, math.nan
    error = math.sqrt(sum(one[1] ** 2 for one in parts)) / len(parts)
    mean = statistics.fmean(one[0] for one in parts)
    return mean, *interval((mean, error), sum(counts) - len(counts) + 1)


def scale_gain(line: Line, by: str, end: str) -> float:
    """Return how many points fewer are lost with the whole group than with permutations."""
    return line.lost(f"{by}, permutations{end}") - line.lost(f"{by}, all{end}")


def correction_gain(line: Line) -> float:
    """Return how many points fewer are lost on the aligned line with the correction."""
    return line.lost(BEST) - line.lost(f"{BEST}, corrected")


def scaled(lines: Lines) -> dict[str, list[Line]]:
    """Return the families of usual width whose activations admit scales."""
    return {name: own for name, own in lines.plain.items() if name in SCALED}


def verdict(low: float, high: float) -> str:
    """Return what an interval of points gained says.

    >>> verdict(0.1, 3), verdict(-3, -1), verdict(-0.5, 0.5), verdict(-0.5, 2)
    ('help', 'hurt', 'add nothing', 'undecided')
    """
    if low > 0 or high < 0:
        return "help" if low > 0 else "hurt"
    return "add nothing" if low >= -MARGIN and high <= MARGIN else "undecided"


def told_points(ends: tuple[float, float, float]) -> str:
    """Return points with their interval; what rounds to 0 has no sign.

    >>> told_points((-0.003, -0.01, 0.004)), told_points((2.5, 1.6, 3.45))
    ('0.00 points (-0.01 to 0.00)', '2.50 points (1.60 to 3.45)')
    """
    mean, low, high = (f"{round(one, 2) + 0.0:.2f}" for one in ends)
    return f"{mean} points ({low} to {high})"


def predicted(lines: Lines, measure: str) -> tuple[float, float]:
    """Return Spearman's correlation of similarity and points lost, over all and within families."""
    curve = f"{BEST}, corrected"
    pairs = [
        np.array([(one.similarity[measure], one.lost(curve)) for one in own])
        for own in lines.families.values()
    ]
    several = [own - own.mean(axis=0) for own in pairs if len(own) > 1]
    return _spearman(pairs), _spearman(several)


def _spearman(parts: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]) -> float:
    columns = np.concatenate(parts).T if parts else np.zeros((2, 0))
    if columns.shape[1] < 3 or not np.ptp(columns, axis=1).all():
        return math.nan
    return float(spearmanr(*columns).statistic)
