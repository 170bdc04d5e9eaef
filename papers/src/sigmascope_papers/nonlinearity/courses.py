"""How the scores at two places of a block move apart in training, and the rule that judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.errors import InputError
from sigmascope.monitoring.track import Track
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.convergence import quantile
from sigmascope_papers.rules import at_least, at_most

KIND, VERSION = "courses-of-training", 1
RESIDUAL, PLAIN = NETWORKS = "resnet20", "plain20"
BATCH, RUNNING = STATISTICS = "batch", "running"
INSIDE, END = ".act1", ".act2"  # how the names of the two calls of a block end
DIGITS = 5
# The rule, fixed before the trainings. The first limit is that of a claim that clearly holds.
WIDE = 0.1  # of the gap at the end
SHARE, HALF = 0.25, 0.5  # of the final gap: the most without connections; it has come about
RISE = 0.05, 0.0  # of the calls after the additions
CLOSE = 0.02, 0.05  # of the final gaps by both kinds of statistics
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Course:
    """The scores of a network over the steps of one training.

    Attributes:
        network, seed: what was trained.
        statistics: of batch norm in the measurements, "batch" or "running".
        epoch: the number of steps in an epoch.
        accuracy: on the test images, after the last step.
        sites: the names of the activation calls.
        steps: after how many steps they were measured.
        scores, low, high: a row for each step: population scores and their 95 % intervals.
    """

    network: str
    seed: int
    statistics: str
    epoch: int
    accuracy: float
    sites: tuple[str, ...]
    steps: tuple[int, ...]
    scores: Rows
    low: Rows
    high: Rows

    @classmethod
    def of(cls, track: Track, **facts: Any) -> Course:
        """Return the course that a track holds; `facts` are the first five attributes."""
        if not track.entries:
            raise InputError(f"the track of {track.name} is empty. Measure at least once.")
        columns = {"scores": "score", "low": "low", "high": "high"}
        numbers: dict[str, Any] = {
            name: _rows(track.values(column)) for name, column in columns.items()
        }
        return cls(**facts, sites=tuple(track.sites), steps=tuple(track.steps), **numbers)

    def at(self, place: str) -> Array:
        """Return the scores (steps, blocks) of the calls whose names end in `place`."""
        chosen = [
            number
            for number, site in enumerate(self.sites)
            if "." in site and site.endswith(place)  # the stem is in no block
        ]
        if not chosen:
            raise InputError(f"{self.network} has no call *{place}. Pass a ResNet of the zoo.")
        return np.array(self.scores)[:, chosen]

    @property
    def differences(self) -> Array:
        """(steps, blocks): the score at the end of a block less that inside."""
        return self.at(END) - self.at(INSIDE)

    @property
    def gaps(self) -> Array:
        """(steps,): the mean difference over the blocks."""
        found: Array = self.differences.mean(axis=1)
        return found

    @property
    def margins(self) -> Array:
        """(steps,): half the 95 % interval of the gap, by Student's t over the blocks."""
        return margin(self.differences)

    @property
    def separation(self) -> Array:
        """(steps,): the share of pairs, one call of each place, in which the end scores higher."""
        higher = self.at(END)[:, :, None] > self.at(INSIDE)[:, None, :]
        found: Array = higher.mean(axis=(1, 2))
        return found

    @property
    def halfway(self) -> int | None:
        """The first step from which on half of the final gap holds; None without a split."""
        if not self.gaps[-1] > self.margins[-1]:
            return None
        below = np.flatnonzero(~(self.gaps >= HALF * self.gaps[-1]))  # a NaN is below
        return self.steps[below[-1] + 1] if len(below) else self.steps[0]


def _rows(numbers: Array) -> Rows:
    return tuple(tuple(row) for row in numbers.round(DIGITS).tolist())


def margin(values: Array) -> Array:
    """Return half the 95 % interval of the mean over the last axis, by Student's t."""
    count = values.shape[-1]
    deviation = values.std(axis=-1, ddof=1)
    found: Array = quantile(count) * deviation / np.sqrt(count)
    return found


@dataclass(frozen=True)
class Courses:
    """Several trainings, each measured with one or both kinds of statistics."""

    courses: tuple[Course, ...]

    def of(self, network: str, statistics: str = BATCH) -> list[Course]:
        """Return the courses of a network, in order of their seeds."""
        found = [
            one for one in self.courses if (one.network, one.statistics) == (network, statistics)
        ]
        if not found:
            raise InputError(f"there is no training of {network} by {statistics} statistics.")
        return sorted(found, key=lambda one: one.seed)

    def save(self, path: Path) -> None:
        """Write a JSON file."""
        write_json(path, KIND, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Courses:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, KIND, VERSION), str(path))


def _told(values: Sequence[float] | Array, digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def split(found: Courses) -> tuple[str, bool, bool]:
    """Judge whether there is a split after the last step, in every training with connections."""
    courses = found.of(RESIDUAL)
    gaps, margins = ([getattr(one, name)[-1] for one in courses] for name in ("gaps", "margins"))
    pairs = list(zip(gaps, margins, strict=True))
    obtained = ", ".join(f"{gap:.3f} ± {half:.3f}" for gap, half in pairs)
    separated = _told([one.separation[-1] for one in courses], 2)
    true = all(gap > half for gap, half in pairs)
    return f"{obtained}; separation {separated}", true, true and min(gaps) >= WIDE


def not_split(found: Courses) -> tuple[str, bool, bool]:
    """Judge the gap without connections by its share of the final one with them."""
    last, most, limits = [], [], []
    for plain, residual in zip(found.of(PLAIN), found.of(RESIDUAL), strict=True):
        gaps = np.abs(plain.gaps)
        last.append(gaps[-1])
        most.append(gaps[np.array(plain.steps) >= plain.epoch].max())
        limits.append(SHARE * residual.gaps[-1])
    obtained = f"{_told(last)} at the end, at most {_told(most)} after the first epoch"
    true, clear = (bool(np.all(np.less_equal(values, limits))) for values in (last, most))
    return f"{obtained}; a quarter is {_told(limits)}", true, clear


def built_in(found: Courses) -> tuple[str, bool, bool]:
    """Judge whether half of the final gap holds from the start on."""
    courses = found.of(RESIDUAL)
    shares = [one.gaps[0] / one.gaps[-1] for one in courses]
    steps = [one.halfway for one in courses]
    told = ", ".join("never" if step is None else f"step {step}" for step in steps)
    obtained = f"{told}; at step 0 a share of {_told(shares, 2)} of the final gap"
    early = [
        step is not None and step <= one.epoch for step, one in zip(steps, courses, strict=True)
    ]
    return obtained, all(early), all(step == 0 for step in steps)


def ends_rise(found: Courses) -> tuple[str, bool, bool]:
    """Judge whether calls after the additions become more affine from the first step to the last.

    The change of those inside is told beside it.
    """
    rises, others = (
        [float(one.at(place)[-1].mean() - one.at(place)[0].mean()) for one in found.of(RESIDUAL)]
        for place in (END, INSIDE)
    )
    told = (", ".join(f"{value:+.3f}" for value in values) for values in (rises, others))
    obtained = "{}; inside {}".format(*told)
    return at_least(obtained, rises, RISE)


def alike(found: Courses) -> tuple[str, bool, bool]:
    """Judge the distance of the final gaps by both kinds of statistics, in every training."""
    apart = [
        abs(float(one.gaps[-1] - other.gaps[-1]))
        for network in NETWORKS
        for one, other in zip(found.of(network), found.of(network, RUNNING), strict=True)
    ]
    steps = [one.halfway for one in found.of(RESIDUAL, RUNNING)]
    told = ", ".join("never" if step is None else str(step) for step in steps)
    return at_most(f"{_told(apart)} apart; half from step {told}", apart, CLOSE)


RULES: dict[str, Callable[[Courses], tuple[Any, ...]]] = {
    "split": split,
    "not split": not_split,
    "built in": built_in,
    "ends rise": ends_rise,
    "alike": alike,
}
"""Name of a claim -> its rule."""
SHOWN = (0, 1, 10, 100, 1000, 10**9)


def table(found: Courses) -> str:
    """Return the gaps of all trainings as Markdown, and what the rules find."""
    lines = []
    for statistics in STATISTICS:
        lines += [f"Gaps by {statistics} statistics, with 95 % intervals over the blocks:", ""]
        lines += ["| training | accuracy, % | " + " | ".join(_heads(found)) + " |"]
        lines += ["|---|---:|" + "---:|" * len(_heads(found))]
        lines += [_row(one) for name in NETWORKS for one in found.of(name, statistics)]
        lines += [""]
    for name, rule in RULES.items():
        obtained, *truth = rule(found)
        verdict = "no" if not truth[0] else "yes" if truth[-1] else "weakly"
        lines.append(f"- {name}: {verdict} ({obtained})")
    return "\n".join(lines)


def _places(one: Course) -> list[int]:
    """Return the places of the steps in `SHOWN`, or of the last before them."""
    return sorted({int(np.searchsorted(one.steps, step, side="right")) - 1 for step in SHOWN})


def _heads(found: Courses) -> list[str]:
    one = found.of(RESIDUAL)[0]
    return [f"step {one.steps[place]}" for place in _places(one)]


def _row(one: Course) -> str:
    gaps, margins = one.gaps, one.margins
    cells = [f"{gaps[place]:+.3f} ± {margins[place]:.3f}" for place in _places(one)]
    name = f"{one.network}, seed {one.seed}"
    return f"| {name} | {100 * one.accuracy:.2f} | {' | '.join(cells)} |"
