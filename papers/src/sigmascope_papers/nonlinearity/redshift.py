"""The random networks of Figure 4: functions of the plane, by activation and by the scale of the
weights.

Three hidden layers of 40 channels. In every layer, the last one too, weights are uniform on k (±a +
t) with Glorot's a = sqrt(6 / (inputs + outputs)), scale k and shift t, and biases uniform on ±1.
For each seed torch draws the network of scale 1 and then, going on, that of scale 6, each time
after the usual initialization of its layers; ReLU and tanh share the weights. The inputs are a grid
of 32 × 32 points of [-1, 1]², as in the authors' notebook (the text says 64 × 64, as the images
here have); the unbiased covariance, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.figures import Drawn
from sigmascope.measure.affinity import affinity
from sigmascope_papers.figures.images import draw_images
from sigmascope_papers.item import Check, relation
from sigmascope_papers.nonlinearity.cases import Array

__all__ = [
    "SCALES",
    "SEEDS",
    "RandomNetwork",
    "draw_networks",
    "falls",
    "mean_scores",
    "measure_networks",
    "published_text",
]

SEEDS = (36482, 206083, 915395, 733004, 586160)
SCALES = (1, 6)
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"ReLU": torch.relu, "tanh": torch.tanh}
WIDTHS = (2, 40, 40, 40, 1)
SIDE, IMAGE_SIDE = 32, 64


@dataclass(frozen=True, eq=False)
class RandomNetwork:
    """One network.

    Attributes:
        seed, scale, activation: which one.
        scores: of its three activations.
        image: its output (64, 64), scaled to [0, 1].
    """

    seed: int
    scale: int
    activation: str
    scores: tuple[float, ...]
    image: Array


def measure_networks(
    shift: float,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    *,
    seeds: Sequence[int] = SEEDS,
    side: int = SIDE,
) -> list[RandomNetwork]:
    """Draw and score the networks of every seed, scale and activation; torch's own random state is
    left alone.
    """
    found = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            drawn = {scale: _draw_layers(scale, shift) for scale in SCALES}
        for scale, layers in drawn.items():
            for activation in activations:
                found.append(_score(layers, _grid(side), seed, scale, activation))
    return found


def _draw_layers(scale: int, shift: float) -> list[nn.Linear]:
    layers = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(WIDTHS)]
    for layer in layers:
        limit = math.sqrt(6 / (layer.in_features + layer.out_features))
        nn.init.uniform_(layer.weight, scale * (-limit + shift), scale * (limit + shift))
        nn.init.uniform_(layer.bias, -1, 1)
    return layers


def _grid(side: int) -> Tensor:
    """Return the points (side², 2), the first coordinate running fastest."""
    line = torch.linspace(-1, 1, side)
    across, down = torch.meshgrid(line, line, indexing="xy")
    return torch.stack([across.ravel(), down.ravel()], dim=1)


@torch.no_grad()
def _score(
    layers: Sequence[nn.Linear], points: Tensor, seed: int, scale: int, activation: str
) -> RandomNetwork:
    *pairs, _ = _calls(layers, points, ACTIVATIONS[activation])
    scores = tuple(float(affinity(x, y, covariance="unbiased")) for x, y in pairs)
    *_, (output, _) = _calls(layers, _grid(IMAGE_SIDE), ACTIVATIONS[activation])
    image = output.double().numpy().reshape(IMAGE_SIDE, IMAGE_SIDE)
    scaled = (image - image.min()) / (image.max() - image.min())
    return RandomNetwork(seed, scale, activation, scores, np.round(scaled, 4))


def _calls(
    layers: Sequence[nn.Linear], x: Tensor, activation: Callable[[Tensor], Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return what each layer gives, and what the activation makes of it; that of the last one does
    not count.
    """
    pairs = []
    for layer in layers:
        before = layer(x)
        x = activation(before)
        pairs.append((before, x))
    return pairs


def published_text(scores: Sequence[float]) -> str:
    """Write mean and spread (divisor n) as the authors do: of scores that are rounded to two digits
    first.

    >>> published_text([0.8338, 0.8368, 0.9003])
    '0.86 ± 0.03'
    """
    rounded = np.round(scores, 2)
    return f"{rounded.mean():.2f} ± {rounded.std():.2f}"


def mean_scores(networks: Sequence[RandomNetwork], activation: str, scale: int) -> dict[int, float]:
    """Return the mean score of each network of an activation and a scale, by seed."""
    chosen = [one for one in networks if (one.activation, one.scale) == (activation, scale)]
    return {one.seed: float(np.mean(one.scores)) for one in chosen}


def falls(networks: Sequence[RandomNetwork], activation: str) -> Check:
    """Judge whether scores fall from scale 1 to scale 6: in the mean over the seeds, and clearly if
    for every seed.
    """
    small, large = (mean_scores(networks, activation, scale) for scale in SCALES)
    means = [float(np.mean(list(scores.values()))) for scores in (small, large)]
    falling = sum(large[seed] < small[seed] for seed in small)
    return relation(
        f"{activation}: the score falls with the scale",
        f"falls, for each of {len(small)} seeds",
        f"from {means[0]:.3f} to {means[1]:.3f}, for {falling} of {len(small)}",
        true=means[1] < means[0],
        clear=falling == len(small),
    )


def draw_networks(networks: Sequence[RandomNetwork]) -> Drawn:
    """Draw the networks as images: activations and scales down, seeds across, scores above."""
    kinds = [(activation, scale) for activation in ACTIVATIONS for scale in SCALES]
    seeds = list(dict.fromkeys(one.seed for one in networks))
    found = {(one.activation, one.scale, one.seed): one for one in networks}
    lines = [[found[*kind, seed] for seed in seeds] for kind in kinds]
    return draw_images(
        [[one.image for one in line] for line in lines],
        titles=[[published_text(one.scores) for one in line] for line in lines],
        rows=[f"{activation}, weights × {scale}" for activation, scale in kinds],
        columns=[f"seed {seed}" for seed in seeds],
    )
