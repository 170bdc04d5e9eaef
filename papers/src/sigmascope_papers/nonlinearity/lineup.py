"""Signatures of a cast, by name and group, and of VGG16 with batch statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sigmascope.catalog import data, model
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope_papers.cast import Cast
from sigmascope_papers.chance import Array
from sigmascope_papers.setting import BATCH, DATA, IMAGES, OPTIONS, Setting

BATCHES, SEEDS = tuple(range(128, 1025, 128)), tuple(range(1, 10))
"""Sizes of the batches, and seeds of VGG16, in Figures 10 and 11."""


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


def batch_statistics(setting: Setting, name: str) -> Signature:
    """Read or measure a network of the zoo whose batch norms use the statistics of the batch."""
    full = f"sigmascope/{name}"

    def work(images: int = IMAGES, **changes: Any) -> Signature:
        entry = model(full)
        chosen: Any = {"root": setting.data_root, "batch_size": BATCH, "limit": images}
        batches = data(DATA, transform=entry.transform, **chosen)
        options: Any = {**OPTIONS, "metrics": (), "mode": "as-is", **changes}
        shown: Any = {"name": full, "progress": setting.progress}
        return signature(entry.network.train(), batches, **shown, **options)

    return setting.signature(full, f"{DATA} batch statistics", work)
