"""Run the benchmarks that need no accelerator and write what they say to `benchmarks/results/`.

`python benchmarks/run.py` runs all; `python benchmarks/run.py assignment` one. The GPU is measured
by `python benchmarks/run.py resnet50-cuda`. A benchmark is left out where a package that it needs,
such as POT, is not installed.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"

# Name -> module of this directory; those that end in -cuda run its main("cuda").
BENCHMARKS = {
    "resnet50-cpu": "resnet50",
    "assignment": "assignment",
    "growth": "growth",
    "signature-cpu": "signature",
    "overhead-cpu": "overhead",
    "recording": "recording",
    "trained": "trained",
    "comparison": "comparison",
    "similarity-kernels-cpu": "similarity",
    "similarity-procrustes-cpu": "similarity_procrustes",
    "similarity-memory": "similarity_memory",
    "stitching-cpu": "stitching",
    "penalty-cpu": "penalty",
    "folding-cpu": "folding",
    "language-models-cpu": "language_models",
    "resnet50-cuda": "resnet50",
    "signature-cuda": "signature",
    "overhead-cuda": "overhead",
    "similarity-kernels-cuda": "similarity",
    "similarity-procrustes-cuda": "similarity_procrustes",
    "stitching-cuda": "stitching",
    "penalty-cuda": "penalty",
    "folding-cuda": "folding",
    "language-models-cuda": "language_models",
}


def main(names: list[str]) -> None:
    for name in names or [name for name in BENCHMARKS if not name.endswith("cuda")]:
        if name not in BENCHMARKS:
            raise SystemExit(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
        try:  # imported one by one: not every benchmark has its packages everywhere
            benchmark = importlib.import_module(BENCHMARKS[name])
            text = benchmark.main(*(["cuda"] if name.endswith("-cuda") else [])) + "\n"
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "sigmascope":
                raise
            print(f"{name} is left out: it needs the package {error.name}.", flush=True)
            continue
        RESULTS.mkdir(exist_ok=True)
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n`python benchmarks/run.py {name}`\n{rest}"
        (RESULTS / f"{name}.md").write_text(text)
        print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
