"""Stored results of the experiments, and what they run on: networks of the zoo and CIFAR-10."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import torch
from torch import nn

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.embedded import embedded_images
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.errors import InputError, OptionError
from sigmascope.measure.progress import progress_bar
from sigmascope.stitching import StitchData, read_data
from sigmascope.store import check_identity, claim_beside, decode, encode, read_json, write_json
from sigmascope_papers.setting import DATA, Setting

VERSION = 1
SMOKE_IMAGES = 8
"""Test images of a smoke run; it trains on as many others."""


class Saved(Protocol):
    """A result that can write itself to a file."""

    def save(self, path: Path, /) -> object:
        """Write a file."""


Result = TypeVar("Result", bound=Saved)
Row = TypeVar("Row")


class Kept:
    """A dataclass of results stored as one JSON file; `kind` identifies such files."""

    kind: ClassVar[str]

    def save(self, path: Path, /) -> None:
        """Write a file; an older one is replaced as a whole or not at all."""
        write_json(path, self.kind, VERSION, encode(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; raise FileFormatError if it is anything else."""
        return decode(cls, read_json(path, cls.kind, VERSION), str(path))


def kept_place(setting: Setting, path: str) -> Path | None:
    """Return the file of a result in `results/` or the output directory; None to keep nothing."""
    if not setting.ours or setting.networks:
        about = "certain networks" if setting.ours else "networks"
        options = "--network" if setting.ours else "--weights and --data"
        raise InputError(f"this item is about {about} of the zoo only. Leave out {options}.")
    if setting.from_scratch:
        return setting.keep and setting.keep / path
    place = setting.results / path
    if not place.is_file():
        raise InputError(
            f"{place} is missing. Compute it with --from-scratch, which takes hours without a GPU, "
            "or run the same experiment in a tiny size with --smoke."
        )
    return place


def read_or_make(
    setting: Setting,
    path: str,
    load: Callable[[Path], Result],
    asked: Mapping[str, object],
    make: Callable[[], Result],
) -> Result:
    """Return the stored result at a path, or make and keep it; `asked` are fields it must have."""

    def begin() -> Callable[[str, Result | None], Result]:
        return lambda part, old: make()

    return resume(setting, path, load, asked, parts=[path], done=lambda _: [path], begin=begin)


def resume(
    setting: Setting,
    path: str,
    load: Callable[[Path], Result],
    asked: Mapping[str, object],
    *,
    parts: Sequence[str],
    done: Callable[[Result], Collection[str]],
    begin: Callable[[], Callable[[str, Result | None], Result]],
) -> Result:
    """Return the stored result at a path; missing parts of it are run, and each is kept at once.

    Args:
        setting: where results come from.
        path: the directory and name of the file.
        load: reads a file.
        asked: field -> the value that a stored result must have.
        parts: the names of all parts.
        done: the names of those that a result has.
        begin: prepares the work and returns what runs a part and appends it to a result.

    Raises:
        ResumeError: the result is of another experiment, or another process works on it.
        InputError: parts are missing and not to be run.
        FileFormatError: the file is damaged, of another kind or newer.
    """
    place = kept_place(setting, path)
    # without a lock for the stored results: their directory may be read-only
    with claim_beside(place) if place and setting.from_scratch else nullcontext():
        found = load(place) if place is not None and place.is_file() else None
        if found is not None:
            check_identity(str(place), {name: getattr(found, name) for name in asked}, dict(asked))
        left = [part for part in parts if found is None or part not in done(found)]
        if left and not setting.from_scratch:
            raise InputError(
                f"{place} lacks {', '.join(left)}. Restore the file from the repository."
            )
        run: Any = begin() if left else None
        with progress_bar(path, len(left), shown=setting.progress) as advance:
            for part in left:
                found = run(part, found)
                if place is not None:
                    found.save(place)
                advance()
    if found is None:
        raise InputError(f"{path}: expected at least one part, got none.")
    return found


def row_of(kind: type[Row], result: object, **own: Any) -> Row:
    """Return a row with the fields that it shares with a result, and its own."""
    names = [one.name for one in fields(kind) if one.name not in own]  # type: ignore[arg-type]
    return kind(**{name: getattr(result, name) for name in names}, **own)


def zoo_name(network: str, seed: int) -> str:
    """Return the name of a network in the catalog, such as sigmascope/resnet20:0."""
    return f"sigmascope/{network}:{seed}"


def member(setting: Setting, network: str, seed: int) -> Model:
    """Return a trained network; in a smoke run an untrained one if the zoo has no weights."""
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
    """Move a network; channels_last on a GPU, which is faster for convolutions."""
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
    own: dict[str, Any] = {"root": setting.data_root, "transform": like.transform}
    return data(DATA, batch_size=batch, limit=images, **own)


def samples_of(setting: Setting, like: Model) -> StitchData:
    """Return all images to train and test on, flipped and shifted in training."""
    if setting.smoke:
        images, labels = embedded_images()
        inputs = like.transform(images) if like.transform else images
        first, second = (slice(at, at + SMOKE_IMAGES) for at in (0, SMOKE_IMAGES))
        train, test = ((inputs[some], labels[some]) for some in (first, second))
        return StitchData(train, test, augment="flip-shift")
    own: dict[str, Any] = {"root": setting.data_root, "transform": like.transform}
    return read_data(
        *(data(DATA, split=one, **own) for one in ("train", "test")), augment="flip-shift"
    )
