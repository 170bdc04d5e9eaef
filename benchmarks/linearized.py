"""What the tuned networks of `zoo/linearize_experiment.py` gain by folding: accuracy and latency.

For each file, written by `zoo/linearize_export.py`, three networks take turns: the original (its
weights are random here, on which latency does not depend) folded with keep="faster", which merges
its batch norms and, on a GPU, two layers; the linearized and tuned network with its batch norms
folded; and this one folded with keep="faster".
The latency is that of one image of 3 × 32 × 32 (on a CPU with one thread), on a GPU also that of
256. The accuracy is that on the test images (on a CPU the first 500): compare it with those of the
original and of the control in the journal of the experiment.

The floor is that of `benchmarks/folding.py`, multiply-adds; on a GPU, where one image takes as long
as its kernels take to launch, the number of layers that are left.

Prediction: MobileNetV2 with 16 of 35 replaced 0.85 on the CPU and 0.85 on a GPU for one image, with
24 0.7 and 0.75; Swin with 6 of 12 0.75 and 0.9; VGG-16 and ResNet-18 1.0 with 8 removed, since two
convolutions of 3 × 3 and stride 1 do not get cheaper by folding into one of 5 × 5.

Run as `python benchmarks/linearized.py cuda DATA FILE ...`, where DATA has the arrays that
`zoo/data.py` writes.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import torch
from folding import ROUNDS, calls_of, in_turns
from setting import describe, progress
from torch import nn

import sigmascope as sg

ZOO = Path(__file__).resolve().parents[1] / "zoo"
sys.path.insert(0, str(ZOO))
from linearize_export import load  # noqa: E402
from linearize_networks import NETWORKS  # noqa: E402
from linearize_training import accuracy  # noqa: E402
from train import load_data  # noqa: E402

BATCHES = {"cpu": (1,), "cuda": (1, 256)}
IMAGES = {"cpu": 500, "cuda": 10_000}  # of the test set: one thread would take minutes for all


def original(name: str, device: str) -> nn.Module:
    """Return the network that was linearized, with random weights."""
    torch.manual_seed(0)
    return NETWORKS[name]().to(device).eval()


def rows(path: Path, device: str, data: dict[str, torch.Tensor]) -> list[str]:
    """Return a row for each size of a batch."""
    images, labels = (data[f"test_{part}"][: IMAGES[device]] for part in ("images", "labels"))
    linear, x = load(path).to(device), images[:16]
    name = path.stem.split("-")[1]
    plain = sg.linearize.fold(original(name, device), x)
    unfolded = sg.linearize.fold(linear, x, merges=())
    found = sg.linearize.fold(linear, x)
    networks = [plain.network, unfolded.network, found.network]
    right = [accuracy(one, images, labels) for one in (linear, found.network)]
    made = []
    for size in BATCHES[device]:
        batch = images[:size].contiguous()
        rounds = in_turns(calls_of(networks, batch), device)
        ms = [1e3 * statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios = sorted(one[2] / one[0] for one in rounds)
        low, high = ratios[ROUNDS // 4], ratios[-1 - ROUNDS // 4]
        made.append(
            f"| {path.stem} | {right[0]:.2f} | {right[1]:.2f} | {plain.after.layers} → "
            f"{found.after.layers} | {found.after.multiply_adds / plain.after.multiply_adds:.2f} | "
            f"{size} | {ms[0]:.2f} | {ms[1]:.2f} | {ms[2]:.2f} | "
            f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) |"
        )
    return made


def main(device: str, folder: str, *files: str) -> str:
    torch.set_num_threads(1)
    data, found = load_data(Path(folder), device), list[str]()
    for file in files:
        progress(file)
        found += rows(Path(file), device, data)
    return "\n".join(
        [
            f"# Linearized and tuned networks, folded ({device})",
            "",
            describe(device),
            "",
            f"Latency in ms, float32: medians of {ROUNDS} rounds in which three networks take "
            "turns. The ratio is that of the folded network to the folded original, "
            "its median over rounds and its quartiles; what is not below 1 did not get "
            "faster. "
            f"Accuracies are of {IMAGES[device]} test images, in percent.",
            "",
            "| network | accuracy | folded | layers | multiply-adds | batch | original, "
            "folded | linearized, norms folded | folded | ratio |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *found,
        ]
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
