"""Runs that can be interrupted and resumed: their identity, their files and the lock on them.

The identity of a run is the plain values that its result depends on. A run continues only what has
the same identity, and only while no other process works on it.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.checks import OLD_NAMES
from sigmascope.choices import OLD_VALUES
from sigmascope.errors import ResumeError
from sigmascope.store.files import Location

__all__ = ["KeptRun", "check_identity", "claim", "differences", "lock"]

ABSENT = object()
# Windows has no such flag; creating a link needs special rights there.
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


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

    def discard_partial(self) -> None:
        """Remove what a finished run no longer needs."""
        self.partial.unlink(missing_ok=True)


def differences(there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return one phrase per value in which two identities differ, sorted by name.

    Option names and values of earlier versions count as their current ones.

    >>> differences({"a": {"b": 1}, "names": ["x", "y"]}, {"a": {"b": 3}, "names": ["y"]})
    ['a.b is 1 there and 3 here', 'names: x only there']
    """
    there, here = _current(there), _current(here)
    phrases = []
    for key in sorted(there.keys() | here.keys()):
        name, old, new = f"{prefix}{key}", there.get(key, ABSENT), here.get(key, ABSENT)
        if isinstance(old, dict) and isinstance(new, dict):
            phrases += differences(old, new, f"{name}.")
        elif _are_names(old) and _are_names(new) and old != new:
            phrases += _unequal_names(name, old, new)
        elif old != new:
            phrases.append(f"{name} is {_shown(old)} there and {_shown(new)} here")
    return phrases


def check_identity(source: Location, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise unless what `source` holds belongs to this run.

    Args:
        source: the file or directory, for the message.
        there: the identity it was written with.
        here: the identity of this run.

    Raises:
        ResumeError: the identities differ; the message lists the differences.
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
        wait: whether to wait for the process that holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, free = _open_locked(path, wait)
    try:
        yield free
    finally:
        if free:
            with suppress(OSError):  # Windows does not remove an open file
                path.unlink()
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed or the process dies; return whether it was free.

    Some network file systems have no locks. There the file always counts as free, so that a single
    run works.
    """
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=wait)
    except OSError:
        return True


def _open_locked(path: Path, wait: bool) -> tuple[int, bool]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)
        try:
            free = lock(descriptor, wait=wait)
            # the previous holder may have removed the file between opening and locking it
            if not free or _is_at(descriptor, path):
                return descriptor, free
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _current(value: Any) -> Any:
    """Return an identity in the words of this version."""
    if isinstance(value, Mapping):
        return {OLD_NAMES.get(name, name): _current(item) for name, item in value.items()}
    return OLD_VALUES.get(value, value) if isinstance(value, str) else value


def _are_names(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _unequal_names(name: str, old: Any, new: Any) -> list[str]:
    sides = {"there": set(old) - set(new), "here": set(new) - set(old)}
    phrases = [
        f"{name}: {', '.join(sorted(only))} only {side}" for side, only in sides.items() if only
    ]
    return phrases or [f"{name}: in another order"]


def _shown(value: object) -> str:
    return "absent" if value is ABSENT else reprlib.repr(value)
