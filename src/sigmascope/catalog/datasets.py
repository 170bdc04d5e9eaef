"""Data by name, such as `cifar10`, `imagefolder:DIR`, `text:FILE`, `hf/NAME` or `embedded`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.catalog.data_source import ROOT, Make, Request, Rows, Source, arrays
from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.published_data import cifar10, cifar100, digits
from sigmascope.catalog.user_data import hub, imagefolder, textfile
from sigmascope.checks import LARGEST_NUMPY_SEED, check_path, check_whole, suggestion
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.randomness import FixedSeed, as_number


@dataclass(frozen=True)
class Data:
    """Samples in batches, read on demand.

    Attributes:
        name: its name in the catalog.
        size: number of samples.
        batch_size: samples per batch.

    >>> from sigmascope import catalog
    >>> data = catalog.data("embedded", limit=100, batch_size=64)
    >>> data.name, data.size, [len(labels) for images, labels in data.between(1, 2)]
    ('embedded', 100, [36])
    """

    name: str
    size: int
    batch_size: int
    _make: Callable[[int, int], Any] = field(repr=False)

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return self.between(0, len(self))

    def between(self, first: int, end: int) -> Iterator[Any]:
        """Yield the batches from the number `first` to before `end`; no others are read."""
        for number in range(first, end):
            start = number * self.batch_size
            yield self._make(start, min(start + self.batch_size, self.size))


def data(
    name: str,
    *,
    root: str | Path | None = None,
    split: str = "test",
    batch_size: int = 512,
    limit: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    seed: FixedSeed = 0,
) -> Data:
    """Return data by name, as batches (images, labels) or, for text, mappings of arguments.

    Args:
        name: one of `data_names`: `imagefolder:DIR` is a directory with one directory of images per
            class, `text:FILE` a file with one sentence per line, `hf/NAME` a directory or a name on
            the hub that the package datasets opens, `random:SIDE` noise that is not transformed,
            and `random` such noise of the size that the transform makes, or of 224 × 224.
        root: the directory with the files; by default that of the environment variable
            SIGMASCOPE_DATA, or `data`.
        split: "test" or "train", or what the data calls its splits; data without splits have "test"
            only.
        batch_size: samples per batch.
        limit: use only so many samples, drawn evenly with the seed.
        transform: makes a network's inputs from samples, `Model.transform`; without one images are
            float, 0 to 255.
        seed: of the random data and of the draw, a whole number or a torch.Generator.

    Raises:
        OptionError: an unknown name (the message suggests the nearest), or an invalid option.
        InputError: missing files, where the message says which to put where; or data that do not
            fit the transform.
        FileFormatError: corrupt files.
        MissingExtraError: a package is missing; the message names the extra.

    >>> found = data("embedded", limit=100, batch_size=64)
    >>> [tuple(images.shape) for images, labels in found]
    [(64, 3, 32, 32), (36, 3, 32, 32)]
    """
    kind, rest = _parsed(name)
    check_path("name", name)
    _check_choices(kind, root, split, transform)
    seed = as_number(seed, LARGEST_NUMPY_SEED)
    check_whole("batch_size", batch_size, 1)
    if limit is not None:
        check_whole("limit", limit, 1)
    folder = Path(root or os.environ.get(ROOT, "data"))
    takes, size = (getattr(transform, key, None) for key in ("takes", "size"))
    source = DATA[kind](Request(rest, folder, split, seed, takes, size))
    if takes not in (None, source.gives):
        raise InputError(
            f"{name} gives {source.gives}, and the network takes {takes}. Choose {_fitting(takes)}."
        )
    if transform is None and source.gives == "text":
        raise InputError(
            f"{name} gives sentences, which need a tokenizer. Pass "
            "transform=model('hf/FOLDER').transform, of a directory with network and tokenizer."
        )
    chosen = _chosen(source.size, limit, seed)
    make = transform or (lambda images: images.float())
    return Data(
        name, len(chosen), batch_size, lambda start, end: source.read(chosen[start:end], make)
    )


def _parsed(name: str) -> tuple[str, str]:
    """Return the kind of a name and the rest."""
    if not isinstance(name, str):
        raise InputTypeError(f"name must be a string such as 'cifar10', got {type(name).__name__}.")
    kind, mark, rest = re.fullmatch("([^:/]*)([:/]?)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    if kind not in DATA:
        raise OptionError(
            f"data {name!r} is not in the catalog.{suggestion(kind, DATA, most=3)} "
            f"Choose from {', '.join(data_names())}."
        )
    form = FORMS.get(kind, kind)
    fits = form.startswith(kind + mark) and bool(rest) if mark else kind not in NEEDS_REST
    if not fits:
        raise OptionError(f"data {name!r} is not in the catalog. Write {form}.")
    return kind, rest


def _check_choices(kind: str, root: object, split: object, transform: object) -> None:
    if root is not None and not isinstance(root, (str, Path)):
        raise OptionError(f"root must be the path of a directory, got {root!r:.80}.")
    check_path("root", root)
    if transform is not None and not callable(transform):
        raise OptionError(
            f"transform must be a function such as model(...).transform, got {transform!r:.80}."
        )
    if kind in UNDIVIDED and split != "test":
        other = {"imagefolder": "directory", "text": "file"}.get(kind)
        remedy = f" and pass the {other} of the split" if other else ""
        raise OptionError(f"split={split!r}: {kind} has no splits. Leave split out{remedy}.")


def _fitting(takes: str) -> str:
    fitting = {"images": "cifar10 or imagefolder:DIR", "text": "text:FILE or hf/NAME"}
    return fitting.get(takes, "another network; the catalog has no such data")


def _chosen(size: int, limit: int | None, seed: int) -> Rows:
    if limit is None or limit >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(seed).choice(size, limit, replace=False))


def _random(request: Request) -> Source:
    """Return standard normal images, each from a seed of its own.

    Their size: `random:SIDE`, otherwise what the transform makes, otherwise 224 × 224.
    """
    shape = request.size or (3, 224, 224)
    if request.rest:
        side = int(request.rest) if re.fullmatch("[0-9]{1,4}", request.rest) else 0
        if not 1 <= side <= LONGEST_SIDE:
            raise OptionError(
                f"random:SIDE needs a side from 1 to {LONGEST_SIDE}, such as random:32, got "
                f"random:{request.rest:.80}."
            )
        shape = (side, side, 3) if shape[0] != 3 and shape[-1] == 3 else (*shape[:-2], side, side)

    def read(rows: Rows, make: Make) -> tuple[Tensor, Tensor]:
        seeds = [request.seed * 1_000_003 + int(row) for row in rows]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        images = torch.stack([torch.randn(shape, generator=generator) for generator in generators])
        return images, torch.zeros(len(rows), dtype=torch.long)

    return Source(10_000, read)


def _embedded(request: Request) -> Source:
    return arrays(*embedded_images(), name="embedded")


DATA: dict[str, Callable[[Request], Source]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": digits("mnist", "MNIST/raw"),
    "fashion-mnist": digits("fashion-mnist", "FashionMNIST/raw"),
    "imagefolder": imagefolder,
    "text": textfile,
    "hf": hub,
    "random": _random,
    "embedded": _embedded,
}
"""Start of a name -> function of a `Request`.

>>> from sigmascope import catalog
>>> list(catalog.DATA)
['cifar10', 'cifar100', 'mnist', 'fashion-mnist', 'imagefolder', 'text', 'hf', 'random', 'embedded']
"""
FORMS = {
    "imagefolder": "imagefolder:DIR",
    "text": "text:FILE",
    "hf": "hf/NAME",
    "random": "random:SIDE",
}
"""Start of a name -> how it is written in full."""
NEEDS_REST = ("imagefolder", "text", "hf")
UNDIVIDED = ("imagefolder", "text", "random", "embedded")  # data without splits
LONGEST_SIDE = 4096


def data_names() -> list[str]:
    """Return the names of all data, as they are written.

    >>> {"embedded", "cifar10"} <= set(data_names())
    True
    """
    return [FORMS.get(kind, kind) for kind in DATA]
