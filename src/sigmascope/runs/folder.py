"""The folder of a request: its manifest, and where the files of each network lie.

A manifest, then for every network `NETWORK.json` (the signature), `NETWORK.facts.json`, and
`NETWORK.error.json` where it failed; a hidden folder holds the batches scored so far and the locks.
Every file is replaced at once or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError, ResumeError
from sigmascope.measure.signature import Signature, load
from sigmascope.measure.subject import current_versions
from sigmascope.runs.request import Request, differences
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.store.files import Location

__all__ = [
    "MANIFEST",
    "Manifest",
    "Place",
    "claimed",
    "facts_of",
    "failure_beside",
    "file_place",
    "finished",
    "kind_of",
    "open_folder",
    "place_of",
    "read_manifest",
]

MANIFEST = "manifest.json"
KIND, VERSION = "runs", 1
SCRATCH = ".sigmascope"
# How a document of sigmascope begins. Others are not read any further, whatever their size.
OPENING = re.compile(rb'\s*\{\s*"format"\s*:\s*"sigmascope"\s*,\s*"kind"\s*:\s*"(\w+)"')
LENGTH = 256
# Names that can be names of files as they are, on any system, and that differ in more than case.
PLAIN = re.compile(r"[a-z]+/[a-z0-9_][a-z0-9._-]{0,79}")


@dataclass(frozen=True)
class Manifest:
    """What a folder of runs is: the request it belongs to, and the versions it was begun with."""

    request: Request
    versions: dict[str, str]


@dataclass(frozen=True)
class Place:
    """Where the files of one network lie; failure and lock only in a folder."""

    signature: Path
    journal: Path
    facts: Path
    failure: Path | None = None
    lock: Path | None = None


def open_folder(path: Location, request: Request) -> Path:
    """Begin a folder for a request, or return to it.

    Raises:
        ResumeError: it belongs to another request; the message names the difference.
        InputError: it is a file, or holds other things than runs.
        FileFormatError: its manifest is damaged, foreign or newer.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Give the name of a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    # so that of two requests one is refused
    with claimed(folder / SCRATCH / "manifest.lock", wait=True):
        manifest = read_manifest(folder)
        if manifest is None:
            _check_empty(folder)
            write_json(
                folder / MANIFEST, KIND, VERSION, encode(Manifest(request, current_versions()))
            )
        elif manifest.request != request:
            told = "; ".join(differences(manifest.request, request))
            raise ResumeError(
                f"{folder} belongs to another request: {told}. Ask for the same, or choose "
                "another folder."
            )
    return folder


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, or None where there is none.

    Raises:
        FileFormatError: it is damaged, foreign or newer.
    """
    try:
        content = read_json(folder / MANIFEST, KIND, VERSION)
    except FileNotFoundError:
        return None
    return decode(Manifest, content, f"{folder / MANIFEST}: content")


def place_of(folder: Path, name: str) -> Place:
    """Return where the files of a network lie in a folder of runs."""
    stem = _stem(name)
    signature, scratch = folder / f"{stem}.json", folder / SCRATCH
    journal, lock = scratch / f"{stem}.journal", scratch / f"{stem}.lock"
    return Place(signature, journal, facts_of(signature), failure_beside(signature), lock)


def file_place(path: Location) -> Place:
    """Return where a signature lies that is a file of its own, with its facts and, hidden, its
    journal beside it.

    Raises:
        InputError: a file of something else is there.
    """
    file = Path(path)
    place = Place(file, file.with_name(f".{file.name}.journal"), facts_of(file))
    for target, kind in ((place.signature, "signature"), (place.facts, "facts")):
        if target.is_file() and kind_of(target) != kind:
            raise InputError(
                f"{target} is there and holds no {kind} of sigmascope. Choose another name, "
                "or remove it first."
            )
    return place


def facts_of(signature: Path) -> Path:
    """Return where the facts of a network lie, beside its signature."""
    return signature.with_name(f"{signature.stem}.facts.json")


def failure_beside(signature: Path) -> Path:
    """Return where the failure of a network lies, beside its signature."""
    return signature.with_name(f"{signature.stem}.error.json")


def kind_of(path: Path) -> str:
    """Return the kind of a document by its first bytes; empty where sigmascope did not write it."""
    with path.open("rb") as file:
        opening = OPENING.match(file.read(LENGTH))
    return opening[1].decode() if opening else ""


def finished(place: Place, request: Request, name: str) -> Signature | None:
    """Return the signature that a folder already has of a network.

    Raises:
        FileFormatError: its file is damaged, or is of another network or request.
    """
    if not place.signature.exists():
        return None
    found = load(place.signature)
    if found.name != name or found.options != request.options:
        raise FileFormatError(
            f"{place.signature} is not of this request. Remove it, or choose another folder."
        )
    return found


@contextmanager
def claimed(path: Path | None, *, wait: bool = False) -> Iterator[bool]:
    """Keep a file for this process, until the block ends or the process dies, and say whether that
    was possible.

    Args:
        path: an empty file that only serves for this, made if need be; None is always free.
        wait: whether to wait for the process that has it.
    """
    if path is None or sys.platform == "win32":
        yield True
        return
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        free = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            free = False
        except (
            OSError
        ):  # some network file systems have no locks; disjoint shards are still safe there
            pass
        yield free
    finally:
        os.close(descriptor)


def _stem(name: str) -> str:
    """Return a name of a file for the name of a network, different for different networks.

    >>> _stem("torchvision/resnet50"), _stem("py:nets.py:Tiny")
    ('torchvision-resnet50', 'py-nets.py-Tiny-9f1858b0')
    """
    if PLAIN.fullmatch(name) and not name.endswith((".facts", ".error")):
        return name.replace("/", "-", 1)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-60:].strip("-.") or "network"
    return f"{readable}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _check_empty(folder: Path) -> None:
    other = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    if other:
        raise InputError(
            f"{folder} holds other things, such as {other[0]}, and no {MANIFEST}. Choose a "
            "new or empty folder."
        )
