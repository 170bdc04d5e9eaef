"""Would more crops of the same pictures give wide layers a population score (real-fig5a)?

    python papers/why/crops.py

A population score needs 2.5 samples per channel: 1,280 for 512 channels, while there are 512 crops
of 192 pictures. More crops can be had, but those of one picture are alike. How alike is measured as
the share of the variance that is between pictures (intraclass correlation r): with k crops each, n
samples count as n / (1 + (k - 1) r), and never as more than 192 / r.

Whether that matters is tried on ResNet-18 with 14 crops of each picture: a score from which the
effect of the sample was removed is the same for all pictures as for either half of them. Written
before: crops will do if, in the median of the calls with 512 channels, the mean of both halves
differs from all by 0.01 at most. As a control the same is done with as many enlarged images of
CIFAR-10, which are independent.

Fetches the network and the images, 205 MB, once. A few minutes on one core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sigmascope.maths.moments import Moments
from sigmascope.maths.population import PopulationScore
from sigmascope.measure.kept_features import kept_calls
from sigmascope.measure.signature import signature
from sigmascope_papers.chance import Array
from sigmascope_papers.real.images import PICTURES, Samples
from sigmascope_papers.real.measuring import RUN
from sigmascope_papers.real.networks import network

NETWORK, CROPS = "resnet18", 14
BLOCK = 8  # pictures: halves are made of whole rounds through the groups of samples


class Rows(NamedTuple):
    """The inputs and outputs of a call on all samples, (n, d) each."""

    x: Array
    y: Array


def rows_of(source: str) -> Iterator[Rows]:
    """Return the pooled rows of every call of the network."""
    one = network(NETWORK)
    samples = Samples(source, CROPS * PICTURES, RUN, one.side, one.prepare)
    with tempfile.TemporaryDirectory() as kept:
        signature(one.trained(), samples, keep=kept, estimator="published", progress=False)
        batches = kept_calls(kept)
    for calls in zip(*batches, strict=True):
        parts = [(np.asarray(one.x), np.asarray(one.y)) for one in calls]
        yield Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def scored(rows: Rows, chosen: Array) -> PopulationScore:
    """Return the population score of some rows."""
    moments = Moments()
    moments.update(rows.x[chosen], rows.y[chosen])
    return moments.score()


def alike(x: Array) -> float:
    """Return the share of the variance that is between pictures."""
    cube = x.reshape(CROPS, PICTURES, -1).astype(float)
    means = cube.mean(axis=0)
    between = CROPS * means.var(axis=0, ddof=1).sum()
    within = ((cube - means) ** 2).sum() / (PICTURES * (CROPS - 1))
    return float((between - within) / (between + (CROPS - 1) * within))


def show(source: str) -> None:
    """Print the scores of all samples and of halves, by width."""
    count = CROPS * PICTURES
    half = (np.arange(count) % PICTURES) // BLOCK % 2
    print(f"\n{network(NETWORK).title}, {count} samples: {source}\n")
    print("| call | channels | r | counts as | all | mean of halves | difference | interval ± |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    apart: dict[int, list[float]] = {}
    for number, rows in enumerate(rows_of(source), 1):
        whole = scored(rows, half >= 0)
        halves = float(np.mean([scored(rows, half == side).score for side in (0, 1)]))
        share, dim = alike(rows.x), rows.x.shape[1]
        apart.setdefault(dim, []).append(abs(halves - whole.score))
        told = f"{number} | {dim} | {share:.2f} | {count / (1 + (CROPS - 1) * share):.0f}"
        told += f" | {whole.score:.3f} | {halves:.3f} | {halves - whole.score:+.3f}"
        print(f"| {told} | {(whole.high - whole.low) / 2:.3f} |", flush=True)
    for dim, values in apart.items():
        print(f"\n{dim} channels: median difference {np.median(values):.3f}")


if __name__ == "__main__":
    for each in ("pictures", "cifar10"):
        show(each)
