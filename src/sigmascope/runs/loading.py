"""Signatures read back from files and folders of runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.measure.signature import Signature, load
from sigmascope.runs.folder import (
    MANIFEST,
    facts_of,
    failure_beside,
    kind_of,
    place_of,
    read_manifest,
)
from sigmascope.runs.outcome import Facts, Failure, read_record
from sigmascope.runs.request import Request
from sigmascope.store import decode, read_json
from sigmascope.store.files import Location

__all__ = ["Run", "Runs", "load_runs", "read_runs"]

# One signature, or the several that `sigmascope show --json` prints.
ONE, SEVERAL, VERSION = "signature", "signatures", 1
# What lies beside signatures, and is no surprise where a shell names all files of a folder.
COMPANIONS = ("runs", "facts", "failure", "journal")


@dataclass(frozen=True)
class Run:
    """A signature, its file, and what is known beside it.

    Attributes:
        signature: itself.
        path: of its file.
        facts: that lie beside it, where there are some.
        data: the name of its data, where a manifest says it.
    """

    signature: Signature
    path: Path
    facts: Facts | None
    data: str | None = None


@dataclass(frozen=True)
class Runs:
    """What was found.

    Attributes:
        runs: in the order of the paths; those of a folder as its manifest names them.
        notes: what was ignored, and what a folder lacks.
        missing: network -> why a folder lacks it.
    """

    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def signatures(self) -> list[Signature]:
        """The signatures alone."""
        return [run.signature for run in self.runs]


def load_runs(paths: Sequence[Location]) -> list[Signature]:
    """Read the signatures of files and folders of runs; what is ignored is told in a warning.

    Raises:
        FileNotFoundError: no such file or folder.
        FileFormatError: a signature, a manifest or facts that are damaged or newer.
        InputError: there is no signature.
    """
    found = read_runs(paths)
    for note in found.notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return found.signatures


def read_runs(paths: Sequence[Location]) -> Runs:
    """Read signatures with the facts that lie beside them.

    Args:
        paths: files of signatures, also what `sigmascope show --json` prints; folders of runs;
            folders with either of these in them. A file that is named twice is read once. Files of
            other programs are ignored with a note, and so is a signature that was to be measured
            again, where that failed.

    Raises:
        FileNotFoundError: no such file or folder.
        FileFormatError: a signature, a manifest or facts that are damaged or newer.
        InputError: there is no signature.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise InputTypeError("paths is a single path. Pass a list of files and folders.")
    search = _Search()
    for path in map(Path, paths):
        search.look_into(path)
    found = tuple(run for runs in search.runs.values() for run in runs)
    if not found:
        told = "".join(f" {note[0].upper()}{note[1:]}." for note in search.notes[:3])
        raise InputError(
            f"there is no signature in {', '.join(map(str, paths)) or 'no path'}.{told} "
            "Measure one first."
        )
    return Runs(found, tuple(search.notes), search.missing)


@dataclass
class _Search:
    """What was found so far; the runs by the real path of their file."""

    runs: dict[str, list[Run]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def look_into(self, path: Path, depth: int = 0) -> None:
        """Read a file, what a manifest names, or the files of a folder."""
        if not path.is_dir():
            path.stat()  # raises where there is nothing
            self._read(path)
        elif manifest := read_manifest(path):
            self._read_folder(path, manifest.request)
        else:
            for entry in sorted(path.iterdir()):
                if entry.is_file() and entry.suffix == ".json":
                    self._read(entry)
                elif entry.is_dir() and depth == 0 and (entry / MANIFEST).exists():
                    self.look_into(entry, depth + 1)

    def _read_folder(self, folder: Path, request: Request) -> None:
        lacking = []
        for name in request.names:
            file = place_of(folder, name).signature
            failure = _failure(file)
            if file.exists() and failure is None:
                self._read(file, request.data.name)
                continue
            lacking.append(
                f"{folder} has no signature of {name}: "
                + ("it failed" if failure else "it is not finished")
            )
            self.missing[name] = failure or "it is not finished"
        self.notes += lacking

    def _read(self, path: Path, data: str | None = None) -> None:
        key = os.path.realpath(path)
        if key in self.runs or not self._is_wanted(path):
            return
        if kind_of(path) == SEVERAL:
            content = read_json(path, SEVERAL, VERSION)
            every = decode(tuple[Signature, ...], content, f"{path}: content")
            self.runs[key] = [Run(one, path, None) for one in every]
        else:
            facts = facts_of(path)
            self.runs[key] = [
                Run(load(path), path, read_record(Facts, facts) if facts.is_file() else None, data)
            ]

    def _is_wanted(self, path: Path) -> bool:
        if not path.is_file():
            self.notes.append(f"ignored {path}: a device or a pipe")
            return False
        kind = kind_of(path)
        if kind == ONE and _failure(path) is not None:
            self.notes.append(
                f"ignored {path}: measuring it again failed, see {failure_beside(path).name}"
            )
            return False
        if kind not in (ONE, SEVERAL, *COMPANIONS):
            self.notes.append(
                f"ignored {path}: " + (f"of kind {kind}" if kind else "not written by sigmascope")
            )
        return kind in (ONE, SEVERAL)


def _failure(signature: Path) -> str | None:
    """Return why a network failed when it was last measured, or None."""
    path = failure_beside(signature)
    if not path.is_file() or kind_of(path) != "failure":
        return None
    try:
        return read_record(Failure, path).message
    except FileFormatError:  # that it failed is enough to know
        return "it failed"
