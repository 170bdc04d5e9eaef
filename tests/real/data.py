"""Real inputs for the trained networks: photographs, sentences, and pages of text."""

from __future__ import annotations

import io
import itertools
import math
import tarfile
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from sigmascope_papers.real.packages import file, unpacked

SIDE = 224
LABELED = 20
TILE = 48
SNIPPETS = ("tweets", "nytEditorialSnippets", "amazonReviewSnippets", "movieReviewSnippets")


@cache
def photographs(count: int) -> Tensor:
    """Center crops of photographs, (count, 3, 224, 224) in [0, 1]; `labels` has the first 20."""
    paths = _by_number(unpacked("foolbox"), "imagenet_*.jpg")
    if count > LABELED:
        paths += _by_number(unpacked("ai-benchmark"), "*.jpg")
    return torch.stack(
        [_tensor(_middle(Image.open(path).convert("RGB"))) for path in paths[:count]]
    )


def labels() -> Tensor:
    """The ImageNet classes of the first photographs, which their file names tell."""
    return torch.tensor(
        [
            int(path.stem.split("_")[-1])
            for path in _by_number(unpacked("foolbox"), "imagenet_*.jpg")
        ]
    )


def tiles(count: int, side: int) -> Tensor:
    """Pieces of 48 pixels of photographs, all the pieces of one before those of the next, (count,
    3, side, side).
    """
    across = SIDE // TILE
    images = photographs(math.ceil(count / across**2))[:, :, : across * TILE, : across * TILE]
    pieces = (
        images.unfold(2, TILE, TILE)
        .unfold(3, TILE, TILE)
        .permute(0, 2, 3, 1, 4, 5)
        .reshape(-1, 3, TILE, TILE)
    )
    return torch.nn.functional.interpolate(pieces[:count], size=(side, side), mode="area")


def sentences(count: int) -> list[str]:
    """Sentences of people, from four sources in turn."""
    sources = [_snippets(name) for name in SNIPPETS]
    return [sentence for together in zip(*sources, strict=False) for sentence in together][:count]


def pages(count: int) -> Tensor:
    """Pages of newspaper text, each upright and turned to the left by 90, 180 and 270 degrees:
    (count, 3, 224, 224).
    """
    turned = (page.rotate(angle) for page in _pages() for angle in (0, 90, 180, 270))
    return torch.stack([_tensor(_middle(page)) for page in itertools.islice(turned, count)])


def _pages(side: int = 640) -> Iterator[Image.Image]:
    text = _snippets("nytEditorialSnippets")
    font = ImageFont.load_default(20)
    for start in range(0, len(text), 30):
        lines = textwrap.wrap(" ".join(text[start : start + 30]), 58)[:26]
        page = Image.new("RGB", (side, side), "white")
        ImageDraw.Draw(page).multiline_text(
            (20, 15), "\n".join(lines), fill="black", font=font, spacing=4
        )
        yield page


@cache
def _snippets(name: str) -> list[str]:
    """Lines of number, rating and text."""
    with tarfile.open(file("vaderSentiment", "hutto_ICWSM_2014.tar.gz")) as archive:
        member = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
        if member is None:
            raise FileNotFoundError(name)
        lines = io.TextIOWrapper(member, encoding="latin-1").read().splitlines()
    return [line.split("\t")[2] for line in lines if line.count("\t") >= 2]


def _by_number(folder: Path, pattern: str) -> list[Path]:
    """Files in the order of their numbers, which have one or two digits."""
    return sorted(
        folder.rglob(pattern),
        key=lambda path: [int(part) for part in path.stem.split("_") if part.isdigit()],
    )


def _middle(image: Image.Image) -> Image.Image:
    """Scale the shorter side to 256 and cut out the middle."""
    scale = 256 / min(image.size)
    width, height = (round(scale * side) for side in image.size)
    left, top = (width - SIDE) // 2, (height - SIDE) // 2
    return image.resize((width, height), Image.Resampling.BILINEAR).crop(
        (left, top, left + SIDE, top + SIDE)
    )


def _tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
