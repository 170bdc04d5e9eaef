"""Do three calls of VGG-19 score 0.80 to 0.86 because its weights are rescaled (real-fig5a)?

    python papers/why/rescaled.py

Each channel of this VGG-19 was multiplied so that its mean activation is 1. ReLU lets a factor
through, so that the network computes the same, but the score weighs channels by their variance.
VGG-16, which has the weights of its authors, is rescaled in the same way here, call by call: were
that the reason, some of its calls would score as high. The other way round, both networks are
scored with inputs of standard deviation 1 in every channel, which no rescaling changes.

Fetches both networks and the images, 290 MB, once. A quarter of an hour on one core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

from sigmascope import affinity
from sigmascope.measure.kept_features import kept_calls
from sigmascope.measure.signature import signature
from sigmascope_papers.chance import Array
from sigmascope_papers.real.images import Samples
from sigmascope_papers.real.measuring import OF_IMAGENET, RUN
from sigmascope_papers.real.networks import network

NETWORKS = ("vgg16", "vgg19")
SMALLEST = 1e-12  # of the scale of a channel: below, it is dead and keeps its factor


def rows_of(name: str) -> Iterator[tuple[Array, Array]]:
    """Yield the pooled inputs and outputs (n, d) of every call."""
    one = network(name)
    samples = Samples(one.source, OF_IMAGENET, RUN, one.side, one.prepare)
    with tempfile.TemporaryDirectory() as kept:
        signature(one.trained(), samples, keep=kept, estimator="published", progress=False)
        batches = kept_calls(kept)
    for calls in zip(*batches, strict=True):
        x, y = (np.concatenate([np.asarray(getattr(one, part)) for one in calls]) for part in "xy")
        yield x.astype(float), y.astype(float)


def scored(x: Array, y: Array, scale: Array) -> float:
    """Return the published score with every channel divided by a scale."""
    known = np.where(scale > SMALLEST, scale, 1.0)
    return affinity(x / known, y / known).score


def main() -> None:
    """Print the scores of every call: as it is, with mean outputs of 1, with inputs of std 1."""
    for name in NETWORKS:
        print(f"\n{network(name).title}\n")
        print("| call | channels | mean output | as it is | mean output 1 | input std 1 |")
        print("|--:|--:|--:|--:|--:|--:|")
        for number, (x, y) in enumerate(rows_of(name), 1):
            scores = [scored(x, y, scale) for scale in (np.ones(x.shape[1]), y.mean(0), x.std(0))]
            told = " | ".join(f"{score:.3f}" for score in scores)
            print(f"| {number} | {x.shape[1]} | {y.mean():.2f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
