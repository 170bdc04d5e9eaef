"""Measure the image networks of others that items `real-…` of `sigmascope reproduce` read.

    python papers/real.py OUT [WORD ...]

Fetches packages into the cache, see `sigmascope_papers/real/packages.py`. With WORDs only what has
one of them in its name is measured. What OUT already has is kept, so the same command continues a
run that was interrupted. Then copy `OUT/real` into `papers/src/sigmascope_papers/results`.

On Linux, MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 in the environment keeps glibc from
returning feature maps to the system after every layer, which can take more processor time than the
layers themselves.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sigmascope_papers.real import before, capped, decade, moved, residual
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.setting import Setting

# Name, images (None for those of training), form; the first ones serve most items.
JOBS: list[tuple[str, str | None, str]] = [
    *((name, None, "trained") for name in (*residual.CIFAR, *residual.IMAGENET, *residual.PLAIN)),
    *((name, None, "trained") for name in decade.CAST.names()),
    *((name, None, "beside") for name in capped.CAPPED),
    *((name, None, "untrained") for name in before.LIGHT),
    *((name, source, "trained") for source in ("cifar10", "noise") for name in moved.OF_IMAGENET),
]


def main(out: str, *words: str) -> None:
    """Measure, and say how long each took."""
    setting = Setting(from_scratch=True, keep=Path(out), progress=False)
    for name, source, form in dict.fromkeys(JOBS):
        told = f"{name} {source or 'own images'} {form}"
        if words and not any(word in told for word in words):
            continue
        before = time.perf_counter()
        signatures(setting, [name], source=source, form=form)
        print(f"{told}: {time.perf_counter() - before:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
