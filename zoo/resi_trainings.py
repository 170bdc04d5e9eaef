"""The networks that the tests of similarity compare: groups that differ in their training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from objectives import augmented, noisy_labels
from recipes import MEAN, STD, Recipe
from torch import Tensor, nn
from trainer import Trainer

CLASSES = 10
DEGREES = (0, 25, 50, 75, 100)
DESIGNS = ("label", "shortcut", "augmentation")
PLAIN = "plain"  # degree 0 of `label` and of `augmentation`
LAYERS = 6
# side of the square that is blanked, by degree; None without flips and shifts
CUTOUTS = {0: None, 25: 0, 50: 8, 75: 16, 100: 24}
# a replaced label is another class than the true one, which a label drawn anew is in 1 of 10 cases
REPLACED = (CLASSES - 1) / CLASSES
LABELS_SEED, DOTS_SEED, HARD_SEED = 0, 1, 2  # of what all networks of a group share
DOT, HARDENED = 4, 2000  # pixels of its side; test images that are augmented
# red, green and blue, as different as ten colors are
COLORS = (
    *((r, g, b) for r in (0, 255) for g in (0, 255) for b in (0, 255)),
    (128, 128, 0),
    (0, 128, 255),
)


class Chain(nn.Module):
    """Six convolutions with batch norm and ReLU, all of one width, and a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width if layer else 3, width, 3, 1 if layer else 2, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            )
            for layer in range(LAYERS)
        )
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(width, CLASSES)

    def layers(self, x: Tensor) -> list[Tensor]:
        """Return the output of every ReLU, (n, width, side, side)."""
        outputs = []
        for layer, block in enumerate(self.blocks):
            outputs.append(block(x))
            x = self.pool(outputs[-1]) if layer in (0, 2) else outputs[-1]
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(x)[-1].mean(dim=(2, 3)))


@dataclass(frozen=True)
class Training:
    """How one network is trained: a design, its degree in percent, the number of the network."""

    design: str
    degree: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.design}-{self.degree}-s{self.seed}"

    @property
    def random(self) -> int:
        """The seed of initialization, order and augmentation, which no other network has."""
        return 10_000 * (PLAIN, *DESIGNS).index(self.design) + 50 * self.degree + self.seed

    def recipe(self, epochs: int, batch: int) -> Recipe:
        cutout = CUTOUTS[self.degree] if self.design == "augmentation" else None
        how = {"augment": cutout is not None, "cutout": cutout or 0}
        return Recipe(rate=0.1, epochs=epochs, batch=batch, **how)


def member(design: str, degree: int, seed: int) -> Training:
    """Return a network of a group; without treatment one network serves two designs."""
    plain = degree == 0 and design != "shortcut"
    return Training(PLAIN if plain else design, degree, seed)


def dot_classes(labels: Tensor, degree: int) -> Tensor:
    """Return the class that the dot of each image stands for: its own, with `degree` percent."""
    random = torch.Generator().manual_seed(DOTS_SEED)
    drawn = torch.randint(0, CLASSES, labels.shape, generator=random)
    own = torch.rand(labels.shape, generator=random) < degree / 100
    return torch.where(own.to(labels.device), labels, drawn.to(labels.device))


def dotted(images: Tensor, classes: Tensor) -> Tensor:
    """Return normalized images with a dot of the color of a class in the corner."""
    colors = (torch.tensor(COLORS) - torch.tensor(MEAN)) / torch.tensor(STD)
    marked = images.clone()
    marked[:, :, :DOT, :DOT] = colors.to(images.device)[classes][:, :, None, None]
    return marked


def training_set(job: Training, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a network is trained on."""
    if job.design == "label":
        return images, noisy_labels(labels, REPLACED * job.degree / 100, LABELS_SEED)
    if job.design == "shortcut":
        return dotted(images, dot_classes(labels, job.degree)), labels
    return images, labels


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    model.eval()
    return torch.cat([model(part) for part in images.split(1000)])


@torch.no_grad()
def represented(model: Chain, images: Tensor) -> Tensor:
    """Return (layers, n, width): every channel after ReLU, averaged over positions."""
    model.eval()
    parts = [
        torch.stack([one.mean(dim=(2, 3)) for one in model.layers(part)])
        for part in images.split(1000)
    ]
    return torch.cat(parts, dim=1)


def hardened_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the accuracy on test images with the strongest augmentation."""
    torch.manual_seed(HARD_SEED)
    strongest = Training("augmentation", DEGREES[-1], 0).recipe(1, 1)
    hard = augmented(images[:HARDENED], strongest)
    return float((logits_of(model, hard).argmax(1) == labels[:HARDENED]).float().mean())


def train(
    job: Training, data: dict[str, Tensor], file: Path, *, size: dict[str, int]
) -> dict[str, Any]:
    """Train one network, write its representations and outputs, and return what is known of it.

    Args:
        job: the network.
        data: images, normalized, and labels, as `train.load_data` returns them.
        file: where the arrays go.
        size: images, epochs, batch, width and probe.
    """
    began = time.monotonic()
    images, labels = (data[f"train_{name}"][: size["images"]] for name in ("images", "labels"))
    torch.manual_seed(job.random)
    model = Chain(size["width"]).to(labels.device)
    recipe = job.recipe(size["epochs"], size["batch"])
    trainer = Trainer(model, recipe, *training_set(job, images, labels), seed=job.random)
    for epoch in range(recipe.epochs):
        loss = trainer.epoch(epoch)
    shown, truth = data["test_images"], data["test_labels"]
    dots = dot_classes(truth, 0)
    if job.design == "shortcut":
        shown = dotted(shown, dots)
    logits = logits_of(model, shown)
    found = logits.argmax(1)
    arrays = {"layers": represented(model, shown[: size["probe"]]), "logits": logits}
    whole = file.with_name(f"new-{file.name}")
    np.savez(whole, **{name: value.float().cpu().numpy() for name, value in arrays.items()})
    whole.replace(file)  # under its name only when it is complete
    return {
        "loss": round(loss, 4),
        "accuracy": float((found == truth).float().mean()),
        "followed": float((found == dots).float().mean()),
        "hardened": hardened_accuracy(model, data["test_images"], truth),
        "seconds": round(time.monotonic() - began, 1),
        "torch": torch.__version__,
    }
