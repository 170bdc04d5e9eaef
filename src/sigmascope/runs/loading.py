"""Signatures read back from files and directories of runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.measure.result import OLDEST, VERSION, Signature, load
from sigmascope.monitoring.track import KIND as TRACK, Track
from sigmascope.runs.folder import MANIFEST, beside, read_manifest, stem_of
from sigmascope.runs.listing import chosen_names, names_in
from sigmascope.runs.outcome import Facts, Failure, read_record
from sigmascope.runs.request import Request
from sigmascope.store import decode, kind_of, read_json
from sigmascope.store.files import Location

# A single signature, or the list that `sigmascope show --json` prints.
SINGLE, SEVERAL = "signature", "signatures"
# What lies beside signatures, and is no surprise where a shell expands `runs/*`.
COMPANIONS = ("runs", "facts", "failure", "journal")
MOST_NOTES = 20  # about networks that one directory lacks


@dataclass(frozen=True)
class Run:
    """A stored signature and what is known about it.

    Attributes:
        signature: the signature.
        path: its file.
        facts: the facts stored beside it, if any.
        data: the name of its data, if a manifest says it.

    >>> import tempfile
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = measured.save(f"{folder}/small.json")
    ...     [run] = sg.runs.read_runs([path]).runs
    >>> run.signature.name, run.path == path, run.facts
    ('small', True, None)
    """

    signature: Signature
    path: Path
    facts: Facts | None
    data: str | None = None


@dataclass(frozen=True)
class Runs:
    """The runs found in files and directories.

    Attributes:
        runs: in the order of the paths; those of a directory in the order of its manifest.
        notes: what was ignored, and what a directory lacks.
        missing: network -> why a directory lacks it.
        failures: network -> its failure, with log and command, of those that failed.
        tracks: file -> the track in it, if those were asked for.

    >>> import tempfile
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = measured.save(f"{folder}/small.json")
    ...     found = sg.runs.read_runs([folder])
    >>> [one.name for one in found.signatures], found.notes, found.missing
    (['small'], (), {})
    """

    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    tracks: dict[Path, Track] = field(default_factory=dict)

    @property
    def signatures(self) -> list[Signature]:
        """The signatures alone."""
        return [run.signature for run in self.runs]


def load_runs(paths: Sequence[Location], *, only: Sequence[str] = ()) -> list[Signature]:
    """Return the signatures that `read_runs` finds, and warn about what is ignored.

    >>> import tempfile
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = measured.save(f"{folder}/small.json")
    ...     [again] = load_runs([path])
    >>> again.name
    'small'
    """
    found = read_runs(paths, only=only)
    for note in found.notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return found.signatures


def read_runs(paths: Sequence[Location], *, tracks: bool = False, only: Sequence[str] = ()) -> Runs:
    """Return the runs in files and directories, with the facts stored beside them.

    Args:
        paths: signature files, also the output of `sigmascope show --json`; directories of runs;
            directories that contain either. A file listed twice is read once. Files of other
            programs are ignored with a note, and so is a signature whose network failed when it was
            measured again.
        tracks: whether to read tracks too; otherwise they are ignored with a note.
        only: patterns of the networks to read, such as "torchvision/*", or parts of their names;
            by default all. Of a directory of runs, no other file is opened.

    Raises:
        FileNotFoundError: no such file or directory.
        FileFormatError: a signature, a manifest or facts are corrupt or newer than this version.
        InputError: there is no signature, nor a track where those are read.

    >>> import tempfile
    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = measured.save(f"{folder}/small.json")
    ...     found = read_runs([folder], only=["sm*"])
    >>> [one.name for one in found.signatures]
    ['small']
    """
    if isinstance(paths, (str, os.PathLike)):
        raise InputTypeError("paths is a single path. Pass a list of files and directories.")
    if isinstance(only, str):
        raise InputTypeError(f"only is a single pattern. Pass a list, such as [{only!r:.80}].")
    search = _Search(tracks=None if not tracks else {}, only=tuple(only))
    for path in map(Path, paths):
        search.look_into(path)
    found = tuple(run for runs in search.runs.values() for run in runs)
    if not found and not search.tracks:
        told = "".join(f" {note[0].upper()}{note[1:]}." for note in search.notes[:3])
        of = f" of {' or '.join(only)}" if only else ""
        raise InputError(
            f"there is no signature{of} in {', '.join(map(str, paths)) or 'no path'}.{told} "
            "Measure one first."
        )
    notes = tuple(search.notes)
    return Runs(found, notes, search.missing, search.failures, search.tracks or {})


def read_several(path: Location) -> list[Signature]:
    """Return the signatures of a file that `sigmascope show --json` printed."""
    content = read_json(path, SEVERAL, VERSION, oldest=OLDEST)
    return list(decode(tuple[Signature, ...], content, f"{path}: content"))


@dataclass
class _Search:
    """What was found so far; runs by the real path of their file, tracks if they are wanted."""

    tracks: dict[Path, Track] | None
    only: tuple[str, ...] = ()
    runs: dict[str, list[Run]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def look_into(self, path: Path, depth: int = 0) -> None:
        """Read a file, the networks of a manifest, or the files of a directory."""
        if not path.is_dir():
            path.stat()  # raises if it does not exist
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
        there = set(names_in(folder))  # listed once: a directory may hold very many files
        names = chosen_names(request.names, self.only) if self.only else request.names
        for name in names:
            stem = stem_of(name)
            file = folder / f"{stem}.json"
            failure = _failure(file) if f"{stem}.error.json" in there else None
            if file.name in there and failure is None:
                self._add(file, request.data.name, has_facts=f"{stem}.facts.json" in there)
                continue
            state = "it failed" if failure else "it is not finished"
            lacking.append(f"{folder} has no signature of {name}: {state}")
            self.missing[name] = failure.message if failure else state
            if failure:
                self.failures[name] = failure
        if len(lacking) > MOST_NOTES:
            rest = len(lacking) - MOST_NOTES + 1
            lacking[MOST_NOTES - 1 :] = [f"{folder} has no signature of {rest} more networks"]
        self.notes += lacking

    def _read(self, path: Path) -> None:
        key = os.path.realpath(path)
        if key in self.runs or not self._is_wanted(path):
            return
        if self.tracks is not None and kind_of(path) == TRACK:
            self.runs[key] = []
            self.tracks[path] = Track.load(path)
            return
        if kind_of(path) == SEVERAL:
            found = [Run(signature, path, None) for signature in read_several(path)]
            self.runs[key] = [run for run in found if self._is_chosen(run)]
            return
        self._add(path, None, has_facts=beside(path, "facts").is_file())

    def _add(self, path: Path, data: str | None, *, has_facts: bool) -> None:
        """Read one signature, with the facts beside it."""
        key = os.path.realpath(path)
        if key not in self.runs:
            facts = read_record(Facts, beside(path, "facts")) if has_facts else None
            run = Run(load(path), path, facts, data)
            self.runs[key] = [run] * self._is_chosen(run)

    def _is_chosen(self, run: Run) -> bool:
        return not self.only or bool(chosen_names([run.signature.name], self.only))

    def _is_wanted(self, path: Path) -> bool:
        kind = kind_of(path) if path.is_file() else None
        wanted = (SINGLE, SEVERAL) if self.tracks is None else (SINGLE, SEVERAL, TRACK)
        reason = ""
        if kind is None:
            reason = "a device or a pipe"
        elif kind == SINGLE and _failure(path) is not None:
            reason = f"measuring it again failed, see {beside(path, 'error').name}"
        elif kind not in (*wanted, *COMPANIONS):
            reason = f"of kind {kind}" if kind else "not written by sigmascope"
        if reason:
            self.notes.append(f"ignored {path}: {reason}")
        return not reason and kind in wanted


def _failure(signature: Path) -> Failure | None:
    """Return why a network failed when it was last measured, or None."""
    path = beside(signature, "error")
    if not path.is_file() or kind_of(path) != "failure":
        return None
    try:
        return read_record(Failure, path)
    except FileFormatError:  # knowing that it failed is enough
        return Failure("", "", "it failed", "")
