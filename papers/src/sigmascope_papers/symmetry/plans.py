"""The stitching experiments: which networks are stitched, where, by what, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sigmascope.choices import Preset
from sigmascope.stitching import ALPHAS, Settings, Task, settings_for
from sigmascope_papers.symmetry.kept import zoo_name

SMOKE = {"epochs": 1, "head_start": 0, "batch": 4, "validation": 0.5, "pass_batches": 1}


@dataclass(frozen=True)
class Plan:
    """An experiment.

    Attributes:
        name: what is tried, for the file names.
        network: the name in the zoo.
        pairs: the seeds of fronts and backs.
        layers: site -> the paper's name of it, `*` for those inside a residual block.
        tasks: label -> stitch.
        epochs: of training.
        preset: the other settings of training.
        changes: settings of all stitches other than those of the preset.
        smoke_sites: where a smoke run stitches; everywhere if empty.
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


FAMILIES: Mapping[str, Task] = {
    "full": Task("full"),
    **{f"rank {rank}": Task("low-rank", {"rank": rank}) for rank in (4, 2, 1)},
    # Scales are trained at the rate of the permutation, as in the paper.
    "relu-group": Task("relu-group", {"scale_rate": None}),
    "permutation": Task("permutation"),
    "least-squares": Task("least-squares"),
}
"""Label -> stitch: the families of the paper, and two that are computed instead of trained."""


def _block_sites(first: int, steps: tuple[int, ...]) -> dict[str, str]:
    """Return site -> the paper's name, for a ResNet with modules numbered as the paper does.

    Args:
        first: the number of the activation before all blocks.
        steps: for each block, by how much its numbers grow; a shortcut with a convolution has two
            more modules.

    >>> _block_sites(3, (8,))
    {'act1': '3', 'blocks.0.act1': '8*', 'blocks.0.act2': '11'}
    """
    sites, at = {"act1": str(first)}, first
    for block, step in enumerate(steps):
        sites |= {f"blocks.{block}.act1": f"{at + 5}*", f"blocks.{block}.act2": f"{at + 8}"}
        at += step
    return sites


MYRTLE_LAYERS = {"2": "3", "5": "6", "9": "10", "13": "14"}
RESNET20_LAYERS = _block_sites(3, (8,) * 9)
# The paper numbers ResNet-18 as its authors' modules are registered: a block has eight, one with a
# convolution on its shortcut ten, and the shortcut comes last.
RESNET18_LAYERS = _block_sites(3, (8, 8, 10, 8, 10, 8, 10, 8))
LEAKY_SITES = ("act1", *(f"blocks.{block}.act2" for block in (0, 2, 4, 6)), "blocks.8.act1")
LEAKY_LAYERS = {site: RESNET20_LAYERS[site] for site in (*LEAKY_SITES, "blocks.8.act2")}
TWO_PAIRS, ONE_PAIR = ((0, 1), (2, 3)), ((0, 1),)


def _myrtle(name: str, pairs: Any, tasks: Mapping[str, Task], epochs: int) -> Plan:
    """Return an experiment as the paper's scripts ran it; the epoch is chosen on held-out data."""
    changes, sites = {"select_on": "validation"}, ("5",)
    return Plan(name, "myrtle", pairs, MYRTLE_LAYERS, tasks, epochs, "as-run", changes, sites)


def _fast(
    network: str, pairs: Any, layers: Mapping[str, str], labels: str, epochs: int, *smoke: str
) -> Plan:
    """Return an experiment with some families and the fast preset."""
    name = "leaky" if "leaky" in network else "families"
    tasks = {label: FAMILIES[label] for label in labels.split(", ")}
    return Plan(name, network, pairs, layers, tasks, epochs, smoke_sites=smoke)


MYRTLE = _myrtle("families", TWO_PAIRS, FAMILIES, 20)
CROSS_VALIDATION = {"epochs": 5, "head_start": 0, "validation": 0.2, "final_pass": True}
ALPHA = _myrtle(
    "alpha",
    ONE_PAIR,
    {f"α = {one:g}": Task("relu-group", {**CROSS_VALIDATION, "alpha": one}) for one in ALPHAS},
    5,
)
"""As the paper chooses α: five epochs without a head start, judged on a fifth of the data."""
STRENGTHS = {f"λ = {one:g}": Task("lasso", {"strength": one}) for one in (1e-3, 1e-2, 1e-1)}
LASSO = _myrtle("lasso", TWO_PAIRS, STRENGTHS, 20)

EVERY = ", ".join(FAMILIES)
SMOKE20, SMOKE18 = ("blocks.0.act2", "blocks.8.act1"), "blocks.7.act1"
RESNET20 = _fast("resnet20", TWO_PAIRS, RESNET20_LAYERS, EVERY, 6, *SMOKE20)
SOME = "full, rank 1, relu-group, permutation"
RESNET18 = _fast("resnet18", ONE_PAIR, RESNET18_LAYERS, SOME, 3, SMOKE18)
BLOCKS = {f"blocks.{block}": f"block {block + 1}" for block in range(6)}
FIVE = "full, rank 4, relu-group, permutation, least-squares"
TRANSFORMER = _fast("vit-patch4", ONE_PAIR, BLOCKS, FIVE, 6, "blocks.5")
SLOPES = ("0.0001", "0.001", "0.01", "0.1", "0.5", "0.9", "1")
"""Of LeakyReLU, as the zoo spells them."""
THREE = "full, relu-group, permutation"
LEAKY: Mapping[str, Plan] = {
    slope: _fast(f"resnet20-leaky{slope}", ONE_PAIR, LEAKY_LAYERS, THREE, 6, "blocks.8.act2")
    for slope in SLOPES
}
"""Slope -> the experiment with networks of that slope."""
