"""The directory of a request: its manifest, and the files of each network.

Beside the manifest, every network has `NETWORK.json` (the signature), `NETWORK.facts.json`, and
`NETWORK.error.json` if it failed. A hidden directory holds the batches scored so far and the locks.
All files are written atomically.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sigmascope.errors import InputError, ResumeError
from sigmascope.measure.accumulating import sums_beside
from sigmascope.measure.result import Signature, load
from sigmascope.measure.subject import current_versions
from sigmascope.runs.request import Request
from sigmascope.store import KeptRun, check_identity, claim, decode, encode
from sigmascope.store.documents import kind_of, read_json, write_json
from sigmascope.store.files import Location, check_no_link, writable_directory

MANIFEST = "manifest.json"
KIND, VERSION = "runs", 1
SCRATCH = ".sigmascope"
# Network names that are valid file names on every system and differ in more than case.
PLAIN = re.compile(r"[a-z]{1,100}/[a-z0-9_][a-z0-9._-]{0,79}")


@dataclass(frozen=True)
class Manifest:
    """What a directory of runs belongs to: its request, and the versions that created it."""

    request: Request
    versions: dict[str, str]


@dataclass(frozen=True)
class Place:
    """A directory of runs, and which one it was when it was opened."""

    path: Path
    identity: tuple[int, int]

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the directory that is there now."""
        found = path.stat()
        return cls(path, (found.st_dev, found.st_ino))

    def check(self) -> None:
        """Raise a ResumeError if the directory was moved, removed or replaced."""
        with suppress(OSError):
            if Place.at(self.path) == self:
                return
        raise ResumeError(
            f"{self.path} was moved, removed or replaced while its networks were measured. What "
            "was finished before is where it is now: pass that directory to continue."
        )


@dataclass(frozen=True)
class NetworkFiles(KeptRun):
    """The files of one network: its signature when finished, its journal while partial.

    Attributes:
        facts: what is known about the network.
        failure: why it failed; None for a single file, which has no such record.
        started: there while it is being measured; None for a single file.
    """

    facts: Path
    failure: Path | None = None
    started: Path | None = None

    def check_no_links(self) -> None:
        """Raise an InputError, before any work, if a file to write is a symbolic link."""
        sums = sums_beside(self.partial)
        for path in (self.finished, self.facts, self.failure, self.started, self.partial, sums):
            if path:
                check_no_link(path)

    def tidy(self) -> None:
        """Remove what a finished network no longer needs."""
        self.forget()
        for path in (self.failure, self.started):
            if path:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove what an interrupted run would continue from."""
        self.partial.unlink(missing_ok=True)
        sums_beside(self.partial).unlink(missing_ok=True)


def open_folder(path: Location, request: Request) -> Path:
    """Return the directory of a request, created or found again.

    Raises:
        ResumeError: it belongs to another request; the message lists the differences.
        InputError: it is a file, or holds other things than runs, or links to write through.
        FileFormatError: its manifest is corrupt or newer than this version.
        OSError: nothing can be written to it.
    """
    folder = writable_directory(path)
    check_no_link(folder / SCRATCH, "directory")
    writable_directory(folder / SCRATCH)
    # if two requests arrive at once, one of them is refused
    with claim(folder / SCRATCH / "manifest.lock", wait=True):
        manifest = read_manifest(folder)
        if manifest is None:
            names = sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
            if names:
                raise InputError(
                    f"{folder} contains other files, such as {names[0]}, and no {MANIFEST}. Choose "
                    "a new or empty directory."
                )
            manifest = Manifest(request, current_versions())
            write_json(folder / MANIFEST, KIND, VERSION, encode(manifest))
        check_identity(folder, manifest.request, request)
    return folder


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a directory, or None if it has none.

    Raises:
        FileFormatError: it is corrupt or newer than this version.
    """
    try:
        content = read_json(folder / MANIFEST, KIND, VERSION)
    except FileNotFoundError:
        return None
    return decode(Manifest, content, f"{folder / MANIFEST}: content")


def files_of(folder: Path, name: str) -> NetworkFiles:
    """Return the files of a network in a directory of runs."""
    stem, scratch = stem_of(name), folder / SCRATCH
    signature = folder / f"{stem}.json"
    journal, lock = scratch / f"{stem}.journal", scratch / f"{stem}.lock"
    facts, failure = (beside(signature, what) for what in ("facts", "error"))
    return NetworkFiles(signature, journal, lock, facts, failure, scratch / f"{stem}.started")


def files_beside(path: Location) -> NetworkFiles:
    """Return the files of a single network: the signature, its facts, and a hidden journal.

    Raises:
        InputError: a file of something else is in the way.
    """
    file = Path(path)
    journal, lock = (file.with_name(f".{file.name}.{ending}") for ending in ("journal", "lock"))
    files = NetworkFiles(file, journal, lock, beside(file, "facts"))
    for target, kind in ((files.finished, "signature"), (files.facts, "facts")):
        if target.is_file() and kind_of(target) != kind:
            raise InputError(
                f"{target} exists and is not a {kind} file. Choose another name, or remove it "
                "first."
            )
    return files


def beside(signature: Path, what: str) -> Path:
    """Return the file with the "facts" or the "error" of a network, beside its signature."""
    return signature.with_name(f"{signature.stem}.{what}.json")


def finished(files: NetworkFiles, request: Request, name: str) -> Signature | None:
    """Return the signature that a directory already has of a network, or None.

    Raises:
        FileFormatError: its file is corrupt.
        ResumeError: it belongs to another network or request.
    """
    if not files.finished.exists():
        return None
    found = load(files.finished)
    check_identity(
        files.finished,
        {"name": found.name, "options": found.options},
        {"name": name, "options": request.options},
    )
    return found


def stem_of(name: str) -> str:
    """Return a file name for a network name, different for different networks.

    >>> stem_of("torchvision/resnet50"), stem_of("py:nets.py:Tiny")
    ('torchvision-resnet50', 'py-nets.py-Tiny-9f1858b0')
    """
    if PLAIN.fullmatch(name) and not name.endswith((".facts", ".error")):
        return name.replace("/", "-", 1)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-60:].strip("-.") or "network"
    return f"{readable}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
