"""Planted elements: networks that are moved at random and aligned to themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import torch
from setting import progress
from torch import Tensor, nn

import sigmascope as sg

Trial: TypeAlias = tuple[str, int, str]
"""Network, draw, and how it is aligned."""
Outcome: TypeAlias = tuple[float, float]
"""The largest error of a parameter, and processor seconds."""
MISSED = 1e-6  # a draw with a larger error

ZOO = (
    *("myrtle:0", "myrtle-nobn:0", "plain20:0", "resnet20:0", "resnet20-unrectified:0"),
    *("resnet20-leaky0.1:0", "resnet20-leaky1:0", "resnet20-simclr:0", "vgg:0", "vgg11:1"),
    *("vgg16:1", "vgg19:1", "googlenet:0", "mobilenetv2:0", "efficientnet:0", "densenet:0"),
    *("convnext:0", "vit:0", "vit-patch2:0", "vit-patch4:0", "vit-patch8:0", "swin:0"),
)
LARGE = ("trained/resnet18", "trained/mobilenet_v2", "torchvision/vgg11", "torchvision/vit_b_32")
NAMES = (*(f"sigmascope/{one}" for one in ZOO), *LARGE)


def loaded(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """Return a network and some of its inputs."""
    source = torch.Generator().manual_seed(1)
    pictures = torch.randn(4, 3, 224, 224, generator=source)
    if name.startswith("trained/"):
        from sigmascope_papers.real.networks import NETWORKS

        return NETWORKS[name.removeprefix("trained/")].trained(), pictures
    if name.startswith("torchvision/"):
        return sg.catalog.model(name, weights=None, seed=seed).network, pictures
    entry = sg.catalog.model(name)
    data = sg.catalog.data("embedded", transform=entry.transform, batch_size=32, limit=32)
    return entry.network, next(iter(data))[0]


def error_of(a: nn.Module, b: nn.Module) -> float:
    """Return the largest difference of a parameter."""
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs)


@lru_cache(1)
def original(name: str) -> tuple[nn.Module, Tensor]:
    """Return a network in float64, and inputs."""
    network, inputs = loaded(name)
    return network.double().eval(), inputs.double()


def trial(task: tuple[str, int, str]) -> tuple[float, float]:
    """Return the largest error of a planted element that was found again, and seconds."""
    (name, draw, by), began = task, time.process_time()
    network, inputs = original(name)
    moved = sg.symmetry.move(network, seed=draw)
    found = sg.symmetry.align(network, moved, inputs, by=by, progress=False)
    return error_of(network, found.apply(moved)), time.process_time() - began


def planted(
    names: list[str], draws: int, ways: list[str], jobs: int, journal: Path | None = None
) -> Iterator[str]:
    """Yield a table of how often a planted element is found again."""
    yield f"| network | draws | missed by {' | by '.join(ways)} | largest error | seconds each |"
    yield "|---|--:|" + "--:|" * (len(ways) + 2)
    known = dict(_read(journal))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for name in names:
            progress(name)
            tasks = [(name, draw, by) for draw in range(draws) for by in ways]
            left = [task for task in tasks if task not in known]
            try:
                for task, outcome in zip(
                    left, map(trial, left) if jobs == 1 else pool.map(trial, left), strict=True
                ):
                    known[task] = outcome
                    _note(journal, task, outcome)
            except sg.symmetry.UnmovableError as refusal:
                reason = str(refusal).split(":")[0]
                yield f"| {name} | – | does not move: {reason} | {'| ' * (len(ways) + 1)}"
                continue
            yield _row(name, draws, ways, {task: known[task] for task in tasks})


def _row(name: str, draws: int, ways: list[str], found: dict[Trial, Outcome]) -> str:
    missed = [task[2] for task, (error, _) in found.items() if not error <= MISSED]
    counts = " | ".join(str(missed.count(by)) for by in ways)
    worst = max(error for error, _ in found.values())
    seconds = sum(spent for _, spent in found.values()) / len(found)
    return f"| {name} | {draws} | {counts} | {worst:.1e} | {seconds:.1f} |"


def _read(journal: Path | None) -> Iterator[tuple[Trial, Outcome]]:
    lines = journal.read_text().splitlines() if journal and journal.exists() else []
    for line in lines:
        if line.endswith("]"):  # the last may have been cut
            name, draw, by, error, seconds = json.loads(line)
            yield (name, draw, by), (error, seconds)


def _note(journal: Path | None, task: Trial, outcome: Outcome) -> None:
    if journal:
        with journal.open("a") as file:
            file.write(json.dumps([*task, *outcome]) + "\n")
