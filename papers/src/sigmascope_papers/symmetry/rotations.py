"""Rotation penalties of our Myrtle CNNs without batch norm: the stored results, or networks that
are trained on CIFAR-10.

A matrix is put behind a convolution, all up to it is frozen, and the rest is trained again. Each
draw of a matrix is put into a network of its own, and the three matrices of a draw into the same
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.dissection.penalty import RotationPenalty, rotation_penalty
from sigmascope.dissection.settings import FineTuning
from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.progress import progress_bar
from sigmascope.symmetry.groups import group
from sigmascope.symmetry.rotations import random_rotation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.kept import (
    Kept,
    best_device,
    fastest,
    kept_place,
    machine_of,
    member,
    samples_of,
)

__all__ = [
    "LAYERS",
    "MATRICES",
    "SETTINGS",
    "LayerRotations",
    "Rotated",
    "Rotations",
    "file_name",
    "rotations_of",
]

FOLDER = "rotations"
NETWORK, DRAWS = "myrtle-nobn", 2
LAYERS = ("0", "2", "5")
"""The first three of the four convolutions."""
# The paper's, but that the epoch is chosen on held-out samples, and among the last ones, when the
# rate is lowest: the network was first trained on these samples, so that with the identity the
# first epochs may look best, while it still knows them.
SETTINGS = FineTuning(epochs=50, batch=32, rate=1e-3, select_on="validation", least_epoch=38)
SMOKE = FineTuning(epochs=1, batch=16, validation=0.5, least_epoch=1)
SMOKE_LAYERS = ("0", "5")
SMOKE_SAMPLES = 16

MATRICES: Mapping[str, Callable[[int, int], Tensor]] = {
    "identity": lambda channels, seed: torch.eye(channels, dtype=torch.float64),
    "relu": lambda channels, seed: group("relu").sample(channels, seed),
    "orthogonal": random_rotation,
}
"""Group -> function of the number of channels and a seed that draws an element; the identity is our
control.
"""


@dataclass(frozen=True)
class Rotated:
    """One matrix in one network; see `RotationPenalty`, which has the same and more.

    Attributes:
        group: that the matrix is drawn from.
        seed: of the network, of the matrix, and of the training.
    """

    group: str
    seed: int
    deviation: float
    base_accuracy: float
    start_accuracy: float
    accuracy: float
    best_epoch: int
    history: tuple[float, ...]


@dataclass(frozen=True)
class LayerRotations(Kept):
    """All matrices behind one layer.

    Attributes:
        network: its name in the zoo.
        layer: the path of the convolution.
        channels: of it.
        settings: how the rest was trained.
        samples: how many were trained on, chosen by, and tested on.
        augment: how training data were augmented.
        machine: what it ran on.
        versions: of the packages that matter.
        runs: all.
    """

    kind = "rotation-penalties"

    network: str
    layer: str
    channels: int
    settings: FineTuning
    samples: tuple[int, int, int]
    augment: str
    machine: str
    versions: dict[str, str]
    runs: tuple[Rotated, ...]


@dataclass(frozen=True, eq=False)
class Rotations:
    """What all layers gave.

    Attributes:
        seeds: of the draws.
        layers: one result for each layer.
    """

    seeds: tuple[int, ...]
    layers: tuple[LayerRotations, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the layers."""
        return tuple(one.layer for one in self.layers)

    def values(self, field: str, group: str) -> Matrix:
        """(d, k), a field of the runs of all draws behind all layers; NaN where there is none."""
        found = {
            (run.seed, layer.layer): getattr(run, field)
            for layer in self.layers
            for run in layer.runs
            if run.group == group
        }
        rows = [[found.get((seed, layer), np.nan) for layer in self.names] for seed in self.seeds]
        return np.array(rows, dtype=np.float64)

    def penalties(self, group: str) -> Matrix:
        """(d, k), the accuracy of the network as it was minus that at the best epoch, in percentage points."""
        return self.values("base_accuracy", group) - self.values("accuracy", group)


def file_name(layer: str) -> str:
    """Return the name of a result.

    >>> file_name("2")
    'myrtle-nobn-2.json'
    """
    return f"{NETWORK}-{layer}.json"


def rotations_of(setting: Setting, layers: Sequence[str] | None = None) -> Rotations:
    """Read or train all draws behind some layers.

    Training writes a file for each layer after every run, and goes on where it stopped, so that
    several layers can be trained side by side.

    Args:
        setting: where results come from.
        layers: among `LAYERS`; all by default.

    Raises:
        InputError: some are not stored, or cannot be trained; the message says what to do.
        FileFormatError: a file is damaged, foreign or newer.
    """
    chosen = tuple(layers or (SMOKE_LAYERS if setting.smoke else LAYERS))
    for layer in chosen:
        check_choice("layers", layer, LAYERS)
    seeds = tuple(range(1 if setting.smoke else DRAWS))
    return Rotations(seeds, tuple(_layer(setting, layer, seeds) for layer in chosen))


def _layer(setting: Setting, layer: str, seeds: Sequence[int]) -> LayerRotations:
    place = kept_place(setting, FOLDER, file_name(layer))
    kept = _read(place, layer) if place is not None and place.is_file() else None
    done = {(run.group, run.seed) for run in kept.runs} if kept else set()
    left = [(name, seed) for seed in seeds for name in MATRICES if (name, seed) not in done]
    if kept and not left:
        return kept
    if not setting.from_scratch:
        told = ", ".join(f"{name} {seed}" for name, seed in left)
        raise InputError(f"{place} has no run of {told}. Take it from the checkout again.")
    return _trained(setting, layer, left, kept, place)


def _read(place: Path, layer: str) -> LayerRotations:
    """Read a result and refuse one that is not of this experiment."""
    found = LayerRotations.load(place)
    if (found.network, found.layer, found.settings) != (NETWORK, layer, SETTINGS):
        raise InputError(
            f"{place} holds another experiment. Take it from the checkout again, or remove it."
        )
    return found


def _trained(
    setting: Setting,
    layer: str,
    left: Sequence[tuple[str, int]],
    kept: LayerRotations | None,
    place: Path | None,
) -> LayerRotations:
    """Train with the matrices that are left and put the results behind those that there are."""
    device, settings = best_device(), SMOKE if setting.smoke else SETTINGS
    entries = {
        seed: member(setting, NETWORK, seed) for seed in dict.fromkeys(seed for _, seed in left)
    }
    samples = samples_of(setting, next(iter(entries.values())))
    if setting.smoke:
        first, second = (
            (one[0][:SMOKE_SAMPLES], one[1][:SMOKE_SAMPLES])
            for one in (samples.train, samples.test)
        )
        samples = replace(samples, train=first, test=second)
    with progress_bar(f"Rotations behind {layer}", len(left), shown=setting.progress) as advance:
        for name, seed in left:
            network = fastest(entries[seed].network, device)
            channels = len(network.get_submodule(layer).get_parameter("weight"))
            matrix = MATRICES[name](channels, seed)
            found = rotation_penalty(
                network, layer, matrix, samples, settings=settings, seed=seed, progress=False
            )
            kept = LayerRotations(
                network=NETWORK,
                layer=layer,
                channels=channels,
                settings=settings,
                samples=found.samples,
                augment=samples.augment,
                machine=machine_of(device),
                versions=found.versions,
                runs=(*(kept.runs if kept else ()), _row(name, found)),
            )
            if place is not None:
                kept.save(place)
            advance()
    if kept is None:
        raise InputError(f"there is nothing to train behind {layer}.")
    return kept


def _row(name: str, found: RotationPenalty) -> Rotated:
    return Rotated(
        group=name,
        seed=found.seed,
        deviation=found.deviation,
        base_accuracy=found.base_accuracy,
        start_accuracy=found.start_accuracy,
        accuracy=found.accuracy,
        best_epoch=found.best_epoch,
        history=found.history,
    )
