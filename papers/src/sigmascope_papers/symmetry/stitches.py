"""Stitches of pairs of our networks: the stored results, or stitches that are trained on CIFAR-10.

The files hold what the figures need, accuracies and sparsities, and not the stitches themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.choices import Preset
from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.stitching import Settings, Stitcher, StitchResult, Task, settings_for
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

__all__ = ["FAMILIES", "PairStitches", "Plan", "Stitched", "Stitches", "stitches_of"]

FOLDER = "stitches"
SMOKE = {"epochs": 1, "head_start": 0, "batch": 32, "validation": 0.5, "pass_batches": 1}

FAMILIES: Mapping[str, Task] = {
    "full": Task("full"),
    **{f"rank {rank}": Task("low-rank", {"rank": rank}) for rank in (4, 2, 1)},
    # Scales are trained at the rate of the permutation, as in the paper.
    "relu-group": Task("relu-group", {"scale_rate": None}),
    "permutation": Task("permutation"),
    "least-squares": Task("least-squares"),
}
"""Label -> stitch: the families of the paper, and two that are computed instead of trained."""


@dataclass(frozen=True)
class Plan:
    """An experiment.

    Attributes:
        name: what is tried, for the files.
        network: its name in the zoo.
        pairs: the seeds of fronts and backs.
        layers: site -> the paper's name of it, `*` for those inside a residual block.
        tasks: label -> stitch.
        epochs: of training.
        preset: how it is trained otherwise.
        changes: settings of all stitches other than those of the preset.
        smoke_sites: where a test of the machinery stitches.
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
        """Return the name of a result."""
        return f"{self.name}-{self.network}-{pair[0]}-{pair[1]}.json"

    def names(self, pair: tuple[int, int]) -> tuple[str, str]:
        """Return the names of front and back in the catalog."""
        return f"sigmascope/{self.network}:{pair[0]}", f"sigmascope/{self.network}:{pair[1]}"

    def trained(self, *, smoke: bool) -> dict[str, Task]:
        """Return the stitches with all that differs from the preset."""
        common, tiny = {"epochs": self.epochs, **self.changes}, SMOKE if smoke else {}
        return {
            label: Task(task.family, {**common, **task.changes, **tiny})
            for label, task in self.tasks.items()
        }


@dataclass(frozen=True)
class Stitched:
    """One stitch; see `StitchResult`, which has the same and the stitch itself.

    Attributes:
        history: the accuracy after each epoch on the data by which the best is chosen; empty where
            it was not kept.
    """

    site: str
    label: str
    channels: int
    stitched_accuracy: float
    chosen_accuracy: float
    best_epoch: int
    sparsity: float
    notes: tuple[str, ...]
    history: tuple[float, ...] = ()


@dataclass(frozen=True)
class PairStitches(Kept):
    """All stitches of one pair.

    Attributes:
        experiment: the name of the plan.
        networks: front and back.
        accuracies: theirs on the test data, in percent.
        settings: label -> how it was trained.
        samples: how many were trained on, chosen by, and tested on.
        augment: how training data were augmented.
        machines: what it ran on.
        versions: of the packages that matter.
        stitches: all.
    """

    kind = "stitches"

    experiment: str
    networks: tuple[str, str]
    accuracies: tuple[float, float]
    settings: dict[str, Settings]
    samples: tuple[int, int, int]
    augment: str
    machines: tuple[str, ...]
    versions: dict[str, str]
    stitches: tuple[Stitched, ...]

    def values(self, field: str, label: str, sites: Sequence[str]) -> Matrix:
        """(k,), a field of the stitches at sites; NaN where there is none."""
        found = {one.site: getattr(one, field) for one in self.stitches if one.label == label}
        return np.array([found.get(site, np.nan) for site in sites], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Stitches:
    """What all pairs of a plan gave.

    Attributes:
        plan: the experiment, as it was asked for.
        pairs: one result for each pair.
    """

    plan: Plan
    pairs: tuple[PairStitches, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """The paper's names of the sites."""
        return tuple(self.plan.layers.values())

    def penalties(self, label: str) -> Matrix:
        """(p, k), the mean accuracy of the two networks minus that of the stitched one, in
        percentage points.
        """
        means = np.array([[np.mean(pair.accuracies)] for pair in self.pairs])
        return means - self.values("stitched_accuracy", label)

    def penalty_at(self, label: str, layer: str) -> float:
        """The mean penalty over the pairs at a layer, by the paper's name of it; NaN where there is none."""
        means = dict(zip(self.layers, self.penalties(label).mean(axis=0), strict=True))
        return float(means.get(layer, np.nan))

    def values(self, field: str, label: str) -> Matrix:
        """(p, k), a field of the stitches of all pairs at all sites."""
        return np.stack([pair.values(field, label, list(self.plan.layers)) for pair in self.pairs])


def stitches_of(setting: Setting, plan: Plan) -> Stitches:
    """Read or train the stitches of all pairs of a plan.

    Training writes a file after every site, and goes on where it stopped.

    Raises:
        InputError: some are not stored, or cannot be trained; the message says what to do.
        FileFormatError: a file is damaged, foreign or newer.
    """
    if setting.smoke:
        sites = plan.smoke_sites or tuple(plan.layers)
        plan = replace(
            plan, pairs=plan.pairs[:1], layers={site: plan.layers[site] for site in sites}
        )
    pairs = []
    for pair in plan.pairs:
        place = kept_place(setting, FOLDER, plan.file_name(pair))
        kept = (
            _read(place, plan, pair, smoke=setting.smoke)
            if place is not None and place.is_file()
            else None
        )
        done = {one.site for one in kept.stitches} if kept else set()
        left = [site for site in plan.layers if site not in done]
        if left and not setting.from_scratch:
            raise InputError(
                f"{place} has no stitch at {', '.join(left)}. Take it from the checkout again."
            )
        pairs.append(
            kept if kept and not left else _trained(setting, plan, pair, left, kept, place)
        )
    return Stitches(plan, tuple(pairs))


def _read(place: Path, plan: Plan, pair: tuple[int, int], *, smoke: bool) -> PairStitches:
    """Read a result and refuse one that is not of this experiment."""
    found = PairStitches.load(place)
    settings = {
        label: settings_for(plan.preset, one.family, one.changes)
        for label, one in plan.trained(smoke=smoke).items()
    }
    if (found.experiment, found.networks, found.settings) != (
        plan.name,
        plan.names(pair),
        settings,
    ):
        raise InputError(
            f"{place} holds another experiment. Take it from the checkout again, or remove it."
        )
    return found


def _trained(
    setting: Setting,
    plan: Plan,
    pair: tuple[int, int],
    sites: list[str],
    kept: PairStitches | None,
    place: Path | None,
) -> PairStitches:
    """Train the stitches at some sites and put them behind those that there are."""
    entries, device = [member(setting, plan.network, seed) for seed in pair], best_device()
    samples, tasks = samples_of(setting, entries[0]), plan.trained(smoke=setting.smoke)
    front, back = (fastest(entry.network, device) for entry in entries)
    with progress_bar(
        f"{plan.name}: {' → '.join(plan.names(pair))}", len(sites), shown=setting.progress
    ) as advance:
        for site in sites:
            stitcher = Stitcher(front, back, samples, site=site, preset=plan.preset, progress=False)
            found = stitcher.fit_many(list(tasks.values()))
            rows = [_row(label, one) for label, one in zip(tasks, found, strict=True)]
            kept = PairStitches(
                experiment=plan.name,
                networks=plan.names(pair),
                accuracies=(found[0].front_accuracy, found[0].back_accuracy),
                settings={label: one.settings for label, one in zip(tasks, found, strict=True)},
                samples=found[0].samples,
                augment=found[0].augment,
                machines=tuple(
                    dict.fromkeys((*(kept.machines if kept else ()), machine_of(device)))
                ),
                versions=current_versions(),
                stitches=(*(kept.stitches if kept else ()), *rows),
            )
            if place is not None:
                kept.save(place)
            advance()
    if kept is None:
        raise InputError(f"{plan.name} has no sites.")
    return kept


def _row(label: str, one: StitchResult) -> Stitched:
    return Stitched(
        site=one.site,
        label=label,
        channels=one.channels,
        stitched_accuracy=one.stitched_accuracy,
        chosen_accuracy=one.chosen_accuracy,
        best_epoch=one.best_epoch,
        sparsity=one.sparsity,
        notes=one.notes,
        history=tuple(epoch.accuracy for epoch in one.history),
    )
