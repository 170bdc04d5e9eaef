"""What a trainer wants to be told of: a layer that died, became affine, or saturated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sigmascope.monitoring.track import TrackedSite

# Bounded activations -> their steepest slope. One that is saturated passes on much less.
SLOPES = {
    "sigmoid": 0.25,
    "hardsigmoid": 1 / 6,
    "tanh": 1.0,
    "hardtanh": 1.0,
    "softsign": 1.0,
    "relu6": 1.0,
}


class TrainingWarning(UserWarning):
    """A layer died, became affine or saturated, or no layer has a score.

    >>> import warnings
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.999))
    >>> with sg.Monitor(network, torch.randn(256, 4), warn=True) as monitor:
    ...     with warnings.catch_warnings(record=True) as told:
    ...         warnings.simplefilter("always")
    ...         _ = monitor.step(0)
    >>> print(told[0].message)
    step 0: 1 became affine: score 1.000
    """


@dataclass(frozen=True)
class Thresholds:
    """From where on a site is worth a warning.

    Attributes:
        dead: the share of channels whose output does not vary over the probe.
        affine: the score, if also the lower end of its interval is above.
        saturated: of bounded activations, how much the output varies for the input, as a share of
            what the steepest slope would pass on.

    >>> import warnings
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.8))
    >>> monitor = sg.Monitor(network, torch.randn(256, 4), warn=sg.Thresholds(affine=0.8))
    >>> with warnings.catch_warnings(), monitor:
    ...     warnings.simplefilter("ignore", sg.TrainingWarning)
    ...     _ = monitor.step(0)
    >>> [event.what for event in monitor.track.events]
    ['affine']
    """

    dead: float = 0.9
    affine: float = 0.99
    saturated: float = 0.1


@dataclass(frozen=True)
class Event:
    """Something that happened to a site, and at which step it was first seen.

    >>> import warnings
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.999))
    >>> monitor = sg.Monitor(network, torch.randn(256, 4), warn=True)
    >>> with warnings.catch_warnings(), monitor:
    ...     warnings.simplefilter("ignore", sg.TrainingWarning)
    ...     _ = monitor.step(0)
    >>> [(event.step, event.site, event.what) for event in monitor.track.events]
    [(0, '1', 'affine')]
    """

    step: int
    site: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.text}"


def conditions(site: TrackedSite, limits: Thresholds) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a site, and a sentence that says so."""
    if site.dead >= limits.dead:
        yield "dead", f"{site.name} died: {site.dead:.0%} of its channels do not vary"
    bound = site.score if math.isnan(site.low) else site.low
    if bound >= limits.affine:
        yield "affine", f"{site.name} became affine: score {site.score:.3f}"
    slope = SLOPES.get(site.kind)
    if slope is not None and site.gain < limits.saturated * slope and site.dead < limits.dead:
        share = site.gain / slope
        yield "saturated", f"{site.name} saturated: it passes on {share:.1%} of the variation"


def events_of(
    step: int, sites: Sequence[TrackedSite], known: Sequence[Event], limits: Thresholds
) -> tuple[Event, ...]:
    """Return what is new at a step; each thing is told once for each site."""
    told = {(event.site, event.what) for event in known}
    return tuple(
        Event(step, site.name, what, text)
        for site in sites
        for what, text in conditions(site, limits)
        if (site.name, what) not in told
    )
