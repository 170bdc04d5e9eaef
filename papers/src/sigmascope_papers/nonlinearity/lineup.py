"""Signatures of a cast by name and group, and the places of activations in residual networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sigmascope.measure.signature import Signature
from sigmascope_papers.cast import Cast
from sigmascope_papers.chance import Array
from sigmascope_papers.setting import Setting

__all__ = [
    "END",
    "INSIDE",
    "STEM",
    "Lineup",
    "by_place",
    "known",
    "level",
    "line_up",
    "measure_cast",
    "measure_leads",
    "places_in",
    "separation",
]

INSIDE, END, STEM = "inside a block", "at the end of a block", "before the blocks"


@dataclass(frozen=True, eq=False)
class Lineup:
    """Signatures of a cast, or of a part of it, by the names that the cast has for them."""

    cast: Cast
    signatures: dict[str, Signature]

    def of(self, *groups: str) -> list[Signature]:
        """Return the signatures of some groups, or of all."""
        names = self.cast.names(*groups)
        return [self.signatures[name] for name in names if name in self.signatures]

    def lead(self, group: str) -> Signature:
        """Return the signature that represents a group; `lacks` says whether there is one."""
        return self.signatures[str(self.cast.lead(group))]

    def leads(self) -> list[Signature]:
        """Return the signatures of all representatives, in order of their years."""
        return [self.signatures[name] for name in self.cast.leads]

    def lacks(self, *groups: str) -> str:
        """Say which of some groups are missing; empty if none is."""
        missing = [group for group in groups if not self.of(group)]
        return f"there are no {' and no '.join(missing)}" if missing else ""


def line_up(setting: Setting, names: Sequence[str]) -> Lineup:
    """Read or measure the signatures of some networks of the cast."""
    runs = zip(names, setting.runs(names), strict=True)
    return Lineup(setting.cast, {name: replace(run.signature, name=name) for name, run in runs})


def measure_cast(setting: Setting) -> Lineup:
    """Read or measure the signatures of the whole cast."""
    return line_up(setting, setting.cast.names())


def measure_leads(setting: Setting) -> Lineup:
    """Read or measure the signatures of the representatives of all groups."""
    return line_up(setting, setting.cast.leads)


def known(signature: Signature) -> Array:
    """Return the scores that are not NaN."""
    scores: Array = signature.scores
    return scores[np.isfinite(scores)]


def level(signatures: Sequence[Signature], statistic: str) -> float:
    """Return the median over networks of a statistic of their scores."""
    return float(np.median([one.summary()[statistic] for one in signatures]))


def places_in(signature: Signature) -> list[str]:
    """Return the place of each call: inside a block, at its end, or before the blocks.

    A block is the module that contains the activation: `layer1.0` for `layer1.0.relu`, `blocks.0`
    for `blocks.0.act2`. The last of its calls is its end.
    """
    blocks = [site.path.rpartition(".")[0] for site in signature.sites]
    last = {block: number for number, block in enumerate(blocks)}
    return [
        STEM if not block else END if last[block] == number else INSIDE
        for number, block in enumerate(blocks)
    ]


def by_place(signature: Signature) -> dict[str, Array]:
    """Return the scores that are not NaN, by place."""
    places, scores = np.array(places_in(signature)), signature.scores
    return {place: scores[(places == place) & np.isfinite(scores)] for place in (INSIDE, END)}


def separation(signature: Signature) -> float:
    """Return the share of pairs of calls in which the one at an end scores above the one inside."""
    found = by_place(signature)
    return float((found[END][:, None] > found[INSIDE]).mean())
