"""Does a stitch learn faster from the element that `align` finds? ReLU-group stitches, CIFAR-10:

    python zoo/stitch_start.py run --data data/cifar10 --out OUT [--sites 9,19] [--images 50000]
    python zoo/stitch_start.py summary OUT [--store FILE]

At each site, stitches from VGG-16 of seed 1 to that of seed 2, trained on the same batches at the
settings of the paper: from a random point of the polytope, from the matched channels of that site,
and from the element of `align`, by weights and by activations (of the first 1,000 training images).

The rule, written before the first run. The accuracy of an epoch is that on the held-out tenth of
the training images, and the best so far counts; epoch 0 is the start itself, with batch norms
adapted as after an epoch. Penalties are the accuracies' differences to the same constant. An
aligned start *wins* at a site if its best accuracy is at least 1 point above that of the random
start, and if it gets above the latter in fewer epochs than the random start took. It *holds* for
weights or for activations if it wins at every site, *weakly* at more than half. A matched start is
printed beside it. With fewer images than 50,000 the paper's settings get fewer steps, which favors
a good start: the summary says how many.

Prediction: both hold, by activations by more, and training adds little to an aligned start.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from train import normalized

import sigmascope as sg
from sigmascope.choices import Matching
from sigmascope.stitching import StitchData, Stitcher, Task
from sigmascope.symmetry import Alignment, Monomial
from sigmascope_papers.symmetry.stitch_starts import (
    ALIGNED,
    RANDOM,
    SITES,
    WAYS,
    SiteStarts,
    StitchStarts,
    best_epoch,
    first_above,
    first_epoch,
    verdict,
    wins,
)

NETWORKS = ("sigmascope/vgg16:1", "sigmascope/vgg16:2")
FEATURES = 1000


def element_at(found: Alignment, site: str) -> Monomial:
    """Return what takes the channels of the first network at a site to those of the second."""
    channels = found.element.wiring.calls[site, 0]
    return found.element.chosen.monomial(channels).inverse()


def data_of(folder: Path, images: int) -> StitchData:
    """Return the first training images and an equal share of the test images."""

    def read(split: str, most: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels, labels = (np.load(folder / f"{split}_{one}.npy") for one in ("images", "labels"))
        return torch.from_numpy(pixels[:most]), torch.from_numpy(labels[:most]).long()

    return StitchData(read("train", images), read("test", max(images // 5, 10)), prepare=normalized)


def measured(
    networks: tuple[nn.Module, nn.Module], data: StitchData, site: str, epochs: int
) -> dict[str, Any]:
    """Return the accuracy of every epoch of every way to start, and of the start."""
    device = next(networks[0].parameters()).device
    features = normalized(data.train[0][:FEATURES].to(device)).split(500)
    tasks = {"random": Task("relu-group")}
    tasks["matched"] = Task("relu-group", {"start": "matched"})
    starts = {"matched": Task("permutation")}
    for by in ("weights", "activations"):
        way: Matching = "weights" if by == "weights" else "activations"
        found = sg.symmetry.align(*networks, list(features), by=way, progress=False)
        element = element_at(found, site)
        tasks[by] = Task("relu-group", {"start": "given"}, element)
        starts[by] = Task("fixed", {"batch_norm_pass": True}, element)
    every = [
        Task(task.family, {**task.changes, "epochs": epochs}, task.element)
        for task in (*tasks.values(), *starts.values())
    ]
    stitcher = Stitcher(*networks, data, site=site, preset="paper", progress=False)
    names = (*tasks, *(f"{one} start" for one in starts))
    results = dict(zip(names, stitcher.fit_many(every), strict=True))
    steps = results["random"].samples[0] // results["random"].settings.batch
    return {
        "site": site,
        "steps": steps,
        "samples": results["random"].samples,
        "accuracies": {
            name: [
                *([results[f"{name} start"].chosen_accuracy] if name in starts else []),
                *(epoch.accuracy for epoch in results[name].history),
            ]
            for name in tasks
        },
        "penalties": {name: results[name].adapted_penalty for name in tasks},
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
    }


def starts_of(rows: Sequence[dict[str, Any]]) -> StitchStarts:
    """Return what is stored of the rows of a journal."""
    found = (
        SiteStarts(
            row["site"],
            row["steps"],
            (row["samples"][0], row["samples"][1], row["samples"][2]),
            {way: tuple(own) for way, own in row["accuracies"].items()},
            row["penalties"],
            row["torch"],
            row["device"],
        )
        for row in rows
    )
    return StitchStarts(tuple(sorted(found, key=lambda one: SITES.index(one.site))))


def summarized(rows: list[dict[str, Any]]) -> str:
    """Return the table of all epochs, and what the rule says."""
    steps = {row["steps"] * len(row["accuracies"][RANDOM]) for row in rows}
    lines = [
        f"{', '.join(map(str, sorted(steps)))} steps in all, of 28,120 at the paper's settings on "
        f"50,000 images; {rows[0]['samples'][1]} held-out and {rows[0]['samples'][2]} test images.",
        "",
        "| site | start | best accuracy held out | in epoch | epochs to pass random's best "
        "| penalty on the test | accuracies from epoch 0 |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        best = max(row["accuracies"][RANDOM])
        for way in WAYS:
            own = row["accuracies"][way]
            shift = first_epoch(way)
            passed = first_above(own, best)
            cells = [
                f"{max(own):.1f}",
                str(best_epoch(row["accuracies"], way)),
                "–" if passed is None else str(passed + shift),
                f"{row['penalties'][way]:.2f}",
                ", ".join(["–"] * shift + [f"{one:.1f}" for one in own]),
            ]
            lines.append(f"| {row['site']} | {way} | {' | '.join(cells)} |")
    lines.append("")
    for way in ALIGNED:
        won = sum(wins(row["accuracies"], way) for row in rows)
        word = verdict(won, len(rows))
        missing = "" if len(rows) == len(SITES) else f", {len(SITES) - len(rows)} sites missing"
        lines.append(f"- by {way}: wins at {won} of {len(rows)} sites: **{word}**{missing}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "summary"))
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, dest="folder")
    parser.add_argument("--store", type=Path, help="a file to write for `beyond-stitch`")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=50000, help="of the training set")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--sites", default=",".join(SITES), help=f"of {', '.join(SITES)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(arguments)
    folder = args.out or args.folder
    if folder is None or (args.what == "run" and args.data is None):
        parser.error("run needs --data and --out, summary the folder")
    if strange := {*args.sites.split(",")} - {*SITES}:
        parser.error(f"--sites: choose from {', '.join(SITES)}, got {', '.join(sorted(strange))}")
    journal = folder / "stitch.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    rows = [json.loads(line) for line in lines]
    if args.what == "run":
        torch.backends.cudnn.allow_tf32 = False  # a measurement is in float32
        folder.mkdir(parents=True, exist_ok=True)
        data = data_of(args.data, args.images)
        networks = [sg.catalog.model(name).network.eval().to(args.device) for name in NETWORKS]
        for site in args.sites.split(","):
            if any(row["site"] == site for row in rows):
                continue
            rows.append(measured((networks[0], networks[1]), data, site, args.epochs))
            with journal.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    if not rows:
        raise SystemExit(f"{journal} does not exist; name the --out of a run")
    if args.store:
        starts_of(rows).save(args.store)
    text = summarized(rows)
    (folder / "stitch.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
