"""Stitches by where they start: what is stored of their trainings, and the rule that judges them.

The rule is explained in zoo/stitch_start.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sigmascope.store import decode, encode, read_json, write_json

KIND, VERSION = "stitch-starts", 1
SITES = ("9", "19", "29", "39")
RANDOM = "random"
ALIGNED = ("weights", "activations")
WAYS = (RANDOM, "matched", *ALIGNED)
MARGIN = 1.0
"""The points by which an aligned start has to be ahead of the random one."""

Accuracies: TypeAlias = Mapping[str, Sequence[float]]
"""Way to start -> held-out accuracy of each epoch from `first_epoch` on, in percent."""


@dataclass(frozen=True)
class SiteStarts:
    """The stitches of a site, trained on the same batches.

    Attributes:
        site: its name.
        steps: of an epoch.
        samples: the numbers of training, held-out and test images.
        accuracies: see `Accuracies`.
        penalties: way to start -> penalty on the test images, in points.
        torch: its version.
        device: on which they were trained.
    """

    site: str
    steps: int
    samples: tuple[int, int, int]
    accuracies: dict[str, tuple[float, ...]]
    penalties: dict[str, float]
    torch: str
    device: str


@dataclass(frozen=True)
class StitchStarts:
    """The sites of an experiment."""

    sites: tuple[SiteStarts, ...]

    @property
    def missing(self) -> list[str]:
        """The sites of which not every way to start is measured."""
        known = {one.site for one in self.sites if {*WAYS} <= {*one.accuracies}}
        return [site for site in SITES if site not in known]

    def save(self, path: Path) -> None:
        """Write a JSON file."""
        write_json(path, KIND, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> StitchStarts:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, KIND, VERSION), str(path))


def first_epoch(way: str) -> int:
    """Return the number of the first epoch: 0, the start itself, which a random one has not."""
    return 1 if way == RANDOM else 0


def first_above(accuracies: Sequence[float], level: float) -> int | None:
    """Return the place of the first entry that is larger than a level.

    >>> first_above([70.0, 80.0, 81.0], 80.0), first_above([70.0], 80.0)
    (2, None)
    """
    return next((place for place, one in enumerate(accuracies) if one > level), None)


def best_epoch(accuracies: Accuracies, way: str) -> int:
    """Return the first epoch with the best accuracy of a way to start."""
    own = accuracies[way]
    return own.index(max(own)) + first_epoch(way)


def ahead(accuracies: Accuracies, way: str) -> float:
    """Return how many points the best accuracy of a way to start is above the random start's."""
    return max(accuracies[way]) - max(accuracies[RANDOM])


def wins(accuracies: Accuracies, way: str) -> bool:
    """Return whether a way to start wins against the random one at a site, by the rule.

    >>> wins({"random": [70.0, 80.0], "weights": [50.0, 81.0]}, "weights")  # in epoch 1, not in 2
    True
    >>> wins({"random": [70.0, 80.0], "weights": [50.0, 50.0, 81.0]}, "weights")
    False
    """
    best = max(accuracies[RANDOM])
    taken = first_above(accuracies[way], best)
    sooner = taken is not None and taken < best_epoch(accuracies, RANDOM)
    return max(accuracies[way]) >= best + MARGIN and sooner


def verdict(won: int, sites: int) -> str:
    """Return what the rule says of a way to start that wins at so many sites.

    >>> verdict(4, 4), verdict(3, 4), verdict(2, 4)
    ('holds', 'weakly', 'fails')
    """
    return "holds" if won == sites else "weakly" if 2 * won > sites else "fails"
