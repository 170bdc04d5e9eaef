"""Peak memory of `cka` with the max kernel, beyond its features, at 10,000 samples.

The floor is the two kernels: 0.8 GB in float32, 1.6 GB in float64. Beside them there is room for
some scaled channels and a few rows. More channels only mean more rounds in the same memory, so
`run.py` measures with 8 channels and not with 64, which takes eight times as long and gives the
same (`--channels 64` shows it).

Run as `python benchmarks/similarity_memory.py [--samples N] [--channels N]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable

import torch
from setting import describe, progress
from signature import MIB, grown

import sigmascope as sg

DTYPES = ("float32", "float64")


def task(dtype: str, samples: int, channels: int) -> Callable[[], object]:
    """Compare random features (n, c, 32, 32); only their size matters here."""
    generator = torch.Generator().manual_seed(0)
    kind = getattr(torch, dtype)
    x, y = (
        torch.rand(samples, channels, 32, 32, generator=generator, dtype=kind) for _ in range(2)
    )
    sg.symmetry.cka(x[:64], y[:64], dtype=dtype)
    return lambda: sg.symmetry.cka(x, y, dtype=dtype)


def peak(dtype: str, samples: int, channels: int) -> float:
    """Measure in a process of its own how far memory rises above the features, in MB."""
    progress(f"memory, {dtype}")
    sizes = ["--samples", str(samples), "--channels", str(channels)]
    found = subprocess.run(
        [sys.executable, __file__, "--task", dtype, *sizes],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(found.stdout.splitlines()[-1])["grown"]) * MIB / 1e6


def main(samples: int = 10_000, channels: int = 8) -> str:
    lines = [
        "# Peak memory of `cka` beyond its features",
        "",
        describe("cpu"),
        "",
        f"{samples} samples, {channels} × 32 × 32, max kernel.",
        "",
        "| features and products | two kernels, MB | peak, MB |",
        "|---|---:|---:|",
    ]
    for dtype in DTYPES:
        kernels = 2 * samples**2 * getattr(torch, dtype).itemsize / 1e6
        lines.append(f"| {dtype} | {kernels:.0f} | {peak(dtype, samples, channels):.0f} |")
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--task", choices=DTYPES)
    given = parser.parse_args()
    if given.task:
        print(json.dumps({"grown": grown(lambda: task(given.task, given.samples, given.channels))}))
    else:
        print(main(given.samples, given.channels))
