"""Recipes for the tuning of linearized networks, tried on a small network of the zoo on a CPU:

    python zoo/linearize_pilot.py vgg16:1 --removed 12 --data DIR "fade=0.4;fade=0.4,ease=3;fade=0"

Activations are removed in order of affinity. The network is tuned on the first `--images` training
images by the recipe of `linearize_networks.py` with the changes that each variant names, and its
accuracy is that on `--held-out` other training images; test images are not read. A row is printed
for each variant as it ends.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from linearize_jobs import changed
from linearize_networks import SGD_TUNE
from linearize_selection import ranked
from linearize_training import Training, accuracy, answers, linearized
from linearize_views import Images
from torch import nn
from train import load_data

from sigmascope import catalog

CALIBRATION = 1000
FIRST = "epochs=6,batch=64,rate=0.01"  # what is changed for so few images


def pilot(model: nn.Module, args: argparse.Namespace) -> None:
    """Print a row for each variant."""
    data = load_data(args.data, "cpu")
    images, labels = data["train_images"], data["train_labels"]
    held = images[-args.held_out :], labels[-args.held_out :]
    train = Images.of(images[: args.images], labels[: args.images])
    start = args.images
    chosen = slice(start, start + CALIBRATION)
    selection = ranked(model, images[chosen], labels[chosen], seed=0)
    sites = selection.orders["affinity"][: args.removed]
    print(f"{accuracy(model, *held):.2f} % before, {len(selection.maps)} activations", flush=True)
    print("| variant | held out, % | seconds | losses |\n|---|---:|---:|---|", flush=True)
    told = None
    for variant in args.variants.split(";"):
        recipe = changed(changed(SGD_TUNE, FIRST), variant)
        if told is None or len(told) < recipe.epochs:
            told = answers(model, train, seed=1000, epochs=int(recipe.epochs))
        started = time.process_time()
        made, share = linearized(model, sites, selection.maps)
        training = Training(made, recipe, train, seed=1000, teacher=told, share=share)
        training.run()
        found, seconds = accuracy(made, *held), time.process_time() - started
        losses = " ".join(f"{loss:.2f}" for loss in training.losses)
        print(f"| {variant} | {found:.2f} | {seconds:.0f} | {losses} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", help="NAME:SEED of the zoo")
    parser.add_argument("variants", help='changes of the recipe, such as "fade=0;fade=0.4,ease=3"')
    parser.add_argument("--data", type=Path, required=True, help="what zoo/data.py wrote")
    parser.add_argument("--removed", type=int, default=12)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--held-out", type=int, default=3000)
    args = parser.parse_args(arguments)
    torch.manual_seed(0)
    pilot(catalog.model(f"sigmascope/{args.network}").network.eval(), args)


if __name__ == "__main__":
    main()
