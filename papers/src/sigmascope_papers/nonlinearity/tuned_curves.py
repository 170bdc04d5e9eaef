"""Accuracies of networks that lost activations, and the goals that judge them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.store import decode, encode, read_json, write_json
from sigmascope_papers.item import FAILS, UNTESTED, Check, Finding, conclude
from sigmascope_papers.nonlinearity.criteria import Advantage, judged

KIND, VERSION = "tuned-curves", 1
SEEDS = 3
ROUNDING = 1e-9  # of differences of accuracies that are printed with few digits


@dataclass(frozen=True)
class Published:
    """A network of EASIER's table (ECML 2024): 160 epochs of training for each layer removed.

    Attributes:
        title: its name.
        activations: how many it has.
        accuracy: number removed -> accuracy in percent.
        goals: number removed -> the largest drop to reach, fixed before the runs.
    """

    title: str
    activations: int
    accuracy: dict[int, float]
    goals: dict[int, float]

    def drop(self, removed: int) -> float:
        """Return the published drop, in points."""
        return self.accuracy[0] - self.accuracy[removed]


EPOCHS_A_LAYER = 160
PUBLISHED = {
    "resnet18": Published(
        "ResNet-18",
        17,
        {0: 92.47, 2: 92.82, 4: 92.47, 6: 92.22, 8: 92.10}
        | {9: 90.35, 10: 89.94, 12: 84.52, 14: 80.95, 16: 77.74},
        {8: 0.0, 12: 2.0, 14: 5.0},
    ),
    "vgg16": Published(
        "VGG-16",
        15,
        {0: 93.50, 2: 93.44, 4: 93.51, 6: 93.42, 8: 93.61}
        | {9: 92.65, 10: 93.04, 12: 91.46, 14: 90.38},
        {8: 0.0, 12: 1.0, 14: 2.5},
    ),
    "mobilenetv2": Published(
        "MobileNetV2",
        35,
        {0: 93.65, 2: 93.76, 4: 93.26, 6: 93.22, 8: 93.16, 9: 92.91, 10: 92.79, 12: 93.16}
        | {14: 92.79, 16: 92.45, 20: 90.79, 24: 90.44, 30: 87.19},
        {16: 0.5, 24: 1.5, 30: 4.0},
    ),
    "swin": Published(
        "Swin-T",
        12,
        {0: 91.66, 2: 91.84, 4: 91.73, 6: 91.25, 8: 90.83, 9: 90.12, 10: 87.79},
        {6: 0.3, 8: 0.8, 10: 2.5},
    ),
}


@dataclass(frozen=True)
class Point:
    """One tuned network.

    Attributes:
        network, seed: what it was made of.
        removed: how many activations it lost.
        epochs: of tuning.
        accuracy: on the test images, in percent.
        original: accuracy of the better of the original and the original tuned as long.
    """

    network: str
    seed: int
    removed: int
    epochs: float
    accuracy: float
    original: float

    @property
    def drop(self) -> float:
        """What was lost, in points."""
        return self.original - self.accuracy


@dataclass(frozen=True)
class Curves:
    """The tuned networks of an experiment, and how far affinity is ahead of other criteria."""

    points: tuple[Point, ...]
    advantages: tuple[Advantage, ...] = ()

    def at(self, network: str, removed: int | None = None) -> list[Point]:
        """Return the points of a network, in order of numbers removed and seeds."""
        found = [
            one for one in self.points if one.network == network and removed in (None, one.removed)
        ]
        return sorted(found, key=lambda one: (one.removed, one.seed))

    def save(self, path: Path) -> None:
        """Write a JSON file."""
        write_json(path, KIND, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Curves:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, KIND, VERSION), str(path))


def goals(found: Curves) -> list[Check]:
    """Judge each number of each network by its mean drop over all seeds."""
    return [
        _judged(one, removed, goal, found.at(name, removed))
        for name, one in PUBLISHED.items()
        for removed, goal in one.goals.items()
    ]


def _judged(network: Published, removed: int, goal: float, points: Sequence[Point]) -> Check:
    claim = (
        f"ours: {network.title} without {removed} of its {network.activations} activations loses "
        f"at most {goal:g} point{'s' * (goal != 1)}"
    )
    expected = f"a mean drop of at most {goal:g}; published: {network.drop(removed):.1f}"
    told = ", ".join(f"{one.drop:.2f}" for one in points)
    if len(points) < SEEDS:
        reason = f"{len(points)} of {SEEDS} seeds are measured"
        return conclude(claim, expected, f"{reason}: drops {told}" if points else reason)
    drop = statistics.fmean(one.drop for one in points)
    limit = goal + ROUNDING
    every = all(one.drop <= limit for one in points)
    return conclude(claim, expected, (f"{drop:.2f} ({told})", drop <= limit, every))


def all_goals(found: Curves) -> Finding:
    """Judge all goals together: one that is missed decides, whatever is not measured yet."""
    verdicts = [one.verdict for one in goals(found)]
    missed, open_ones = verdicts.count(FAILS), verdicts.count(UNTESTED)
    told = f"{missed} of {len(verdicts) - open_ones} measured goals are missed"
    told += f", {open_ones} are not measured" if open_ones else ""
    return told if open_ones and not missed else (told, not missed)


def criteria(found: Curves) -> list[Check]:
    """Judge affinity against other criteria."""
    return judged(found.advantages)


RULES: tuple[Callable[[Curves], Any], ...] = (all_goals, goals, criteria)
