"""Where the results of experiments are kept, and what an experiment runs on: networks of the zoo,
and CIFAR-10.

A folder of results looks the same in the zoo and where they are measured again: `zoo/stitches` and
`OUT/stitches`.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import nn

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.errors import InputError, OptionError
from sigmascope.stitching import StitchData, read_data
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope_papers.setting import DATA, Setting

__all__ = [
    "Kept",
    "best_device",
    "fastest",
    "images_of",
    "kept_place",
    "machine_of",
    "member",
    "samples_of",
]

VERSION = 1
SMOKE_IMAGES = 64
"""Of a test of the machinery; as many more to train on."""


class Kept:
    """A dataclass of results that is kept as one file of JSON; `kind` tells such files apart."""

    kind: ClassVar[str]

    def save(self, path: Path) -> None:
        """Write a file, which replaces an older one at once or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.kind, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            FileFormatError: truncated, foreign, newer than this version, or hostile.
        """
        return decode(cls, read_json(path, cls.kind, VERSION), str(path))


def kept_place(setting: Setting, folder: str, name: str) -> Path | None:
    """Return the file of a result, in the zoo or among those that are measured; None where nothing
    is kept.

    Raises:
        InputError: other networks, or some of a cast, are asked for; or the file is not in the zoo,
            and is not to be made.
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
            f"{place} is missing. Measure it again with --from-scratch, which takes hours without a "
            "GPU, or try the same experiment in a tiny size with --smoke."
        )
    return place


def member(setting: Setting, network: str, seed: int) -> Model:
    """Return a trained network; to try the machinery, an untrained one where the zoo has no weights.

    Raises:
        InputError, OptionError: the zoo has no weights of it.
    """
    name = f"sigmascope/{network}:{seed}"
    try:
        return model(name)
    except (InputError, OptionError) as error:
        if not setting.smoke:
            raise InputError(f"{error} zoo/README.md says how it is trained.") from error
        return model(f"{name}-init")


def best_device() -> torch.device:
    """Return a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fastest(network: nn.Module, device: torch.device) -> nn.Module:
    """Move a network; on a GPU, images are laid out there as its convolutions like them best,
    channels last.
    """
    network.to(device)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def machine_of(device: torch.device) -> str:
    """Return what a result is said to have run on."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def images_of(setting: Setting, like: Model, *, images: int, batch: int) -> Data:
    """Return test images in batches, for networks that take what one of them takes."""
    if setting.smoke:
        return data(
            "embedded", limit=SMOKE_IMAGES, batch_size=SMOKE_IMAGES // 2, transform=like.transform
        )
    return data(
        DATA, root=setting.data_root, batch_size=batch, limit=images, transform=like.transform
    )


def samples_of(setting: Setting, like: Model) -> StitchData:
    """Return all images to train and to test on, flipped and shifted in training."""
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
