"""Measure the population scores that `sigmascope reproduce beyond-population` reads.

    python papers/population.py DATA OUT [WORD ...]

DATA holds `cifar10/test_images.npy` and `cifar10/test_labels.npy`, see `zoo/README.md`. With WORDs
only what has one of them in its name is measured. What OUT already has is kept, so the same command
continues a run that was interrupted. Takes minutes on a GPU and most of an hour on one core; then
copy `OUT/signatures` into `papers/src/sigmascope_papers/results`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from sigmascope_papers.nonlinearity.population import PopulationSetting, measure_everything


def main(data: str, out: str, *words: str) -> None:
    """Measure, and say how long each took."""
    torch.backends.cudnn.allow_tf32 = False  # ten bits are too few for features
    manner = {"data_root": data, "keep": Path(out), "progress": False}
    setting = PopulationSetting(from_scratch=True, **manner)  # type: ignore[arg-type]
    before = time.perf_counter()
    for name in measure_everything(setting, words):
        now = time.perf_counter()
        print(f"{name}: {now - before:.1f} s", flush=True)
        before = now


if __name__ == "__main__":
    main(*sys.argv[1:])
