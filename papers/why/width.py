"""Why are our networks of constant width more alike than the paper's (sym-fig16, sym-table4)?

    python papers/why/width.py DATA

DATA holds `cifar10/train_images.npy` and the like, see `zoo/README.md`. Ours of growing width are
trained for 40 epochs, those of constant width for 10. So small networks of both kinds are trained
by one recipe, from two seeds, on few images, and compared as they are after 1, 3 and 9 epochs:
what depends on training shows between epochs, what depends on width between the two kinds. Two
minutes on one core.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.catalog.cifar_convnets import MyrtleCNN
from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.symmetry.layers import compare

WIDTHS = {"growing, 8 to 64": (8, 16, 32, 64), "constant, 16": (16,) * 4}
TRAIN, COMPARED, BATCH, RATE = 1500, 300, 32, 0.05
AFTER, SEEDS = (1, 3, 9), (0, 1)
MEASURES = (("cka", "relu"), ("cka", "orthogonal"), ("procrustes", "relu"))


def images(root: str, split: str, count: int) -> tuple[Tensor, Tensor]:
    """Return the first images of CIFAR-10, as the networks of the zoo see them, and classes."""
    transform = model("sigmascope/myrtle:0").transform
    given: dict[str, Any] = {"root": root, "split": split, "transform": transform}
    batches = list(data("cifar10", limit=count, batch_size=count, **given))
    return batches[0][0], batches[0][1]


def trained(widths: tuple[int, ...], seed: int, inputs: Tensor, labels: Tensor) -> list[nn.Module]:
    """Return a network after each number of epochs in `AFTER`."""
    torch.manual_seed(seed)
    network, found = MyrtleCNN(widths=widths), []
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9, weight_decay=5e-4)
    for epoch in range(1, max(AFTER) + 1):
        network.train()
        for some in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            flipped = inputs[some].flip(3) if torch.rand(()) < 0.5 else inputs[some]
            F.cross_entropy(network(flipped), labels[some]).backward()
            optimizer.step()
        if epoch in AFTER:
            found.append(copy.deepcopy(network).eval())
    return found


@torch.no_grad()
def accuracy(network: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Return the share of images that are recognized."""
    return float((network(inputs).argmax(dim=1) == labels).double().mean())


def main(root: str) -> None:
    """Print similarities of two seeds at the same layer."""
    seen, shown = images(root, "train", TRAIN), images(root, "test", COMPARED)
    print(f"{TRAIN} images for training, {COMPARED} to compare; one pair of networks each\n")
    print("| width | epochs | accuracy | measure, group | layer 3 | 6 | 10 | 14 |")
    print("|---|--:|--:|---|--:|--:|--:|--:|")
    for name, widths in WIDTHS.items():
        pairs = zip(*(trained(widths, seed, *seen) for seed in SEEDS), strict=True)
        for epochs, pair in zip(AFTER, pairs, strict=True):
            right = sum(accuracy(one, *shown) for one in pair) / len(pair)
            for measure, group in MEASURES:
                given: dict[str, Any] = {"measure": measure, "group": group, "pairs": "diagonal"}
                found = compare(*pair, [shown[0]], progress=False, **given)
                same = " | ".join(f"{value:.2f}" for value in found.similarity.diagonal().tolist())
                told = f"{name} | {epochs} | {right:.0%} | {measure}, {group}"
                print(f"| {told} | {same} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
