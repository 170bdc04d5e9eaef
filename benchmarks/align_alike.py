"""Pairs of networks that `Alignment.alike` should and should not call alike.

Each pair is aligned by weights, and so are 5 controls. The ratio of the pair's cosine to the
largest of the controls is what `alike` compares with its margin. All networks of the zoo saw
CIFAR-10. The only ones of different images are small, and trained here: on scikit-learn's digits,
or on pictures of CIFAR-10 in gray and of the digits' size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
import torch.nn.functional as F
from setting import progress
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.symmetry.aligning.result import MARGIN

CONTROLS = 5
Pair = tuple[str, str]

FAMILIES = {
    "resnet20": (0, 1, 2, 3),
    "plain20": (0, 1, 2),
    "vgg16": (1, 2, 3, 4),
    "vit-patch4": (0, 1),
    "myrtle": (0, 1),
    "myrtle-nobn": (0, 1),
}
TASKS = ("noaug", "noisy", "adversarial", "rotation", "simclr")
SMALL = {kind: [f"{kind}:{seed}" for seed in range(3)] for kind in ("digits", "pictures", "blank")}


def pairs() -> dict[str, list[Pair]]:
    """Return the pairs by kind."""
    zoo = [
        (f"{family}:{one}", f"{family}:{other}")
        for family, seeds in FAMILIES.items()
        for one, other in itertools.combinations(seeds, 2)
    ]
    tasks = [f"resnet20-{one}" for one in TASKS]
    different = itertools.combinations(["resnet20", *tasks], 2)
    trained = (*SMALL["digits"], *SMALL["pictures"])
    small = [both for own in SMALL.values() for both in itertools.combinations(own, 2)]
    return {
        "untrained": [
            *((f"{a}-init", f"{b}-init") for a, b in zoo),
            *(both for both in small if both[0].startswith("blank")),
        ],
        "one trained, one not": [
            *((a, f"{b}-init") for a, b in zoo),
            *((one, SMALL["blank"][0]) for one in trained),
        ],
        "other images": list(itertools.product(SMALL["digits"], SMALL["pictures"])),
        "other tasks": [(f"{one}:0", f"{other}:1") for one, other in different],  # nor one start
        "other seeds": [
            *zoo,
            *((f"{one}:0", f"{one}:1") for one in tasks),
            *(both for both in small if not both[0].startswith("blank")),
        ],
    }


def network(name: str) -> nn.Module:
    """Return a network of the zoo, or a small one, trained here."""
    kind, _, seed = name.partition(":")
    if kind not in SMALL:
        return sg.catalog.model(f"sigmascope/{name}").network.eval()
    with torch.random.fork_rng():
        torch.manual_seed(10 * int(seed) + [*SMALL].index(kind))  # no two begin alike
        layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
        found = nn.Sequential(*layers, nn.Linear(128, 10))
        if kind != "blank":
            fit(found, *images(kind))
        return found.eval()


def images(kind: str) -> tuple[Tensor, Tensor]:
    """Return images of 8 x 8 as rows, standardized, and their labels."""
    if kind == "digits":
        from sklearn.datasets import load_digits

        pixels, labels = map(torch.from_numpy, load_digits(return_X_y=True))
        rows = pixels.float()
    else:
        colored, labels = next(iter(sg.catalog.data("embedded", batch_size=512, limit=512)))
        rows = F.avg_pool2d(colored.float().mean(dim=1, keepdim=True), 4).flatten(1)
    return (rows - rows.mean()) / rows.std(), labels.long()


def fit(model: nn.Module, x: Tensor, y: Tensor, steps: int = 600) -> None:
    """Train by Adam on random batches of 128."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        chosen = torch.randint(len(x), (128,))
        loss = F.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def trial(names: Pair) -> tuple[float, float]:
    """Return the cosine of an aligned pair, and the largest of its controls."""
    found = sg.symmetry.align(*map(network, names), controls=CONTROLS, progress=False)
    return found.overall, max(found.controls)


def results(jobs: int, chosen: list[Pair]) -> Iterator[tuple[float, float]]:
    """Yield the results of pairs, in their order."""
    if jobs == 1:
        yield from map(trial, chosen)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(trial, chosen)


def alike(jobs: int, kinds: list[str]) -> Iterator[str]:
    """Yield a table of the pairs of some kinds or all, and how many of each are called alike."""
    summary = [
        f"\n| kind | pairs | called alike, margin {MARGIN} | least ratio | largest |",
        "|---|--:|--:|--:|--:|",
    ]
    yield f"| pairs | | cosine | largest of {CONTROLS} controls | ratio |"
    yield "|---|---|--:|--:|--:|"
    known = pairs()
    for kind in kinds or known:
        chosen, ratios = known[kind], []
        for names, (cosine, largest) in zip(chosen, results(jobs, chosen), strict=True):
            progress(", ".join(names))
            ratios.append(cosine / largest)
            cells = f"{cosine:.4f} | {largest:.4f} | {ratios[-1]:.2f}"
            yield f"| {kind} | {', '.join(names)} | {cells} |"
        called = sum(one > MARGIN for one in ratios)
        extremes = f"{min(ratios):.2f} | {max(ratios):.2f}"
        summary.append(f"| {kind} | {len(ratios)} | {called} | {extremes} |")
    yield from summary
