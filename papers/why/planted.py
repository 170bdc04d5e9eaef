"""How often is a planted element found? And what does adapting batch norms cost by itself?

    python papers/why/planted.py DATA

DATA holds `cifar10/train_images.npy` and the like, see `zoo/README.md`. A VGG-11 is moved by a
known element of the group of ReLU at a middle layer, which leaves its function as it is, and
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

NETWORK, SITE, SPACE, WIDTH = "sigmascope/vgg11:1", "13", "12", 48
TRAIN, TEST, SEEDS = 4000, 2000, range(8)
ADAPTED = {NETWORK: SITE, "sigmascope/resnet20:0": "blocks.4.act1"}
SEARCHES = [
    Task("permutation", {"front_mode": "eval"}),
    *(
        Task(family, {"front_mode": "eval", "start": start})
        for family in ("relu-group", "softsort")
        for start in ("random", "matched")
    ),
    Task("relu-group", {"front_mode": "eval", "head_start": 0}),
]


def samples(root: str, transform: Any, train: int) -> StitchData:
    """Return the first images of CIFAR-10."""
    own: dict[str, Any] = {"root": root, "transform": transform}
    counts = {"train": train, "test": TEST}
    return read_data(*(data("cifar10", split=s, limit=n, **own) for s, n in counts.items()))


def shared_channels(found: StitchResult, expected: torch.Tensor) -> int:
    """Return how many channels of the planted permutation a stitch has."""
    return int(((found.matrix > 0) & (expected > 0)).sum())


def scales_off(found: StitchResult, expected: torch.Tensor) -> float:
    """Return the spread of log(found / planted) over shared channels; 1 where all scales are 1."""
    shared = (found.matrix > 0) & (expected > 0)
    return float((found.matrix[shared] / expected[shared]).log().std(correction=0))


def search(root: str) -> None:
    """Print what each search finds, for each seed."""
    entry = model(NETWORK)
    element = sg.symmetry.group("relu").draw(WIDTH, 0)
    moved = sg.symmetry.move(entry.network, {SPACE: element})
    given: dict[str, Any] = {"site": SITE, "preset": "fast", "cache_front": True, "progress": False}
    some = samples(root, entry.transform, TRAIN)
    planted = element.matrix()
    print(f"{NETWORK} to itself, moved at {SITE}; {TRAIN} images, preset fast\n")
    columns = ("start", "head start", "channels found", "scales off", "penalty", "against adapted")
    print(f"| seed | family | {' | '.join(columns)} | best epoch |\n|--:|---|---|{'--:|' * 6}")
    for seed in SEEDS:
        stitcher = Stitcher(entry.network, moved, some, seed=seed, **given)
        for found in stitcher.fit_many(SEARCHES):
            start = found.settings.start if found.history else "–"
            told = (seed, found.family, start, found.settings.head_start)
            parts = (shared_channels(found, planted), WIDTH, scales_off(found, planted))
            print(
                f"| {' | '.join(map(str, told))} | {parts[0]} of {parts[1]} | {parts[2]:.2f} "
                f"| {found.penalty:.2f} | {found.adapted_penalty:.2f} | {found.best_epoch} |",
                flush=True,
            )


def adapt(root: str) -> None:
    """Print what adapting costs networks that are stitched to themselves."""
    for name, site in ADAPTED.items():
        entry = model(name)
        some = samples(root, entry.transform, TRAIN)
        for averaging in ("exponential", "cumulative"):
            given: dict[str, Any] = {"site": site, "averaging": averaging, "progress": False}
            found = sg.stitch(entry.network, entry.network, some, family="identity", **given)
            print(
                f"\n{name} to itself by the identity at {site}, {averaging} means of batches of "
                f"{found.settings.batch}, {found.samples[0]} images: penalty {found.penalty:.2f}, "
                f"against itself adapted {found.adapted_penalty:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    search(*sys.argv[1:])
    adapt(*sys.argv[1:])
