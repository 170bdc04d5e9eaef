"""Procrustes of all layers of two ResNet-20 in one pass, against the two forward passes.

The floor, for an image: 10.5 MFLOP for the 19 layers at the same places and 116 MFLOP for all 361
pairs, where the two forward passes take 164 MFLOP. Features are 0.75 MB for each network. Those of
the first must outlive its forward pass, so they are written and read once more; those of the second
are multiplied as soon as they exist, but for all pairs, where every layer meets every other and
both are kept. So layers at the same places cannot take less than about 1.1 forward passes, and all
pairs not less than 1.7, at equal speed of arithmetic: the 1.5 that is asked for is for layers at
the same places.

The networks run as `compare` runs them, each batch of both in turn. A shared machine changes its
speed by a fifth within minutes, so the ratio is taken within each of several turns, over a third of
the images at a time, and the median of these is given with the least and the largest. On a GPU a
small batch is not computed but launched, and so is what is done with its features; larger batches
are timed too.

Run as `python benchmarks/similarity_procrustes.py [--samples N] [--batch N] [--device cuda]`; see
`similarity.py` for the data.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import torch
from setting import describe, progress
from similarity import images
from torch import Tensor

import sigmascope as sg

RESNETS = ("sigmascope/resnet20:1", "sigmascope/resnet20:2")
BATCHES = {"cpu": (100,), "cuda": (100, 1000)}


def rows(pictures: Tensor, batch: int, device: str, turns: int) -> list[str]:
    one, other = (sg.catalog.model(name).network.to(device).eval() for name in RESNETS)
    parts = [[part.to(device) for part in third.split(batch)] for third in pictures.tensor_split(3)]

    def forward(batches: list[Tensor]) -> None:
        with torch.no_grad():
            for part in batches:
                one(part)
                other(part)

    calls: dict[str, Callable[[list[Tensor]], object]] = {
        "two forward passes": forward,
        "19 layers at the same places": lambda batches: sg.symmetry.compare(
            one, other, batches, pairs="diagonal", progress=False
        ),
        "all 361 pairs of layers": lambda batches: sg.symmetry.compare(
            one, other, batches, progress=False
        ),
    }
    forward(parts[0])
    # (turns, calls)
    times = np.array([_turn(list(calls.values()), parts, device) for _ in range(turns)])
    ratios = times / times[:, :1]
    spread = [
        f"{low:.2f} to {high:.2f}"
        for low, high in zip(ratios.min(axis=0), ratios.max(axis=0), strict=True)
    ]
    middle = zip(calls, np.median(times, axis=0), np.median(ratios, axis=0), spread, strict=True)
    return [
        f"| {name} | {batch} | {seconds:.2f} | {ratio:.2f} | {span} |"
        for name, seconds, ratio, span in middle
    ]


def _turn(
    calls: list[Callable[[list[Tensor]], object]], parts: list[list[Tensor]], device: str
) -> list[float]:
    """Return the seconds of all calls over all parts, which they take in turns."""
    spent = [0.0] * len(calls)
    for part in parts:
        for number, call in enumerate(calls):
            progress(f"call {number + 1} of {len(calls)}")
            started = time.perf_counter()
            call(part)
            if device == "cuda":
                torch.cuda.synchronize()
            spent[number] += time.perf_counter() - started
    return spent


def main(
    device: str = "cpu", samples: int = 10_000, repeats: int = 5, batches: tuple[int, ...] = ()
) -> str:
    pictures, source = images(samples)
    lines = [
        f"# Procrustes of two ResNet-20 against their forward passes ({device})",
        "",
        describe(device),
        "",
        f"{len(pictures)} {source}, float32 products. Median of {repeats} turns; load of the "
        f"machine {os.getloadavg()[0]:.1f}.",
        "",
        "| | batch | seconds | ratio | over the turns |",
        "|---|---:|---:|---:|---|",
    ]
    for batch in batches or BATCHES[device]:
        lines += rows(pictures, batch, device, repeats)
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="*", default=())
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print(main(given.device, given.samples, given.repeats, tuple(given.batch)))
