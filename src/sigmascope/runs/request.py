"""What is requested: which networks, on which data, with which options."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sigmascope.capture.activations import chosen_kinds
from sigmascope.checks import options_from
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.options import Options

T = TypeVar("T")
GIVEN = "given"  # the weights of networks that a program has handed over


@dataclass(frozen=True)
class Selection:
    """Which data to use; see `sigmascope.catalog.data`.

    >>> from sigmascope.runs import measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> [outcome.signature.samples for outcome in measure_runs(request)]
    [64]
    """

    name: str
    root: str | None = None
    split: str = "test"
    limit: int | None = None
    batch_size: int = 512


@dataclass(frozen=True)
class Request:
    """What is requested. A directory of runs belongs to one request.

    Attributes:
        names: the networks, by their names in the catalog.
        weights: "default", "none" for random weights, a file, or "given" for networks that a
            program has handed over.
        data: what the networks run on.
        options: how they are measured; the seed is also that of the data and of random weights.
        files: path -> digest, for the files that networks and weights are read from.

    >>> from sigmascope.runs import Selection, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded"), options={"seed": 1})
    >>> request.names, request.data.name, request.options.seed
    (('sigmascope/resnet20',), 'embedded', 1)
    """

    names: tuple[str, ...]
    weights: str
    data: Selection
    options: Options
    files: dict[str, str]


@dataclass(frozen=True)
class Shard:
    """Every `count`-th item, starting with the `index`-th, counted from 1.

    >>> Shard(2, 3).of("abcdefg")
    ('b', 'e')
    """

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InputError(
                f"the index of a shard must be from 1 to the number of shards, got {self.index} "
                f"of {self.count}."
            )

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items of this shard; every item is in exactly one shard."""
        return tuple(items[self.index - 1 :: self.count])


def request_for(
    names: Sequence[str],
    data: Selection,
    *,
    weights: str = "default",
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Return a request, after checking it.

    Args:
        names: the networks, each once.
        data: what they run on.
        weights: "default", "none" for random weights, or a file, for a single network.
        options: keyword -> value, those of `sigmascope.signature` that affect the result.

    Raises:
        OptionError, InputError, InputTypeError: naming what is wrong.

    >>> request_for(["sigmascope/resnet20"], Selection("embedded", limit=64)).data.limit
    64
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputTypeError("names must be a list of names, such as ['torchvision/resnet50'].")
    if not names:
        raise InputError("names is empty. Pass the name of at least one network.")
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"{name} is listed {times} times. List it once.")
    if weights not in ("default", "none"):
        _check_file(weights, len(names))
    return Request(tuple(names), weights, data, _options(options or {}), digests_of(names, weights))


def digests_of(names: Sequence[str], weights: str = "default") -> dict[str, str]:
    """Return path -> digest of the files that networks and weights are read from."""
    paths = [weights] if weights not in ("default", "none") else []
    paths += [name.removeprefix("onnx:") for name in names if name.startswith("onnx:")]
    paths += [name[3:].rpartition(":")[0] for name in names if name.startswith("py:")]
    found = {path: _digest(path) for path in dict.fromkeys(paths)}
    return {path: digest for path, digest in found.items() if digest}


def check_storable(request: Request) -> None:
    """Raise an InputError if a name is not valid Unicode, which the files of a run are."""
    data = request.data
    for text in (*request.names, request.weights, data.name, data.root or "", data.split):
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode(errors="backslashreplace").decode()
            raise InputError(
                f"{shown} is not valid Unicode, so that no file can say what was measured. "
                "Rename the file, or go to its directory and pass a relative path."
            ) from None


def _digest(path: str) -> str | None:
    """Return the digest of a file; None if it cannot be read, as its network will say."""
    try:
        if not Path(path).is_file():  # opening a pipe would wait forever
            return None
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # too long a name, no permission, a null character
        return None


def _check_file(weights: str, networks: int) -> None:
    if networks > 1:
        raise InputError(
            f"the weights of {weights} cannot fit {networks} networks. Measure one network, or use "
            "'default' or 'none'."
        )
    if not Path(weights).is_file():
        raise InputError(
            f"weights={weights!r} does not exist. Pass 'default', 'none' or a file of weights."
        )


def _options(given: Mapping[str, Any]) -> Options:
    if callable(given.get("pool")):
        raise OptionError(
            "pool is a function, which a directory of runs cannot store. Pass a name, or call "
            "signature()."
        )
    options = options_from(Options, given)
    chosen_kinds(options.activations)  # whether all names are known
    return options
