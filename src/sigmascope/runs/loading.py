"""Signatures read back from files and folders of runs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.signature import Signature, load
from sigmascope.runs.folder import MANIFEST, place_of, read_manifest
from sigmascope.runs.outcome import Facts, read_record
from sigmascope.store.files import Location

__all__ = ["Run", "Runs", "load_runs", "read_runs"]

# How a document of sigmascope begins. Others are not read any further, whatever their size.
OPENING = re.compile(rb'\s*\{\s*"format"\s*:\s*"sigmascope"\s*,\s*"kind"\s*:\s*"(\w+)"')
LENGTH = 256
# What lies beside signatures, and is no surprise where a shell names all files of a folder.
COMPANIONS = ("runs", "facts", "failure", "journal")


@dataclass(frozen=True)
class Run:
    """A signature, its file, and the facts that lie beside it, where there are some."""

    signature: Signature
    path: Path
    facts: Facts | None


@dataclass(frozen=True)
class Runs:
    """What was found.

    Attributes:
        runs: in the order of the paths; those of a folder as its manifest names them.
        notes: what was ignored, and what a folder lacks.
    """

    runs: tuple[Run, ...]
    notes: tuple[str, ...]

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
        paths: files of signatures, folders of runs, folders with either of these in them. A file that is named twice is read
            once. Files of other programs are ignored with a note.

    Raises:
        FileNotFoundError: no such file or folder.
        FileFormatError: a signature, a manifest or facts that are damaged or newer.
        InputError: there is no signature.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise InputTypeError("paths is a single path. Pass a list of files and folders.")
    runs: dict[str, Run] = {}
    notes: list[str] = []
    for path in map(Path, paths):
        for file in _files(path, notes):
            key = os.path.realpath(file)
            if key not in runs and _is_signature(file, notes):
                runs[key] = _run(file)
    if not runs:
        told = "".join(f" {note[0].upper()}{note[1:]}." for note in notes[:3])
        raise InputError(f"there is no signature in {', '.join(map(str, paths)) or 'no path'}.{told} Measure one first.")
    return Runs(tuple(runs.values()), tuple(notes))


def _files(path: Path, notes: list[str], depth: int = 0) -> Iterator[Path]:
    """Yield the files that may be signatures: one, those of a manifest, or those of a folder."""
    if not path.is_dir():
        path.stat()  # raises where there is nothing
        yield path
        return
    manifest = read_manifest(path)
    if manifest is None:
        yield from _listed(path, notes, depth)
        return
    places = {name: place_of(path, name) for name in manifest.request.names}
    yield from (place.signature for place in places.values() if place.signature.exists())
    for name, place in places.items():
        if not place.signature.exists():
            failed = place.failure is not None and place.failure.exists()
            notes.append(f"{path} has no signature of {name}: " + ("it failed" if failed else "it is not finished"))


def _listed(folder: Path, notes: list[str], depth: int) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_file() and entry.suffix == ".json":
            yield entry
        elif entry.is_dir() and depth == 0 and (entry / MANIFEST).exists():
            yield from _files(entry, notes, depth + 1)


def _is_signature(path: Path, notes: list[str]) -> bool:
    if not path.is_file():
        notes.append(f"ignored {path}: a device or a pipe")
        return False
    with path.open("rb") as file:
        opening = OPENING.match(file.read(LENGTH))
    kind = opening[1].decode() if opening else ""
    if kind != "signature" and kind not in COMPANIONS:
        notes.append(f"ignored {path}: " + (f"of kind {kind}" if kind else "not written by sigmascope"))
    return kind == "signature"


def _run(path: Path) -> Run:
    facts = path.with_name(f"{path.stem}.facts.json")
    return Run(load(path), path, read_record(Facts, facts) if facts.is_file() else None)
