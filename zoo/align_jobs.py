"""The jobs of the experiment on lines between networks: trainings of wider ones, and pairs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipes import RECIPES
from safetensors.torch import load_file
from torch import Tensor, nn
from train import load_data, normalized, save_weights
from trainer import Trainer

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS, VGG_COUNTS
from sigmascope.catalog.cifar_convnets import VGG
from sigmascope.symmetry.barriers import curves_to

# Network of the zoo -> its seeds.
FAMILIES: dict[str, tuple[int, ...]] = {
    "myrtle": tuple(range(8)),
    "vgg16": tuple(range(1, 10)),
    "resnet20": tuple(range(4)),
    "vit-patch4": (0, 1),
    "myrtle-nobn": (0, 1, 2),
}
WAYS = tuple(itertools.product(("weights", "activations"), ("permutations", "all")))
WIDTHS, WIDE_SEEDS, BASE = (2, 4), (1, 2, 3), (16, 32, 48, 64, 64)  # of VGG-16
FEATURES, COMPARED, KERNELS, BATCH = 1000, 1000, 300, 500  # images
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Options:
    """What all jobs of a call share."""

    data: Path
    scratch: Path
    device: str
    images: int
    epochs: int | None = None


@dataclass(frozen=True)
class Job:
    """A training, of one seed, or the lines between two; `width` is a multiple of the usual one."""

    family: str
    seeds: tuple[int, ...]
    width: int = 1

    @property
    def key(self) -> str:
        stage = "train" if len(self.seeds) == 1 else "lines"
        return f"{stage}/{named(self.family, self.width)}/{'-'.join(map(str, self.seeds))}"

    def size(self, options: Options) -> dict[str, int]:
        """Return the numbers on which its row depends."""
        trained = self.width > 1 or len(self.seeds) == 1
        epochs = {"epochs": options.epochs or RECIPES[self.family].epochs} if trained else {}
        return epochs | ({"images": options.images} if len(self.seeds) > 1 else {})

    def forget(self, options: Options) -> None:
        """Remove the weights of a training that is to be done, so that no pair reads them."""
        if len(self.seeds) == 1:
            _weights(self, self.seeds[0], options).unlink(missing_ok=True)

    def ready(self, options: Options) -> bool:
        """Return whether the files that it reads are there."""
        if self.width == 1 or len(self.seeds) == 1:
            return True
        return all(_weights(self, seed, options).exists() for seed in self.seeds)


def named(family: str, width: int) -> str:
    return family if width == 1 else f"{family}-x{width}"


def planned(only: Sequence[str], stages: Sequence[str], most: int | None = None) -> list[Job]:
    """Return the jobs in their order; trainings come first, since pairs wait for them."""
    wide = "widths" in stages and "vgg16" in only
    seeds = WIDE_SEEDS if most is None else WIDE_SEEDS[: most + 1]
    jobs = [Job("vgg16", (seed,), width) for width in WIDTHS[::-1] for seed in seeds if wide]
    if "lines" in stages:
        for family in only:
            pairs = itertools.combinations(FAMILIES[family], 2)
            jobs += [Job(family, pair) for pair in itertools.islice(pairs, most)]
    if wide:
        for width in WIDTHS:
            pairs = itertools.combinations(seeds, 2)
            jobs += [Job("vgg16", pair, width) for pair in itertools.islice(pairs, most)]
    return jobs


def files(only: Sequence[str] = tuple(FAMILIES)) -> list[str]:
    """Return the files of the repository that the lines need."""
    return [
        f"zoo/weights/{family}-s{seed}.safetensors" for family in only for seed in FAMILIES[family]
    ]


def missing(jobs: Sequence[Job], rows: Mapping[str, Any], options: Options) -> list[Job]:
    """Return the jobs that are left; wide networks are trained only where pairs wait for them."""
    left = [job for job in jobs if not done(job, rows, options)]
    wanted = {(job.width, seed) for job in left if len(job.seeds) > 1 for seed in job.seeds}
    return [job for job in left if len(job.seeds) > 1 or (job.width, *job.seeds) in wanted]


def done(job: Job, rows: Mapping[str, Any], options: Options) -> bool:
    """Return whether a job need not be done: a row of this setting and, of a training, its file
    are there.
    """
    row = rows.get(job.key)
    if row is None or any(row.get(name) != value for name, value in job.size(options).items()):
        return False
    return len(job.seeds) > 1 or _weights(job, job.seeds[0], options).exists()


def _weights(job: Job, seed: int, options: Options) -> Path:
    return options.scratch / f"{named(job.family, job.width)}-s{seed}.safetensors"


def work(options: Options, job: Job) -> dict[str, Any]:
    """Do a job and return its row."""
    torch.backends.cudnn.allow_tf32 = False  # a measurement is in float32
    began = time.monotonic()
    row = _trained(job, options) if len(job.seeds) == 1 else _lines(job, options)
    facts = {"key": job.key, "family": job.family, "width": job.width, "seeds": job.seeds}
    return {**facts, **job.size(options), **row, "seconds": round(time.monotonic() - began, 1)}


def build(family: str, width: int) -> nn.Module:
    """Return a network with random weights; only VGG-16 has other widths."""
    if width == 1:
        return NETWORKS[family]()
    return VGG(tuple(width * one for one in BASE), VGG_COUNTS[16])


def _trained(job: Job, options: Options) -> dict[str, Any]:
    """Train a wider network by the recipe of the zoo; write its weights."""
    recipe, (seed,) = RECIPES[job.family], job.seeds
    data = load_data(options.data, options.device)
    small = len(data["train_images"]) < 50000  # a trial
    recipe = replace(recipe, epochs=options.epochs or recipe.epochs)
    recipe = replace(recipe, batch=32) if small else recipe
    torch.manual_seed(seed)
    model = build(job.family, job.width).to(options.device)
    trainer = Trainer(model, recipe, data["train_images"], data["train_labels"], seed=seed)
    model.train()
    losses = [trainer.epoch(epoch) for epoch in range(recipe.epochs)]
    model.eval()
    file = _weights(job, seed, options)
    whole = file.with_name(f"{file.name}.new")
    save_weights(model, whole)  # under its name only when it is complete
    whole.replace(file)
    return {"loss": losses[-1]}


def _network(job: Job, seed: int, options: Options) -> nn.Module:
    if job.width == 1:
        return sg.catalog.model(f"sigmascope/{job.family}:{seed}").network.eval()
    network = build(job.family, job.width)
    network.load_state_dict(load_file(_weights(job, seed, options)))
    return network.eval()


@cache
def _images(data: Path, split: str, count: int, device: str) -> tuple[Tensor, Tensor]:
    """Return the first images of a split, normalized, and their labels."""
    read = (np.load(data / f"{split}_{one}.npy", mmap_mode="r") for one in ("images", "labels"))
    pixels, labels = (torch.from_numpy(np.array(one[:count])).to(device) for one in read)
    return normalized(pixels), labels.long()


def _lines(job: Job, options: Options) -> dict[str, Any]:
    """Align a pair in every way and follow the lines."""
    # weights are aligned on the CPU, features on the device
    on_cpu, on_device = (
        [_network(job, seed, options).to(device) for seed in job.seeds]
        for device in ("cpu", options.device)
    )
    images, labels = _images(options.data, "test", options.images, options.device)
    features, _ = _images(options.data, "train", FEATURES, options.device)
    ends, cosines, seconds = {"naive": on_device[1]}, {}, {}
    for by, group in WAYS:
        name, began = f"{by}, {group}", time.monotonic()
        pair = on_device if by == "activations" else on_cpu
        batches = features.split(BATCH) if by == "activations" else None
        found = sg.symmetry.align(
            *pair, batches and list(batches), by=by, group=group, progress=False
        )
        ends[name] = found.apply(pair[1]).to(options.device)
        cosines[name], seconds[name] = found.overall, round(time.monotonic() - began, 1)
    items = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))
    with torch.no_grad():
        curves, correction = curves_to(on_device[0], ends, items, found.element.wiring, SHARES)
    return {
        "curves": {name: vars(one) for name, one in curves.items()},
        "correction": correction,
        "cosines": cosines,
        "aligning": seconds,
        "similarity": _similarity(on_device, images),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "torch": torch.__version__,
    }


def _similarity(networks: Sequence[nn.Module], images: Tensor) -> dict[str, float]:
    """Return the similarities up to the group, averaged over activations at the same place."""
    found = {}
    for measure, count in (("procrustes", COMPARED), ("cka", KERNELS)):
        batches = list(images[:count].split(BATCH))
        compared = sg.symmetry.compare(
            *networks, batches, measure=measure, group="relu", pairs="diagonal", progress=False
        )
        found[measure] = float(np.nanmean(np.diagonal(np.asarray(compared.similarities))))
    return found
