"""The stitching experiments: which networks are stitched, where, by what, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sigmascope.choices import Preset
from sigmascope.stitching import Settings, Task, settings_for
from sigmascope_papers.symmetry.data import data_of
from sigmascope_papers.symmetry.kept import zoo_name

_DATA = data_of("plans")
SMOKE: Mapping[str, Any] = _DATA["smoke"]


@dataclass(frozen=True)
class Plan:
    """An experiment: stitches by label, at sites that `layers` maps to the paper's names of them.

    A name ends in `*` inside a residual block. Without `smoke_sites` a smoke run stitches at all.
    """

    name: str
    network: str
    pairs: tuple[tuple[int, int], ...]
    layers: Mapping[str, str]
    tasks: Mapping[str, Task]
    epochs: int
    preset: Preset = "fast"
    changes: Mapping[str, Any] = field(default_factory=dict)
    smoke_sites: tuple[str, ...] = ()

    def file_name(self, pair: tuple[int, int]) -> str:
        """Return the file name of a result."""
        return f"{self.name}-{self.network}-{pair[0]}-{pair[1]}.json"

    def names(self, pair: tuple[int, int]) -> tuple[str, str]:
        """Return the names of front and back in the catalog."""
        return zoo_name(self.network, pair[0]), zoo_name(self.network, pair[1])

    def trained(self, *, smoke: bool) -> dict[str, Task]:
        """Return the stitches with everything that differs from the preset."""
        common, tiny = {"epochs": self.epochs, **self.changes}, SMOKE if smoke else {}
        return {
            label: Task(task.family, {**common, **task.changes, **tiny})
            for label, task in self.tasks.items()
        }

    def settings(self, *, smoke: bool) -> dict[str, Settings]:
        """Return the settings of all stitches by label."""
        return {
            label: settings_for(self.preset, task.family, task.changes)
            for label, task in self.trained(smoke=smoke).items()
        }


TASKS = {label: Task(**row) for label, row in _DATA["tasks"].items()}
_EXPERIMENTS: Mapping[str, Any] = _DATA["experiments"]
FAMILIES: Mapping[str, Task] = {label: TASKS[label] for label in _EXPERIMENTS["MYRTLE"]["tasks"]}
"""Label -> stitch: the families of the paper, and two that are computed instead of trained.

Scales of the group are trained at the rate of the permutation, as in the paper.
"""
MYRTLE_LAYERS, RESNET20_LAYERS, RESNET18_LAYERS = (
    _DATA["layers"][network] for network in ("myrtle", "resnet20", "resnet18")
)
"""Site -> the paper's name: the number of a module, in the authors' order.

In a ResNet the shortcut of a block comes last; one with a convolution has two more modules.
"""


def _plan(experiment: str, slope: str = "") -> Plan:
    row = _EXPERIMENTS[experiment]
    own = {
        "network": row["network"] + slope,
        "pairs": tuple(map(tuple, row["pairs"])),
        "layers": _DATA["layers"][row["layers"]],
        "tasks": {label: TASKS[label] for label in row["tasks"]},
        "smoke_sites": tuple(row["smoke_sites"]),
    }
    return Plan(**{**row, **own})


MYRTLE, ALPHA, LASSO = map(_plan, ("MYRTLE", "ALPHA", "LASSO"))
"""As the paper's scripts ran, except that the epoch is chosen on held-out data.

α is chosen as in the paper: five epochs without a head start, judged on a fifth of the data.
"""
RESNET20, RESNET18, TRANSFORMER = map(_plan, ("RESNET20", "RESNET18", "TRANSFORMER"))
SLOPES = tuple(_DATA["slopes"])
"""Of LeakyReLU, as the zoo spells them."""
LEAKY: Mapping[str, Plan] = {slope: _plan("LEAKY", slope) for slope in SLOPES}
"""Slope -> the experiment with networks of that slope."""
