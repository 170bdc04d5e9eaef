"""Why do fewer units inside a block stay interpretable under rotations, not more (sym-fig19)?

    python papers/why/inside.py DATA

DATA holds `cifar10/test_images.npy` and the like, see `zoo/README.md`. The paper's network is a
ResNet-50 of ImageNet, and its layer has more units than ours. So the same question is put to the
ReLU inside every block of a ResNet-20 on CIFAR-10, and inside the last block of every stage of a
ResNet-18 of ImageNet, whose concepts are colors and edges: most of its pictures have no labels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
from sigmascope_papers.real.images import Samples, crops
from sigmascope_papers.real.networks import network
from sigmascope_papers.symmetry.dissections import CLASSES

SEEDS, POWERS, QUANTILES, BATCH = (0, 1), (0.0, 1.0), (0.995, 0.99), 50
IMAGES, PICTURES, SIDE = 1000, 192, 112  # `SIDE` of the masks of pictures
SMALL, LARGE = "sigmascope/resnet20:0", "resnet18"


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


def small(root: str) -> None:
    """ResNet-20: the ReLU inside every block."""
    entry = model(SMALL)
    given: dict[str, Any] = {"root": root, "limit": IMAGES, "batch_size": BATCH}
    plain = list(data("cifar10", transform=None, **given))
    pixels = torch.cat([images for images, _ in plain]).to(torch.uint8)
    labels = torch.cat([labels for _, labels in plain])
    classes = image_masks(labels, CLASSES, (32, 32), about="the class of the image")
    masks = join_masks(color_masks(pixels), edge_masks(pixels), classes)
    sites = [f"blocks.{block}.act1" for block in range(9)]
    seen = data("cifar10", transform=entry.transform, **given)
    table(f"{SMALL} on {IMAGES} images of CIFAR-10", entry.network, sites, seen, masks)


class Pictures:
    """The middle crops of the pictures, as the network takes them."""

    def __iter__(self) -> Iterator[Tensor]:
        one = network(LARGE)
        return iter(Samples("pictures", PICTURES, BATCH, one.side, one.prepare))


def large() -> None:
    """ResNet-18: the ReLU inside the last block of every stage."""
    shown = interpolate(crops(0, PICTURES, network(LARGE).side), size=(SIDE, SIDE), mode="area")
    pixels = (255 * shown).round().to(torch.uint8)
    masks = join_masks(color_masks(pixels), edge_masks(pixels))
    sites = [f"layer{stage}.1.relu" for stage in (1, 2, 3, 4)]
    title = f"{network(LARGE).title} on {PICTURES} pictures"
    table(title, network(LARGE).trained(), sites, list(Pictures()), masks)


if __name__ == "__main__":
    small(*sys.argv[1:])
    large()
