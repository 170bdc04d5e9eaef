"""Stitches of Myrtle CNNs by the group of ReLU with several α, the best of which is chosen on
held-out training data.

Figure 13 shows what the chosen ones cost, and Figure 14 which α they have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope.stitching import ALPHAS
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.plans import ALPHA
from sigmascope_papers.symmetry.stitches import Plan, Stitches, stitches_of

__all__ = ["FIXED", "LABELS", "Alphas", "alphas_of", "smaller"]

LABELS = tuple(ALPHA.tasks)
"""Of the stitches, in the order of `ALPHAS`."""
FIXED = "α = 0.1"
"""What the paper uses everywhere else."""


@dataclass(frozen=True, eq=False)
class Alphas:
    """Stitches that differ in α.

    Attributes:
        tried: all of them.
    """

    tried: Stitches

    @property
    def chosen(self) -> np.ndarray[Any, np.dtype[np.intp]]:
        """(p, k), the number of the α with the best accuracy on held-out data; of equal ones the smallest."""
        held_out = self._stacked("chosen_accuracy")
        best: np.ndarray[Any, np.dtype[np.intp]] = np.where(
            np.isnan(held_out), -np.inf, held_out
        ).argmax(axis=0)
        return best

    @property
    def alphas(self) -> Matrix:
        """(p, k), the chosen α; NaN where no stitch has an accuracy."""
        known = np.isfinite(self._stacked("chosen_accuracy")).any(axis=0)
        return np.where(known, np.array(ALPHAS)[self.chosen], np.nan)

    @property
    def penalties(self) -> Matrix:
        """(a, p, k), what all stitches cost on the test data."""
        return np.stack([self.tried.penalties(label) for label in LABELS])

    def joined(self, families: Stitches, label: str) -> Stitches:
        """Return the stitches of families with the chosen ones under a label.

        Args:
            families: of the same pairs at the same sites.
            label: of the chosen ones.
        """
        pairs = []
        for one, tried, numbers in zip(families.pairs, self.tried.pairs, self.chosen, strict=True):
            wanted = {
                (site, LABELS[number])
                for site, number in zip(self.tried.plan.layers, numbers, strict=True)
            }
            rows = [
                replace(row, label=label)
                for row in tried.stitches
                if (row.site, row.label) in wanted
            ]
            pairs.append(replace(one, stitches=(*one.stitches, *rows)))
        return Stitches(families.plan, tuple(pairs))

    def _stacked(self, field: str) -> Matrix:
        return np.stack([self.tried.values(field, label) for label in LABELS])


def alphas_of(setting: Setting) -> Alphas:
    """Read or train the stitches of all α."""
    return Alphas(stitches_of(setting, smaller(setting, ALPHA)))


def smaller(setting: Setting, plan: Plan, labels: tuple[str, ...] = ()) -> Plan:
    """Return a plan; to try the machinery, one with its last site alone and, if any are named,
    fewer stitches.
    """
    if not setting.smoke:
        return plan
    tasks = {label: plan.tasks[label] for label in labels or plan.tasks}
    return replace(plan, tasks=tasks, smoke_sites=tuple(plan.layers)[-1:])
