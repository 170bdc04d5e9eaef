"""Runs that can be interrupted and resumed: their identity, their files and the lock on them.

The identity of a run is the plain values that its result depends on. A run continues only what has
the same identity, and only while no other process works on it.
"""

from __future__ import annotations

import errno
import os
import reprlib
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.checks import OLD_NAMES, renamed
from sigmascope.choices import OLD_VALUES
from sigmascope.errors import ResumeError
from sigmascope.store.codec import encode
from sigmascope.store.files import NO_LINKS, Location

ABSENT = object()
LATER = "digests"  # a part of identities that earlier versions did not write
WITH_OLD_VALUES = frozenset({"pool", "degenerate"})  # the options that had a value of OLD_VALUES
PATIENCE = 2.0  # in seconds; who waits longer for a lock is told


@dataclass(frozen=True)
class KeptRun:
    """The files of a run that can be interrupted.

    Attributes:
        finished: the result; written last and atomically, so it is complete wherever it exists.
        partial: what an interrupted run continues from.
        lock: exists while a process works on the run.
    """

    finished: Path
    partial: Path
    lock: Path

    def claim(self) -> AbstractContextManager[bool]:
        """Return a context that reserves the run for this process; see `claim`."""
        return claim(self.lock)


def differences(there: object, here: object) -> list[str]:
    """Return one phrase per value in which two identities differ, sorted by name.

    Args:
        there: an identity: a dict or a dataclass, as `encode` takes them.
        here: another one. Option names and values of earlier versions count as their current ones.

    >>> differences({"a": {"b": 1}, "names": ["x", "y"]}, {"a": {"b": 3}, "names": ["y"]})
    ['a.b is 1 there and 3 here', 'names: x only there']
    """
    return list(_compared("", _current(encode(there)), _current(encode(here))))


def check_identity(source: Location, there: object, here: object) -> None:
    """Raise `ResumeError`, listing the differences, unless `source` belongs to this run.

    Args:
        source: the file or directory, for the message.
        there: the identity it was written with; see `differences`.
        here: the identity of this run.
    """
    told = "; ".join(differences(there, here))
    if told:
        raise ResumeError(
            f"{source} belongs to another run: {told}. Use the same settings, choose another path, "
            "or remove it first."
        )


@contextmanager
def claim(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Reserve a lock file until the block ends or the process dies; yield whether it was free.

    Args:
        path: a file used for nothing else. It is created, and removed when the block ends. A
            symbolic link is refused.
        wait: whether to wait for the process that holds it; a long wait is told by a warning.

    Raises:
        OSError: it cannot be created, or is a symbolic link.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = _opened(path)
        try:
            free = lock(descriptor) or (wait and _waited(descriptor, path))
            if free and not _is_at(descriptor, path):
                continue  # its holder removed the file after it was opened here
            try:
                yield free
            finally:
                if free:
                    with suppress(OSError):  # Windows does not remove an open file
                        path.unlink()
            return
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        told = "is a symbolic link, which no lock may be; remove it"
        raise OSError(error.errno, told, str(path)) from error


def _waited(descriptor: int, path: Path) -> bool:
    """Wait for a lock; say so, once that has taken a while."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(0.05)
        if lock(descriptor):
            return True
    warnings.warn(
        f"waiting for another process, which has locked {path}. If none is at work there, stop "
        "this one and remove that file",
        UserWarning,
        stacklevel=2,
    )
    return lock(descriptor, wait=True)


@contextmanager
def claim_beside(path: Location) -> Iterator[None]:
    """Reserve a file for this process, by a hidden lock file beside it, until the block ends.

    Raises:
        ResumeError: another run has reserved it.
    """
    file = Path(path)
    with claim(file.parent / f".{file.name}.lock") as free:
        if not free:
            raise ResumeError(in_use(path))
        yield


def in_use(path: Location) -> str:
    """Return the message about a file that another run has reserved."""
    return f"{path} is open in another run. Wait for it to end, or choose another file."


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed or the process dies; return whether it was free.

    Some network file systems have no locks. There every file counts as free, so that a single run
    works.
    """
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=wait)
    except OSError:
        return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _current(identity: Any) -> Any:
    """Return an identity in the words of this version; only options are translated, no user data.

    Options are at the top level, below "options" or "settings", and below each of "stitches".
    """
    if not isinstance(identity, dict):
        return identity
    current = _current_options(identity)
    for name in ("options", "settings"):
        current |= {name: _current_options(current[name])} if name in current else {}
    stitches = current.get("stitches")
    if isinstance(stitches, dict):
        current["stitches"] = {key: _current_options(one) for key, one in stitches.items()}
    return current


def _current_options(options: Any) -> Any:
    if not isinstance(options, dict):
        return options
    current = renamed(options, OLD_NAMES.values())
    for name in current.keys() & WITH_OLD_VALUES:
        if isinstance(current[name], str):
            current[name] = OLD_VALUES.get(current[name], current[name])
    return current


def _compared(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys() - ({LATER} - old.keys())):
            within = f"{name}.{key}" if name else key
            yield from _compared(within, old.get(key, ABSENT), new.get(key, ABSENT))
    elif old == new:
        return
    elif _are(dict, old, new) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _compared(f"{name}[{index}]", one, other)
    elif _are(str, old, new) and {*old} != {*new}:
        for side, only in (("there", {*old} - {*new}), ("here", {*new} - {*old})):
            if only:
                yield f"{name}: {', '.join(sorted(only))} only {side}"
    elif _are(str, old, new):
        yield f"{name}: in another order"
    else:
        shown = ["absent" if value is ABSENT else reprlib.repr(value) for value in (old, new)]
        yield f"{name or 'the identity'} is {shown[0]} there and {shown[1]} here"


def _are(kind: type, *lists: object) -> bool:
    return all(isinstance(one, list) and all(isinstance(x, kind) for x in one) for one in lists)
