"""Dissections of zoo networks under rotations: stored counts, or units compared with concepts.

The paper's concepts are those of Broden. Ours can be computed for any CIFAR-10 test image: the
color of each pixel, the direction of each edge, and the class of the image at all of its pixels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from sigmascope.catalog.entry import Model
from sigmascope.dissection.dissecting import POWERS, dissect
from sigmascope.dissection.masks import Masks, image_masks, join_masks
from sigmascope.dissection.network_maps import network_features
from sigmascope.dissection.pictures import color_masks, edge_masks
from sigmascope.dissection.result import Dissection
from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import kept

FOLDER = "dissections"
IMAGES, BATCH, SEEDS = 2_000, 250, (0, 1, 2, 3, 4)
SMOKE_POWERS, SMOKE_SEEDS = (0.0, 0.5, 1.0), (0,)
QUANTILES: Mapping[str, float] = {"": 0.995, "top 1 %": 0.99}
"""Name -> quantile above which a unit is active: the paper's, and a second one of ours."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CATEGORIES = ("color", "edge", "class")


@dataclass(frozen=True)
class Subject:
    """Networks of the zoo with some seeds, and the module or activation whose units are meant."""

    network: str
    seeds: tuple[int, ...]
    site: str


RELU, NONE, CONVNEXT = "with ReLU after the addition", "without it", "ConvNeXt"
STREAM: Mapping[str, Subject] = {
    RELU: Subject("resnet20", (0, 1, 2), "blocks.8"),
    NONE: Subject("resnet20-unrectified", (0,), "blocks.8"),
    CONVNEXT: Subject("convnext", (0,), "12"),
}
"""Label -> outputs of the last block, which end in the addition or in the ReLU after it."""
INSIDE: Mapping[str, Subject] = {
    label: replace(STREAM[label], site="blocks.8.act1") for label in (RELU, NONE)
}
"""Label -> the activation inside the last block."""


@dataclass(frozen=True)
class Dissected(kept.Kept):
    """Counts of a `Dissection` of one site by category, and mean best IoUs; tables are (r, p)."""

    kind = "dissections"

    network: str
    site: str
    images: int
    about: str
    units: int
    quantile: float
    least_iou: float
    powers: tuple[float, ...]
    seeds: tuple[int, ...]
    detectors: dict[str, tuple[tuple[int, ...], ...]]
    concepts: dict[str, tuple[tuple[int, ...], ...]]
    best_iou: tuple[tuple[float, ...], ...]
    out_of_reach: tuple[str, ...]
    notes: tuple[str, ...]
    machine: str
    versions: dict[str, str]

    def __post_init__(self) -> None:
        rows, columns = len(self.seeds), len(self.powers)
        for table in (*self.detectors.values(), *self.concepts.values(), self.best_iou):
            if len(table) != rows or {len(row) for row in table} != {columns}:
                raise InputError(f"expected tables of {rows} rotations and {columns} powers.")

    @property
    def fraction(self) -> Matrix:
        """(r, p), the share of units that are interpretable."""
        total: Matrix = self.table("detectors").sum(axis=0)
        return total / self.units

    def table(self, field: str) -> Matrix:
        """(categories, r, p), "detectors" or "concepts" in the order of `CATEGORIES`."""
        counts, zero = getattr(self, field), np.zeros((len(self.seeds), len(self.powers)))
        return np.stack([np.array(counts.get(name, zero), dtype=np.float64) for name in CATEGORIES])


Found: TypeAlias = Mapping[str, Mapping[str, Sequence[Dissected]]]
"""Name of a quantile -> label of a subject -> one dissection for each network."""


def file_name(network: str, seed: int, site: str, quantile: float) -> str:
    """Return the file name of a result."""
    return f"{network}-{seed}-{site}-{quantile:g}.json"


def dissections_of(
    setting: Setting, subjects: Mapping[str, Subject]
) -> dict[str, dict[str, tuple[Dissected, ...]]]:
    """Return the dissections of all networks by name of a quantile and label of a subject."""
    most = 1 if setting.smoke else None
    return {
        name: {
            label: tuple(_dissected(setting, one, seed, quantile) for seed in one.seeds[:most])
            for label, one in subjects.items()
        }
        for name, quantile in QUANTILES.items()
    }


def _dissected(setting: Setting, subject: Subject, seed: int, quantile: float) -> Dissected:
    asked = {
        "network": kept.zoo_name(subject.network, seed),
        "site": subject.site,
        "images": IMAGES,
        "powers": POWERS,
        "seeds": SEEDS,
        "quantile": quantile,
    }
    path = f"{FOLDER}/{file_name(subject.network, seed, subject.site, quantile)}"
    make = functools.partial(_made, setting, subject, seed, quantile)
    return kept.read_or_make(setting, path, Dissected.load, asked, make)


def _made(setting: Setting, subject: Subject, seed: int, quantile: float) -> Dissected:
    entry, device = kept.member(setting, subject.network, seed), kept.best_device()
    images = kept.images_of(setting, entry, images=IMAGES, batch=BATCH)
    powers, seeds = (SMOKE_POWERS, SMOKE_SEEDS) if setting.smoke else (POWERS, SEEDS)
    features = network_features(entry.network.to(device), subject.site, images)
    options: dict[str, Any] = {"quantile": quantile, "progress": setting.progress}
    found = dissect(features, concepts_in(setting, entry), seeds=seeds, powers=powers, **options)
    return kept.row_of(
        Dissected,
        found,
        network=kept.zoo_name(subject.network, seed),
        site=found.name,
        images=found.samples,
        machine=kept.machine_of(device),
        detectors=_counts(found, distinct=False),
        concepts=_counts(found, distinct=True),
        best_iou=tuple(map(tuple, found.best_iou.mean(dim=-1).tolist())),
        out_of_reach=tuple(map(str, found.out_of_reach)),
    )


def _counts(found: Dissection, *, distinct: bool) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return how many units detect a concept, or how many concepts they detect, by category."""

    def count(category: str, rotation: int, power: int) -> int:
        best = found.best_concept[rotation, power][found.interpretable[rotation, power]].tolist()
        places = [place for place in best if found.concepts[place].category == category]
        return len(set(places) if distinct else places)

    places = range(len(found.seeds)), range(len(found.powers))
    return {
        name: tuple(tuple(count(name, r, p) for p in places[1]) for r in places[0])
        for name in CATEGORIES
    }


def concepts_in(setting: Setting, entry: Model) -> Masks:
    """Return the colors, edges and classes of the images that a network sees."""
    # Without a transform the images have values from 0 to 255.
    plain = replace(entry, transform=None)
    batches = list(kept.images_of(setting, plain, images=IMAGES, batch=BATCH))
    pixels = torch.cat([images for images, _ in batches]).to(torch.uint8)
    labels = torch.cat([labels for _, labels in batches])
    about = "the class of the image, at all of its pixels"
    classes = image_masks(labels, CLASSES, (pixels.shape[2], pixels.shape[3]), about=about)
    return join_masks(color_masks(pixels), edge_masks(pixels), classes)
