"""What a source of data is asked for, and how it answers: the pieces that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError, InputError

__all__ = [
    "ROOT_VARIABLE",
    "Request",
    "Source",
    "arrays",
    "picture_of",
    "pictures",
    "place",
    "sentences",
]

# Where data sets are looked for, beside the folder that is passed.
ROOT_VARIABLE = "SIGMASCOPE_DATA"

Rows = np.ndarray[Any, Any]
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Request:
    """What a source of data is asked for.

    Attributes:
        rest: of the name, after its kind.
        folder: to look in.
        split: "test" or "train", where there are both.
        seed: of random data.
        takes: "images" or "text", what the transform is for; None where it does not say.
        size: of one image that the transform makes; None where it does not say.
    """

    rest: str
    folder: Path
    split: str
    seed: int
    takes: str | None = None
    size: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Source:
    """How many samples there are, what they are ("images" or "text"), and how to read some and make
    inputs of them.
    """

    size: int
    read: Callable[[Rows, Make], Any]
    gives: str = "images"


def place(request: Request, *names: str) -> Path:
    """Find the first of some files or folders.

    Raises:
        InputError: none is there; the message says what to put where.
    """
    for name in names:
        if (request.folder / name).exists():
            return request.folder / name
    raise InputError(
        f"none of {', '.join(names)} is in {request.folder}. Place it there, or pass "
        f"root=FOLDER or set {ROOT_VARIABLE}."
    )


def arrays(images: Rows | Tensor, labels: Rows | Tensor, *, name: object) -> Source:
    """Serve images (n, 3, h, w), uint8, from memory, with their labels (n,), whole numbers.

    Raises:
        FileFormatError: they are of other shapes or types, or not as many; `name` says of what.
    """
    pixels, classes = torch.as_tensor(images), torch.as_tensor(labels)
    if (
        pixels.ndim != 4
        or pixels.shape[1] != 3
        or pixels.dtype != torch.uint8
        or not pixels.numel()
    ):
        raise FileFormatError(
            f"{name}: {_kind(pixels)} where images (n, 3, height, width) of uint8 are "
            "wanted. Write it again so."
        )
    if classes.ndim != 1 or classes.is_floating_point() or classes.is_complex():
        raise FileFormatError(
            f"{name}: its labels are {_kind(classes)} where whole numbers (n,) are wanted. "
            "Write them again so."
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
    """Read a picture with `PIL.Image`, in three colors.

    Raises:
        FileFormatError: it is none, or damaged.
    """
    try:
        with image.open(path) as opened:
            return opened.convert("RGB")
    except Exception as error:  # each format of PIL raises errors of its own
        told = " ".join(str(error).split())
        raise FileFormatError(
            f"{path}: not a complete picture ({told:.200}). Replace or remove it."
        ) from error


def pictures(
    size: int, picture: Callable[[int], Any], label: Callable[[int], int] | None
) -> Source:
    """Serve pictures of PIL by number, each prepared by itself since they may differ in size;
    without labels, as (images,).
    """

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
        images = torch.stack(found)
        return (
            (images,)
            if label is None
            else (images, torch.tensor([label(number) for number in numbers]))
        )

    return Source(size, read)


def sentences(texts: Sequence[str], labels: Sequence[int] | None = None) -> Source:
    """Serve sentences; what the transform makes of them is a mapping of arguments by name, to which
    labels are added.
    """

    def read(rows: Rows, make: Make) -> Any:
        chosen = [texts[int(row)] for row in rows]
        for row, text in zip(rows, chosen, strict=True):
            if not isinstance(text, str):
                raise InputError(
                    f"row {row} holds no sentence but {text!r:.80}. Leave such rows out of "
                    "the data."
                )
        made = make(chosen)
        return (
            made
            if labels is None
            else {**made, "labels": torch.tensor([labels[int(row)] for row in rows])}
        )

    return Source(len(texts), read, gives="text")
