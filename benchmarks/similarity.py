"""The max kernel of CKA against the row-by-row loop and the bare products.

The floor of a kernel of n samples with c channels and p positions is n² c p floating-point
operations (half of n² c p multiplications and additions, by symmetry): 6.6 TFLOP at n = 10,000 and
c p = 65,536, about 40 s at the 170 GFLOP/s that two cores reach in float32. It reads 2.6 GB of
features once at least and writes 0.4 GB of kernel. The row-by-row loop does twice the operations
and moves a temporary as large as the features for every row: n · 2.6 GB · 3 = 79 TB.

Run as `python benchmarks/similarity.py [--samples N] [--device cuda]`, with CIFAR-10 in the folder
that SIGMASCOPE_DATA names; without it, images with the statistics of photographs are drawn. What is
compared takes turns, and the least time of each counts, so that other work on the machine disturbs
the ratios as little as it can.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from setting import describe, progress
from torch import Tensor
from workload import photographs

import sigmascope as sg
from sigmascope.maths.kernels import PRODUCT, TILE
from sigmascope.symmetry.cka_similarity import Kernel

NETWORKS = ("sigmascope/myrtle:1", "sigmascope/myrtle:2")
# Name -> the layer of the Myrtle CNN; the channels of both networks side by side where one has too
# few.
LAYERS = {"64 × 32 × 32": (0, 1), "256 × 16 × 16": (2, 1), "1024 × 8 × 8": (3, 2)}
TEXTBOOK_ROWS = 3


def images(samples: int) -> tuple[Tensor, str]:
    """Return images (n, 3, 32, 32) as the networks of the zoo take them, and what they are."""
    transform = sg.catalog.model(NETWORKS[0]).transform
    try:
        found = sg.catalog.data("cifar10", limit=samples, transform=transform)
    except sg.InputError:
        return photographs(samples, 32), "drawn images"
    return torch.cat([batch for batch, _ in found]), "CIFAR-10 test images"


def features(pictures: Tensor, layer: int, networks: int, device: str) -> Tensor:
    """Return the output (n, c, h, w) of one ReLU of the Myrtle CNN; of two networks, channels side
    by side.
    """
    found = []
    for name in NETWORKS[:networks]:
        network = sg.catalog.model(name).network.to(device).eval()
        relus = [place for place, module in enumerate(network) if isinstance(module, torch.nn.ReLU)]
        front = torch.nn.Sequential(*list(network)[: relus[layer] + 1])
        with torch.no_grad():
            found.append(torch.cat([front(batch.to(device)) for batch in pictures.split(500)]))
    return torch.cat(found, dim=1)


def standardized(x: Tensor) -> Tensor:
    """Center and normalize channels, as one would before the loop."""
    ready = x - x.mean(dim=(0, 2, 3), keepdim=True, dtype=torch.float64).float()
    squares = sum(
        batch.square().sum(dim=(0, 2, 3), dtype=torch.float64) for batch in ready.split(100)
    )
    ready /= torch.as_tensor(squares).sqrt().clamp_min(1e-30).float()[:, None, None]
    return ready


def textbook_row(x: Tensor, row: int) -> Tensor:
    """Return one row of the kernel as one would write it down: products with all samples, summed,
    then the maximum.
    """
    return (x * x[row]).sum(dim=(2, 3)).amax(dim=1)


def bare_products(x: Tensor) -> None:
    """Multiply all tiles that a kernel needs and discard the results."""
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


def least(calls: dict[str, Callable[[], object]], repeats: int, device: str) -> dict[str, float]:
    """Return the least times of calls that take turns, in seconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats):
        for name, call in calls.items():
            progress(f"{name}: turn {turn + 1} of {repeats}")
            started = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - started)
    return {name: min(found) for name, found in times.items()}


def kernel_rows(pictures: Tensor, device: str, repeats: int) -> list[str]:
    lines = [
        "| maps | textbook loop (scaled) | bare products | ours | textbook / ours | ours / "
        "bare | GFLOP/s | largest error |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (layer, networks) in LAYERS.items():
        x = features(pictures, layer, networks, device)
        ready, n = standardized(x), len(x)
        ours(x[:64])
        calls = {
            "bare": lambda ready=ready: bare_products(ready),
            "ours": lambda x=x: ours(x),
            "loop": lambda ready=ready: [textbook_row(ready, row) for row in range(TEXTBOOK_ROWS)],
        }
        found = least(calls, repeats, device)
        loop = found["loop"] * n / TEXTBOOK_ROWS
        row = textbook_row(ready, 0)
        error = float((ours(x)[0, 1:] - row[1:]).abs().max() / row[1:].abs().max())
        lines.append(
            f"| {name} | {loop:.0f} s | {found['bare']:.2f} s | {found['ours']:.2f} s | "
            f"{loop / found['ours']:.0f} | "
            f"{found['ours'] / found['bare']:.2f} | "
            f"{n * n * x[0].numel() / found['ours'] / 1e9:.0f} | {error:.0e} |"
        )
        del x, ready, calls
    return lines


def main(device: str = "cpu", samples: int = 10_000, repeats: int = 3) -> str:
    pictures, source = images(samples)
    lines = [
        f"# The max kernel ({device})",
        "",
        describe(device),
        "",
        f"{len(pictures)} {source}; max kernel of layers of the Myrtle CNN with 65,536 "
        "values per sample, float32 products.",
        f"The textbook loop was timed on {TEXTBOOK_ROWS} rows and scaled to all "
        f"{len(pictures)}. Least of {repeats} turns.",
        "",
        *kernel_rows(pictures, device, repeats),
    ]
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print(main(given.device, given.samples, given.repeats))
