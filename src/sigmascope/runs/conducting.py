"""The driver of a survey: it submits tasks, reads what they leave, and waits for what others do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sigmascope.checks import check_whole
from sigmascope.errors import InputTypeError, OptionError, SigmascopeError
from sigmascope.runs import started
from sigmascope.runs.executors import (
    Engine,
    Executor,
    Finished,
    Resources,
    finished_calls,
    open_executor,
)
from sigmascope.runs.executors.window import Call
from sigmascope.runs.folder import SCRATCH, Place, files_of, stem_of
from sigmascope.runs.given import Given
from sigmascope.runs.listing import listing_of
from sigmascope.runs.network import NetworkRun
from sigmascope.runs.one import outcome_in
from sigmascope.runs.outcome import Outcome, failure_of
from sigmascope.runs.request import Request, Shard
from sigmascope.runs.started import Pulses
from sigmascope.runs.tally import Tally
from sigmascope.runs.tasks import Order, close_children, measure_given, measure_named

GLANCE = 1.0  # seconds between two looks at networks that others measure


@dataclass(frozen=True)
class How:
    """How a survey is carried out; see `SurveyKeywords`."""

    resources: Resources = field(default_factory=Resources)
    pending: int = 64
    isolate: bool = True
    device: str = "auto"
    resume: bool = True
    shard: Shard = field(default_factory=Shard)
    skip: Sequence[str] = ()
    watch: Callable[[Tally], None] = lambda _: None

    def __post_init__(self) -> None:
        check_whole("pending", self.pending, 1)
        if self.resources.time_limit is not None and not self.isolate:
            raise OptionError("a time limit needs isolate=True, a process that can be ended.")

    @property
    def order(self) -> Order:
        """What each task is told."""
        asked = self.resources
        return Order(
            self.device, self.resume, self.isolate, asked.time_limit, asked.threads, os.getcwd()
        )


@dataclass(frozen=True)
class Survey:
    """The networks of a request that are to be measured into its directory."""

    request: Request
    folder: Path
    how: How
    given: Given | None = None

    @cached_property
    def place(self) -> Place:
        """The directory, as it was when the survey began."""
        return Place.at(self.folder)

    @cached_property
    def tally(self) -> Tally:
        """How far the survey is."""
        return Tally(len(self.how.shard.of(self.request.names)), self.folder)

    def known(self) -> tuple[list[Outcome], list[str]]:
        """Return what is known without measuring, and the names of the others."""
        states = listing_of(self.folder, self.request, dead=True).states
        found, others, skip = [], [], set(self.how.skip)
        for name in self.how.shard.of(self.request.names):
            if name in skip:
                found.append(self.network(name).left_out())
            elif self.how.resume and states[name] == "finished":
                path = self.folder / f"{stem_of(name)}.json"
                found.append(Outcome(name, "kept", path=path))
            else:
                others.append(name)
        return found, others

    def network(self, name: str) -> NetworkRun:
        """Return a network, to look at its files from here."""
        files = files_of(self.folder, name)
        return NetworkRun(name, files, self.request, None, self.how.resume, False, self.place)

    def calls(self, executor: Executor, names: Sequence[str]) -> Iterator[Call]:
        """Yield the task of each network."""
        folder, order = str(self.folder.absolute()), self.how.order
        if self.given is None:
            for name in names:
                yield measure_named, folder, name, order
            return
        batches = self.given.batches
        if hasattr(executor, "share"):
            batches = executor.share(batches)  # sent once, not with every task
        for name in names:
            yield measure_given, folder, name, order, self.given.networks[name], batches

    def outcome(self, name: str, call: Finished) -> Outcome:
        """Return what became of a network: as its task says, or as it is in the directory."""
        if isinstance(call.value, Outcome):
            return call.value
        network = self.network(name)
        error = call.error or InputTypeError(f"the executor returned a {type(call.value)}.")
        try:
            found = outcome_in(self.folder, name)
        except (OSError, SigmascopeError) as unreadable:
            found, error = None, unreadable
        if found and found.state == "kept" and self.how.resume:  # it died after its work was done
            return replace(found, state="measured", signature=None, facts=None)
        failed = network.failed(failure_of(name, error))
        network.settle(failed.failure)
        return failed


def conducted(survey: Survey, executor: Executor | str) -> Iterator[Outcome]:
    """Yield what becomes of the networks of a survey, what is known already first."""
    found, names = survey.known()
    for outcome in found:
        survey.tally.count(outcome)
        yield outcome
    if not names:
        return
    try:
        with _opened(executor, survey.how, survey.folder / SCRATCH) as engine:
            survey.tally.begin()
            for outcome in _measured(survey, engine, names):
                survey.tally.count(outcome)
                yield outcome
    finally:
        close_children()


def check_executor(executor: Executor | str, resources: Resources) -> None:
    """Raise an error for what is no executor, or asks for more than this machine has.

    Raises:
        InputTypeError: it has no `submit`.
        OptionError: the text names no engine, or one that cannot give the resources.
    """
    if isinstance(executor, str):
        Engine.named(executor).check(resources)
    elif not callable(getattr(executor, "submit", None)):
        raise InputTypeError(
            f"executor must have submit(function, ...), got {type(executor).__name__}. Pass an "
            "executor of concurrent.futures, submitit or dask.distributed, or a text such as "
            "'local:4' or 'ray'."
        )


def _opened(executor: Executor | str, how: How, scratch: Path) -> AbstractContextManager[Executor]:
    check_executor(executor, how.resources)
    if isinstance(executor, str):
        return open_executor(executor, how.resources, pending=how.pending, folder=scratch)
    return nullcontext(executor)


def _measured(survey: Survey, engine: Executor, names: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcomes of all networks; those that another process measures come last."""
    busy = []
    for outcome in _submitted(survey, engine, names):
        if outcome.state == "busy":
            busy.append(outcome.name)
        else:
            yield outcome
    pulses, until = Pulses(), time.monotonic() + started.SILENCE
    while busy:
        uses = {name: survey.network(name).use(pulses) for name in busy}
        free = [name for name, use in uses.items() if use == "free"]
        for outcome in _submitted(survey, engine, free):
            if outcome.state != "busy":
                busy.remove(outcome.name)
                yield outcome
        if not free and "unknown" not in uses.values() and time.monotonic() > until:
            break  # others are at work, and will finish what they have begun
        survey.how.watch(survey.tally)
        if busy:
            time.sleep(GLANCE)
    for name in busy:
        yield Outcome(name, "busy")


def _submitted(survey: Survey, engine: Executor, names: Sequence[str]) -> Iterator[Outcome]:
    ended = finished_calls(
        engine,
        survey.calls(engine, names),
        pending=survey.how.pending,
        waiting=lambda _: survey.how.watch(survey.tally),
    )
    for call in ended:
        yield survey.outcome(names[call.number], call)
