"""Measures of similarity in tests whose right answers are known: scores, ranks, and intervals.

The rule that they serve is in zoo/resi_experiment.py.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.stats import rankdata, t as student

from sigmascope.store import decode, encode, read_json, write_json

KIND, VERSION = "similarity-tests", 1
OURS = ("G-Procrustes", "G-CKA")
COUNTERPARTS = {"G-Procrustes": "orthogonal Procrustes", "G-CKA": "linear CKA"}
"""A measure of ours -> the one that allows all rotations."""

Ends: TypeAlias = tuple[float, float, float]
"""A difference and the ends of its 95 % interval."""


@dataclass(frozen=True)
class Scores:
    """The score of a measure in a test, and the same without each seed number."""

    value: float
    left_out: dict[str, float]

    def at(self, seed: str | None) -> float:
        """Return the score without a number; as it is if the test has none of that number."""
        return self.value if seed is None else self.left_out.get(seed, self.value)


Table: TypeAlias = Mapping[str, Mapping[str, Scores]]
"""Test -> measure -> its scores."""


@dataclass(frozen=True)
class Treatment:
    """What a treatment should move, by its degree: means over groups, and whether it did."""

    means: tuple[float, ...]
    worked: bool


@dataclass(frozen=True)
class SimilarityTests:
    """The outcome of all tests.

    Attributes:
        scores: test -> measure -> scores, the ones that are ranked.
        treatments: test -> whether its treatment showed.
        size: the numbers that describe the experiment.
    """

    scores: dict[str, dict[str, Scores]]
    treatments: dict[str, Treatment]
    size: dict[str, int]

    @property
    def counted(self) -> list[str]:
        """The tests that count: all whose treatments worked."""
        treated = self.treatments
        return [name for name in self.scores if name not in treated or treated[name].worked]

    def save(self, path: Path) -> None:
        """Write a JSON file."""
        write_json(path, KIND, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> SimilarityTests:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, KIND, VERSION), str(path))


def ranks(scores: Sequence[float]) -> list[float]:
    """Return the ranks of scores, 1 for the largest; ties share their mean, NaN comes last.

    >>> ranks([0.5, 0.9, float("nan"), 0.5])
    [2.5, 1.0, 4.0, 2.5]
    """
    filled = np.array([-np.inf if math.isnan(one) else one for one in scores])
    return [float(one) for one in rankdata(-filled)]


def mean_ranks(table: Table, counted: Sequence[str], seed: str | None = None) -> dict[str, float]:
    """Return the mean rank over tests of each measure, also without one number of networks."""
    by_test = [ranks([one.at(seed) for one in table[name].values()]) for name in counted]
    means = [statistics.fmean(column) for column in zip(*by_test, strict=True)]
    return dict(zip(table[counted[0]], means, strict=True))


def rank_spread(table: Table, counted: Sequence[str]) -> dict[str, Ends]:
    """Return the mean rank of each measure, and its least and largest without one seed number."""
    means = mean_ranks(table, counted)
    seeds = {seed for test in table.values() for one in test.values() for seed in one.left_out}
    without = [mean_ranks(table, counted, seed) for seed in sorted(seeds)]
    spread = {name: [one[name] for one in without] or [mean] for name, mean in means.items()}
    return {name: (mean, min(spread[name]), max(spread[name])) for name, mean in means.items()}


def interval(first: Sequence[Scores], second: Sequence[Scores]) -> Ends:
    """Return the mean difference of scores over tests, and its 95 % interval by the jackknife.

    The tests share networks: each number of a network moves several of them, and its moves are
    added with their signs before they are squared. The degrees of freedom are those of the test
    with the fewest numbers.

    >>> one = Scores(0.5, {"0": 0.4, "1": 0.5, "2": 0.6})
    >>> zero = Scores(0.0, {"0": 0.0, "1": 0.0, "2": 0.0})
    >>> [round(number, 3) for number in interval([one], [zero])]  # 4.303 · sqrt(2/3 · 0.02)
    [0.5, 0.003, 0.997]
    """
    moves: dict[str, float] = defaultdict(float)
    fewest, count = math.inf, len(first)
    for a, b in zip(first, second, strict=True):
        left = {seed: a.left_out[seed] - b.left_out[seed] for seed in a.left_out}
        mean, n = float(np.mean([*left.values()])), len(left)
        fewest = min(fewest, n)
        for seed, value in left.items():
            moves[seed] += math.sqrt((n - 1) / n) * (value - mean) / count
    difference = float(np.mean([a.value - b.value for a, b in zip(first, second, strict=True)]))
    error = math.sqrt(sum(move**2 for move in moves.values()))
    half = float(student.ppf(0.975, fewest - 1)) * error
    return difference, difference - half, difference + half


def against_chance(one: Scores) -> Ends:
    """Return a score with its interval."""
    return interval([one], [Scores(0.0, dict.fromkeys(one.left_out, 0.0))])


def best_rival(test: Mapping[str, Scores]) -> str:
    """Return the measure with the highest score that is not ours."""
    places = dict(zip(test, ranks([one.value for one in test.values()]), strict=True))
    return min((one for one in test if one not in OURS), key=places.__getitem__)


def verdict(low: float, high: float, words: tuple[str, str]) -> str:
    """Return which word an interval says: below 0, above 0, or open."""
    return words[0] if high < 0 else words[1] if low > 0 else "open"


def rivaled(table: Table, test: str, measure: str) -> tuple[str, Ends]:
    """Return the best rival in a test, and how far a measure of ours is above it."""
    rival = best_rival(table[test])
    return rival, interval([table[test][measure]], [table[test][rival]])


def restricted(table: Table, tests: Sequence[str], measure: str) -> Ends:
    """Return what the group of ReLU gains over all rotations, in the mean over tests."""
    return interval(
        [table[name][measure] for name in tests],
        [table[name][COUNTERPARTS[measure]] for name in tests],
    )
