"""What folding saves: the latency of one image, on one thread, before and after.

Networks of the zoo with their trained weights (vit, swin, mobilenetv2, vgg, resnet20) and three of
published sizes with random ones (swin-t, mobilenetv2-1.0, vgg16), images of 3 × 32 × 32. Some of
their activations, or all, are replaced by affine maps of each channel (`by="depth"`, the last ones
first: the latency does not depend on which are best) and folded with keep="faster". Four networks
take turns: the original, the original with its batch norms folded, the linearized one, and this one
folded. The ratio is that of the last to the second, so that what batch norms save is not counted.

The floor, written down before anything was measured: multiply-adds. Two linear layers d → e·d → d
become one d → d: of 2e·d² multiply-adds 1·d² is left. In a Swin of expansion 4 the MLPs have 8 of
12 d² per token, so that 5/12 = 0.42 is left with all 12 replaced and 0.71 with 6; in the zoo's ViT,
of expansion 2, 0.63 with all 6. An inverted residual block of width c has 12·c² + 54·c per position
and folds into a 3 × 3 convolution of 9·c² and nine numbers per output for its border: 0.75, if both
of its activations go. Two 3 × 3 convolutions of width c become one of 5 × 5: 25/18, more than
before; but that of VGG-16's first two, 3 → 64 → 64, takes an eighth, and the strips at the border
about as much again.

Prediction, ratios on the CPU: swin-t 0.75 with half and 0.55 with all; vit 0.7 with all; swin of
the zoo 0.85 with all, for most of its time is spent between layers; mobilenetv2 0.6 with all, since
depthwise convolutions take longer than their multiply-adds, and 0.8 with half; vgg16 0.95 with all;
resnet20 1.0: its activations inside blocks are between convolutions of 3 × 3, and those after
additions save no layer.

Run as `python benchmarks/folding.py` (minutes), or `python benchmarks/folding.py cuda`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from setting import describe, progress
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.embedded import embedded_images

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from zoo.linearize_networks import NETWORKS as PUBLISHED  # noqa: E402

TRAINED = ("vit", "swin", "mobilenetv2", "vgg", "resnet20")
SIZES = {"swin-t": "swin", "mobilenetv2-1.0": "mobilenetv2", "vgg16": "vgg16"}
SHARES = (0.5, 1.0)
ROUNDS, ROUND = 41, 0.01  # rounds of turns, and seconds for each turn at least


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name in SIZES:
        return PUBLISHED[SIZES[name]]().eval()
    made = NETWORKS[name]()
    from safetensors.torch import load_file

    made.load_state_dict(load_file(ROOT / "zoo" / "weights" / f"{name}-s0.safetensors"))
    return made.eval()


def images() -> Tensor:
    pixels, _ = embedded_images()
    return (pixels[:64] / 255.0 - 0.45) / 0.25


def calls_of(networks: list[nn.Module], x: Tensor) -> list[Callable[[], object]]:
    def call(one: nn.Module) -> Callable[[], object]:
        def run() -> object:
            with torch.inference_mode():
                return one(x)

        return run

    return [call(one) for one in networks]


def in_turns(calls: list[Callable[[], object]], device: str) -> list[list[float]]:
    """Return the seconds of each call in each round."""

    def timed(call: Callable[[], object], count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - started) / count

    counts = [max(1, round(ROUND / (timed(call, 2) and timed(call, 2)))) for call in calls]
    return [
        [timed(call, count) for call, count in zip(calls, counts, strict=True)]
        for _ in range(ROUNDS)
    ]


def row(name: str, share: float, device: str) -> str:
    original, x = network(name).to(device), images().to(device)
    plan = sg.linearize.plan(original, x, budget=share, by="depth", scores=False)
    linear = sg.linearize.apply(original, plan)
    plain = sg.linearize.fold(original, x)
    found = sg.linearize.fold(linear)
    networks = [original, plain.network, linear, found.network]
    rounds = in_turns(calls_of(networks, x[:1]), device)
    ms = [1e3 * statistics.median(column) for column in zip(*rounds, strict=True)]
    ratios = sorted(one[3] / one[1] for one in rounds)
    low, high = ratios[ROUNDS // 4], ratios[-1 - ROUNDS // 4]
    return (
        f"| {name} | {len(plan.chosen)} of {len(plan.sites)} | {plain.after.layers} → "
        f"{found.after.layers} | {found.after.multiply_adds / plain.after.multiply_adds:.2f} | "
        f"{ms[0]:.2f} | {ms[1]:.2f} | {ms[2]:.2f} | {ms[3]:.2f} | "
        f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) |"
    )


def main(device: str = "cpu") -> str:
    torch.set_num_threads(1)
    rows = []
    for name in (*TRAINED, *SIZES):
        for share in SHARES:
            progress(f"{name} {share}")
            rows.append(row(name, share, device))
    return "\n".join(
        [
            f"# Linearized networks, folded ({device})",
            "",
            describe(device),
            "",
            f"Latency of one image of 3 × 32 × 32 in ms, one thread: medians of {ROUNDS} rounds in "
            "which four networks take turns. The ratio is that of the linearized and folded network "
            "to the original with its batch norms folded, its median over rounds and its quartiles; "
            "what is not below 1 did not get faster.",
            "",
            "| network | activations replaced | layers | multiply-adds | original | norms folded | "
            "linearized | linearized and folded | ratio |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
        ]
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
