"""One network of a directory of runs, for a process that knows only the directory and the name."""

from __future__ import annotations

from pathlib import Path

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.runs.folder import MANIFEST, Place, files_of, finished, read_manifest
from sigmascope.runs.measuring import NetworkRun, checked_device
from sigmascope.runs.outcome import Facts, Failure, Outcome, read_record
from sigmascope.runs.request import digests_of
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
    """
    place, manifest = Place.at(Path(folder)), read_manifest(Path(folder))
    if manifest is None:
        raise InputError(f"{folder} has no {MANIFEST}. Begin with measure_runs(request, folder).")
    request = manifest.request
    check_choice("name", name, request.names)
    now = digests_of([name], request.weights)
    check_identity(folder, {path: request.files.get(path) for path in now}, now)
    files = files_of(place.path, name)
    return NetworkRun(name, files, request, checked_device(device), resume, False, place).outcome()


def outcome_in(folder: Location, name: str) -> Outcome | None:
    """Return what a directory of runs says about a network: kept or failed, or None.

    Raises:
        FileFormatError: a file is corrupt.
        ResumeError: a file belongs to another network or request.
    """
    manifest, files = read_manifest(Path(folder)), files_of(Path(folder), name)
    if files.failure and files.failure.exists():
        return Outcome(name, "failed", failure=read_record(Failure, files.failure))
    found = finished(files, manifest.request, name) if manifest else None
    if found is None or not files.facts.exists():
        return None
    return Outcome(name, "kept", found, read_record(Facts, files.facts), files.finished)
