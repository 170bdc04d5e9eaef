"""Similarity of two networks: the max kernel against the row-by-row loop and the bare products, Procrustes against the
forward passes, and peak memory.

The floor of a kernel of n samples with c channels and p positions is n² c p floating-point operations (half of n² c p
multiplications and additions, by symmetry): 6.6 TFLOP at n = 10,000 and c p = 65,536, about 40 s at the 170 GFLOP/s that two
cores reach in float32. It reads 2.6 GB of features once at least and writes 0.4 GB of kernel. The row-by-row loop does twice
the operations and moves a temporary as large as the features for every row: n · 2.6 GB · 3 = 79 TB.

The floor of Procrustes for two ResNet-20: 10.5 MFLOP per image for the 19 layers at the same places, 116 MFLOP for all 361
pairs, where the two forward passes take 164 MFLOP; and 1.5 MB of features per image read once.

Run as `python benchmarks/similarity.py [--data DIR] [--samples N] [--device cuda]`; DIR holds CIFAR-10's test images as
test_images.npy (uint8, 10000 × 3 × 32 × 32). Without it, images with the statistics of photographs are drawn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from setting import describe, progress
from signature import alternating, grown
from torch import Tensor
from workload import photographs

import sigmascope as sg
from sigmascope.maths.kernels import PRODUCT, TILE
from sigmascope.symmetry.layers import compare
from sigmascope.symmetry.streaming import Kernel

NETWORKS = ("sigmascope/myrtle:1", "sigmascope/myrtle:2")
RESNETS = ("sigmascope/resnet20:1", "sigmascope/resnet20:2")
# Name -> the layer of the Myrtle CNN; the channels of both networks side by side where one has too few.
LAYERS = {"64 × 32 × 32": (0, 1), "256 × 16 × 16": (2, 1), "1024 × 8 × 8": (3, 2)}
TEXTBOOK_ROWS = 3


def images(data: Path | None, samples: int) -> Tensor:
    """Return images (n, 3, 32, 32) as the networks of the zoo take them."""
    if data is None:
        return photographs(samples, 32)
    transform = sg.catalog.model(RESNETS[0]).transform
    found = torch.from_numpy(np.load(data / "test_images.npy")[:samples])
    return transform(found) if transform is not None else found


def features(pictures: Tensor, layer: int, networks: int, device: str) -> Tensor:
    """Return the output (n, c, h, w) of one ReLU of the Myrtle CNN; of two networks, channels side by side."""
    found = []
    for name in NETWORKS[:networks]:
        network = sg.catalog.model(name).network.to(device).eval()
        relus = [place for place, module in enumerate(network) if isinstance(module, torch.nn.ReLU)]
        front = torch.nn.Sequential(*list(network)[: relus[layer] + 1])
        with torch.no_grad():
            found.append(torch.cat([front(batch.to(device)) for batch in pictures.split(500)]))
    return torch.cat(found, dim=1)


def standardised(x: Tensor) -> Tensor:
    """Centre and normalise channels, as one would before the loop."""
    ready = x - x.mean(dim=(0, 2, 3), keepdim=True, dtype=torch.float64).float()
    squares = sum(batch.square().sum(dim=(0, 2, 3), dtype=torch.float64) for batch in ready.split(100))
    ready /= torch.as_tensor(squares).sqrt().clamp_min(1e-30).float()[:, None, None]
    return ready


def textbook_row(x: Tensor, row: int) -> Tensor:
    """Return one row of the kernel as one would write it down: products with all samples, summed, then the maximum."""
    return (x * x[row]).sum(dim=(2, 3)).amax(dim=1)


def bare_products(x: Tensor) -> None:
    """Multiply all tiles that a kernel needs, with the same sizes, and do nothing with the results."""
    place = "cuda" if x.is_cuda else "cpu"
    n, channels = x.shape[:2]
    tile = min(TILE[place], n)
    step = max(1, PRODUCT[place] // tile**2)
    out = torch.empty(step, tile, tile, device=x.device)
    rows = x[:tile].flatten(2).transpose(0, 1).contiguous()
    tiles = -(-n // tile)
    for _ in range(tiles * (tiles + 1) // 2):
        for start in range(0, channels, step):
            some = rows[start : start + step]
            torch.bmm(some, some.mT, out=out[: len(some)])


def ours(x: Tensor) -> Tensor:
    kernel = Kernel(dtype="float32")
    kernel.add(x)
    return kernel.matrix


def seconds(call: Callable[[], object], device: str) -> float:
    started = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def kernel_rows(pictures: Tensor, device: str) -> list[str]:
    lines = [
        "| maps | textbook loop (scaled) | bare products | ours | textbook / ours | ours / bare | GFLOP/s | largest error |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (layer, networks) in LAYERS.items():
        progress(f"kernel: {name}")
        x = features(pictures, layer, networks, device)
        n = len(x)
        ready = standardised(x)
        ours(x[:64])
        bare, mine, loop, error = [], [], [], 0.0
        for turn in range(2):
            bare.append(seconds(lambda x=ready: bare_products(x), device))
            mine.append(seconds(lambda x=x: ours(x), device))
            rows = range(turn * TEXTBOOK_ROWS, (turn + 1) * TEXTBOOK_ROWS)
            loop.append(seconds(lambda x=ready, rows=rows: [textbook_row(x, row) for row in rows], device) * n / TEXTBOOK_ROWS)
        matrix = ours(x)
        row = textbook_row(ready, 0)
        error = float((matrix[0, 1:] - row[1:]).abs().max() / row[1:].abs().max())
        one, two, three = min(loop), min(bare), min(mine)
        flops = n * n * x[0].numel()
        lines.append(
            f"| {name} | {one:.0f} s | {two:.1f} s | {three:.1f} s | {one / three:.1f} | {three / two:.2f} | "
            f"{flops / three / 1e9:.0f} | {error:.0e} |"
        )
        del x, ready, matrix
    return lines


def procrustes_lines(pictures: Tensor, device: str) -> list[str]:
    one, other = (sg.catalog.model(name).network.to(device).eval() for name in RESNETS)
    batches = [batch.to(device) for batch in pictures.split(500)]

    def forward() -> None:
        with torch.no_grad():
            for batch in batches:
                one(batch)
                other(batch)

    lines = ["| Procrustes, two ResNet-20 | two forward passes | with Procrustes | ratio |", "|---|---:|---:|---:|"]
    for pairs, name in (("diagonal", "19 layers at the same places"), ("all", "all 361 pairs of layers")):
        progress(f"procrustes: {name}")

        def measured(pairs: str = pairs) -> None:
            compare(one, other, batches, pairs=pairs, progress=False)

        plain, found = alternating(forward, measured, 3)
        lines.append(f"| {name} | {plain:.1f} s | {found:.1f} s | {found / plain:.2f} |")
    return lines


def memory_task(samples: int) -> Callable[[], object]:
    """Compare features (n, 64, 32, 32) with others, made of noise, since only their size matters here."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(samples, 64, 32, 32, generator=generator) for _ in range(2))
    small = sg.symmetry.cka(x[:64], y[:64], dtype="float32")
    assert small.samples == 64
    return lambda: sg.symmetry.cka(x, y, dtype="float32")


def peak(samples: int) -> float:
    """Measure in a process of its own how far memory rises above the features, in MiB."""
    found = subprocess.run([sys.executable, __file__, "--memory", str(samples)], check=True, capture_output=True, text=True)
    return float(json.loads(found.stdout.splitlines()[-1])["grown"])


def main(data: Path | None = None, samples: int = 10_000, device: str = "cpu") -> str:
    pictures = images(data, samples)
    source = "CIFAR-10 test images" if data is not None else "drawn images"
    lines = [
        f"# Similarity of two networks ({device})",
        "",
        describe(device),
        "",
        f"{len(pictures)} {source}; max kernel of layers of the Myrtle CNN with 65,536 values per sample, float32 products.",
        f"The textbook loop was timed on {TEXTBOOK_ROWS} rows, twice, and scaled to all {len(pictures)}.",
        "",
        *kernel_rows(pictures, device),
        "",
        *procrustes_lines(pictures, device),
    ]
    if device == "cpu":
        progress("memory")
        lines += ["", f"Peak memory of `cka` beyond its features, {samples} samples, 64 × 32 × 32: {peak(samples):.0f} MiB."]
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", type=int)
    given = parser.parse_args()
    if given.memory:
        print(json.dumps({"grown": grown(lambda: memory_task(given.memory))}))
    else:
        print(main(given.data, given.samples, given.device))
