"""Networks measured one after the other; what fails is noted, and the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.errors import OptionError
from sigmascope.measure.signature import Signature
from sigmascope.measure.survey import signature
from sigmascope.runs.folder import Place, claimed, file_place, finished, open_folder, place_of
from sigmascope.runs.outcome import Facts, Outcome, failure_of, read_record, write_record
from sigmascope.runs.request import Request, Shard
from sigmascope.store.files import Location, checked_target

__all__ = ["checked_device", "measure_runs"]


@dataclass(frozen=True)
class _Manner:
    """How networks are measured, where it does not concern the result."""

    request: Request
    resume: bool
    device: torch.device
    progress: bool


def measure_runs(
    request: Request,
    out: Location | None = None,
    *,
    shard: Shard | None = None,
    resume: bool = True,
    device: str = "auto",
    progress: bool = True,
) -> Iterator[Outcome]:
    """Measure the networks of a request, one after the other.

    A run may be killed at any moment: the same call goes on where it stopped, with the same result
    as a run in one piece. Several processes, on one machine or on many, may share a folder; whoever
    comes first to a network measures it.

    Args:
        request: what is asked for.
        out: a folder; a file that ends in `.json`, for a single network; or None to write nothing.
            A file that is finished is measured anew, since it does not say on which data it was
            measured; its facts are written beside it.
        shard: the networks to measure; by default all.
        resume: whether to keep what the folder already has, and to continue what was begun.
        device: of the networks; "auto" is the first GPU of CUDA, or else the CPU.
        progress: whether to show progress bars, on a terminal.

    Yields:
        What became of each network, as soon as that is known.

    Raises:
        ResumeError: the folder belongs to another request.
        OptionError, InputError: data or a device that cannot be used; a folder or a file that holds
            other things.

    >>> from sigmascope.runs.request import Selection, request_for
    >>> request = request_for(["sigmascope/resnet20", "sigmascope/resnet2"], Selection("embedded", limit=64))
    >>> for outcome in measure_runs(request):
    ...     print(outcome.name, outcome.state)
    sigmascope/resnet20 measured
    sigmascope/resnet2 failed
    """
    manner = _Manner(request, resume, checked_device(device), progress)
    _check_data(request)
    chosen = (shard or Shard()).of(request.names)
    return (
        _outcome(manner, name, place)
        for name, place in zip(chosen, _places(request, chosen, out), strict=True)
    )


def _places(request: Request, names: tuple[str, ...], out: Location | None) -> list[Place | None]:
    """Find where to write, before anything is measured, so that no work is lost."""
    if out is None:
        return [None] * len(names)
    if Path(out).suffix == ".json" and len(request.names) == 1:
        checked_target(out)
        return [file_place(out)] * len(names)
    folder = open_folder(out, request)
    return [place_of(folder, name) for name in names]


def checked_device(device: str) -> torch.device:
    """Return a device on which tensors can be made; "auto" is the first GPU of CUDA, or else the CPU.

    Raises:
        OptionError: there is no such device, or it cannot be used.
    """
    try:
        found = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by how it was built
        told = str(error).partition("\n")[0]
        raise OptionError(
            f"device={device!r} cannot be used here ({told}). Choose 'auto' or 'cpu'."
        ) from error
    return found


def _check_data(request: Request) -> None:
    """Open the data once, whatever the networks make of them: a wrong name would fail all of them."""
    _data(request, lambda samples: samples)


def _data(request: Request, transform: Callable[[Any], Any] | None) -> Data:
    chosen = request.data
    return data(
        chosen.name,
        root=chosen.root,
        split=chosen.split,
        batch_size=chosen.batch_size,
        limit=chosen.limit,
        transform=transform,
        seed=request.options.seed,
    )


def _outcome(manner: _Manner, name: str, place: Place | None) -> Outcome:
    start = time.perf_counter()
    try:
        with claimed(place.lock if place else None) as free:
            return _claimed_outcome(manner, name, place, start) if free else Outcome(name, "busy")
    except OSError as error:  # the folder is gone, full, or may not be written to
        return Outcome(name, "failed", failure=failure_of(name, error))


def _claimed_outcome(manner: _Manner, name: str, place: Place | None, start: float) -> Outcome:
    try:
        kept = _kept(manner, name, place) if place else None
        if kept:
            return kept
        found, facts = _measured(manner, name, place)
    except (Exception, SystemExit) as error:  # whatever the code of a network raises
        failure = failure_of(name, error)
        if place and place.failure:
            write_record(place.failure, failure)
        return Outcome(name, "failed", failure=failure, seconds=time.perf_counter() - start)
    path = place.signature if place else None
    return Outcome(name, "measured", found, facts, path, seconds=time.perf_counter() - start)


def _kept(manner: _Manner, name: str, place: Place) -> Outcome | None:
    """Return what the folder already has of a network, if that is wanted."""
    if not manner.resume:
        place.journal.unlink(missing_ok=True)
        return None
    # a file of its own, or nothing that is finished
    if place.failure is None or not place.facts.exists():
        return None
    found = finished(place, manner.request, name)
    # the failure is the younger one: it was to be measured again
    if found is None or place.failure.exists():
        return None
    _tidy(place)
    return Outcome(name, "kept", found, read_record(Facts, place.facts), place.signature)


def _measured(manner: _Manner, name: str, place: Place | None) -> tuple[Signature, Facts]:
    request = manner.request
    entry = model(
        name,
        weights=None if request.weights == "none" else request.weights,
        seed=request.options.seed,
    )
    facts = Facts(name, **entry.facts())
    found = _signature(manner, entry, place.journal if place else None)
    if place:
        # first, so that a signature never stands without its facts
        write_record(place.facts, facts)
        found.save(place.signature)
        _tidy(place)
    return found, facts


def _signature(manner: _Manner, entry: Model, journal: Path | None) -> Signature:
    batches = _data(manner.request, entry.transform)
    entry.network.to(manner.device)
    return signature(
        entry.network,
        batches,
        name=entry.name,
        resume=journal,
        progress=manner.progress,
        options=manner.request.options,
    )


def _tidy(place: Place) -> None:
    """Remove what a finished network no longer needs."""
    place.journal.unlink(missing_ok=True)
    if place.failure:
        place.failure.unlink(missing_ok=True)
