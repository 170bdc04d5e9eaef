"""How often is a planted element found? And what does adapting batch norms cost by itself?

    python papers/why/planted.py DATA

DATA holds `cifar10/train_images.npy` and the like, see `zoo/README.md`. A ResNet-20 is moved by a
known element of the group of ReLU inside its last block, which leaves its function as it is, and
stitched to itself there, with 8 seeds of the training. Minutes on one core.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import sigmascope as sg
from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.stitching import StitchData, Stitcher, Task, read_data
from sigmascope.stitching.result import StitchResult

NETWORK, SITE, SPACE, WIDTH = "sigmascope/resnet20:0", "blocks.8.act1", "blocks.8.bn1", 64
TRAIN, TEST, SEEDS = 2000, 1000, range(8)
ADAPTED, MORE = "blocks.4.act1", 10_000
SEARCHES = [
    Task("permutation", {"front_mode": "eval"}),
    *(
        Task(family, {"front_mode": "eval", "start": start})
        for family in ("relu-group", "softsort")
        for start in ("random", "matched")
    ),
]


def samples(root: str, transform: Any, train: int) -> StitchData:
    """Return the first images of CIFAR-10."""
    own: dict[str, Any] = {"root": root, "transform": transform}
    counts = {"train": train, "test": TEST}
    return read_data(*(data("cifar10", split=s, limit=n, **own) for s, n in counts.items()))


def shared_channels(found: StitchResult, expected: torch.Tensor) -> int:
    """Return how many channels of the planted permutation a stitch has."""
    return int(((found.matrix > 0) & (expected > 0)).sum())


def search(root: str) -> None:
    """Print what each search finds, for each seed."""
    entry = model(NETWORK)
    element = sg.symmetry.group("relu").draw(WIDTH, 0)
    moved = sg.symmetry.move(entry.network, {SPACE: element})
    given: dict[str, Any] = {"site": SITE, "preset": "fast", "cache_front": True, "progress": False}
    some = samples(root, entry.transform, TRAIN)
    print(f"{NETWORK} to itself, moved at {SITE}; {TRAIN} images, preset fast\n")
    print("| seed | family | start | channels found | penalty | against adapted | best epoch |")
    print("|--:|---|---|--:|--:|--:|--:|")
    for seed in SEEDS:
        stitcher = Stitcher(entry.network, moved, some, seed=seed, **given)
        for found in stitcher.fit_many(SEARCHES):
            start = found.settings.start if found.history else "–"
            print(
                f"| {seed} | {found.family} | {start} | {shared_channels(found, element.matrix())} "
                f"of {WIDTH} | {found.penalty:.2f} | {found.adapted_penalty:.2f} "
                f"| {found.best_epoch} |",
                flush=True,
            )


def adapt(root: str) -> None:
    """Print what adapting costs a network that is stitched to itself."""
    entry = model(NETWORK)
    some = samples(root, entry.transform, MORE)
    for averaging in ("exponential", "cumulative"):
        given: dict[str, Any] = {"site": ADAPTED, "averaging": averaging, "progress": False}
        found = sg.stitch(entry.network, entry.network, some, family="identity", **given)
        print(
            f"\n{NETWORK} to itself by the identity at {ADAPTED}, {averaging} means of batches of "
            f"{found.settings.batch}, {found.samples[0]} images: penalty {found.penalty:.2f}, "
            f"against itself adapted {found.adapted_penalty:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    search(*sys.argv[1:])
    adapt(*sys.argv[1:])
