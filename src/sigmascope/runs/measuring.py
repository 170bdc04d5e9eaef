"""The networks of a request, measured one after the other; a failure does not stop the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.checks import check_choice
from sigmascope.errors import Interruption, OptionError, SigmascopeError
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope.runs.folder import (
    NetworkFiles,
    Place,
    files_beside,
    files_of,
    finished,
    open_folder,
)
from sigmascope.runs.isolation import Isolation, Worker
from sigmascope.runs.outcome import Facts, Failure, Outcome, failure_of, read_record, write_record
from sigmascope.runs.request import Request, Shard, check_storable
from sigmascope.runs.started import death_of, left_behind, under_way
from sigmascope.store.files import Location, checked_target


def measure_runs(
    request: Request,
    out: Location | None = None,
    *,
    shard: Shard | None = None,
    resume: bool = True,
    device: str = "auto",
    progress: bool = True,
    isolate: bool | Isolation = False,
    skip: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Measure the networks of a request, one after the other, and yield what became of each.

    A run may be killed at any moment: the same call continues it, and the result is that of an
    uninterrupted run. If a network kills it, the same call names that network. Several processes,
    on one machine or on many, may share a directory; each network is measured by the process that
    claims it first. A network that another process is measuring comes last.

    Args:
        request: what to measure.
        out: a directory; a file that ends in `.json`, for a single network; or None to write
            nothing. A finished file is measured again, since it does not say on which data it was
            measured; its facts are written beside it.
        shard: the networks to measure; by default all.
        resume: whether to keep what the directory already has and to continue partial runs.
        device: the device of the networks; "auto" is the first CUDA device, or else the CPU.
        progress: whether to show progress bars, on a terminal.
        isolate: whether to measure in a child process, so that a network that kills it is a failure
            like others; or `Isolation(time_limit=...)`. It needs a directory, and costs the start
            of one process, some seconds, and on systems that cannot fork one more after each crash.
        skip: names of networks to leave out.

    Raises:
        ResumeError: the directory belongs to another request.
        OptionError, InputError: data or a device that cannot be used; a directory or a file that
            holds other things; names to skip that are not in the request.

    >>> from sigmascope.runs import Selection, request_for
    >>> data = Selection("embedded", limit=64)
    >>> request = request_for(["sigmascope/resnet20", "sigmascope/resnet2"], data)
    >>> for outcome in measure_runs(request):
    ...     print(outcome.name, outcome.state)
    sigmascope/resnet20 measured
    sigmascope/resnet2 failed
    """
    chosen, target = (shard or Shard()).of(request.names), checked_device(device)
    for name in skip:
        check_choice("skip", name, request.names)
    open_data(request, lambda samples: samples)  # or else every network would fail
    place, files = targets_of(request, chosen, out)
    networks = [
        NetworkRun(name, own, request, target, resume, progress, place)
        for name, own in zip(chosen, files, strict=True)
    ]
    if not isolate:
        return _outcomes(networks, NetworkRun.outcome, skip)
    if place is None:
        raise OptionError("isolate needs a directory that the child process writes to. Pass out.")
    limit = None if isolate is True else isolate.time_limit
    return _isolated(networks, Worker(place.path, target, resume, limit), skip)


def _outcomes(
    networks: Sequence[NetworkRun], measure: Callable[[NetworkRun], Outcome], skip: Sequence[str]
) -> Iterator[Outcome]:
    busy = []
    for network in networks:
        found = network.left_out() if network.name in skip else measure(network)
        if found.state == "busy":
            busy.append(network)
        else:
            yield found
    # by now, the other process may have finished them, or have died
    yield from map(measure, busy)


def _isolated(
    networks: Sequence[NetworkRun], worker: Worker, skip: Sequence[str]
) -> Iterator[Outcome]:
    with worker:
        yield from _outcomes(networks, worker.outcome, skip)


def targets_of(
    request: Request, names: tuple[str, ...], out: Location | None
) -> tuple[Place | None, list[NetworkFiles | None]]:
    """Return where to write each network, checked before anything is measured."""
    if out is None:
        return None, [None] * len(names)
    check_storable(request)
    if Path(out).suffix == ".json" and len(request.names) == 1:
        checked_target(out)
        return None, [files_beside(out)] * len(names)
    folder = open_folder(out, request)
    return Place.at(folder), [files_of(folder, name) for name in names]


def checked_device(device: str) -> torch.device:
    """Return a device that works; "auto" is the first CUDA device, or else the CPU."""
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


def open_data(request: Request, transform: Callable[[Any], Any] | None) -> Data:
    """Return the data of a request, as inputs of a network."""
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


@dataclass(frozen=True)
class NetworkRun:
    """A network to measure: where to write it, on which device, and how."""

    name: str
    files: NetworkFiles | None
    request: Request
    device: torch.device
    resume: bool
    progress: bool
    place: Place | None = None

    def outcome(self) -> Outcome:
        """Claim it, measure it, write it, and return what became of it."""
        try:
            with self._claim() as free:
                return self._claimed() if free else Outcome(self.name, "busy")
        except (OSError, SigmascopeError) as error:  # the directory is gone, full, or read-only
            return Outcome(self.name, "failed", failure=failure_of(self.name, error))

    def kept(self) -> Outcome | None:
        """Return what the directory already has, if it may be kept and nobody works on it."""
        with suppress(OSError, SigmascopeError), self._claim() as free:
            return self._kept(self.files) if free and self.resume else None
        return None

    def written(self) -> Outcome:
        """Return what another process has just written."""
        try:
            found = finished(self.files, self.request, self.name) if self.files else None
            if found is None or self.files is None:
                raise FileNotFoundError(f"{self.name} was measured, but its file is gone.")
            facts = read_record(Facts, self.files.facts)
            return Outcome(self.name, "measured", found, facts, self.files.finished)
        except (OSError, SigmascopeError) as error:
            return Outcome(self.name, "failed", failure=failure_of(self.name, error))

    def left_out(self) -> Outcome:
        """Return that it was not to be measured; a death that it has caused is recorded."""
        failure = None
        with suppress(OSError, SigmascopeError), self._claim() as free:
            left = left_behind(self.files.started) if free and self.files else None
            failure = death_of(left) if left else None
        if failure:
            self.settle(failure)
        return Outcome(self.name, "skipped", failure=failure)

    def settle(self, failure: Failure | None) -> None:
        """Record how a process that measured it has ended, if nobody works on it by now."""
        with suppress(OSError, SigmascopeError), self._claim() as free:
            if free and self.files and self.files.failure and self.files.started:
                if failure:
                    write_record(self.files.failure, failure)
                self.files.started.unlink(missing_ok=True)

    def _claim(self) -> AbstractContextManager[bool]:
        if self.place:
            self.place.check()
        if self.files is None:
            return nullcontext(True)
        self.files.check_no_links()
        return self.files.claim()

    def _claimed(self) -> Outcome:
        start = time.perf_counter()
        try:
            found = self._kept(self.files) or self._measured()
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException as error:  # whatever the code of a network raises
            failure = failure_of(self.name, error)
            self._note(failure)
            found = Outcome(self.name, "failed", failure=failure)
        return replace(found, seconds=time.perf_counter() - start)

    def _note(self, failure: Failure) -> None:
        """Write a failure; where that is not possible, the outcome is all there is."""
        with suppress(OSError, SigmascopeError):
            if self.place:
                self.place.check()
            if self.files and self.files.failure:
                write_record(self.files.failure, failure)

    def _kept(self, files: NetworkFiles | None) -> Outcome | None:
        """Return what the directory already has, if it may be kept."""
        if files and not self.resume:
            files.forget()
        # a single file, or a network that is not finished
        if not self.resume or not files or not files.failure or not files.facts.exists():
            return None
        found = finished(files, self.request, self.name)
        # a failure is newer than the signature: the network was to be measured again
        if found is None or files.failure.exists():
            return None
        files.tidy()
        return Outcome(self.name, "kept", found, read_record(Facts, files.facts), files.finished)

    def _measured(self) -> Outcome:
        with under_way(self.files.started if self.files else None, self.name):
            weights = None if self.request.weights == "none" else self.request.weights
            entry = model(self.name, weights=weights, seed=self.request.options.seed)
            facts = Facts(self.name, **entry.facts())
            found = self._signature(entry)
            return self._stored(found, facts)

    def _stored(self, found: Signature, facts: Facts) -> Outcome:
        """Write a signature and its facts, in the directory that was opened and in no other."""
        if self.files is None:
            return Outcome(self.name, "measured", found, facts)
        if self.place:
            self.place.check()
        # first, so that no signature is without its facts
        write_record(self.files.facts, facts)
        found.save(self.files.finished)
        if self.place:
            self.place.check()
        self.files.tidy()
        return Outcome(self.name, "measured", found, facts, self.files.finished)

    def _signature(self, entry: Model) -> Signature:
        return signature(
            entry.network.to(self.device),
            open_data(self.request, entry.transform),
            name=entry.name,
            resume=self.files.partial if self.files else None,
            progress=self.progress,
            options=self.request.options,
        )
