"""What all sources of data share: the request, the answer, and how samples are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.catalog.optional import one_line
from sigmascope.errors import FileFormatError, InputError

ROOT = "SIGMASCOPE_DATA"  # names the directory of data sets where it is not ./data

Rows = np.ndarray[Any, Any]
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Request:
    """What a source of data is asked for.

    Attributes:
        rest: the name after its kind.
        folder: the directory to look in.
        split: "test" or "train", where there are both.
        seed: of random data.
        takes: "images" or "text", the input of the transform; None if unknown.
        size: of one image that the transform makes; None if unknown.
    """

    rest: str
    folder: Path
    split: str
    seed: int
    takes: str | None = None
    size: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Source:
    """The number of samples, a function that reads some, and their kind: "images" or "text"."""

    size: int
    read: Callable[[Rows, Make], Any]
    gives: str = "images"


def place(request: Request, *names: str) -> Path:
    """Return the path of the first of some files or directories that exists."""
    for name in names:
        if (request.folder / name).exists():
            return request.folder / name
    raise InputError(
        f"expected {' or '.join(names)} in {request.folder}. Put it there, pass root=FOLDER, or "
        f"set {ROOT}."
    )


def arrays(images: Rows | Tensor, labels: Rows | Tensor, *, name: object) -> Source:
    """Return a source of images (n, 3, h, w), uint8, with labels (n,), whole numbers."""
    try:
        pixels, classes = torch.as_tensor(images), torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(
            f"{name}: not arrays of whole numbers ({one_line(error)}). Write them as uint8."
        ) from error
    shaped = pixels.ndim == 4 and pixels.shape[1] == 3 and pixels.numel()
    if not shaped or pixels.dtype != torch.uint8:
        raise FileFormatError(
            f"{name}: expected images (n, 3, height, width) of uint8, got {_kind(pixels)}. "
            "Write them in this form."
        )
    if classes.ndim != 1 or classes.is_floating_point() or classes.is_complex():
        raise FileFormatError(
            f"{name}: expected labels (n,) that are whole numbers, got {_kind(classes)}. "
            "Write them in this form."
        )
    if len(classes) != len(pixels):
        raise FileFormatError(
            f"{name}: {len(pixels)} images and {len(classes)} labels. Take both from one source."
        )
    classes = classes.long()

    def read(rows: Rows, make: Make) -> tuple[Any, Tensor]:
        chosen = torch.from_numpy(rows)
        return make(pixels[chosen]), classes[chosen]

    return Source(len(pixels), read)


def _kind(values: Tensor) -> str:
    return f"an array of shape {tuple(values.shape)} and {str(values.dtype).removeprefix('torch.')}"


def picture_of(image: Any, path: Path) -> Any:
    """Return a picture read with `PIL.Image`, in RGB."""
    try:
        with image.open(path) as opened:
            check_pixels(opened.size, image.MAX_IMAGE_PIXELS)
            return opened.convert("RGB")
    except Exception as error:  # each format of PIL raises errors of its own
        raise FileFormatError(
            f"{path}: not a complete image ({one_line(error)}). Replace or remove it."
        ) from error


def check_pixels(size: tuple[int, int], most: int | None) -> None:
    """Raise a ValueError if a picture has more pixels than PIL's guard, which only warns at first.

    The guard, `PIL.Image.MAX_IMAGE_PIXELS`, is the whole process's: it is read and never changed.
    """
    if most is not None and size[0] * size[1] > most:
        raise ValueError(
            f"it has {size[0]} × {size[1]} pixels, and PIL.Image.MAX_IMAGE_PIXELS is {most}"
        )


def pictures(
    size: int, picture: Callable[[int], Any], label: Callable[[int], int] | None
) -> Source:
    """Return a source of PIL pictures by number, transformed one by one; labels are optional."""

    def read(rows: Rows, make: Make) -> tuple[Any, ...]:
        numbers = [int(row) for row in rows]
        found = []
        for number in numbers:
            pixels = torch.from_numpy(np.array(picture(number).convert("RGB")))
            found.append(make(pixels.permute(2, 0, 1)[None])[0])
        if len({one.shape for one in found}) > 1:
            raise InputError(
                "the images differ in size. Pass transform=model(...).transform, which makes "
                "them equal."
            )
        labels = [] if label is None else [torch.tensor([label(number) for number in numbers])]
        return torch.stack(found), *labels

    return Source(size, read)


def sentences(texts: Sequence[str], labels: Sequence[int] | None = None) -> Source:
    """Return a source of sentences; labels join the arguments that the transform makes."""

    def read(rows: Rows, make: Make) -> Any:
        chosen = [texts[int(row)] for row in rows]
        for row, text in zip(rows, chosen, strict=True):
            if not isinstance(text, str):
                raise InputError(
                    f"row {row} must be a sentence, got {text!r:.80}. Remove such rows."
                )
        made = make(chosen)
        if labels is None:
            return made
        return {**made, "labels": torch.tensor([labels[int(row)] for row in rows])}

    return Source(len(texts), read, gives="text")
