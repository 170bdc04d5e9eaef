"""What becomes of a network to be measured: a signature with facts, or a failure with a reason."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from sigmascope.errors import Interruption, SigmascopeError
from sigmascope.measure.result import Signature
from sigmascope.store import decode, encode, read_json, write_json

VERSION = 1
# In characters; whatever a network says must not fill the memory, or the screen.
LONGEST_MESSAGE, LONGEST_TRACEBACK = 4_000, 40_000
LINES_OF_LOG = 20

T = TypeVar("T", "Facts", "Failure")


@dataclass(frozen=True)
class Facts:
    """What is known about a network beside its signature.

    Attributes:
        name: the network.
        accuracy: in percent, where it is known.
        parameters: the number of parameters.
        flops, depth: for one example input; None if the network does not run on it.
        weights: where they come from.

    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> [outcome] = measure_runs(request)
    >>> outcome.facts.parameters, outcome.facts.accuracy
    (269722, 92.06)
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
        name: the network.
        error: the class of the error.
        message: its text, on one line.
        traceback: where it was raised; of a process that died, what it printed last.
        command: measures the network alone, to try it; "" if there is no such command.

    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet21"], Selection("embedded", limit=64))
    >>> [outcome] = measure_runs(request)
    >>> outcome.failure.error, outcome.failure.message.split(".")[0]
    ('OptionError', 'sigmascope/resnet21 is not in the catalog')
    """

    name: str
    error: str
    message: str
    traceback: str
    command: str = field(default="", metadata={"later": True})

    @property
    def log(self) -> str:
        """The end of the traceback, for eyes."""
        return "\n".join(self.traceback.strip().splitlines()[-LINES_OF_LOG:])


@dataclass(frozen=True)
class Outcome:
    """What became of one network.

    Attributes:
        name: the network.
        state: "measured"; "kept" if the directory already had it; "failed"; "busy" if another
            process is measuring it; or "skipped" if it was not to be measured.
        signature, facts: None unless measured or kept.
        path: the file of the signature, if there is one.
        failure: why there is no signature.
        seconds: the time it took.

    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> [outcome] = measure_runs(request)
    >>> outcome.state, len(outcome.signature.sites), outcome.facts.depth, outcome.path
    ('measured', 19, 19, None)
    """

    name: str
    state: Literal["measured", "kept", "failed", "busy", "skipped"]
    signature: Signature | None = None
    facts: Facts | None = None
    path: Path | None = None
    failure: Failure | None = None
    seconds: float = 0.0


def failure_of(name: str, error: BaseException) -> Failure:
    """Return an error as a value; the message of an unexpected one starts with its class."""
    kind, text = type(error).__name__, " ".join(_text_of(error).split())
    if not isinstance(error, SigmascopeError) or not text:
        text = f"{kind}: {text}".removesuffix(": ")
    return told_failure(name, kind, text, _traceback_of(error))


def told_failure(name: str, kind: str, message: str, traceback: str) -> Failure:
    """Return a failure whose texts can be stored: of bounded length, and in Unicode."""
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]} … ({len(message)} characters)"
    texts = (kind, message, traceback[-LONGEST_TRACEBACK:])
    return Failure(name, *(text.encode(errors="backslashreplace").decode() for text in texts))


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except (KeyboardInterrupt, Interruption):
        raise
    except BaseException:  # the text of an error of a network may be an error itself
        return "its message cannot be shown"


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except (KeyboardInterrupt, Interruption):
        raise
    except BaseException:  # as above
        return "".join(traceback.format_tb(error.__traceback__))


def write_record(path: Path, record: Facts | Failure) -> None:
    """Write facts or a failure, atomically."""
    write_json(path, type(record).__name__.lower(), VERSION, encode(record))


def read_record(kind: type[T], path: Path) -> T:
    """Return what `write_record` wrote.

    Raises:
        FileNotFoundError: no such file.
        FileFormatError: corrupt, not a sigmascope file, or newer than this version.
    """
    return decode(kind, read_json(path, kind.__name__.lower(), VERSION), f"{path}: content")
