"""Figures 4A and 4B: random networks as functions of the plane, by the scale of their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.figures import Drawn
from sigmascope.measure.affinity import affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.figures.images import draw_images
from sigmascope_papers.item import Check, Finding, agrees, conclude
from sigmascope_papers.nonlinearity.items import Rules, item_of
from sigmascope_papers.nonlinearity.published import FIGURE_4B
from sigmascope_papers.setting import EPS

SEEDS, SCALES, SHIFT = (36482, 206083, 915395, 733004, 586160), (1, 6), -0.05
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"ReLU": torch.relu, "tanh": torch.tanh}
WIDTHS = (2, 40, 40, 40, 1)
SIDE, IMAGE_SIDE = 32, 64
# Means over five seeds by an independent implementation in float64.
Means = dict[tuple[str, int], float]
MEANS_A: Means = {("ReLU", 1): 0.907, ("ReLU", 6): 0.808, ("tanh", 1): 0.965, ("tanh", 6): 0.722}
MEANS_B: Means = {("ReLU", 1): 0.882, ("ReLU", 6): 0.665, ("tanh", 1): 0.963, ("tanh", 6): 0.719}


@dataclass(frozen=True, eq=False)
class RandomNetwork:
    """A network: seed, scale and activation, its three scores, its output (64, 64) in [0, 1]."""

    seed: int
    scale: int
    activation: str
    scores: tuple[float, ...]
    image: Array


Networks = Sequence[RandomNetwork]
Panels = Mapping[str, Networks]


def measure_networks(
    shift: float,
    activations: Sequence[str] = tuple(ACTIVATIONS),
    *,
    seeds: Sequence[int] = SEEDS,
    side: int = SIDE,
) -> list[RandomNetwork]:
    """Return the networks of every seed, scale and activation; preserve torch's random state."""
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
    scores = tuple(float(affinity(x, y, covariance="unbiased", eps=EPS)) for x, y in pairs)
    *_, (output, _) = _calls(layers, _grid(IMAGE_SIDE), ACTIVATIONS[activation])
    image = output.double().numpy().reshape(IMAGE_SIDE, IMAGE_SIDE)
    scaled = (image - image.min()) / (image.max() - image.min())
    return RandomNetwork(seed, scale, activation, scores, np.round(scaled, 4))


def _calls(
    layers: Sequence[nn.Linear], x: Tensor, activation: Callable[[Tensor], Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return the output of each layer, and its activation; that of the last one does not count."""
    pairs = []
    for layer in layers:
        before = layer(x)
        x = activation(before)
        pairs.append((before, x))
    return pairs


def published_text(scores: Sequence[float]) -> str:
    """Return mean and std (divisor n) as the authors do: of scores rounded to two digits first.

    >>> published_text([0.8338, 0.8368, 0.9003])
    '0.86 ± 0.03'
    """
    rounded = np.round(scores, 2)
    return f"{rounded.mean():.2f} ± {rounded.std():.2f}"


def _by_seed(networks: Networks, activation: str, scale: int) -> Array:
    """Return the mean score of the network of each seed."""
    kind = activation, scale
    return np.array(
        [np.mean(one.scores) for one in networks if (one.activation, one.scale) == kind]
    )


def _falls(networks: Networks, activation: str) -> Array:
    """Return by how much the network of each seed falls from scale 1 to 6."""
    small, large = (_by_seed(networks, activation, scale) for scale in SCALES)
    return small - large


def _means(networks: Networks, expected: Means, words: str) -> list[Check]:
    rows = [
        (f"{kind[0]} at scale {kind[1]}, {words}", value, float(_by_seed(networks, *kind).mean()))
        for kind, value in expected.items()
    ]
    return [agrees(*row, tolerance=0.001, digits=3) for row in rows]


def _fall(networks: Networks | Panels, activation: str) -> Finding:
    networks = networks["B"] if isinstance(networks, Mapping) else networks
    small, large = (_by_seed(networks, activation, scale) for scale in SCALES)
    falling, means = int((large < small).sum()), (small.mean(), large.mean())
    obtained = f"from {means[0]:.3f} to {means[1]:.3f}, for {falling} of {len(small)}"
    return obtained, means[1] < means[0], falling == len(small)


def _slightly(networks: Networks) -> Finding:
    relu, tanh = (float(_falls(networks, activation).mean()) for activation in ACTIVATIONS)
    return f"by {relu:.3f}, tanh by {tanh:.3f}", relu < tanh, relu < tanh / 2


def _above_tanh(networks: Networks) -> Finding:
    relu, tanh = (_by_seed(networks, activation, SCALES[-1]) for activation in ACTIVATIONS)
    higher, count = int((relu > tanh).sum()), len(relu)
    return f"above, for {higher} of {count}", relu.mean() > tanh.mean(), higher == count


def _numbers(panels: Panels) -> list[Check]:
    scores = {(one.seed, one.activation, one.scale): one.scores for one in panels["B"]}
    small, large = [], []
    for key, ((printed, noisy), reference) in FIGURE_4B.items():
        told = f"{key[1]} at scale {{}}, seed {key[0]}"
        obtained = published_text(scores[*key, 1])
        small.append(conclude(told.format(1), printed, (obtained, obtained == printed)))
        rows = reference, scores[*key, 6]
        listed = [", ".join(f"{score:.4f}" for score in row) for row in rows]
        expected = f"{listed[0]} ± 0.001 in float64 (printed {noisy}, float32 noise)"
        gap = np.abs(np.subtract(*rows)).max()
        large.append(conclude(told.format(6), expected, (listed[1], gap <= 0.001)))
    return [*small, *large, *_means(panels["B"], MEANS_B, "mean in float64")]


def _further_than_before(panels: Panels) -> Finding:
    before, after = (_falls(panels[panel], "ReLU") for panel in "AB")
    further, count = int((after > before).sum()), len(after)
    obtained = (
        f"by {after.mean():.3f} against {before.mean():.3f}, further for {further} of {count}"
    )
    return obtained, after.mean() > before.mean(), further == count


def _near_tanh(panels: Panels) -> Finding:
    relu, tanh = (_by_seed(panels["B"], activation, SCALES[-1]) for activation in ACTIVATIONS)
    gaps = relu - tanh
    higher, count = int((gaps > 0).sum()), len(gaps)
    obtained = f"{gaps.mean():+.3f}, higher for {higher} of {count} seeds"
    return obtained, abs(gaps.mean()) <= 0.1, 0 < higher < count


def _draw(networks: Networks) -> dict[str, Drawn]:
    """Draw the networks as images: activations and scales down, seeds across, scores above."""
    kinds = [(activation, scale) for activation in ACTIVATIONS for scale in SCALES]
    seeds = list(dict.fromkeys(one.seed for one in networks))
    found = {(one.activation, one.scale, one.seed): one for one in networks}
    lines = [[found[*kind, seed] for seed in seeds] for kind in kinds]
    drawn = draw_images(
        [[one.image for one in line] for line in lines],
        titles=[[published_text(one.scores) for one in line] for line in lines],
        rows=[f"{activation}, weights × {scale}" for activation, scale in kinds],
        columns=[f"seed {seed}" for seed in seeds],
    )
    return {"": drawn}


FALL = [partial(_fall, activation=activation) for activation in ACTIVATIONS]
MEANS = partial(_means, expected=MEANS_A, words="in float64")
RULES_A: Rules = (MEANS, *FALL, _slightly, _above_tanh)
RULES_B: Rules = (_numbers, *FALL, _further_than_before, _near_tanh)
ITEMS = {
    "fig4a": item_of("fig4a", lambda setting: measure_networks(0.0), _draw, *RULES_A),
    "fig4b": item_of(
        "fig4b",
        lambda setting: {"A": measure_networks(0.0, ["ReLU"]), "B": measure_networks(SHIFT)},
        lambda panels: _draw(panels["B"]),
        *RULES_B,
    ),
}
