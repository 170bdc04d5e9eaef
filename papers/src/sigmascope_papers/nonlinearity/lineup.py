"""Signatures of a cast, by its names and groups, for the figures that set networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sigmascope.measure.signature import Signature
from sigmascope_papers.cast import Cast
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["RULE_OF_CAST", "RULE_OF_LEADS", "Array", "Lineup", "known", "line_up"]

# What was known when the rules on our cast, and on its leads, were written.
RULE_OF_CAST, RULE_OF_LEADS = (
    f"written from the paper's sentences, before {new} of our {count} networks were "
    "measured; the signatures of the other "
    f"{count - new} were stored, and left unread"
    for new, count in ((14, 23), (5, 9))
)


@dataclass(frozen=True, eq=False)
class Lineup:
    """Signatures of a cast, or of a part of it, by the names that the cast has for them."""

    cast: Cast
    signatures: dict[str, Signature]

    def of(self, *groups: str) -> list[Signature]:
        """Return the signatures of some groups, or of all."""
        return [
            self.signatures[name] for name in self.cast.names(*groups) if name in self.signatures
        ]

    def lead(self, group: str) -> Signature:
        """Return the signature that stands for a group; ask `lacks` first whether there is one."""
        return self.signatures[str(self.cast.lead(group))]

    def leads(self) -> list[Signature]:
        """Return the signatures of all leads, in order of their years."""
        return [self.signatures[name] for name in self.cast.leads]

    def lacks(self, *groups: str) -> str:
        """Say which of some groups are missing; empty where none is."""
        missing = [group for group in groups if not self.of(group)]
        return f"there are no {' and no '.join(missing)}" if missing else ""


def line_up(setting: Setting, names: Sequence[str]) -> Lineup:
    """Read or measure the signatures of some networks of the cast."""
    runs = setting.runs(names)
    return Lineup(
        setting.cast,
        {name: replace(run.signature, name=name) for name, run in zip(names, runs, strict=True)},
    )


def known(signature: Signature) -> Array:
    """Return the scores that there are."""
    scores = signature.scores
    found: Array = scores[np.isfinite(scores)]
    return found
