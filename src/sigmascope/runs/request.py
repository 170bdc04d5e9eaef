"""What is asked for: which networks, on which data, how. A folder of runs belongs to one request."""

from __future__ import annotations

import hashlib
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from sigmascope.capture.activations import chosen_kinds
from sigmascope.checks import options_from
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.options import Options
from sigmascope.store import encode

__all__ = ["Request", "Selection", "Shard", "differences", "request_for", "unlike"]

T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """Which data; see `sigmascope.catalog.data`."""

    name: str
    root: str | None = None
    split: str = "test"
    limit: int | None = None
    batch_size: int = 512


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        names: of the networks, as the catalog has them.
        weights: "default", "none" for random ones, or a file.
        data: on which they run.
        options: how they are measured; its seed is also that of the data and of random weights.
        files: name -> digest, of the files that the networks and weights are read from.
    """

    names: tuple[str, ...]
    weights: str
    data: Selection
    options: Options
    files: dict[str, str]


@dataclass(frozen=True)
class Shard:
    """Every `count`-th item, from the `index`-th on, counted from 1.

    >>> Shard(2, 3).of("abcdefg")
    ('b', 'e')
    """

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InputError(
                f"there is no shard {self.index} of {self.count}. Count from 1 to the number "
                "of shards."
            )

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items of this shard; those of all shards together are all items, each once."""
        return tuple(items[self.index - 1 :: self.count])


def request_for(
    names: Sequence[str],
    data: Selection,
    *,
    weights: str = "default",
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Check what is asked for.

    Args:
        names: of the networks, each once.
        data: on which they run.
        weights: "default", "none" for random ones, or a file, which fits one network only.
        options: keyword -> value, those of `sigmascope.signature` that concern the result.

    Raises:
        OptionError, InputError, InputTypeError: naming what is wrong.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputTypeError(
            "names is no list of names. Pass a list such as ['torchvision/resnet50']."
        )
    if not names:
        raise InputError("there are no names of networks. Pass at least one.")
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"{name} is named {times} times. Name it once.")
    if weights not in ("default", "none"):
        _check_file(weights, len(names))
    return Request(tuple(names), weights, data, _options(options or {}), _digests(names, weights))


def _check_file(weights: str, networks: int) -> None:
    if networks > 1:
        raise InputError(
            f"the weights of {weights} cannot fit {networks} networks. Measure one network, "
            "or use their own."
        )
    if not Path(weights).is_file():
        raise InputError(
            f"weights={weights!r} is no file. Pass 'default', 'none' or a file of weights."
        )


def _options(given: Mapping[str, Any]) -> Options:
    if callable(given.get("pool")):
        raise OptionError(
            "pool is a function, which a folder of runs cannot remember. Pass a name, or "
            "call signature()."
        )
    options = options_from(Options, given)
    chosen_kinds(options.activations)
    return options


def _digests(names: Sequence[str], weights: str) -> dict[str, str]:
    """Digest the files that a request names, so that it is another one when they change."""
    paths = [weights] if weights not in ("default", "none") else []
    paths += [name.removeprefix("onnx:") for name in names if name.startswith("onnx:")]
    paths += [
        name.removeprefix("py:").rpartition(":")[0] for name in names if name.startswith("py:")
    ]
    return {path: _digest(path) for path in dict.fromkeys(paths) if Path(path).is_file()}


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def differences(there: Request, here: Request) -> list[str]:
    """Name what differs between the request that a folder belongs to and another one."""
    old, new = (cast(dict[str, Any], encode(one)) for one in (there, here))
    before, now = set(old.pop("names")), set(new.pop("names"))
    sides = {"there": before - now, "here": now - before}
    named = [f"{', '.join(sorted(names))} only {side}" for side, names in sides.items() if names]
    if not named and there.names != here.names:
        named = ["the networks come in another order"]
    return named + list(unlike(old, new))


def unlike(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Name what differs between two descriptions, also inside dicts; what is missing counts as None.

    >>> list(unlike({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2}))
    ['a.b is 1 there and 3 here']
    """
    for key in sorted(old.keys() | new.keys()):
        one, other = old.get(key), new.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from unlike(one, other, f"{prefix}{key}.")
        elif one != other:
            yield f"{prefix}{key} is {reprlib.repr(one)} there and {reprlib.repr(other)} here"
