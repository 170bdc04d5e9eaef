"""One network to measure: claimed, measured, written; what it raises is an outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from sigmascope.catalog.datasets import Data, data
from sigmascope.catalog.models import model
from sigmascope.errors import Interruption, OptionError, SigmascopeError
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope.runs.commands import command_for
from sigmascope.runs.executors import LostTaskError
from sigmascope.runs.folder import NetworkFiles, Place, finished
from sigmascope.runs.outcome import Facts, Failure, Outcome, failure_of, read_record, write_record
from sigmascope.runs.request import GIVEN, Request
from sigmascope.runs.started import (
    MarkedError,
    Pulses,
    death_of,
    declare_ended,
    left_behind,
    under_way,
)


def checked_device(device: str) -> torch.device:
    """Return a device that works; "auto" is the first CUDA device, or else the CPU."""
    try:
        found = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by how it was built
        told = str(error).partition("\n")[0]
        if told.startswith("Expected one of"):  # a list of all types that torch ever had
            told = "not a type of device"
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
    """A network to measure: where to write it, on which device, and how.

    Attributes:
        device: None to leave a network that was handed over where it is.
        given: the network and its batches, where the catalog has neither.
    """

    name: str
    files: NetworkFiles | None
    request: Request
    device: torch.device | None
    resume: bool
    progress: bool
    place: Place | None = None
    given: tuple[nn.Module, Any] | None = None

    def outcome(self) -> Outcome:
        """Claim it, measure it, write it, and return what became of it."""
        try:
            with self._claim() as free:
                left = left_behind(self.files.started) if free and self.files else None
                if not free or (left and not left.has_surely_ended):
                    return Outcome(self.name, "busy")
                return self._claimed()
        except LostTaskError:  # what runs its parts is gone, and the network has not failed
            raise
        except (OSError, SigmascopeError) as error:  # the directory is gone, full, or read-only
            return self.failed(failure_of(self.name, error))

    def failed(self, failure: Failure) -> Outcome:
        """Return a failure as an outcome, with the command that tries the network alone."""
        told = replace(failure, command=command_for(self.request, self.name))
        return Outcome(self.name, "failed", failure=told)

    def use(self, pulses: Pulses) -> Literal["free", "in use", "unknown"]:
        """Return whether somebody measures it; "unknown" until its mark was watched for a while."""
        with suppress(OSError, SigmascopeError), self._claim() as free:
            mark = self.files.started if self.files else None
            left = left_behind(mark)
            if not free:
                return "in use"
            if mark is None or left is None:
                return "free"
            if left.has_surely_ended or pulses.has_stopped(mark):
                declare_ended(mark)  # a task on another machine cannot see that the process died
                return "free"
            return "in use" if pulses.is_felt(mark) else "unknown"
        return "free"  # what keeps it from being claimed is told when it is measured

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
            return self.failed(failure_of(self.name, error))

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
        except (KeyboardInterrupt, Interruption, LostTaskError):
            raise
        except MarkedError:
            found = Outcome(self.name, "busy")
        except BaseException as error:  # whatever the code of a network raises
            found = self.failed(failure_of(self.name, error))
            if found.failure:
                self._note(found.failure)
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
            if self.given is not None:
                network, batches = self.given
                count = sum(parameter.numel() for parameter in network.parameters())
                facts = Facts(self.name, None, count, None, None, GIVEN)
                return self._stored(self._signature(network, batches), facts)
            weights = None if self.request.weights == "none" else self.request.weights
            entry = model(self.name, weights=weights, seed=self.request.options.seed)
            facts = Facts(self.name, **entry.facts())
            batches = open_data(self.request, entry.transform)
            return self._stored(self._signature(entry.network, batches), facts)

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

    def _signature(self, network: nn.Module, batches: Any) -> Signature:
        return signature(
            network if self.device is None else network.to(self.device),
            batches,
            name=self.name,
            resume=self.files.partial if self.files else None,
            progress=self.progress,
            options=self.request.options,
        )
