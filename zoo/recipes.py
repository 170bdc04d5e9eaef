"""How the networks of the zoo are trained: one row per network with its own recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from sigmascope.catalog.cifar import NETWORKS, PATCHES, SLOPES, VGG_COUNTS

LAYOUTS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
PRECISIONS = {"bfloat16": torch.bfloat16, "float32": torch.float32}
MEAN, STD = (125.307, 122.961, 113.8575), (51.5865, 50.847, 51.255)  # of CIFAR-10, of 255


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: one cycle of the learning rate, flips and shifts of up to four
    pixels, an objective.
    """

    optimizer: str = "sgd"
    rate: float = 0.4
    decay: float = 5e-4
    epochs: int = 60
    batch: int = 512
    smoothing: float = 0.0
    warm: float = 0.25  # the share of the steps in which the rate rises
    cutout: int = 0  # side of a square that is blanked
    layout: str = "channels_last"  # a row of LAYOUTS
    # whether to try all convolution kernels of a GPU first: half a minute that depthwise ones repay
    search: bool = False
    # a row of PRECISIONS, of the forward pass on a GPU; a CPU computes in float32
    precision: str = "bfloat16"
    objective: str = "classify"  # a row of OBJECTIVES
    augment: bool = True  # whether images are flipped, shifted and blanked
    noise: float = 0.0  # the share of the training labels that are replaced by others
    radius: float = 0.0  # how far an attack may change a pixel, of 255


ADAM = Recipe(
    optimizer="adamw",
    rate=2e-3,
    decay=0.05,
    epochs=100,
    batch=256,
    smoothing=0.1,
    warm=0.1,
    cutout=8,
)
RECIPES: dict[str, Recipe] = {
    "resnet20": Recipe(epochs=80),
    "resnet32": Recipe(epochs=80),
    "resnet56": Recipe(epochs=80),
    "plain56": Recipe(rate=0.1, epochs=80),
    "plain32": Recipe(rate=0.2, epochs=80),
    "vit": ADAM,
    "convnext": replace(ADAM, epochs=50, search=True),
    "mobilenetv2": Recipe(epochs=40, search=True),
    "densenet": Recipe(epochs=50),
    "resnet20-unrectified": Recipe(epochs=40),
    "resnet18": Recipe(rate=0.2, epochs=15),
    "myrtle": Recipe(epochs=40),
    "myrtle-wide": Recipe(rate=0.2, epochs=10),
    "myrtle-nobn": Recipe(optimizer="adamw", rate=1e-3, decay=1e-2, epochs=40, batch=128, warm=0.2),
    "vgg": Recipe(rate=0.2),
    **{f"vgg{depth}": Recipe(rate=0.2, epochs=40) for depth in VGG_COUNTS},
    "googlenet": Recipe(epochs=40),
    **{
        name: Recipe(epochs=40, search=True)
        for name in ("mobilenetv2-small", "efficientnet", "efficientnet-small")
    },
    **{
        name: replace(ADAM, epochs=50, search=True)
        for name in ("swin", "swin-small", "convnext-small")
    },
    **{f"vit-patch{patch}": replace(ADAM, epochs=50) for patch in PATCHES},
    "resnet20-noaug": Recipe(augment=False),
    "resnet20-noisy": Recipe(noise=0.4),
    "resnet20-adversarial": Recipe(objective="adversarial", radius=4.0, epochs=40),
    "resnet20-rotation": Recipe(objective="rotation", rate=0.2),
    "resnet20-simclr": Recipe(objective="simclr", rate=0.3, decay=1e-4, epochs=80),
    **{
        f"resnet20-leaky{slope:g}": Recipe(rate=0.4 if slope < 0.9 else 0.1, epochs=40)
        for slope in SLOPES
    },
}


@dataclass(frozen=True)
class Job:
    """One network to train from one seed."""

    network: str
    seed: int
    recipe: Recipe

    @property
    def label(self) -> str:
        return f"{self.network}-s{self.seed}"


def planned(text: str, epochs: int | None = None) -> Job:
    """Return the job for `NAME` or `NAME:SEED`, with its recipe or with other `epochs`."""
    name, _, seed = text.partition(":")
    if name not in NETWORKS:
        raise SystemExit(f"{text}: there is no network {name!r}; choose from {', '.join(NETWORKS)}")
    if seed and not seed.isdecimal():
        raise SystemExit(
            f"{text}: the seed {seed!r} is not a whole number; write NAME:SEED, such as {name}:0"
        )
    if epochs is not None and epochs < 1:
        raise SystemExit(f"--epochs {epochs}: ask for at least one epoch, or leave it out")
    recipe = RECIPES.get(name, Recipe())
    return Job(name, int(seed or 0), replace(recipe, epochs=epochs or recipe.epochs))


def one_cycle(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate of a step: it rises in a line and falls like a cosine."""
    rising = recipe.warm * steps
    if step < rising:
        return recipe.rate * (0.04 + 0.96 * step / rising)
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))
