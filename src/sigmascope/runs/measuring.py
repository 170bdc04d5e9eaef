"""The networks of a request, measured one after the other; a failure does not stop the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model
from sigmascope.errors import OptionError
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope.runs.folder import NetworkFiles, files_beside, files_of, finished, open_folder
from sigmascope.runs.outcome import Facts, Outcome, failure_of, read_record, write_record
from sigmascope.runs.request import Request, Shard
from sigmascope.store.files import Location, checked_target


def measure_runs(
    request: Request,
    out: Location | None = None,
    *,
    shard: Shard | None = None,
    resume: bool = True,
    device: str = "auto",
    progress: bool = True,
) -> Iterator[Outcome]:
    """Measure the networks of a request, one after the other, and yield what became of each.

    A run may be killed at any moment: the same call continues it, and the result is that of an
    uninterrupted run. Several processes, on one machine or on many, may share a directory; each
    network is measured by the process that claims it first.

    Args:
        request: what to measure.
        out: a directory; a file that ends in `.json`, for a single network; or None to write
            nothing. A finished file is measured again, since it does not say on which data it was
            measured; its facts are written beside it.
        shard: the networks to measure; by default all.
        resume: whether to keep what the directory already has and to continue partial runs.
        device: the device of the networks; "auto" is the first CUDA device, or else the CPU.
        progress: whether to show progress bars, on a terminal.

    Raises:
        ResumeError: the directory belongs to another request.
        OptionError, InputError: data or a device that cannot be used; a directory or a file that
            holds other things.

    >>> from sigmascope.runs import Selection, request_for
    >>> data = Selection("embedded", limit=64)
    >>> request = request_for(["sigmascope/resnet20", "sigmascope/resnet2"], data)
    >>> for outcome in measure_runs(request):
    ...     print(outcome.name, outcome.state)
    sigmascope/resnet20 measured
    sigmascope/resnet2 failed
    """
    chosen, place = (shard or Shard()).of(request.names), checked_device(device)
    _data(request, lambda samples: samples)  # data that cannot be opened would fail every network
    networks = [
        _Network(name, files, request, place, resume, progress)
        for name, files in zip(chosen, _targets(request, chosen, out), strict=True)
    ]
    return (network.outcome() for network in networks)


def _targets(
    request: Request, names: tuple[str, ...], out: Location | None
) -> list[NetworkFiles | None]:
    """Return where to write each network, checked before anything is measured."""
    if out is None:
        return [None] * len(names)
    if Path(out).suffix == ".json" and len(request.names) == 1:
        checked_target(out)
        return [files_beside(out)] * len(names)
    folder = open_folder(out, request)
    return [files_of(folder, name) for name in names]


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


@dataclass(frozen=True)
class _Network:
    """A network to measure: where to write it, on which device, and how."""

    name: str
    files: NetworkFiles | None
    request: Request
    device: torch.device
    resume: bool
    progress: bool

    def outcome(self) -> Outcome:
        """Return what becomes of it."""
        try:
            with self.files.claim() if self.files else nullcontext(True) as free:
                return self._claimed() if free else Outcome(self.name, "busy")
        except OSError as error:  # the directory is gone, full, or read-only
            return Outcome(self.name, "failed", failure=failure_of(self.name, error))

    def _claimed(self) -> Outcome:
        start = time.perf_counter()
        try:
            found = self._kept(self.files) or self._measured()
        except (Exception, SystemExit) as error:  # whatever the code of a network raises
            failure = failure_of(self.name, error)
            if self.files and self.files.failure:
                write_record(self.files.failure, failure)
            found = Outcome(self.name, "failed", failure=failure)
        return replace(found, seconds=time.perf_counter() - start)

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
        weights = None if self.request.weights == "none" else self.request.weights
        entry = model(self.name, weights=weights, seed=self.request.options.seed)
        facts, files = Facts(self.name, **entry.facts()), self.files
        found = self._signature(entry)
        if files:
            # first, so that no signature is without its facts
            write_record(files.facts, facts)
            found.save(files.finished)
            files.tidy()
        return Outcome(self.name, "measured", found, facts, files.finished if files else None)

    def _signature(self, entry: Model) -> Signature:
        return signature(
            entry.network.to(self.device),
            _data(self.request, entry.transform),
            name=entry.name,
            resume=self.files.partial if self.files else None,
            progress=self.progress,
            options=self.request.options,
        )
