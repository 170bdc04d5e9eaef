"""How time and memory of one score grow with the number of samples n and of channels d.

Run as `python benchmarks/growth.py`. Each cell is measured in a process of its own, so that its
peak memory is its own.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from setting import describe, progress

SAMPLES = (128, 256, 512, 1024, 2048, 4096)
CHANNELS = (16, 64, 256, 1024, 4096, 8192)


def measure(n: int, d: int) -> dict[str, float]:
    """Score ReLU on n samples of d correlated Gaussian channels, after a small pair that warms
    everything up.
    """
    import sigmascope as sg

    generator = np.random.default_rng(0)
    rank = max(2, d // 4)
    x = (
        generator.standard_normal((n, rank))
        @ generator.standard_normal((rank, d))
        / math.sqrt(rank)
    )
    x += 0.3 * generator.standard_normal((n, d))
    y = np.maximum(x, 0)
    sg.affinity(x[:16, :2], y[:16, :2])
    # Linux: forget the peak so far (a child process inherits that of its parent), then read the new
    # one.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    started = time.perf_counter()
    result = sg.affinity(x, y)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "bytes": float(resident("VmHWM") - before), "score": float(result)}


def resident(field: str) -> int:
    """Read the bytes of memory that this process holds (VmRSS), or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def in_process(n: int, d: int) -> dict[str, float]:
    """Run `measure` in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, str(n), str(d)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def unit_of_memory(n: int, d: int) -> int:
    """Return n·d + n² + min(d, 2n)² in bytes of float64, the floor: one sample, one cost matrix,
    one covariance.
    """
    return 8 * (n * d + n * n + min(d, 2 * n) ** 2)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Fit the slope of log value over log size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def table(cells: dict[tuple[int, int], dict[str, float]], show: str) -> list[str]:
    rows = [
        f"| n \\ d | {' | '.join(str(d) for d in CHANNELS)} |",
        "|---:|" + "---:|" * len(CHANNELS),
    ]
    for n in SAMPLES:
        shown = []
        for d in CHANNELS:
            cell = cells[n, d]
            shown.append(
                f"{cell['seconds']:.3g}"
                if show == "seconds"
                else f"{cell['bytes'] / unit_of_memory(n, d):.1f}"
            )
        rows.append(f"| {n} | {' | '.join(shown)} |")
    return rows


def main() -> str:
    cells = {}
    for n in SAMPLES:
        for d in CHANNELS:
            progress(f"growth n={n} d={d}")
            cells[n, d] = in_process(n, d)
    in_n = {
        d: exponent(list(SAMPLES[2:]), [cells[n, d]["seconds"] for n in SAMPLES[2:]])
        for d in CHANNELS
    }
    in_d = {
        n: exponent(list(CHANNELS[2:5]), [cells[n, d]["seconds"] for d in CHANNELS[2:5]])
        for n in SAMPLES
    }
    worst = max(
        cell["bytes"] / unit_of_memory(n, d) for (n, d), cell in cells.items() if n * d >= 2**19
    )
    return "\n".join(
        [
            "# Growth of one score with n and d (CPU)",
            "",
            describe("cpu"),
            "",
            "Seconds of `sigmascope.affinity(x, relu(x))`, Ledoit–Wolf, exact transport, "
            "correlated Gaussian channels:",
            "",
            *table(cells, "seconds"),
            "",
            "Exponent of n (512 to 4096): "
            f"{', '.join(f'd={d}: {value:.2f}' for d, value in in_n.items())}.",
            "",
            "Exponent of d (256 to 4096): "
            f"{', '.join(f'n={n}: {value:.2f}' for n, value in in_d.items())}.",
            "",
            "The floor in operations is min(d, 2n)³ for the map and n²·min(d, 2n) for the "
            "distances: exponents up to 3 in d",
            "until d = 2n, then 1; between 2 and 3 in n.",
            "",
            "Peak memory beyond the inputs, in multiples of n·d + n² + min(d, 2n)² float64 "
            "numbers (small cells measure the",
            "allocator):",
            "",
            *table(cells, "memory"),
            "",
            f"Largest multiple where n·d is at least 2¹⁹: {worst:.1f}.",
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
    else:
        print(main())
