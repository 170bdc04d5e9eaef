"""Run the benchmarks that need no accelerator and write what they say to `benchmarks/results/`.

`python benchmarks/run.py` runs all; `python benchmarks/run.py assignment` one. The GPU is measured
by `python benchmarks/run.py resnet50-cuda`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import assignment
import comparison
import growth
import resnet50
import signature
import similarity
import similarity_memory
import similarity_procrustes
import stitching
import trained

RESULTS = Path(__file__).parent / "results"

BENCHMARKS: dict[str, Callable[[], str]] = {
    "resnet50-cpu": resnet50.main,
    "assignment": assignment.main,
    "growth": growth.main,
    "signature-cpu": signature.main,
    "trained": trained.main,
    "comparison": comparison.main,
    "similarity-kernels-cpu": similarity.main,
    "similarity-procrustes-cpu": similarity_procrustes.main,
    "similarity-memory": similarity_memory.main,
    "stitching-cpu": stitching.main,
    "resnet50-cuda": lambda: resnet50.main("cuda"),
    "signature-cuda": lambda: signature.main("cuda"),
    "similarity-kernels-cuda": lambda: similarity.main("cuda"),
    "similarity-procrustes-cuda": lambda: similarity_procrustes.main("cuda"),
    "stitching-cuda": lambda: stitching.main("cuda"),
}


def main(names: list[str]) -> None:
    for name in names or [name for name in BENCHMARKS if not name.endswith("cuda")]:
        if name not in BENCHMARKS:
            raise SystemExit(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
        text = BENCHMARKS[name]() + "\n"
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
        print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
