"""Signatures of one network over the steps of its training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.measure.options import Options
from sigmascope.measure.result import Signature
from sigmascope.measure.site import Site
from sigmascope.monitoring.health import Event
from sigmascope.monitoring.track_file import KEY, packed, unpacked
from sigmascope.store import decode, read_json, write_json
from sigmascope.tables import as_frame

if TYPE_CHECKING:
    import pandas

    from sigmascope.figures.drawn import Drawn

KIND, VERSION, OLDEST = "track", 2, 1
Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class TrackedSite:
    """An activation call at one step.

    Attributes:
        name: of the site.
        kind: of the activation.
        score: the population score where it was measured, otherwise the published one; NaN only
            with a `reason`.
        low, high: its 95 % interval; of published scores, that of the mean over batches.
        dead: the share of channels whose output does not vary.
        gain: how much the output varies for the input, see `Site`.
        reason: why there is no score.
    """

    name: str
    kind: str
    score: float
    low: float
    high: float
    dead: float
    gain: float
    reason: str


@dataclass(frozen=True)
class Entry:
    """The sites of a network at one step of its training, and the seconds that it took."""

    step: int
    sites: tuple[TrackedSite, ...]
    seconds: float = math.nan


@dataclass(frozen=True, repr=False)
class Track:
    """The scores of a network's activations over the steps of its training.

    Attributes:
        name: of the network.
        options: how it was measured.
        entries: one per measurement, in order of their steps.
        events: what a trainer should know, such as a layer that died.
        ended: how the monitoring ended: "finished", or "stopped by" an error; "" while it is under
            way, and of a training that was killed.

    A track prints as a summary; `track.scores` is a matrix of steps by sites.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> with sg.Monitor(network, torch.randn(256, 4), every=10) as monitor:
    ...     _ = [monitor.step(step) for step in range(21)]
    >>> monitor.track.steps, monitor.track.sites, monitor.track.scores.shape
    ([0, 10, 20], ['1'], (3, 1))
    """

    name: str
    options: Options
    entries: tuple[Entry, ...] = ()
    events: tuple[Event, ...] = field(default=(), metadata={"later": True})
    ended: str = field(default="", metadata={"later": True})

    @property
    def steps(self) -> list[int]:
        """The steps that were measured."""
        return [entry.step for entry in self.entries]

    @property
    def sites(self) -> list[str]:
        """The names of all sites, in order of execution."""
        names: dict[str, None] = {}
        for entry in self.entries:
            names |= dict.fromkeys(site.name for site in entry.sites)
        return list(names)

    @property
    def scores(self) -> Numbers:
        """(steps, sites), NaN where a site has no score at a step."""
        return self.values("score")

    def values(self, name: str) -> Numbers:
        """Return (steps, sites) of a number of `TrackedSite`, such as "low" or "dead"."""
        columns = {site: index for index, site in enumerate(self.sites)}
        found = np.full((len(self.entries), len(columns)), math.nan)
        for row, entry in enumerate(self.entries):
            for site in entry.sites:
                found[row, columns[site.name]] = getattr(site, name)
        return found

    def __len__(self) -> int:
        return len(self.entries)

    def with_entry(self, entry: Entry, events: tuple[Event, ...] = ()) -> Track:
        """Return the track with another measurement.

        What was measured at its step or later belongs to a training that was started again from a
        checkpoint before, and is left out. A track that had ended is under way again.
        """
        earlier = tuple(one for one in self.entries if one.step < entry.step)
        known = tuple(one for one in self.events if one.step < entry.step)
        return replace(self, entries=(*earlier, entry), events=(*known, *events), ended="")

    def merged(self, entry: Entry, events: tuple[Event, ...] = ()) -> Track:
        """Return the track with a measurement at its place, and with what was measured later."""
        entries = [*(one for one in self.entries if one.step != entry.step), entry]
        known = [*(one for one in self.events if one.step != entry.step), *events]
        return replace(
            self,
            entries=tuple(sorted(entries, key=lambda one: one.step)),
            events=tuple(sorted(known, key=lambda one: one.step)),
            ended="",
        )

    def __repr__(self) -> str:
        if not self.entries:
            return f"Track of {self.name}: nothing measured yet"
        scores, steps = self.scores, self.steps
        ended = f", {self.ended}" if self.ended else ""
        lines = [
            f"Track of {self.name}: {_counted(len(steps), 'measurement')}, {_span(steps)}, "
            f"{_counted(len(self.sites), 'site')}{ended}",
            "",
        ]
        width = max(map(len, self.sites))
        for index, site in enumerate(self.sites):
            first, last = scores[0, index], scores[-1, index]
            change = "" if math.isnan(last - first) else f"  {last - first:+.3f}"
            lines.append(f"{site:<{width}}  {first:.3f} → {last:.3f}{change}")
        notes = [*map(str, self.events), *_reasons(self.entries[-1])]
        return "\n".join([*lines, *[""][: len(notes)], *notes])

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per step and site.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        rows = [(entry.step, site) for entry in self.entries for site in entry.sites]
        columns: dict[str, list[Any]] = {"step": [step for step, _ in rows]}
        for name in TrackedSite.__dataclass_fields__:
            columns["site" if name == "name" else name] = [getattr(one, name) for _, one in rows]
        return as_frame(columns)

    def plot(self) -> Drawn:
        """Draw the scores over the steps; see `sigmascope.figures.draw_track`."""
        # deferred: figures come with matplotlib
        from sigmascope.figures.track import draw_track

        return draw_track(self)

    def save(self, path: str | Path) -> Path:
        """Write the track to a JSON file, atomically, and return its path."""
        write_json(path, KIND, VERSION, packed(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Track:
        """Return the track in a file that `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            FileFormatError: not the file of a track, corrupt, or newer than this version.
        """
        content = read_json(path, KIND, VERSION, oldest=OLDEST)
        where = f"{path}: content"
        if isinstance(content, dict) and KEY in content:
            return cls(*unpacked(content, where))
        return decode(cls, content, where)


def entry_of(signature: Signature, step: int, seconds: float = math.nan) -> Entry:
    """Return what a track keeps of a signature."""
    names = signature.to_dict().keys()
    sites = zip(names, signature.sites, strict=False)
    population = signature.options.population
    return Entry(step, tuple(_tracked(name, site, population) for name, site in sites), seconds)


def _tracked(name: str, site: Site, population: bool) -> TrackedSite:
    if population:
        numbers = site.population, site.low, site.high
        reason = site.population_reason
    else:
        numbers, reason = (site.score, site.scatter.low, site.scatter.high), site.reason
    return TrackedSite(name, site.kind, *numbers, site.dead, site.gain, reason)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _span(steps: list[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _reasons(entry: Entry) -> list[str]:
    """Return why sites have no score, each reason once."""
    found: dict[str, list[str]] = {}
    for site in entry.sites:
        if site.reason:
            found.setdefault(site.reason, []).append(site.name)
    return [
        f"no score at {names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {reason}"
        for reason, names in found.items()
    ]
