"""Figure 4: what it costs a Myrtle CNN without batch norm to work in another basis.

A fixed matrix is put after a convolution, everything up to it is frozen, and the rest is trained
again. Each draw uses a network of its own; the three matrices of a draw share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.dissection.penalty import rotation_penalty
from sigmascope.dissection.settings import FineTuning
from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope.symmetry.groups import group as group_of
from sigmascope.symmetry.rotations import random_rotation
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.rules import at_most
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import kept
from sigmascope_papers.symmetry.curves import rows_of
from sigmascope_papers.symmetry.data import PRINTED

FOLDER = "rotations"
NETWORK, DRAWS = "myrtle-nobn", 2
LAYERS = ("0", "2", "5")
"""The first three of the four convolutions."""
# The paper's settings, except that the epoch is chosen on held-out samples among the last epochs,
# when the rate is lowest: the network was first trained on these samples, so with the identity the
# first epochs may look best, while it still remembers them.
SETTINGS = FineTuning(epochs=50, batch=32, rate=1e-3, select_on="validation", least_epoch=38)
SMOKE = FineTuning(epochs=1, batch=4, validation=0.5, least_epoch=1)
SMOKE_LAYERS = ("5",)

MATRICES: Mapping[str, Callable[[int, int], Tensor]] = {
    "identity": lambda channels, seed: torch.eye(channels, dtype=torch.float64),
    "relu": group_of("relu").sample,
    "orthogonal": random_rotation,
}
"""Group -> draws an element for a number of channels and a seed; the identity is our control."""
PAPER: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    group: {layer: tuple(row) for layer, row in rows.items()}
    for group, rows in PRINTED["rotations"].items()
}
"""Group -> convolution -> penalty and its standard deviation over ten draws, in points."""
SHOWN = {"identity": "identity, our control", "relu": "group of ReLU", "orthogonal": "rotations"}
LIMITS = {"relu": (1.5, 3.0), "orthogonal": (2.5, 5.0)}
FREE = (1.0, 2.5)
LIKE_THE_IDENTITY = (0.5, 1.5)


@dataclass(frozen=True)
class Rotated:
    """The numbers of a `RotationPenalty` that differ between runs; the seed is of everything."""

    group: str
    seed: int
    deviation: float
    base_accuracy: float
    start_accuracy: float
    accuracy: float
    best_epoch: int
    history: tuple[float, ...]


@dataclass(frozen=True)
class LayerRotations(kept.Kept):
    """All matrices after one layer of a network of the zoo; see `RotationPenalty`."""

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
    """Results of all layers, for the draws with some seeds."""

    seeds: tuple[int, ...]
    layers: tuple[LayerRotations, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the layers."""
        return tuple(one.layer for one in self.layers)

    def penalties(self, group: str) -> Matrix:
        """(d, k), the accuracy of the original network minus that at the best epoch, in points."""
        found = {
            (run.seed, layer.layer): run.base_accuracy - run.accuracy
            for layer in self.layers
            for run in layer.runs
            if run.group == group
        }
        rows = [[found.get((seed, layer), np.nan) for layer in self.names] for seed in self.seeds]
        return np.array(rows, dtype=np.float64)


def file_name(layer: str) -> str:
    """Return the file name of a result."""
    return f"{NETWORK}-{layer}.json"


def rotations_of(setting: Setting, layers: Sequence[str] = ()) -> Rotations:
    """Return all draws after some layers, by default all of `LAYERS`, stored or trained.

    A file for each layer is kept after every run, so layers can be trained side by side.
    """
    chosen = tuple(layers or (SMOKE_LAYERS if setting.smoke else LAYERS))
    for layer in chosen:
        check_choice("layers", layer, LAYERS)
    seeds = tuple(range(1 if setting.smoke else DRAWS))
    return Rotations(seeds, tuple(_layer(setting, layer, seeds) for layer in chosen))


def _layer(setting: Setting, layer: str, seeds: Sequence[int]) -> LayerRotations:
    parts = {f"{name} {seed}": (name, seed) for seed in seeds for name in MATRICES}

    def begin() -> Callable[[str, LayerRotations | None], LayerRotations]:
        device, settings = kept.best_device(), SMOKE if setting.smoke else SETTINGS
        samples = kept.samples_of(setting, kept.member(setting, NETWORK, seeds[0]))

        def train(part: str, old: LayerRotations | None) -> LayerRotations:
            name, seed = parts[part]
            network = kept.to_device(kept.member(setting, NETWORK, seed).network, device)
            matrix = MATRICES[name](len(network.get_submodule(layer).get_parameter("weight")), seed)
            options: dict[str, Any] = {"settings": settings, "seed": seed, "progress": False}
            found = rotation_penalty(network, layer, matrix, samples, **options)
            runs = (*(old.runs if old else ()), kept.row_of(Rotated, found, group=name))
            own = {"augment": samples.augment, "machine": kept.machine_of(device), "runs": runs}
            return kept.row_of(LayerRotations, found, network=NETWORK, **own)

        return train

    return kept.resume(
        setting,
        f"{FOLDER}/{file_name(layer)}",
        LayerRotations.load,
        {"network": NETWORK, "layer": layer, "settings": SETTINGS},
        parts=list(parts),
        done=lambda found: {f"{run.group} {run.seed}" for run in found.runs},
        begin=begin,
    )


def _find(rotations: Rotations) -> dict[str, Finding]:
    relu, orthogonal = rotations.penalties("relu"), rotations.penalties("orthogonal")
    gap, steps = orthogonal - relu, np.diff(orthogonal, axis=1)
    more, grows = gap.mean(axis=0), steps.size > 0 and (steps.mean(axis=0) > 0).all()
    told = f"on average {_listed(more)}; in {(gap > 0).sum()} of {gap.size} draws"
    grown = f"{_means(orthogonal)}; in {(steps > 0).sum()} of {steps.size} steps"
    return {
        "costs_more": (told, (more > 0).all(), (gap > 0).all()),
        "grows": (grown, grows, (steps > 0).all()),
        "free": at_most(_means(relu), np.abs(relu.mean(axis=0)), FREE),
    }


def _near(rotations: Rotations, group: str) -> Check:
    found, limits = rotations.penalties(group), LIMITS[group]
    paper = [PAPER[group][layer][0] for layer in rotations.names]
    claim = f"{SHOWN[group]}, convolutions {', '.join(rotations.names)}"
    expected = f"{_listed(paper)}, each ± {limits[0]:g}"
    gap = np.abs(found.mean(axis=0) - paper)
    return conclude(claim, expected, at_most(_means(found), gap, limits))


def _like_identity(rotations: Rotations) -> Finding:
    identity = rotations.penalties("identity")
    excess = rotations.penalties("relu").mean(axis=0) - identity.mean(axis=0)
    told = f"{_listed(excess)} more than the identity's {_means(identity)}"
    return at_most(told, excess, LIKE_THE_IDENTITY)


def _listed(values: Any) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _means(found: Matrix) -> str:
    rows = zip(found.mean(axis=0), found.std(axis=0), strict=True)
    return ", ".join(f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in rows)


@styled()
def _draw(rotations: Rotations) -> dict[str, Drawn]:
    """Draw penalties by layer: every draw, their mean and deviation, and the paper's as crosses."""
    figure = new_figure(PAGE, 2.8)
    panel, names = figure.subplots(), rotations.names
    places = np.arange(float(len(names)))
    table: list[dict[str, Any]] = []
    for number, group in enumerate(MATRICES):
        color, marker, _ = look((2, 0, 1)[number])
        found, at = rotations.penalties(group), places + 0.24 * (number - 1)
        mean, deviation = found.mean(axis=0), found.std(axis=0)
        panel.plot(at, mean, marker, color=color, markersize=5, label=SHOWN[group])
        if len(found) > 1:
            panel.errorbar(at, mean, deviation, fmt="none", ecolor=color, capsize=2)
        style: dict[str, Any] = {"color": color, "markersize": 4, "markeredgewidth": 0}
        panel.plot(at - 0.05, found.T, ".", alpha=0.45, **style)
        own: dict[str, Any] = {"layer": names, "curve": SHOWN[group]}
        table += rows_of(**own, mean=mean, std=deviation, draws=len(found))
        if group in PAPER:
            value, spread = np.array([PAPER[group][name] for name in names]).T
            style = {"fmt": "x", "color": color, "alpha": 0.75, "markersize": 5, "elinewidth": 0.8}
            panel.errorbar(at + 0.07, value, spread, **style)
            own["curve"] = f"{SHOWN[group]}, the paper's"
            table += rows_of(**own, mean=value, std=spread, draws=10)
    panel.plot([], [], "x", color="0.3", markersize=5, label="the paper's")
    panel.plot([], [], ".", color="0.5", markersize=4, label="one draw")
    panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
    over, points = "convolution that the matrix follows", "rotation penalty, percentage points"
    panel.set(xlabel=over, ylabel=points, xlim=(-0.5, len(places) - 0.5))
    panel.set_xticks(places, [f"{one.layer} ({one.channels} channels)" for one in rotations.layers])
    panel.grid(axis="x", visible=False)
    add_panel_legend(figure, [panel])
    return {"": Drawn(figure, (panel,), table)}


RULES: tuple[Any, ...] = (_find, *(partial(_near, group=group) for group in PAPER), _like_identity)
ITEMS: Mapping[str, Item] = {
    "sym-fig4": Item(rotations_of, judge_by("symmetry.fig4", *RULES), _draw)
}
