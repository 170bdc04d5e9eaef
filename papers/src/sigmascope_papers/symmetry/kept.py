"""Stored results of the experiments, and what they run on: networks of the zoo and CIFAR-10."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import nn

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.errors import InputError, OptionError
from sigmascope.stitching.data import StitchData, read_data
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope_papers.setting import DATA, Setting

__all__ = [
    "Kept",
    "best_device",
    "images_of",
    "kept_place",
    "machine_of",
    "member",
    "read_kept",
    "row_of",
    "samples_of",
    "to_device",
    "zoo_name",
]

Result = TypeVar("Result")
VERSION = 1
SMOKE_IMAGES = 16
"""Test images of a smoke run; it trains on as many others."""


class Kept:
    """A dataclass of results stored as one JSON file; `kind` identifies such files."""

    kind: ClassVar[str]

    def save(self, path: Path) -> None:
        """Write a file; an older one is replaced as a whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.kind, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            FileFormatError: truncated, not such a file, or newer than this version.
        """
        return decode(cls, read_json(path, cls.kind, VERSION), str(path))


def kept_place(setting: Setting, folder: str, name: str) -> Path | None:
    """Return the file of a result, in `results/` or the output directory; None to keep nothing.

    Raises:
        InputError: the setting asks for other networks; or the file is missing and is not to be
            computed.
    """
    if not setting.ours:
        raise InputError(
            "this item is about networks of the zoo only. Leave out --weights and --data."
        )
    if setting.networks:
        raise InputError(
            "this item is about certain networks of the zoo only. Leave out --network."
        )
    if setting.from_scratch:
        return setting.keep and setting.keep / folder / name
    place = setting.results / folder / name
    if not place.is_file():
        raise InputError(
            f"{place} is missing. Compute it with --from-scratch, which takes hours without a GPU, "
            "or run the same experiment in a tiny size with --smoke."
        )
    return place


def read_kept(
    load: Callable[[Path], Result], place: Path | None, asked: Mapping[str, object]
) -> Result | None:
    """Return a stored result; None if there is no file.

    Raises:
        InputError: the file holds another experiment than the one asked for.
        FileFormatError: the file is damaged, of another kind or newer.
    """
    if place is None or not place.is_file():
        return None
    found = load(place)
    for name, wanted in asked.items():
        if (given := getattr(found, name)) != wanted:
            raise InputError(
                f"{place} holds another experiment: {name} is {given!r:.200}, expected "
                f"{wanted!r:.200}. Restore the file from the repository, or remove it."
            )
    return found


def row_of(kind: type[Result], result: object, **own: Any) -> Result:
    """Return the fields of a result that a stored row has, with the row's own ones."""
    names = [one.name for one in fields(kind) if one.name not in own]  # type: ignore[arg-type]
    return kind(**{name: getattr(result, name) for name in names}, **own)


def zoo_name(network: str, seed: int) -> str:
    """Return the name of a network in the catalog.

    >>> zoo_name("resnet20", 0)
    'sigmascope/resnet20:0'
    """
    return f"sigmascope/{network}:{seed}"


def member(setting: Setting, network: str, seed: int) -> Model:
    """Return a trained network; in a smoke run an untrained one if the zoo has no weights.

    Raises:
        InputError: the zoo has no weights of it.
    """
    name = zoo_name(network, seed)
    try:
        return model(name)
    except (InputError, OptionError) as error:
        if not setting.smoke:
            raise InputError(f"{error} zoo/README.md says how it is trained.") from error
        return model(f"{name}-init")


def best_device() -> torch.device:
    """Return a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def to_device(network: nn.Module, device: torch.device) -> nn.Module:
    """Move a network; on a GPU its tensors are channels_last, which is faster for convolutions."""
    network.to(device)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def machine_of(device: torch.device) -> str:
    """Return the name of the device that results record."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def images_of(setting: Setting, like: Model, *, images: int, batch: int) -> Data:
    """Return test images in batches, transformed for a network."""
    if setting.smoke:
        size = SMOKE_IMAGES
        return data("embedded", limit=size, batch_size=size // 2, transform=like.transform)
    return data(
        DATA, root=setting.data_root, batch_size=batch, limit=images, transform=like.transform
    )


def samples_of(setting: Setting, like: Model) -> StitchData:
    """Return all images to train and test on, flipped and shifted in training."""
    if setting.smoke:
        images, labels = embedded_images()
        inputs = like.transform(images) if like.transform else images
        first, second = (
            (inputs[at:][:SMOKE_IMAGES], labels[at:][:SMOKE_IMAGES]) for at in (0, SMOKE_IMAGES)
        )
        return StitchData(first, second, augment="flip-shift")
    train, test = (
        data(DATA, root=setting.data_root, split=split, transform=like.transform)
        for split in ("train", "test")
    )
    return read_data(train, test, augment="flip-shift")
