"""Why do fewer units inside a block stay interpretable under rotations, not more (sym-fig19)?

    python papers/why/inside.py DATA

DATA holds `cifar10/test_images.npy` and the like, see `zoo/README.md`. The paper's network is a
ResNet-50 of ImageNet, and its layer has more units than ours. So the same question is put to the
ReLU inside every block of a ResNet-20 on CIFAR-10, and inside the last blocks of the stages of a
ResNet-18 and a ResNet-50 of ImageNet. On pictures, most of which have no labels, their concepts are
colors and edges; on enlarged images of CIFAR-10 the classes, too.

What ResNet-50 decides, written before it ran: the units of its last block are those of the paper,
with other weights. Where they become more (1.15 times or more, at either quantile) with some of
these concepts, our networks are what fails; where they become fewer with all, the network does
not explain it, and the concepts and pictures are left.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.dissection.dissecting import dissect
from sigmascope.dissection.masks import Masks, image_masks, join_masks
from sigmascope.dissection.network_maps import network_features
from sigmascope.dissection.pictures import color_masks, edge_masks
from sigmascope.dissection.result import Dissection
from sigmascope_papers.real.images import Samples, cifar10, cifar10_classes, crops
from sigmascope_papers.real.networks import network
from sigmascope_papers.symmetry.dissections import CLASSES

SEEDS, POWERS, QUANTILES, BATCH = (0, 1), (0.0, 1.0), (0.995, 0.99), 50
IMAGES, PICTURES, SIDE = 1000, 192, 112  # `SIDE` of the masks of pictures
SMALL = "sigmascope/resnet20:0"
LARGE = {  # those with weights of ImageNet -> the ReLU inside blocks, `#1` for a second one
    "resnet18": [f"layer{stage}.1.relu" for stage in (1, 2, 3, 4)],
    "resnet50": ["layer2.3.relu", "layer3.5.relu", "layer4.2.relu", "layer4.2.relu#1"],
}
ENLARGED = "resnet50"  # sees CIFAR-10 too


def share(found: Dissection, power: int, category: str = "") -> float:
    """Return how many units are interpretable, on average over rotations, by category if given."""
    counts = []
    for rotation in range(len(SEEDS)):
        best = found.best_concept[rotation, power][found.interpretable[rotation, power]].tolist()
        kinds = [found.concepts[place].category for place in best]
        counts.append(sum(kind == category or not category for kind in kinds))
    return sum(counts) / len(counts)


def row(name: str, found: Dissection) -> str:
    """Return a row of the table: units in the own basis and in a rotated one."""
    parts = [
        f"{share(found, 0, kind):.1f} to {share(found, 1, kind):.1f}"
        for kind in ("", "color", "edge", "class")
    ]
    iou = [float(found.best_iou[:, power].mean()) for power in range(2)]
    best = f"{iou[0]:.4f} to {iou[1]:.4f}"
    return f"| {name} | {found.quantile:g} | {found.units} | {' | '.join(parts)} | {best} |"


def table(title: str, net: Any, sites: list[str], batches: Any, masks: Masks) -> None:
    """Print how many units of some sites are interpretable."""
    print(f"\n{title}\n")
    print("| site | quantile | units | interpretable | colors | edges | classes | best IoU |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for site in sites:
        features = network_features(net, site, batches)
        for quantile in QUANTILES:
            given: dict[str, Any] = {"seeds": SEEDS, "powers": POWERS, "quantile": quantile}
            print(row(site, dissect(features, masks, progress=False, **given)), flush=True)


def of_pixels(pixels: Tensor) -> Masks:
    """Return the colors and edges of images (n, 3, h, w)."""
    return join_masks(color_masks(pixels), edge_masks(pixels))


def of_classes(labels: Tensor) -> Masks:
    """Return the classes of images of CIFAR-10, at all of their pixels."""
    return image_masks(labels, CLASSES, (32, 32), about="the class of the image")


def small(root: str) -> None:
    """ResNet-20: the ReLU inside every block."""
    entry = model(SMALL)
    given: dict[str, Any] = {"root": root, "limit": IMAGES, "batch_size": BATCH}
    plain = list(data("cifar10", transform=None, **given))
    pixels = torch.cat([images for images, _ in plain]).to(torch.uint8)
    labels = torch.cat([labels for _, labels in plain])
    masks = join_masks(of_pixels(pixels), of_classes(labels))
    sites = [f"blocks.{block}.act1" for block in range(9)]
    seen = data("cifar10", transform=entry.transform, **given)
    table(f"{SMALL} on {IMAGES} images of CIFAR-10", entry.network, sites, seen, masks)


@dataclass(frozen=True)
class Seen:
    """Samples as a network takes them, read anew each time."""

    name: str
    source: str
    count: int

    def __iter__(self) -> Iterator[Tensor]:
        one = network(self.name)
        return iter(Samples(self.source, self.count, BATCH, one.side, one.prepare))


def large(name: str) -> None:
    """A network of ImageNet on pictures."""
    one = network(name)
    shown = interpolate(crops(0, PICTURES, one.side), size=(SIDE, SIDE), mode="area")
    masks = of_pixels((255 * shown).round().to(torch.uint8))
    seen = Seen(name, "pictures", PICTURES)
    table(f"{one.title} on {PICTURES} pictures", one.trained(), LARGE[name], seen, masks)


def enlarged(name: str) -> None:
    """A network of ImageNet on images of CIFAR-10."""
    one = network(name)
    pixels = (255 * cifar10(0, IMAGES)).round().to(torch.uint8)
    masks = join_masks(of_pixels(pixels), of_classes(cifar10_classes(IMAGES)))
    title = f"{one.title} on {IMAGES} enlarged images of CIFAR-10"
    table(title, one.trained(), LARGE[name][-2:], Seen(name, "cifar10", IMAGES), masks)


if __name__ == "__main__":
    small(*sys.argv[1:])
    for each in LARGE:
        large(each)
    enlarged(ENLARGED)
