"""One network of a directory of runs, for a process that knows only the directory and the name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.runs.folder import MANIFEST, Place, files_of, finished, read_manifest
from sigmascope.runs.network import NetworkRun, checked_device
from sigmascope.runs.outcome import Facts, Failure, Outcome, read_record
from sigmascope.runs.request import GIVEN, Request, digests_of
from sigmascope.store import check_identity
from sigmascope.store.files import Location


def measure_one(
    folder: Location, name: str, *, device: str = "auto", resume: bool = True
) -> Outcome:
    """Claim, measure and write one network of a directory of runs; return what became of it.

    What the network raises is an outcome. Several processes may call this with one name: all but
    one get "busy", or "kept".

    Raises:
        InputError: there is no manifest; the network is not in it.
        ResumeError: a file that the network is read from has changed.
        OptionError: a device that cannot be used.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(request, folder, skip=request.names))
    ...     [measure_one(folder, name).state for name in request.names * 2]
    ['measured', 'kept']
    """
    return network_in(folder, name, checked_device(device), resume=resume).outcome()


def network_in(
    folder: Location, name: str, device: torch.device | None, *, resume: bool = True
) -> NetworkRun:
    """Return a network of a directory of runs, ready to be claimed; raises as `measure_one`."""
    place, request = Place.at(Path(folder)), _request_in(Path(folder))
    check_choice("name", name, request.names)
    if request.weights != GIVEN:
        now = digests_of([name], request.weights)
        check_identity(folder, {path: request.files.get(path) for path in now}, now)
    files = files_of(place.path, name)
    return NetworkRun(name, files, request, device, resume, False, place)


def outcome_in(folder: Location, name: str) -> Outcome | None:
    """Return what a directory of runs says about a network: kept or failed, or None.

    Raises:
        FileFormatError: a file is corrupt.
        ResumeError: a file belongs to another network or request.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(request, folder))
    ...     outcome_in(folder, "sigmascope/resnet20").state
    'kept'
    """
    files = files_of(Path(folder), name)
    if files.failure and files.failure.exists():
        return Outcome(name, "failed", failure=read_record(Failure, files.failure))
    has_manifest = (Path(folder) / MANIFEST).exists()
    found = finished(files, _request_in(Path(folder)), name) if has_manifest else None
    if found is None or not files.facts.exists():
        return None
    return Outcome(name, "kept", found, read_record(Facts, files.facts), files.finished)


def _request_in(folder: Path) -> Request:
    """Return the request of a directory, which is read again when its manifest has changed."""
    try:
        found = (folder / MANIFEST).stat()
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no {MANIFEST}. Begin with measure_runs(request, folder)."
        ) from None
    return _read_request(folder, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=2)  # a manifest of many networks takes longer to read than one to measure
def _read_request(folder: Path, _: tuple[int, ...]) -> Request:
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError(f"{folder} has no {MANIFEST}: it was removed.")
    return manifest.request
