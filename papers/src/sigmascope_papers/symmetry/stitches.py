"""Stitches of pairs of zoo networks: stored results, or stitches trained on CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.subject import current_versions
from sigmascope.stitching import Settings, Stitcher
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import kept
from sigmascope_papers.symmetry.plans import Plan

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
class PairStitches(kept.Kept):
    """All stitches of a pair, front and back, and what they share; see `StitchResult`."""

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
    """Results of all pairs of a plan, as it was asked for."""

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
        """(p, k), the points lost from the mean accuracy of both networks; NaN without a stitch."""
        found = self.accuracies[:, None] - self.values("stitched_accuracy", label)
        columns = dict(zip(self.layers, found.T, strict=True))
        missing = np.full(len(self.pairs), np.nan)
        return np.stack([columns.get(one, missing) for one in layers or self.layers], axis=1)


def stitches_of(setting: Setting, plan: Plan) -> Stitches:
    """Return the stitches of all pairs of a plan, stored or trained; each site is kept at once."""
    if setting.smoke:
        layers = {site: plan.layers[site] for site in plan.smoke_sites or plan.layers}
        plan = replace(plan, pairs=plan.pairs[:1], layers=layers)
    return Stitches(plan, tuple(_pair(setting, plan, pair) for pair in plan.pairs))


def _pair(setting: Setting, plan: Plan, pair: tuple[int, int]) -> PairStitches:
    names, settings = plan.names(pair), plan.settings(smoke=setting.smoke)
    return kept.resume(
        setting,
        f"{FOLDER}/{plan.file_name(pair)}",
        PairStitches.load,
        {"experiment": plan.name, "networks": names, "settings": settings},
        parts=list(plan.layers),
        done=lambda found: {one.site for one in found.stitches},
        begin=lambda: _training(setting, plan, pair),
    )


def _training(
    setting: Setting, plan: Plan, pair: tuple[int, int]
) -> Callable[[str, PairStitches | None], PairStitches]:
    """Return a function that trains the stitches at a site and appends them to a result."""
    device, tasks = kept.best_device(), plan.trained(smoke=setting.smoke)
    entries = [kept.member(setting, plan.network, seed) for seed in pair]
    samples = kept.samples_of(setting, entries[0])
    front, back = (kept.to_device(entry.network, device) for entry in entries)

    def train(site: str, old: PairStitches | None) -> PairStitches:
        stitcher = Stitcher(front, back, samples, site=site, preset=plan.preset, progress=False)
        found = dict(zip(tasks, stitcher.fit_many(list(tasks.values())), strict=True))
        machines = (*(old.machines if old else ()), kept.machine_of(device))
        rows = [
            kept.row_of(Stitched, one, label=label, history=tuple(e.accuracy for e in one.history))
            for label, one in found.items()
        ]
        first = next(iter(found.values()))
        return kept.row_of(
            PairStitches,
            first,
            experiment=plan.name,
            networks=plan.names(pair),
            accuracies=(first.front_accuracy, first.back_accuracy),
            settings={label: one.settings for label, one in found.items()},
            machines=tuple(dict.fromkeys(machines)),
            versions=current_versions(),
            stitches=(*(old.stitches if old else ()), *rows),
        )

    return train
