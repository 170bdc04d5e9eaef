"""Dissections of our networks under rotations: the stored tables, or units that are compared with
concepts in CIFAR-10.

The concepts are not those of Broden, whose images and annotations the paper has. They are what can
be said of any CIFAR-10 test
image: the color of each pixel, the direction of each edge, both computed, and the class of the
    image, which covers all of its
pixels as a scene does in Broden. `CONCEPTS` says it exactly. The files hold counts, and not the
dissections themselves.
"""

from __future__ import annotations

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
from sigmascope_papers.symmetry.kept import (
    Kept,
    best_device,
    images_of,
    kept_place,
    machine_of,
    member,
)

__all__ = [
    "CATEGORIES",
    "CONCEPTS",
    "CONVNEXT",
    "INSIDE",
    "QUANTILES",
    "STREAM",
    "Dissected",
    "Found",
    "Subject",
    "concepts_in",
    "dissections_of",
    "file_name",
]

FOLDER = "dissections"
IMAGES, BATCH, SEEDS = 2_000, 250, (0, 1, 2, 3, 4)
SMOKE_POWERS, SMOKE_SEEDS = (0.0, 0.5, 1.0), (0,)

QUANTILES: Mapping[str, float] = {"": 0.995, "top 1 %": 0.99}
"""Name -> quantile of a unit's values above which it is active: the paper's, and a second one of
ours.

A class covers a tenth of all pixels, so that a unit that is active at 0.5 % of them has an IoU of
0.05 with it at most, and few exceed 0.04. Where it is active at 1 %, up to 0.1 can be had, and
shares of units are neither near 0 nor near 1.
"""

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CATEGORIES = ("color", "edge", "class")
CONCEPTS = (
    "2,000 test images of CIFAR-10 instead of Broden, with 25 concepts: eleven basic colors "
    "of pixels, nearest in CIELab, "
    "four directions of edges, by the Sobel gradient, and the ten classes, at all pixels of "
    "an image"
)
"""What stands in for the published data."""


@dataclass(frozen=True)
class Subject:
    """Networks of one kind, and where their units are.

    Attributes:
        network: its name in the zoo.
        seeds: of its trainings.
        site: a module or an activation of it.
    """

    network: str
    seeds: tuple[int, ...]
    site: str


CONVNEXT = "ConvNeXt"
RELU, NONE = "with ReLU after the addition", "without it"
STREAM: Mapping[str, Subject] = {
    RELU: Subject("resnet20", (0, 1, 2), "blocks.8"),
    NONE: Subject("resnet20-unrectified", (0,), "blocks.8"),
    CONVNEXT: Subject("convnext", (0,), "12"),
}
"""Label -> outputs of the last block, which end in the addition or in the ReLU behind it."""
INSIDE: Mapping[str, Subject] = {
    label: replace(STREAM[label], site="blocks.8.act1") for label in (RELU, NONE)
}
"""Label -> the activation inside the last block."""


@dataclass(frozen=True)
class Dissected(Kept):
    """One site of one network, for r rotations and p powers.

    Attributes:
        network: its name in the catalog.
        site: whose units they are.
        images: how many.
        about: what the masks are.
        units: how many the site has.
        quantile: of a unit's values, above which it is active.
        least_iou: a unit is interpretable if its best IoU is larger.
        powers: p, of the rotations; 0 is the site's own basis.
        seeds: r, of the rotations.
        detectors: category -> (r, p), how many units are interpretable by a concept of it.
        concepts: category -> (r, p), how many of its concepts they detect.
        best_iou: (r, p), the mean over the units of their best IoU.
        out_of_reach: concepts that cover too much for any unit.
        notes: what a reader should know.
        machine: what it ran on.
        versions: of the packages that matter.
    """

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
        shape = (len(self.seeds), len(self.powers))
        tables: list[Sequence[Sequence[float]]] = [
            *self.detectors.values(),
            *self.concepts.values(),
            self.best_iou,
        ]
        if any(
            len(table) != shape[0] or {len(row) for row in table} != {shape[1]} for table in tables
        ):
            raise InputError(f"a table is not of {shape[0]} rotations and {shape[1]} powers.")

    @property
    def fraction(self) -> Matrix:
        """(r, p), the share of units that are interpretable."""
        total: Matrix = self.table(self.detectors).sum(axis=0)
        return total / self.units

    def table(self, counts: Mapping[str, Sequence[Sequence[int]]]) -> Matrix:
        """(categories, r, p), counts in the order of `CATEGORIES`; 0 where there is none."""
        zero = np.zeros((len(self.seeds), len(self.powers)))
        return np.stack([np.array(counts.get(name, zero), dtype=np.float64) for name in CATEGORIES])


def file_name(network: str, seed: int, site: str, quantile: float) -> str:
    """Return the name of a result.

    >>> file_name("resnet20", 0, "blocks.8", 0.995)
    'resnet20-0-blocks.8-0.995.json'
    """
    return f"{network}-{seed}-{site}-{quantile:g}.json"


Found: TypeAlias = Mapping[str, Mapping[str, Sequence[Dissected]]]
"""Name of a quantile -> label of a subject -> one dissection for each network."""


def dissections_of(
    setting: Setting, subjects: Mapping[str, Subject]
) -> dict[str, dict[str, tuple[Dissected, ...]]]:
    """Read or make the dissections of all networks of all subjects, by the names of quantiles and
    by their labels.

    Raises:
        InputError: some are not stored, or cannot be made; the message says what to do.
        FileFormatError: a file is damaged, foreign or newer.
    """
    most = 1 if setting.smoke else None
    return {
        name: {
            label: tuple(
                _dissected(setting, subject, seed, quantile) for seed in subject.seeds[:most]
            )
            for label, subject in subjects.items()
        }
        for name, quantile in QUANTILES.items()
    }


def _dissected(setting: Setting, subject: Subject, seed: int, quantile: float) -> Dissected:
    place = kept_place(setting, FOLDER, file_name(subject.network, seed, subject.site, quantile))
    if place is not None and place.is_file():
        kept = Dissected.load(place)
        asked = (
            f"sigmascope/{subject.network}:{seed}",
            subject.site,
            IMAGES,
            POWERS,
            SEEDS,
            quantile,
        )
        if (kept.network, kept.site, kept.images, kept.powers, kept.seeds, kept.quantile) != asked:
            raise InputError(
                f"{place} holds another experiment. Take it from the checkout again, or remove it."
            )
        return kept
    found = _made(setting, subject, seed, quantile)
    if place is not None:
        found.save(place)
    return found


def _made(setting: Setting, subject: Subject, seed: int, quantile: float) -> Dissected:
    """Dissect one network."""
    entry, device = member(setting, subject.network, seed), best_device()
    images = images_of(setting, entry, images=IMAGES, batch=BATCH)
    powers, seeds = (SMOKE_POWERS, SMOKE_SEEDS) if setting.smoke else (POWERS, SEEDS)
    features = network_features(entry.network.to(device), subject.site, images)
    masks, shown = concepts_in(setting, entry), setting.progress
    found = dissect(features, masks, seeds=seeds, powers=powers, quantile=quantile, progress=shown)
    machine = machine_of(device)
    return _counted(found, f"sigmascope/{subject.network}:{seed}", machine)


def concepts_in(setting: Setting, entry: Model) -> Masks:
    """Return the colors, edges and classes of the images that a network sees; see `CONCEPTS`."""
    # Without a transform the same images come as they are, from 0 to 255.
    batches = list(images_of(setting, replace(entry, transform=None), images=IMAGES, batch=BATCH))
    pixels = torch.cat([images for images, _ in batches]).to(torch.uint8)
    labels = torch.cat([labels for _, labels in batches])
    size = (pixels.shape[2], pixels.shape[3])
    classes = image_masks(
        labels, CLASSES, size, about="the class of the image, at all of its pixels"
    )
    return join_masks(color_masks(pixels), edge_masks(pixels), classes)


def _counted(found: Dissection, network: str, machine: str) -> Dissected:
    """Reduce a dissection to what the figures need."""
    places = [[(r, p) for p in range(len(found.powers))] for r in range(len(found.seeds))]

    def table(count: Any) -> dict[str, tuple[tuple[int, ...], ...]]:
        return {
            name: tuple(tuple(count(name, *place) for place in row) for row in places)
            for name in CATEGORIES
        }

    def detected(category: str, rotation: int, power: int) -> list[int]:
        chosen = found.best_concept[rotation, power][found.interpretable[rotation, power]].tolist()
        return [place for place in chosen if found.concepts[place].category == category]

    return Dissected(
        network=network,
        site=found.name,
        images=found.samples,
        about=found.about,
        units=found.units,
        quantile=found.quantile,
        least_iou=found.least_iou,
        powers=found.powers,
        seeds=found.seeds,
        detectors=table(lambda *at: len(detected(*at))),
        concepts=table(lambda *at: len(set(detected(*at)))),
        best_iou=tuple(map(tuple, found.best_iou.mean(dim=-1).tolist())),
        out_of_reach=tuple(map(str, found.out_of_reach)),
        notes=found.notes,
        machine=machine,
        versions=found.versions,
    )
