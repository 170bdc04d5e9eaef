"""What becomes of a network that is to be measured: a signature with facts, or a failure with its
reason.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sigmascope.errors import SigmascopeError
from sigmascope.measure.signature import Signature
from sigmascope.store import decode, encode, read_json, write_json

__all__ = ["STATES", "Facts", "Failure", "Outcome", "failure_of", "read_record", "write_record"]

STATES = ("measured", "kept", "failed", "busy")
VERSION = 1

T = TypeVar("T", "Facts", "Failure")


@dataclass(frozen=True)
class Facts:
    """What is known of a network beside its signature.

    Attributes:
        name: of the network.
        accuracy: in percent, where it is known.
        parameters: how many numbers it has learned.
        flops, depth: of an example; None where the network does not run on it.
        weights: where they come from.
    """

    name: str
    accuracy: float | None
    parameters: int
    flops: int | None
    depth: int | None
    weights: str


@dataclass(frozen=True)
class Failure:
    """Why a network has no signature.

    Attributes:
        name: of the network.
        error: the class of the error.
        message: what it says, on one line.
        traceback: where it came from.
    """

    name: str
    error: str
    message: str
    traceback: str


@dataclass(frozen=True)
class Outcome:
    """What became of one network.

    Attributes:
        name: of the network.
        state: "measured"; "kept", since the folder had it already; "failed"; or "busy": another
            process is at it.
        signature, facts: where there are some.
        path: the file of the signature, where there is one.
        failure: why there is none.
        seconds: that it took.
    """

    name: str
    state: str
    signature: Signature | None = None
    facts: Facts | None = None
    path: Path | None = None
    failure: Failure | None = None
    seconds: float = 0.0


def failure_of(name: str, error: BaseException) -> Failure:
    """Turn an error into a value; one that was not raised on purpose is named with its class."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    told = (
        text
        if isinstance(error, SigmascopeError) and text
        else f"{kind}: {text}".removesuffix(": ")
    )
    return Failure(name, kind, told, "".join(traceback.format_exception(error)))


def write_record(path: Path, record: Facts | Failure) -> None:
    """Write facts or a failure, atomically."""
    write_json(path, type(record).__name__.lower(), VERSION, encode(record))


def read_record(kind: type[T], path: Path) -> T:
    """Read what `write_record` wrote.

    Raises:
        FileNotFoundError: no such file.
        FileFormatError: damaged, foreign or newer.
    """
    return decode(kind, read_json(path, kind.__name__.lower(), VERSION), f"{path}: content")
