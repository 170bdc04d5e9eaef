"""Data by name, such as `cifar10`, `imagefolder:DIR`, `text:FILE`, `hf/NAME` or `embedded`;
`data_names` lists them.
"""

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

from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.local import hub, imagefolder, textfile
from sigmascope.catalog.names import guess
from sigmascope.catalog.published import cifar10, cifar100, digits
from sigmascope.catalog.sources import ROOT_VARIABLE, Make, Request, Rows, Source, arrays
from sigmascope.checks import check_seed, check_whole
from sigmascope.errors import InputError, InputTypeError, OptionError

__all__ = ["DATA", "Data", "data", "data_names"]


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
    transform: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> Data:
    """Open data by name, as batches (images, labels) or, for text, mappings of arguments by name.

    Args:
        name: one of `data_names`: `imagefolder:DIR` is a folder with one folder of images per
            class, `text:FILE` a file with one sentence per line, `hf/NAME` a folder or a name on
            the hub that the package datasets opens, `random:SIDE` noise that reaches the network as
            it is, and `random` such noise of the size that the transform makes, or of 224 × 224.
        root: the folder with the files; by default the folder that the variable SIGMASCOPE_DATA
            names, or `data`.
        split: "test" or "train", or what the data calls its splits; data without splits have "test"
            only.
        batch_size: samples that come at a time.
        limit: use only so many, drawn evenly from all with the seed.
        transform: what makes a network's inputs of samples, `Model.transform`; without one images
            come as float, 0 to 255.
        seed: of the random data and of the draw.

    Raises:
        OptionError: an unknown name, of which the nearest is named; an option that cannot be.
        InputError: files that are not here, where the message says which to place where; or data
            that do not fit the transform.
        FileFormatError: files that are damaged.
        MissingExtraError: a package is missing; the extra is named.
    """
    kind, rest = _parsed(name)
    _check_choices(kind, root, split, transform)
    check_seed(seed)
    check_whole("batch_size", batch_size, 1)
    if limit is not None:
        check_whole("limit", limit, 1)
    folder = Path(root or os.environ.get(ROOT_VARIABLE, "data"))
    takes = getattr(transform, "takes", None)
    source = DATA[kind](
        Request(rest, folder, split, int(seed), takes, getattr(transform, "size", None))
    )
    if takes not in (None, source.gives):
        raise InputError(
            f"{name} gives {source.gives}, and the network takes {takes}. Choose {_fitting(takes)}."
        )
    if transform is None and source.gives == "text":
        raise InputError(
            f"{name} gives sentences, which a tokenizer must turn into numbers. Pass "
            "transform=model('hf/FOLDER').transform, "
            "of a folder with the network and its tokenizer."
        )
    chosen = _chosen(source.size, limit, seed)
    make = transform or (lambda images: images.float())
    return Data(
        name, len(chosen), batch_size, lambda start, end: source.read(chosen[start:end], make)
    )


def _parsed(name: str) -> tuple[str, str]:
    """Split a name into its kind and the rest."""
    if not isinstance(name, str):
        raise InputTypeError(f"name is a {type(name).__name__}. Pass a name such as 'cifar10'.")
    kind, mark, rest = re.fullmatch("([^:/]*)([:/]?)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    if kind not in DATA:
        raise OptionError(
            f"there is no data {name!r}.{guess(kind, DATA)} Names: {', '.join(data_names())}."
        )
    form = FORMS.get(kind, kind)
    fits = form.startswith(kind + mark) and bool(rest) if mark else kind not in NEEDS_REST
    if not fits:
        raise OptionError(f"there is no data {name!r}. Write {form}.")
    return kind, rest


def _check_choices(kind: str, root: object, split: object, transform: object) -> None:
    if root is not None and not isinstance(root, (str, Path)):
        raise OptionError(f"root={root!r:.80} names no folder. Pass its path.")
    if transform is not None and not callable(transform):
        raise OptionError(
            f"transform={transform!r:.80} is no function. Pass model(...).transform, or "
            "leave it out."
        )
    if kind in UNDIVIDED and split != "test":
        remedy = {
            "imagefolder": " and name the folder of the split",
            "text": " and name the file of the split",
        }.get(kind, "")
        raise OptionError(f"split={split!r}: {kind} has no splits. Leave split out{remedy}.")


def _fitting(takes: str) -> str:
    fitting = {"images": "cifar10 or imagefolder:DIR", "text": "text:FILE or hf/NAME"}
    return fitting.get(takes, "another network; the catalog has no such data")


def _chosen(size: int, limit: int | None, seed: int) -> Rows:
    if limit is None or limit >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(seed).choice(size, limit, replace=False))


def _random(request: Request) -> Source:
    """Draw standard normal images, each from a seed of its own.

    They have the side in `random:SIDE`, otherwise the size that the transform makes, otherwise 224
    × 224.
    """
    shape = request.size or (3, 224, 224)
    if request.rest:
        if (
            not re.fullmatch("[0-9]{1,4}", request.rest)
            or not 1 <= int(request.rest) <= LONGEST_SIDE
        ):
            raise OptionError(
                f"random:{request.rest:.80} names no length of a side from 1 to "
                f"{LONGEST_SIDE}. Write random:SIDE, such as "
                "random:32."
            )
        side = int(request.rest)
        shape = (side, side, 3) if shape[0] != 3 and shape[-1] == 3 else (shape[0], side, side)

    def read(rows: Rows, make: Make) -> tuple[Tensor, Tensor]:
        generators = [
            torch.Generator().manual_seed(request.seed * 1_000_003 + int(row)) for row in rows
        ]
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
"""Beginning of a name -> function of a `Request`."""
FORMS = {
    "imagefolder": "imagefolder:DIR",
    "text": "text:FILE",
    "hf": "hf/NAME",
    "random": "random:SIDE",
}
"""Beginning of a name -> how it goes on."""
NEEDS_REST = ("imagefolder", "text", "hf")
UNDIVIDED = ("imagefolder", "text", "random", "embedded")
"""Data that have no splits."""
LONGEST_SIDE = 4096


def data_names() -> list[str]:
    """List the names of all data, as they are written."""
    return [FORMS.get(kind, kind) for kind in DATA]
