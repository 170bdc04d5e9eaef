"""Recipes for the tuning of linearized networks, tried on a small network of the zoo on a CPU:

    python zoo/linearize_pilot.py vgg16:1 --removed 12 --data DIR "fade=0.4;ease=3;rounds=2"

Activations are removed in order of affinity, or of the criterion `--by`, and those that are left
are listed. The network is tuned on the first `--images` training images by the recipe of
`linearize_networks.py` with the changes that each variant names, and its accuracy is that on
`--held-out` other training images; test images are not read. A row is printed for each variant as
it ends.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from pathlib import Path

import torch
from linearize_jobs import changed
from linearize_networks import ADAM_TUNE, SGD_TUNE, Recipe
from linearize_rounds import in_rounds, measured
from linearize_training import Maps, Training, accuracy, answers, linearized
from linearize_views import Images
from torch import nn
from train import load_data

from sigmascope import catalog, linearize

CALIBRATION, SEED = 1000, 1000  # images to rank and to fit; of the views
FIRST = "epochs=6,batch=64,rate=0.01"  # what is changed for so few images


def pilot(model: nn.Module, args: argparse.Namespace) -> None:
    """Print a row for each variant."""
    arrays = load_data(args.data, "cpu")
    images, labels = arrays["train_images"], arrays["train_labels"]
    held = images[-args.held_out :], labels[-args.held_out :]
    train = Images.of(images[: args.images], labels[: args.images])
    start = args.images
    chosen = slice(start, start + CALIBRATION)
    data = images[chosen], labels[chosen]
    _, maps = measured(model, data, args.by)
    print(f"{accuracy(model, *held):.2f} % before, {len(maps)} activations", flush=True)
    print(
        "| variant | held out, % | left | seconds | losses |\n|---|---:|---|---:|---|", flush=True
    )
    for variant in args.variants.split(";"):
        recipe = changed(ADAM_TUNE if args.adam else changed(SGD_TUNE, FIRST), variant)
        started = time.process_time()
        made, sites, training = in_rounds(
            model, args.removed, recipe, data, args.by, partial(tuned, model, train)
        )
        found, seconds = accuracy(made, *held), time.process_time() - started
        losses = " ".join(f"{loss:.2f}" for loss in training.losses)
        left = " ".join(sorted({*maps} - {*sites}, key=list(maps).index))
        print(f"| {variant} | {found:.2f} | {left} | {seconds:.0f} | {losses} |", flush=True)


def tuned(
    original: nn.Module,
    train: Images,
    number: int,
    model: nn.Module,
    recipe: Recipe,
    sites: list[str],
    maps: Maps,
) -> tuple[nn.Module, Training]:
    """Return the network without these activations, tuned for one round."""
    seed = SEED + number
    told = answers(original, train, seed=seed, epochs=math.ceil(recipe.epochs))
    made, share = linearized(model, sites, maps)
    training = Training(made, recipe, train, seed=seed, teacher=told, share=share)
    training.run()
    return made, training


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", help="NAME:SEED of the zoo")
    parser.add_argument("variants", help='changes of the recipe, such as "fade=0;fade=0.4,ease=3"')
    parser.add_argument("--data", type=Path, required=True, help="what zoo/data.py wrote")
    parser.add_argument("--removed", type=int, default=12)
    parser.add_argument("--by", default="affinity", choices=linearize.CRITERIA)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--adam", action="store_true", help="start from the recipe of Swin-T")
    parser.add_argument("--held-out", type=int, default=3000)
    args = parser.parse_args(arguments)
    torch.manual_seed(0)
    pilot(catalog.model(f"sigmascope/{args.network}").network.eval(), args)


if __name__ == "__main__":
    main()
