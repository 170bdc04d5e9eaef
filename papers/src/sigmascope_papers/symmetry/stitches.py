"""Stitches of pairs of zoo networks: stored results, or stitches trained on CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.stitching.run import stitch_many
from sigmascope.stitching.settings import Settings
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.kept import (
    Kept,
    best_device,
    kept_place,
    machine_of,
    member,
    read_kept,
    row_of,
    samples_of,
    to_device,
)
from sigmascope_papers.symmetry.plans import Plan

__all__ = ["FOLDER", "PairStitches", "Stitched", "Stitches", "stitches_of"]

FOLDER = "stitches"


@dataclass(frozen=True)
class Stitched:
    """The numbers of a `StitchResult`, without its matrix; `history` has the accuracies only."""

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
        samples: how many were used for training, for choosing the epoch, and for testing.
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
        """(k,), a field of the stitches at sites; NaN if there is none."""
        found = {one.site: getattr(one, field) for one in self.stitches if one.label == label}
        return np.array([found.get(site, np.nan) for site in sites], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Stitches:
    """Results of all pairs of a plan.

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

    @property
    def accuracies(self) -> Matrix:
        """(p,), the mean accuracies of the two networks of each pair, in percent."""
        return np.array([np.mean(pair.accuracies) for pair in self.pairs])

    def values(self, field: str, label: str) -> Matrix:
        """(p, k), a field of the stitches of all pairs at all sites."""
        return np.stack([pair.values(field, label, list(self.plan.layers)) for pair in self.pairs])

    def penalties(self, label: str, layers: Sequence[str] = ()) -> Matrix:
        """(p, k), the mean accuracy of the two networks minus that of the stitched one, in points.

        Args:
            label: of the stitches.
            layers: by the paper's names, by default all; NaN at those that were not stitched.
        """
        found = self.accuracies[:, None] - self.values("stitched_accuracy", label)
        columns = dict(zip(self.layers, found.T, strict=True))
        missing = np.full(len(self.pairs), np.nan)
        return np.stack([columns.get(one, missing) for one in layers or self.layers], axis=1)


def stitches_of(setting: Setting, plan: Plan) -> Stitches:
    """Return the stitches of all pairs of a plan, stored or trained.

    Training writes a file after every site, and continues where it stopped.

    Raises:
        InputError: some are not stored, or cannot be trained.
        FileFormatError: a file is damaged, of another kind or newer.
    """
    if setting.smoke:
        layers = {site: plan.layers[site] for site in plan.smoke_sites or plan.layers}
        plan = replace(plan, pairs=plan.pairs[:1], layers=layers)
    return Stitches(plan, tuple(_pair(setting, plan, pair) for pair in plan.pairs))


def _pair(setting: Setting, plan: Plan, pair: tuple[int, int]) -> PairStitches:
    place = kept_place(setting, FOLDER, plan.file_name(pair))
    asked = {
        "experiment": plan.name,
        "networks": plan.names(pair),
        "settings": plan.settings(smoke=setting.smoke),
    }
    kept = read_kept(PairStitches.load, place, asked)
    done = {one.site for one in kept.stitches} if kept else set()
    left = [site for site in plan.layers if site not in done]
    if kept and not left:
        return kept
    if not setting.from_scratch:
        raise InputError(
            f"{place} has no stitch at {', '.join(left)}. Restore the file from the repository."
        )
    if not left:
        raise InputError(f"{plan.name} has no sites.")
    return _trained(setting, plan, pair, left, kept, place)


def _trained(
    setting: Setting,
    plan: Plan,
    pair: tuple[int, int],
    sites: list[str],
    kept: PairStitches | None,
    place: Path | None,
) -> PairStitches:
    """Train the stitches at some sites and append them to those that exist."""
    entries, device = [member(setting, plan.network, seed) for seed in pair], best_device()
    samples, tasks = samples_of(setting, entries[0]), plan.trained(smoke=setting.smoke)
    front, back = (to_device(entry.network, device) for entry in entries)
    title = f"{plan.name}: {' → '.join(plan.names(pair))}"
    with progress_bar(title, len(sites), shown=setting.progress) as advance:
        for site in sites:
            found = stitch_many(
                front,
                back,
                list(tasks.values()),
                at=site,
                data=samples,
                preset=plan.preset,
                progress=False,
            )
            rows = [
                row_of(
                    Stitched, one, label=label, history=tuple(each.accuracy for each in one.history)
                )
                for label, one in zip(tasks, found, strict=True)
            ]
            machines = (*(kept.machines if kept else ()), machine_of(device))
            kept = PairStitches(
                experiment=plan.name,
                networks=plan.names(pair),
                accuracies=(found[0].front_accuracy, found[0].back_accuracy),
                settings={label: one.settings for label, one in zip(tasks, found, strict=True)},
                samples=found[0].samples,
                augment=found[0].augment,
                machines=tuple(dict.fromkeys(machines)),
                versions=current_versions(),
                stitches=(*(kept.stitches if kept else ()), *rows),
            )
            if place is not None:
                kept.save(place)
            advance()
    assert kept is not None  # there is at least one site
    return kept
