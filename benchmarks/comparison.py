"""Compare 60 networks of 50 to 260 sites, made from stored signatures with noise, and write their
report.

Run as `python benchmarks/comparison.py`. The floor: 1770 pairs of about 155 × 155 cells are 43
million steps of dynamic time warping, a few additions each; the page needs every site once, about
9,000 rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from setting import describe

import sigmascope as sg
from sigmascope.runs import load_runs

STORED = (
    Path(__file__).resolve().parents[1] / "papers/src/sigmascope_papers/results/signatures/cifar10"
)
NETWORKS, SHORTEST, LONGEST, NOISE = 60, 50, 260, 0.02


def stretched(signature: sg.Signature, number: int, generator: np.random.Generator) -> sg.Signature:
    """Return a deeper network: the sites of a stored one, repeated in order, with noise on their
    scores.
    """
    count = int(generator.integers(SHORTEST, LONGEST + 1))
    chosen = [signature.sites[k * len(signature) // count] for k in range(count)]
    sites = [
        replace(
            site,
            path=f"{site.path}.{k}",
            score=float(np.clip(site.score + generator.normal(0, NOISE), 0, 1)),
        )
        for k, site in enumerate(chosen)
    ]
    return replace(signature, name=f"{signature.name} ({number})", sites=tuple(sites))


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> str:
    generator = np.random.default_rng(0)
    stored = load_runs([STORED])
    made = [stretched(stored[k % len(stored)], k, generator) for k in range(NETWORKS)]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        rows = {
            "statistics": timed(lambda: sg.statistics(made)),
            "distances": timed(lambda: sg.distances(made)),
            "clusters and embedding": timed(
                lambda: [sg.distances(made).cluster(), sg.distances(made).embed()]
            ),
            "densities": timed(lambda: sg.densities(made)),
            "report, all of it again": timed(lambda: sg.report(made, page)),
        }
        size = page.stat().st_size
    lines = [
        "| | seconds |",
        "|---|---:|",
        *(f"| {name} | {seconds:.2f} |" for name, seconds in rows.items()),
    ]
    lines += [
        f"| all | {sum(rows.values()):.2f} |",
        "",
        f"{sum(map(len, made))} sites; the page has {size / 1e6:.2f} MB.",
    ]
    return (
        f"# {NETWORKS} networks of {SHORTEST} to {LONGEST} sites compared "
        f"(cpu)\n\n{describe('cpu')}\n\n" + "\n".join(lines)
    )


if __name__ == "__main__":
    print(main())
